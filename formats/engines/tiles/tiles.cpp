#include <algorithm>
#include <limits>

#include "core/bisect.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/tiles/tiles_host.hpp"

namespace protean::formats {

TileRule tile_rule(const FormatParams& params, std::int64_t nonzeros, std::size_t value_bytes) {
  const std::string& selection = params.word("selection");
  return {selection == "paper"  ? TileSelection::paper
          : selection == "code" ? TileSelection::code
                                : TileSelection::csr,
          params.word("coo") == "deferred" || (params.word("coo") == "auto" && nonzeros > deferred_from),
          static_cast<int>(params.integer("te")),
          static_cast<int>(params.integer("th")),
          static_cast<int>(value_bytes),
          params.word("rest") == "csr5"};
}

std::size_t rest_csr5_bytes(const Context& context, const SparsityPattern& rest, const TileRule& rule) {
  if (!rule.csr5 || rest.nonzeros == 0) return 0;
  return admit(find_format("csr5"), context, rest, {}, static_cast<std::size_t>(rule.value_bytes)).bytes;
}

std::string tile_refusal(std::int64_t most) {
  if (most <= std::numeric_limits<std::uint32_t>::max()) return {};
  return "16 rows would have " + std::to_string(most) + " values; offsets of tiles have 32 bits";
}

namespace {

// Calls f(tile column, bits, first) for the tiles of tile row i that have entries, by ascending columns. first[r] is
// the first entry of row r in the tile.
template <class F>
void for_tiles(const SparsityPattern& pattern, std::int64_t i, F&& f) {
  const std::int64_t top = i * tile_edge;
  TileBits bits{};
  bits.height = static_cast<int>(std::min<std::int64_t>(tile_edge, pattern.rows - top));
  std::int64_t next[tile_edge] = {}, end[tile_edge] = {}, first[tile_edge] = {};
  for (int r = 0; r < bits.height; ++r)
    next[r] = pattern.row_ptr[top + r], end[r] = pattern.row_ptr[top + r + 1];
  for (;;) {
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    for (int r = 0; r < bits.height; ++r)
      if (next[r] < end[r]) least = std::min(least, pattern.col[next[r]] / tile_edge);
    if (least == std::numeric_limits<std::int32_t>::max()) return;
    const std::int32_t left = least * tile_edge;
    bits.width = static_cast<int>(std::min<std::int64_t>(tile_edge, pattern.cols - left));
    for (int r = 0; r < bits.height; ++r) {
      first[r] = next[r];
      unsigned row = 0;
      for (; next[r] < end[r] && pattern.col[next[r]] - left < tile_edge; ++next[r])
        row |= 1u << (pattern.col[next[r]] - left);
      bits.row[r] = static_cast<std::uint16_t>(row);
    }
    f(least, bits, first);
  }
}

void add_up(std::vector<std::int64_t>& counts) {
  for (std::size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
}

// The number of tile rows that have less than `wanted` of all the work.
std::vector<std::int64_t> divide(const TilePlan& plan, int parts) {
  const auto rows = static_cast<std::int64_t>(plan.tile_ptr.size()) - 1;
  const auto work = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return plan.value_ptr[at] + 8 * plan.tile_ptr[at] + tile_edge * i;
  };
  std::vector<std::int64_t> borders;
  for (int part = 0; part <= parts; ++part) {
    const std::int64_t wanted = even_range(work(rows), std::min(part, parts - 1), parts).begin;
    borders.push_back(part == parts ? rows : first_where(std::int64_t{0}, rows, [&](std::int64_t i) {
      return work(i) >= wanted;
    }));
  }
  return borders;
}

}  // namespace

Admission admit_tiles(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                      std::size_t value_bytes) {
  auto plan = std::make_shared<TilePlan>();
  plan->rule = tile_rule(params, pattern.nonzeros, value_bytes);
  const std::int64_t tile_rows = TileView<double>::tile_rows_of(pattern.rows);
  const auto size = static_cast<std::size_t>(tile_rows) + 1;
  plan->tile_ptr.resize(size), plan->value_ptr.resize(size), plan->index_ptr.resize(size);
  if (plan->rule.deferred) plan->rest_ptr.resize(static_cast<std::size_t>(pattern.rows) + 1);
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    const Range range = even_range(tile_rows, part, parts);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      std::int64_t tiles = 0, values = 0, bytes = 0;
      for_tiles(pattern, i, [&](std::int32_t, const TileBits& bits, const std::int64_t*) {
        const TileForm form = choose_tile(bits, plan->rule);
        if (form.present) ++tiles, values += form.values(), bytes += form.index_bytes();
        if (!plan->rule.deferred || form.tail == 0) return;
        for (int r = 0; r < bits.height; ++r)
          plan->rest_ptr[static_cast<std::size_t>(i * tile_edge + r + 1)] +=
              std::max(0, bits.length(r) - form.slots);
      });
      const auto to = static_cast<std::size_t>(i) + 1;
      plan->tile_ptr[to] = tiles, plan->value_ptr[to] = values, plan->index_ptr[to] = bytes;
    }
  });
  const auto most = std::max(*std::max_element(plan->value_ptr.begin(), plan->value_ptr.end()),
                             *std::max_element(plan->index_ptr.begin(), plan->index_ptr.end()));
  if (std::string reason = tile_refusal(most); !reason.empty()) return Admission::refuse(std::move(reason));
  add_up(plan->tile_ptr), add_up(plan->value_ptr), add_up(plan->index_ptr), add_up(plan->rest_ptr);
  plan->sizes = {plan->tile_ptr.back(), plan->value_ptr.back(), plan->index_ptr.back(),
                 plan->rest_ptr.empty() ? 0 : plan->rest_ptr.back()};
  // csr5 looks only at the row pointers; they are as wide as the row pointers of the matrix.
  SparsityPattern rest = pattern;
  rest.nonzeros = plan->sizes.rest;
  const std::vector<std::int32_t> narrow(pattern.row_ptr.p32 ? plan->rest_ptr.begin() : plan->rest_ptr.end(),
                                         plan->rest_ptr.end());
  rest.row_ptr =
      pattern.row_ptr.p32 ? RowPointers{narrow.data(), nullptr} : RowPointers{nullptr, plan->rest_ptr.data()};
  Admission admission =
      Admission::accept(tile_bytes(plan->sizes, plan->rule, pattern.rows, pattern.row_ptr.width()) +
                            rest_csr5_bytes(context, rest, plan->rule),
                        plan->sizes.values + plan->sizes.rest);
  keep_plan(admission, std::move(plan));
  return admission;
}

