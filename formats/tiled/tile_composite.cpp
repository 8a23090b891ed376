// TILE-COMPOSITE: the columns are cut into tiles of a fixed width; the rows of each tile are ranked by length and
// grouped into workloads, each of which is CSR or ELLPACK.
//
//        | 1 . 2 . |     tile = 2, work = 2      tile_work  = 0 2 3         work_piece = 0 1 3 5
//    A = | . 3 . . |     piece_ptr = 0 2 3 3 5   piece_row  = 3 0 1 0 3     work_slot  = 0 2 4 6
//        | . . . . |     piece     = 1 3 2 0 4   extent     = 2 | 1 1 | 1 1     csr, ELLPACK, ELLPACK
//        | 4 5 . 6 |     col       = 0 1 | 0 1 | 2 3         values = 4 5 | 1 3 | 2 6
//
// Arrays:
//   piece_ptr   [rows + 1] int64, piece [pieces] int32: the positions of the pieces of each row, by ascending columns.
//               A piece is the part of a row in a tile; rows without entries in a tile have no piece there.
//   piece_row   [pieces] int32: the row of each piece. Tile after tile; within a tile longest first, sorted stably.
//   tile_work   [tiles + 1] int32: the first workload of each tile.
//   extent      [pieces] int32: in CSR the end of the piece, counted from the first slot of its workload; in ELLPACK
//               the number of its entries.
//   work_piece  [workloads + 1] int32, work_slot [workloads + 1] int64: first position and first slot of each workload.
//   col         [slots] int32, values [slots]: a workload of h rows, the longest with w entries, is CSR if w >= h;
//               otherwise entry k of its row i lies at k h + i, and padding has the value 0 and the row's last column
//               in the tile.
//   partial     [pieces], on a device: workspace of a product.
//   order       [cols] int32, with columns = degree: the column of the matrix that is column c here; col counts in the
//               order. x in that order, [cols], is workspace of a product.
// Bytes: (v + 4) slots + 12 pieces + 8 (rows + 1) + 4 (tiles + 1) + 12 (workloads + 1) + v [partial] +
//   (v + 4) [order], with v bytes a value.
// Parameters:
//   tile  columns of a tile, chosen so that their part of x fits a cache.
//   work  a workload begins where the entries of the tiles up to it pass a multiple of that many entries, and where the
//         length falls below a power of two.
//   columns  natural, or degree: columns with the most entries come first, so that the elements of x that are read most
//            lie together in the first tiles. A product then begins by copying x into that order.
//   tiles    the most tiles; the last tile has all columns that are left. With columns = degree this is the cut of the
//            source: dense tiles, and the rest in one tile.
//   measured takes the value with the fastest product on this machine, as the source does: for tile from 8192 to
//   131072, for work from 1024 to 16384.
// Wins: for large matrices with scattered columns: while a tile is computed, its part of x stays in the cache.
// Refuses: more than 2^31 - 2 pieces. It stores fewer than two values per entry.
// Source: X. Yang, S. Parthasarathy, P. Sadayappan, Fast sparse matrix-vector multiplication on GPUs: implications for
//   graph mining, PVLDB 4 (2011) 231-242, doi:10.14778/1938545.1938548. Where workloads begin, and the list of the
//   pieces of each row, are our reading. The authors predict the time of a workload from rates that they have measured
//   for each shape; `measured` runs the products instead. Medium confidence.
//
// On the host the tiles are computed one after another and add to y. On a device one launch computes all tiles, and a
// second launch adds the sums of each row in the order of the tiles.
#include "formats/tiled/tile_composite.hpp"

#include <numeric>

#include "formats/engines/pieces/tile_pieces_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

struct Plan : PiecePlan {
  std::vector<std::int32_t> tile_work, work_piece, extent;
  std::vector<std::int64_t> work_slot;
  // If columns are sorted: order[c] is the number in the matrix of column c; the columns of each row, tile by tile, in
  // a tile by ascending columns of the matrix.
  std::vector<std::int32_t> order, sorted_col;
  const std::int32_t* columns(const SparsityPattern& pattern) const {
    return order.empty() ? pattern.col : sorted_col.data();
  }
};

