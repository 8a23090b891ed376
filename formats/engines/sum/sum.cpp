// Sums of parts on the host: conversion and products. sum.hpp describes the arrays, sum_cut.cpp how a pattern is cut.
#include "formats/engines/sum/sum.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/runs/coo.hpp"
#include "formats/engines/slices/slot_product.hpp"
#include "formats/engines/view/row_view.hpp"

namespace protean::formats {
namespace {

template <class T>
class SumOfParts final : public RowViewMatrix<T, SumOfParts<T>>, public HasApplyDot<T> {
 public:
  explicit SumOfParts(const BuildRequest<T>& request)
      : SumOfParts(request, plan_of<SumCut>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + ptr32_.bytes() + ptr64_.bytes() + list_.bytes() +
           coo_row_.bytes() + off_.bytes() + bits_.bytes() + empty_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> arrays;
    if (by_length()) arrays.push_back(layout_array("row_list", list_));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SumPart& part = parts_[i];
      const std::string name =
          kinds[static_cast<int>(part.kind)] + (numbered_ ? std::to_string(i) : std::string()) + "_";
      if (part.kind == PartKind::dia) {
        arrays.push_back(layout_array(name + "off", off_));
        arrays.push_back(layout_array(name + "entries", bits_));
      } else {
        arrays.push_back(layout_array(name + "col", col_.data() + part.col, part.stored));
      }
      arrays.push_back(layout_array(name + "values", values_.data() + part.values, part.stored));
      if (part.kind == PartKind::coo) arrays.push_back(layout_array(name + "row", coo_row_));
      if (part.kind == PartKind::csr)
        arrays.push_back(ptr64_.empty()
                             ? layout_array(name + "row_ptr", ptr32_.data() + part.ptr, part.rows + 1)
                             : layout_array(name + "row_ptr", ptr64_.data() + part.ptr, part.rows + 1));
    }
    arrays.push_back(layout_array(by_length() ? "empty" : "empty_row", empty_));
    for (const PartKind kind : left_out_) {
      const std::string name = std::string(kinds[static_cast<int>(kind)]) + "_";
      for (const char* array : {"col", "values", "row", "row_ptr", "off", "entries"})
        if (has_array(kind, array))
          arrays.push_back(layout_array(name + array, std::span<const std::int32_t>()));
    }
    return arrays;
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x.data, T(0), y.data, true);
  }
  SumView<T> row_view() const {
    SumView<T> view{};
    std::copy(parts_.begin(), parts_.end(), view.part);
    view.parts = static_cast<int>(parts_.size()), view.by_length = by_length(), view.rows = this->rows();
    view.values = values_.data(), view.col = col_.data();
    view.ptr = {ptr64_.empty() ? ptr32_.data() : nullptr, ptr64_.data()};
    view.list = list_.empty() ? nullptr : list_.data(), view.coo_row = coo_row_.data(),
    view.off = off_.data();
    view.bits = bits_.data(), view.empty = empty_.data(), view.empty_count = empty_.size();
    return view;
  }
  T* mutable_values() { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const { run(alpha, x, beta, y, false); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill<false>(csr); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    // ell with coordinates has its own ordered product, which is faster.
    const bool ell_coo = !by_length() && parts_.size() == 2 && parts_[1].kind == PartKind::coo;
    if (this->context()->deterministic() && ell_coo) {
      SlotProduct<T> slots = slot_job(0, alpha, x.data, beta, y.data, false);
      slots.ordered = true, slots.tail = triples(parts_[1]);
      run_slot_product(slots, how_[0].borders);
      return;
    }
    RowViewMatrix<T, SumOfParts<T>>::do_apply(alpha, x, beta, y);
  }

 private:
  // How the threads share the product of a part.
  struct Division {
    std::vector<std::int64_t> borders;     // ell, dia
    std::vector<RowShare> shares;          // csr
    bool prefetch = false, alike = false;  // of csr parts: RowsWork
  };

  SumOfParts(const BuildRequest<T>& request, const SumCut& cut)
      : RowViewMatrix<T, SumOfParts<T>>(request),
        by_(cut.by),
        width_(cut.width),
        parts_(place_parts(cut)),
        numbered_(cut.parts.size() + cut.left_out.size() > 2) {
    if (!numbered_) left_out_ = cut.left_out;
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t rows = pattern.rows;
    std::int64_t values = 0, cols = 0, pointers = 0, coordinates = 0, diagonals = 0, empty = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SumPart& part = parts_[i];
      values += part.stored;
      if (part.kind != PartKind::dia) cols += part.stored;
      if (part.kind == PartKind::csr) pointers += part.rows + 1;
      if (part.kind == PartKind::coo) coordinates += part.stored;
      if (part.kind == PartKind::dia) diagonals += part.width;
      empty += cut.parts[i].empty;
    }
    values_ = Buffer<T>(context, values), col_ = Buffer<std::int32_t>(context, cols);
    if (pattern.row_ptr.p32)
      ptr32_ = Buffer<std::int32_t>(context, pointers);
    else
      ptr64_ = Buffer<std::int64_t>(context, pointers);
    coo_row_ = Buffer<std::int32_t>(context, coordinates), off_ = Buffer<std::int32_t>(context, diagonals);
    bits_ = Buffer<std::uint8_t>(context, diagonals * ((rows + 7) / 8)),
    empty_ = Buffer<std::int32_t>(context, empty);
    if (diagonals > 0) std::copy(cut.offsets.begin(), cut.offsets.end(), off_.begin());
    dia_ptr_[1] = diagonals;
    if (by_length() && parts_.size() > 1) list(pattern, cut);
    point(pattern, cut);
    fill<true>(request.csr);
    divide(cut);
  }