template <class T>
TileMatrix<T>::TileMatrix(const BuildRequest<T>& request) : RowViewMatrix<T, TileMatrix<T>>(request) {
  const TilePlan& plan = plan_of<TilePlan>(request.admission);
  const ContextPtr& context = request.context;
  rule_ = plan.rule, sizes_ = plan.sizes;
  const auto keep = [&](auto& to, const std::vector<std::int64_t>& from) {
    to = std::remove_reference_t<decltype(to)>(context, static_cast<std::int64_t>(from.size()));
    std::copy(from.begin(), from.end(), to.begin());
  };
  keep(tile_ptr_, plan.tile_ptr), keep(value_ptr_, plan.value_ptr), keep(index_ptr_, plan.index_ptr);
  tiles_ = Buffer<Tile>(context, sizes_.tiles), index_ = Buffer<std::uint8_t>(context, sizes_.index_bytes);
  values_ = Buffer<T>(context, sizes_.values + sizes_.rest);
  rest_col_ = Buffer<std::int32_t>(context, sizes_.rest);
  if (rule_.deferred) {
    if (request.csr.pattern.row_ptr.p32)
      keep(rest_ptr32_, plan.rest_ptr);
    else
      keep(rest_ptr64_, plan.rest_ptr);
  }
  borders_ = divide(plan, useful_parts(*context, sizes_.values + 8 * sizes_.tiles + this->rows()));
  fill<true>(request.csr);
  if (sizes_.rest > 0 && rule_.csr5)
    rest_matrix_ = make_matrix(find_format("csr5"), rest(), context);
  else if (sizes_.rest > 0)
    shares_ = shares_of_whole_rows(rest_pattern(), useful_parts(*context, sizes_.rest + this->rows()));
}

template <class T>
SparsityPattern TileMatrix<T>::rest_pattern() const {
  SparsityPattern pattern;
  pattern.rows = this->rows(), pattern.cols = this->cols(), pattern.nonzeros = sizes_.rest;
  pattern.row_ptr = {rest_ptr32_.data(), rest_ptr64_.data()}, pattern.col = rest_col_.data();
  return pattern;
}

template <class T>
CsrMatrix<T> TileMatrix<T>::rest() const {
  CsrMatrix<T> csr;
  csr.pattern = rest_pattern(), csr.values = values_.data() + sizes_.values;
  return csr;
}

template <class T>
void TileMatrix<T>::do_update_values(const CsrMatrix<T>& csr) {
  fill<false>(csr);
  if (rest_matrix_) rest_matrix_->update_values(rest(), SamePattern());
}