// Columns with the most entries first, stable.
void sort_columns(const Context& context, const SparsityPattern& pattern, const CompositeRule& rule,
                  Plan& plan) {
  const auto cols = static_cast<std::size_t>(pattern.cols);
  std::vector<std::int64_t> entries(cols);
  for (std::int64_t k = 0; k < pattern.nonzeros; ++k) ++entries[static_cast<std::size_t>(pattern.col[k])];
  plan.order.resize(cols);
  std::iota(plan.order.begin(), plan.order.end(), 0);
  std::stable_sort(plan.order.begin(), plan.order.end(), [&](std::int32_t a, std::int32_t b) {
    return entries[static_cast<std::size_t>(a)] > entries[static_cast<std::size_t>(b)];
  });
  std::vector<std::int32_t> rank(cols);
  for (std::size_t c = 0; c < cols; ++c)
    rank[static_cast<std::size_t>(plan.order[c])] = static_cast<std::int32_t>(c);
  plan.sorted_col.resize(static_cast<std::size_t>(pattern.nonzeros));
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    const Range range = even_range(pattern.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const auto begin = plan.sorted_col.begin() + pattern.row_ptr[r],
                 end = plan.sorted_col.begin() + pattern.row_ptr[r + 1];
      std::transform(pattern.col + pattern.row_ptr[r], pattern.col + pattern.row_ptr[r + 1], begin,
                     [&](std::int32_t c) { return rank[static_cast<std::size_t>(c)]; });
      std::stable_sort(begin, end,
                       [&](std::int32_t a, std::int32_t b) { return rule.tile_of(a) < rule.tile_of(b); });
    }
  });
}

// Calls f(tile, first entry, entries) for the pieces of a row with these columns.
template <class F>
void for_pieces(const SparsityPattern& pattern, const std::int32_t* col, const CompositeRule& rule,
                std::int64_t row, F&& f) {
  const std::int64_t end = pattern.row_ptr[row + 1];
  for (std::int64_t k = pattern.row_ptr[row]; k < end;) {
    const std::int64_t first = k, tile = rule.tile_of(col[k]);
    while (k < end && rule.tile_of(col[k]) == tile) ++k;
    f(tile, first, k - first);
  }
}

// Pieces by rows, then in each tile by length, both counted and not compared.
void rank_pieces(const Context& context, const SparsityPattern& pattern, const CompositeRule& rule,
                 Plan& plan, std::vector<std::int64_t>& tile_piece) {
  if (rule.by_degree) sort_columns(context, pattern, rule, plan);
  const std::int32_t* const col = plan.columns(pattern);
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  plan.piece_ptr.resize(static_cast<std::size_t>(pattern.rows) + 1);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(pattern.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r)
      for_pieces(pattern, col, rule, r, [&](std::int64_t, std::int64_t, std::int64_t) {
        ++plan.piece_ptr[static_cast<std::size_t>(r) + 1];
      });
  });
  for (std::size_t r = 1; r < plan.piece_ptr.size(); ++r) plan.piece_ptr[r] += plan.piece_ptr[r - 1];
  plan.resize(plan.piece_ptr.back());
  // By tile: the pieces of each tile in the order of the rows.
  struct Piece {
    std::int64_t from;
    std::int32_t row, length, number;
  };
  std::vector<Piece> pieces(plan.piece_row.size());
  for (std::int64_t r = 0; r < pattern.rows; ++r)
    for_pieces(pattern, col, rule, r, [&](std::int64_t tile, std::int64_t, std::int64_t) {
      ++tile_piece[static_cast<std::size_t>(tile) + 1];
    });
  for (std::size_t t = 1; t < tile_piece.size(); ++t) tile_piece[t] += tile_piece[t - 1];
  std::vector<std::int64_t> next = tile_piece;
  std::int32_t number = 0;
  for (std::int64_t r = 0; r < pattern.rows; ++r)
    for_pieces(pattern, col, rule, r, [&](std::int64_t tile, std::int64_t from, std::int64_t length) {
      pieces[static_cast<std::size_t>(next[static_cast<std::size_t>(tile)]++)] = {
          from, static_cast<std::int32_t>(r), static_cast<std::int32_t>(length), number++};
    });
  const auto tiles = static_cast<std::int64_t>(tile_piece.size()) - 1;
  parallel(useful_parts(context, plan.pieces()), [&](int part, int all) {
    const Range range = even_range(tiles, part, all);
    for (auto t = static_cast<std::size_t>(range.begin); t < static_cast<std::size_t>(range.end); ++t) {
      std::stable_sort(pieces.begin() + tile_piece[t], pieces.begin() + tile_piece[t + 1],
                       [](const Piece& a, const Piece& b) { return a.length > b.length; });
      for (auto p = static_cast<std::size_t>(tile_piece[t]); p < static_cast<std::size_t>(tile_piece[t + 1]);
           ++p) {
        plan.from[p] = pieces[p].from, plan.length[p] = pieces[p].length, plan.piece_row[p] = pieces[p].row;
        plan.piece[static_cast<std::size_t>(pieces[p].number)] = static_cast<std::int32_t>(p);
      }
    }
  });
}