  static constexpr const char* kinds[] = {"ell", "csr", "coo", "dia"};
  static bool has_array(PartKind kind, std::string_view array) {
    if (kind == PartKind::dia) return array == "off" || array == "entries" || array == "values";
    return array == "col" || array == "values" || (kind == PartKind::coo && array == "row") ||
           (kind == PartKind::csr && array == "row_ptr");
  }
  bool by_length() const { return by_ == SumCut::By::length; }
  std::int64_t row_at(std::int64_t p) const { return list_.empty() ? p : list_[p]; }

  void list(const SparsityPattern& pattern, const SumCut& cut) {
    list_ = Buffer<std::int32_t>(this->context(), pattern.rows);
    list_rows(
        pattern.rows, static_cast<std::int64_t>(cut.parts.size()),
        [&](std::int64_t r) {
          const std::int64_t length = pattern.row_length(r);
          std::int64_t i = 0;
          while (cut.parts[static_cast<std::size_t>(i)].longest < length) ++i;
          return i;
        },
        list_.data());
  }

  // Calls f(k of the source, number of the diagonal or -1) for the entries of a row of a cut by diagonal.
  template <class F>
  void for_source(const SparsityPattern& pattern, std::int64_t row, F&& f) const {
    const std::int32_t *off = off_.data(), *const off_end = off + dia_ptr_[1], *const col = pattern.col;
    for (std::int64_t k = pattern.row_ptr[row], end = pattern.row_ptr[row + 1]; k < end; ++k) {
      const std::int64_t offset = col[k] - row;
      while (off < off_end && *off < offset) ++off;
      f(k, off < off_end && *off == offset ? off - off_.data() : std::int64_t{-1});
    }
  }
  // Entries of a row in the last part that does not hold diagonals.
  std::int64_t length_in_last(const SparsityPattern& pattern, std::int64_t row) const {
    const std::int64_t length = pattern.row_length(row);
    if (by_ == SumCut::By::length) return length;
    if (by_ == SumCut::By::width) {
      const bool tail = parts_.back().kind != PartKind::ell;
      return tail ? std::max<std::int64_t>(0, length - width_) : length;
    }
    if (dia_ptr_[1] == 0) return length;
    std::int64_t left = 0;
    for_source(pattern, row, [&](std::int64_t, std::int64_t d) { left += d < 0; });
    return left;
  }