// Writes all values, and with `structure` everything else that the plan has not.
template <class T>
template <bool structure>
void TileMatrix<T>::fill(const CsrMatrix<T>& csr) {
  const TileView<T> a = row_view();
  parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
    for (std::int64_t i = borders_[static_cast<std::size_t>(part)];
         i < borders_[static_cast<std::size_t>(part) + 1]; ++i) {
      Tile* to = tiles_.data() + a.tile_ptr[i];
      std::uint32_t value = 0, index = 0;
      std::int64_t rest[tile_edge] = {};
      if (rule_.deferred)
        for (int r = 0; r < a.height(i); ++r) rest[r] = a.rest_ptr(i * tile_edge + r);
      for_tiles(csr.pattern, i, [&](std::int32_t col, const TileBits& bits, const std::int64_t* first) {
        const TileForm form = choose_tile(bits, rule_);
        if (form.present) {
          const auto n = static_cast<std::uint32_t>(form.values()),
                     bytes = static_cast<std::uint32_t>(form.index_bytes());
          if constexpr (structure) {
            const int count = form.kind == TileKind::csr || form.kind == TileKind::coo ? form.entries - 1
                              : form.kind == TileKind::hyb                             ? form.tail
                                                                                       : 0;
            *to = {col,
                   value,
                   index,
                   form.kind,
                   static_cast<std::uint8_t>(form.slots),
                   static_cast<std::uint8_t>(count),
                   0};
            std::uint8_t* const to_index = index_.data() + a.index_ptr[i] + index;
            for (std::uint32_t b = 0; b < bytes; ++b)
              to_index[b] = tile_index_byte(bits, form, static_cast<int>(b));
            std::fill_n(values_.data() + a.value_ptr[i] + value, n, T(0));
          }
          ++to;
          value += n, index += bytes;
        }
        T* const values = values_.data() + a.value_ptr[i] + value - (form.present ? form.values() : 0);
        for (int r = 0; r < bits.height; ++r) {
          const TileRow row(bits, form, r);
          for (int j = 0, length = bits.length(r); j < length; ++j) {
            const std::int64_t k = first[r] + j;
            const int place =
                form.present ? row.place(j, csr.pattern.col[k] - col * tile_edge, rule_.deferred) : -1;
            if (place >= 0) {
              values[place] = csr.values[k];
            } else {
              if constexpr (structure) rest_col_[rest[r]] = csr.pattern.col[k];
              values_[a.deferred + rest[r]++] = csr.values[k];
            }
          }
        }
      });
    }
  });
}

template <class T>
TileView<T> TileMatrix<T>::row_view() const noexcept {
  return {values_.data(),     tile_ptr_.data(),   value_ptr_.data(), index_ptr_.data(),
          tiles_.data(),      index_.data(),      this->rows(),      this->cols(),
          rest_ptr32_.data(), rest_ptr64_.data(), rest_col_.data(),  sizes_.values};
}

template <class T>
void TileMatrix<T>::multiply(T alpha, const T* x, T beta, T* y) const {
  const TileProduct<T> product{row_view(), alpha, x, beta, y};
  parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
    tile_product(product, borders_[static_cast<std::size_t>(part)],
                 borders_[static_cast<std::size_t>(part) + 1]);
  });
  if (rest_matrix_) rest_matrix_->apply(alpha, {x, this->cols()}, T(1), {y, this->rows()});
  if (sizes_.rest == 0 || rest_matrix_) return;
  rest_pattern().row_ptr.visit([&](auto* row_ptr) {
    const RowsWork<T, std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>> work{
        row_ptr, rest_col_.data(), values_.data() + sizes_.values, alpha, x, T(1), y, false};
    run_shares(work, this->rows(), shares_, false);
  });
}

template <class T>
std::vector<LayoutArray> TileMatrix<T>::layout() const {
  const auto of_tiles = [&](const char* name, auto part) {
    std::vector<decltype(part(Tile{}))> numbers;
    for (const Tile& tile : tiles_) numbers.push_back(part(tile));
    return layout_array(name, numbers);
  };
  std::vector<LayoutArray> all = {
      layout_array("tile_ptr", tile_ptr_),
      layout_array("value_ptr", value_ptr_),
      layout_array("index_ptr", index_ptr_),
      of_tiles("tile_col", [](const Tile& tile) { return tile.col; }),
      of_tiles("tile_value", [](const Tile& tile) { return tile.value; }),
      of_tiles("tile_index", [](const Tile& tile) { return tile.index; }),
      of_tiles("tile_kind", [](const Tile& tile) { return static_cast<std::uint8_t>(tile.kind); }),
      of_tiles("tile_slots", [](const Tile& tile) { return tile.slots; }),
      of_tiles("tile_count", [](const Tile& tile) { return tile.count; }),
      layout_array("index", index_),
      layout_array("values", values_.data(), sizes_.values)};
  if (!rule_.deferred) return all;
  all.push_back(rest_pattern().row_ptr.visit(
      [&](auto* row_ptr) { return layout_array("rest_ptr", row_ptr, this->rows() + 1); }));
  all.push_back(layout_array("rest_col", rest_col_));
  all.push_back(layout_array("rest_values", values_.data() + sizes_.values, sizes_.rest));
  return all;
}

template class TileMatrix<double>;
template class TileMatrix<float>;

}  // namespace protean::formats