void cut_workloads(const CompositeRule& rule, const std::vector<std::int64_t>& tile_piece, Plan& plan) {
  plan.extent.resize(plan.length.size());
  std::int64_t before = 0;
  const auto close = [&](std::size_t first, std::size_t end, std::int64_t entries) {
    const auto h = static_cast<std::int64_t>(end - first);
    const bool csr = CompositePlace::is_csr(plan.length[first], h);
    std::int32_t last = 0;
    for (std::size_t p = first; p < end; ++p)
      plan.extent[p] = last = csr ? last + plan.length[p] : plan.length[p];
    plan.slots += CompositeRule::slots(plan.length[first], h, entries);
  };
  for (std::size_t t = 0; t + 1 < tile_piece.size(); ++t) {
    plan.tile_work.push_back(static_cast<std::int32_t>(plan.work_piece.size()));
    const auto end = static_cast<std::size_t>(tile_piece[t + 1]);
    std::size_t first = static_cast<std::size_t>(tile_piece[t]);
    std::int64_t first_entry = before;
    for (std::size_t p = first; p < end; ++p) {
      if (p > first && rule.begins(before, plan.length[p - 1], plan.length[p])) {
        plan.work_piece.push_back(static_cast<std::int32_t>(first)), plan.work_slot.push_back(plan.slots);
        close(first, p, before - first_entry);
        first = p, first_entry = before;
      }
      before += plan.length[p];
    }
    if (first == end) continue;
    plan.work_piece.push_back(static_cast<std::int32_t>(first)), plan.work_slot.push_back(plan.slots);
    close(first, end, before - first_entry);
  }
  plan.tile_work.push_back(static_cast<std::int32_t>(plan.work_piece.size()));
  plan.work_piece.push_back(static_cast<std::int32_t>(plan.length.size()));
  plan.work_slot.push_back(plan.slots);
}

template <class T>
class TileComposite final : public PieceMatrix<T, CompositePlace, TileComposite<T>> {
 public:
  explicit TileComposite(const BuildRequest<T>& request)
      : PieceMatrix<T, CompositePlace, TileComposite<T>>(request, plan_of<Plan>(request.admission)) {
    const Plan& plan = plan_of<Plan>(request.admission);
    tile_work_ = buffer_of(request.context, plan.tile_work),
    extent_ = buffer_of(request.context, plan.extent);
    work_piece_ = buffer_of(request.context, plan.work_piece);
    work_slot_ = buffer_of(request.context, plan.work_slot);
    order_ = buffer_of(request.context, plan.order), x_ = Buffer<T>(request.context, order_.size());
    this->fill(request.csr, plan, plan.columns(request.csr.pattern));
  }