  // Row pointers, rows of coordinates, positions without entries; and the borders of the conversion.
  void point(const SparsityPattern& pattern, const SumCut& cut) {
    const int parts = useful_parts(*this->context(), pattern.nonzeros + pattern.rows);
    fill_borders_ = {0};
    if (by_length() && parts_.size() > 1) {
      std::int64_t done = 0, p = 0;
      for (int part = 0; part < parts; ++part) {
        const std::int64_t target = even_range(pattern.nonzeros + pattern.rows, part, parts).end;
        for (; p < pattern.rows && done < target; ++p) done += pattern.row_length(list_[p]) + 1;
        fill_borders_.push_back(part + 1 == parts ? pattern.rows : p);
      }
    } else {
      fill_borders_ = balanced_row_borders(pattern, parts, 8);  // whole bytes of bits
    }
    std::int64_t next_empty = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SumPart& part = parts_[i];
      const auto length = [&](std::int64_t p) { return length_in_last(pattern, row_at(part.first + p)); };
      if (part.kind == PartKind::ell && cut.parts[i].empty > 0) {
        for (std::int64_t p = 0; p < part.rows; ++p) {
          const bool none =
              by_ == SumCut::By::diagonal ? length(p) == 0 : pattern.row_length(row_at(part.first + p)) == 0;
          if (none) empty_[next_empty++] = static_cast<std::int32_t>(p);
        }
      } else if (part.kind == PartKind::csr) {
        const auto sum = [&](auto* row_ptr) {
          parallel(useful_parts(*this->context(), part.rows + part.entries), [&](int share, int shares) {
            const Range range = even_range(part.rows, share, shares);
            for (std::int64_t p = range.begin; p < range.end; ++p)
              row_ptr[p + 1] = static_cast<std::remove_pointer_t<decltype(row_ptr)>>(length(p));
          });
          row_ptr[0] = 0;
          for (std::int64_t p = 0; p < part.rows; ++p) row_ptr[p + 1] += row_ptr[p];
        };
        if (ptr64_.empty())
          sum(ptr32_.data() + part.ptr);
        else
          sum(ptr64_.data() + part.ptr);
      } else if (part.kind == PartKind::coo) {
        std::int64_t to = 0;
        for (std::int64_t r = 0; r < part.rows; ++r)
          for (std::int64_t left = length(r); left > 0; --left) coo_row_[to++] = static_cast<std::int32_t>(r);
      }
    }
  }

  // The first entry of the row at this position in a part of csr or coo.
  std::int64_t first_entry(const SumPart& part, std::int64_t p) const {
    if (part.kind == PartKind::csr) return ptr64_.empty() ? ptr32_[part.ptr + p] : ptr64_[part.ptr + p];
    return part.kind == PartKind::coo ? SumView<T>::first_from(coo_row_.data(), part.entries, p) : 0;
  }

  // Columns (unless only values change) and values of all parts.
  template <bool structure>
  void fill(const CsrMatrix<T>& csr) {
    const SparsityPattern& pattern = csr.pattern;
    parallel(static_cast<int>(fill_borders_.size()) - 1, [&](int share, int) {
      const std::int64_t begin = fill_borders_[static_cast<std::size_t>(share)],
                         end = fill_borders_[static_cast<std::size_t>(share) + 1];
      if (begin == end) return;
      // Rows are in order within a part of csr or coo: the next entry follows the last one.
      const auto write = [&](const SumPart& part, std::int64_t p, std::int64_t from, std::int64_t stop,
                             std::int64_t& next) {
        if (part.kind == PartKind::ell) {
          std::int64_t at = p;
          for (std::int64_t k = from; k < stop; ++k, at += part.rows) {
            values_[part.values + at] = csr.values[k];
            if constexpr (structure) col_[part.col + at] = pattern.col[k];
          }
          if constexpr (structure)
            for (const std::int32_t last = from < stop ? pattern.col[stop - 1] : 0; at < part.stored;
                 at += part.rows)
              values_[part.values + at] = T(0), col_[part.col + at] = last;
          return;
        }
        for (std::int64_t k = from; k < stop; ++k, ++next) {
          values_[part.values + next] = csr.values[k];
          if constexpr (structure) col_[part.col + next] = pattern.col[k];
        }
      };
      if (by_ == SumCut::By::diagonal && parts_[0].kind == PartKind::dia)
        return fill_diagonals<structure>(csr, begin, end);
      if (by_length()) {
        std::size_t i = 0;
        while (i + 1 < parts_.size() && parts_[i + 1].first <= begin) ++i;
        std::int64_t next = first_entry(parts_[i], begin - parts_[i].first);
        for (std::int64_t p = begin; p < end; ++p) {
          if (i + 1 < parts_.size() && p == parts_[i + 1].first) ++i, next = 0;
          const std::int64_t row = row_at(p);
          write(parts_[i], p - parts_[i].first, pattern.row_ptr[row], pattern.row_ptr[row + 1], next);
        }
        return;
      }
      const SumPart& tail = parts_.back();
      const std::int64_t slots = tail.kind == PartKind::ell ? std::numeric_limits<std::int64_t>::max()
                                 : parts_.size() == 1       ? 0
                                                            : width_;
      std::int64_t next = first_entry(tail, begin);
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t from = pattern.row_ptr[r], stop = pattern.row_ptr[r + 1],
                           middle = from + std::min(stop - from, slots);
        if (slots > 0) write(parts_[0], r, from, middle, next);
        if (middle < stop) write(tail, r, middle, stop, next);
      }
    });
  }

  template <bool structure>
  void fill_diagonals(const CsrMatrix<T>& csr, std::int64_t begin, std::int64_t end) {
    const SumPart &dia = parts_[0], &rest = parts_.back();
    const bool has_rest = parts_.size() > 1;
    const std::int64_t bit_bytes = (this->rows() + 7) / 8;
    if constexpr (structure)
      for (std::int64_t d = 0; d < dia.width; ++d) {
        std::fill(values_.begin() + d * dia.rows + begin, values_.begin() + d * dia.rows + end, T(0));
        std::fill(bits_.begin() + d * bit_bytes + begin / 8, bits_.begin() + d * bit_bytes + (end + 7) / 8,
                  std::uint8_t{0});
      }
    std::int64_t next = has_rest ? first_entry(rest, begin) : 0;
    // Local copies: a store of a byte may alias any member.
    T* const values = values_.data();
    const T* const from = csr.values;
    [[maybe_unused]] std::uint8_t* const bits = bits_.data();
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t slot = r;
      std::int32_t last = 0;
      for_source(csr.pattern, r, [&](std::int64_t k, std::int64_t d) {
        if (d >= 0) {
          values[d * dia.rows + r] = from[k];
          if constexpr (structure) bits[d * bit_bytes + r / 8] |= static_cast<std::uint8_t>(1u << (r % 8));
          return;
        }
        std::int64_t& at = rest.kind == PartKind::ell ? slot : next;
        values[rest.values + at] = from[k];
        if constexpr (structure) last = col_[rest.col + at] = csr.pattern.col[k];
        at += rest.kind == PartKind::ell ? rest.rows : 1;
      });
      if constexpr (structure)
        if (has_rest && rest.kind == PartKind::ell)
          for (; slot < rest.stored; slot += rest.rows)
            values_[rest.values + slot] = T(0), col_[rest.col + slot] = last;
    }
  }

  void divide(const SumCut& cut) {
    const Context& context = *this->context();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SumPart& part = parts_[i];
      Division how;
      const int parts = useful_parts(context, part.stored + part.rows);
      how.borders = {0};
      for (int share = 0; share < parts; ++share)
        how.borders.push_back(even_range(part.rows, share, parts, part.kind == PartKind::dia ? 512 : 64).end);
      if (part.kind == PartKind::csr) {
        const SparsityPattern pattern = part_pattern(part);
        how.shares = shares_of_equal_size(pattern, parts);
        how.prefetch = worth_prefetching(pattern, sizeof(T)), how.alike = rows_alike(pattern);
      }
      how_.push_back(std::move(how));
    }
    fused_ = cut.fused && parts_.size() == 2;
    if (!fused_) return;
    const SparsityPattern rest = part_pattern(parts_[1]);
    const int parts = static_cast<int>(how_[0].borders.size()) - 1;
    // A row costs its diagonals and its entries.
    how_[0].borders = {0};
    std::int64_t r = 0;
    for (int share = 1; share <= parts; ++share) {
      const std::int64_t target =
          even_range(rest.nonzeros + rest.rows * parts_[0].width, share - 1, parts).end;
      while (r < rest.rows && rest.row_ptr[r] + r * parts_[0].width < target) r = std::min(rest.rows, r + 64);
      how_[0].borders.push_back(share == parts ? rest.rows : r);
    }
  }

  SparsityPattern part_pattern(const SumPart& part) const {
    SparsityPattern pattern;
    pattern.rows = part.rows, pattern.cols = this->cols(), pattern.nonzeros = part.entries;
    if (ptr64_.empty())
      pattern.row_ptr.p32 = ptr32_.data() + part.ptr;
    else
      pattern.row_ptr.p64 = ptr64_.data() + part.ptr;
    pattern.col = col_.data() + part.col;
    return pattern;
  }
  Triples<T> triples(const SumPart& part) const {
    return {part.entries, coo_row_.data(), col_.data() + part.col, values_.data() + part.values};
  }
  SlotProduct<T> slot_job(std::size_t i, T alpha, const T* x, T beta, T* y, bool with_dot) const {
    const SumPart& part = parts_[i];
    SlotProduct<T> job{};
    job.order = SlotOrder::ell, job.values = values_.data() + part.values, job.col = col_.data() + part.col;
    job.stride = job.rows = part.rows, job.width = part.width;
    job.perm = list_.empty() ? nullptr : list_.data() + part.first;
    if (part.width > 0) job.empty = {empty_.begin(), empty_.end()};
    job.alpha = alpha, job.beta = beta, job.x = x, job.y = y, job.with_dot = with_dot;
    return job;
  }
  // The diagonals, as one hack of all rows.
  HackView<T> diagonals() const {
    HackView<T> view{};
    view.values = values_.data(), view.entries = bits_.data();
    view.rows = this->rows(), view.cols = this->cols(), view.height = this->rows();
    view.hacks = 1, view.bit_bytes = (this->rows() + 7) / 8;
    view.ptr = dia_ptr_, view.off = off_.data();
    return view;
  }
  // Calls f with the rows of a csr part.
  template <class F>
  T with_rows(std::size_t i, T alpha, const T* x, T beta, T* y, F&& f) const {
    const SumPart& part = parts_[i];
    return part_pattern(part).row_ptr.visit([&](auto* row_ptr) {
      return f(RowsWork<T, std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>>{
          row_ptr, col_.data() + part.col, values_.data() + part.values, alpha, x, beta, y, false,
          how_[i].prefetch, how_[i].alike, nullptr, list_.empty() ? nullptr : list_.data() + part.first});
    });
  }

  // y := alpha A x + beta y; with the dot product alpha is 1 and beta 0.
  T run(T alpha, const T* x, T beta, T* y, bool with_dot) const {
    if (fused_) return run_fused(alpha, x, beta, y, with_dot);
    T dot = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SumPart& part = parts_[i];
      const T keep = by_length() || i == 0 ? beta : T(1);
      // The slots of a second part give x . y for what both parts have added.
      if (i > 0 && !by_length() && part.kind == PartKind::ell) dot = 0;
      switch (part.kind) {
        case PartKind::ell:
          dot += run_slot_product(slot_job(i, alpha, x, keep, y, with_dot), how_[i].borders);
          break;
        case PartKind::csr:
          dot += with_rows(i, alpha, x, keep, y, [&](const auto& work) {
            return run_shares(work, part.rows, how_[i].shares, with_dot);
          });
          break;
        case PartKind::coo:
          dot += i == 0 ? multiply_triples<T>(*this->context(), triples(part), part.rows, alpha, x, beta, y,
                                              with_dot)
                        : add_triples<T>(*this->context(), triples(part), alpha, x, y, with_dot);
          break;
        case PartKind::dia: {
          const LineProduct<T> product{alpha, keep, x, y, with_dot, false};
          const auto& borders = how_[i].borders;
          PartialSums<T> sums(static_cast<int>(borders.size()) - 1);
          parallel(static_cast<int>(borders.size()) - 1, [&](int share, int) {
            const auto s = static_cast<std::size_t>(share);
            sums[share] = line_product(diagonals(), product, borders[s], borders[s + 1]);
          });
          dot += sums.total();
        }
      }
    }
    return dot;
  }

  // Both parts of some rows at a time, while y of these rows is in the first cache.
  T run_fused(T alpha, const T* x, T beta, T* y, bool with_dot) const {
    const LineProduct<T> product{alpha, beta, x, y, with_dot, false};
    const auto& borders = how_[0].borders;
    const int parts = static_cast<int>(borders.size()) - 1;
    return with_rows(1, alpha, x, T(1), y, [&](const auto& work) {
      PartialSums<T> sums(parts);
      parallel(parts, [&](int share, int) {
        constexpr std::int64_t block = 512;
        const auto s = static_cast<std::size_t>(share);
        for (std::int64_t r = borders[s]; r < borders[s + 1]; r += block) {
          const std::int64_t end = std::min(borders[s + 1], r + block);
          sums[share] += line_product(diagonals(), product, r, end);
          sums[share] += rows_product(work, {r, end, work.row_ptr[r], work.row_ptr[end]}, with_dot).dot;
        }
      });
      return sums.total();
    });
  }

  SumCut::By by_;
  std::int64_t width_;
  std::vector<SumPart> parts_;
  bool numbered_;                           // more than two parts may be of the same kind
  std::vector<PartKind> left_out_;          // for the layout
  std::vector<std::int64_t> fill_borders_;  // positions, for conversions
  std::vector<Division> how_;               // of each part
  bool fused_ = false;
  std::int64_t dia_ptr_[2] = {0, 0};
  Buffer<T> values_;
  Buffer<std::int32_t> col_, ptr32_;
  Buffer<std::int64_t> ptr64_;
  Buffer<std::int32_t> list_, coo_row_, off_, empty_;
  Buffer<std::uint8_t> bits_;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sum(const BuildRequest<T>& request) {
  return std::make_unique<SumOfParts<T>>(request);
}
template std::unique_ptr<AssembledMatrix<double>> make_sum<double>(const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_sum<float>(const BuildRequest<float>&);

}  // namespace protean::formats