  CompositePlace place() const noexcept {
    return {work_slot_.data(), work_piece_.data(), extent_.data(), work_piece_.size() - 1};
  }
  std::size_t place_bytes() const noexcept {
    return tile_work_.bytes() + extent_.bytes() + work_piece_.bytes() + work_slot_.bytes() + order_.bytes() +
           x_.bytes();
  }
  const std::int32_t* order() const noexcept { return order_.empty() ? nullptr : order_.data(); }
  std::vector<LayoutArray> place_layout() const {
    std::vector<LayoutArray> all = {layout_array("tile_work", tile_work_), layout_array("extent", extent_),
                                    layout_array("work_piece", work_piece_),
                                    layout_array("work_slot", work_slot_)};
    if (!order_.empty()) all.push_back(layout_array("order", order_));
    return all;
  }
  void multiply(T alpha, const T* x, T beta, T* y) const {
    const Context& context = *this->context();
    parallel(useful_parts(context, this->rows()), [&](int part, int parts) {
      const Range range = even_range(this->rows(), part, parts);
      for (std::int64_t r = range.begin; r < range.end; ++r) store(T(1), T(0), beta, y[r]);
    });
    if (!order_.empty()) x = sorted(x);
    const PieceProduct<T, CompositePlace> product{this->row_view(), alpha, x, beta, y};
    for (std::int64_t t = 0; t + 1 < tile_work_.size(); ++t) {
      const std::int64_t begin = tile_work_[t], end = tile_work_[t + 1], slot = work_slot_[begin];
      const int parts = useful_parts(context, work_slot_[end] - slot);
      const auto border = [&](int part) {
        const std::int64_t wanted =
            slot + even_range(work_slot_[end] - slot, std::min(part, parts - 1), parts).begin;
        return part == parts
                   ? end
                   : first_where(begin, end, [&](std::int64_t w) { return work_slot_[w] >= wanted; });
      };
      parallel(parts, [&](int part, int) { add_workloads(product, border(part), border(part + 1)); });
    }
  }

 private:
  // x in the order of the columns.
  const T* sorted(const T* x) const {
    T* const to = const_cast<T*>(x_.data());  // workspace
    parallel(useful_parts(*this->context(), order_.size()), [&](int part, int parts) {
      const Range range = even_range(order_.size(), part, parts);
      for (std::int64_t c = range.begin; c < range.end; ++c) to[c] = x[order_[c]];
    });
    return to;
  }

  Buffer<std::int32_t> tile_work_, extent_, work_piece_, order_;
  Buffer<std::int64_t> work_slot_;
  Buffer<T> x_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const CompositeRule rule = composite_rule(params);
  const std::int64_t tiles = composite_tiles(rule, pattern.cols);
  auto plan = std::make_shared<Plan>();
  std::vector<std::int64_t> tile_piece(static_cast<std::size_t>(tiles) + 1);
  rank_pieces(context, pattern, rule, *plan, tile_piece);
  cut_workloads(rule, tile_piece, *plan);
  Admission admission =
      admit_pieces(pattern, plan->pieces(), plan->slots,
                   composite_bytes(rule, pattern.cols, plan->pieces(),
                                   static_cast<std::int64_t>(plan->work_piece.size()) - 1, value_bytes),
                   params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "tile",
     .doc = "columns of a tile, up to 2^30; measured: the fastest",
     .default_value = "65536",
     .choices = "65536|measured|8192|16384|32768|131072|..."},
    {.name = "work",
     .doc = "approximate number of entries of a workload, up to 2^30; measured: the fastest",
     .default_value = "4096",
     .choices = "4096|measured|1024|2048|8192|16384|..."},
    {.name = "columns",
     .doc = "order of the columns before they are cut: natural, or columns with the most entries first",
     .default_value = "natural",
     .choices = "natural|degree"},
    {.name = "tiles",
     .doc = "the most tiles; the last one has all columns that are left",
     .default_value = "all",
     .choices = "all|1|2|4|8|16|..."}};

constexpr Kernel kernels[] = {native_host_kernel<TileComposite>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::tile_composite{
    .family = "tiled",
    .id = "tile-composite",
    .title = "Tiles of columns, ranked rows, CSR or ELLPACK workloads",
    .source = "Yang, Parthasarathy, Sadayappan, PVLDB 2011",
    .traits = {.admits_slowly = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::tile_composite};

}  // namespace protean::formats
