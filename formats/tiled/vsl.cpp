// The layout of the Vitis sparse library: blocks of rows are cut into parts of columns, and the channels share each
// part; the entries of a row in a channel are padded to whole groups.
//
//        | 1 . 2 . |     rows = 4, columns = 2, channels = 2, pad = 2          (. is padding)
//    A = | . 3 . . |     block_ptr = 0 3 5      piece_row = 0 1 0 | 3 3      group_ptr = 0 1 2 3 | 4 5
//        | . . . . |     piece_ptr = 0 2 3 3 5      piece = 0 2 1 3 4
//        | 4 5 . 6 |     col = 0 0 1 1 2 2 | 0 1 3 3      values = 1 . 3 . 2 . | 4 5 6 .
//
// Arrays:
//   piece_ptr  [rows + 1] int64, piece [pieces] int32: the positions of the pieces of each row, by ascending columns. A
//              piece is the part of a row in one channel of a part.
//   piece_row  [pieces] int32: the row of each piece. Channel after channel; within a channel block after block, within
//              a block part after part, within a part row after row.
//   group_ptr  [pieces + 1] int64: groups of `pad` slots before each piece.
//   block_ptr  [channels blocks + 1] int64: pieces before each block of each channel.
//   col        [slots] int32. Padding repeats the last column of the piece.
//   values     [slots]: 0 if padded.
//   partial    [pieces], on a device: workspace of a product.
// Bytes: (v + 4) slots + 16 pieces + 8 (rows + 1) + 8 + 8 (channels blocks + 1) + v [partial], with v bytes a value.
// Parameters:
//   rows, columns  of a part.
//   channels       of the n entries of a part, counted row by row, channel c gets the entries from n c / channels to n
//                  (c + 1) / channels - 1.
//   pad            slots of a group.
//   max_fill       the most slots per entry.
// Wins: on no CPU or GPU. It shows what the layout for the memory channels of an FPGA costs. On an FPGA a group fills
//   the pipeline of an adder: 8 cycles of 4 values.
// Refuses: when slots > max_fill nonzeros, which stands for the capacity of a channel. A row of one entry takes a whole
//   group.
// Source: AMD, Vitis sparse library, SpMV (double precision), as described by P. Mpakos, D. Galanopoulos, P.
//   Anastasiadis, N. Papadopoulou, N. Koziris, G. Goumas, Feature-based SpMV performance analysis on contemporary
//   devices, IPDPS 2023. The lists of pieces are ours.
//
// Each channel has its own sums, which are added in the order of the channels. On a device a channel has one sum per
// piece, and none for rows without entries in it.
#include "formats/tiled/vsl.hpp"

#include "formats/engines/pieces/tile_pieces_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// Rows of a block at most, whose sums lie on the stack.
constexpr std::int64_t most_block_rows = 4096;

struct Plan : PiecePlan {
  std::vector<std::int64_t> group_ptr, block_ptr;
};

struct BlockPiece {
  std::int64_t from, part;
  std::int32_t row, length, channel;
};

// The pieces of block b row by row.
std::vector<BlockPiece> cut_block(const SparsityPattern& pattern, const VslRule& rule, std::int64_t b) {
  const std::int64_t top = b * rule.rows, bottom = std::min(pattern.rows, top + rule.rows);
  struct Part {
    std::int64_t number, entries;
  };
  std::vector<Part> parts;  // ascending numbers
  for (std::int64_t k = pattern.row_ptr[top]; k < pattern.row_ptr[bottom]; ++k)
    parts.push_back({pattern.col[k] / rule.columns, 1});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& c) { return a.number < c.number; });
  std::size_t count = 0;
  for (const Part& part : parts)
    if (count > 0 && parts[count - 1].number == part.number)
      ++parts[count - 1].entries;
    else
      parts[count++] = part;
  parts.resize(count);
  std::vector<std::int64_t> seen(count);
  std::vector<BlockPiece> pieces;
  for (std::int64_t r = top; r < bottom; ++r) {
    const std::int64_t end = pattern.row_ptr[r + 1];
    for (std::int64_t k = pattern.row_ptr[r]; k < end;) {
      const std::int64_t number = pattern.col[k] / rule.columns;
      const auto at = static_cast<std::size_t>(
          std::lower_bound(parts.begin(), parts.end(), number,
                           [](const Part& part, std::int64_t wanted) { return part.number < wanted; }) -
          parts.begin());
      const std::int64_t n = parts[at].entries;
      while (k < end && pattern.col[k] / rule.columns == number) {
        const std::int64_t channel = rule.channel(seen[at], n), first = k,
                           room = rule.first_entry(channel + 1, n) - seen[at];
        while (k < end && k - first < room && pattern.col[k] / rule.columns == number) ++k;
        pieces.push_back({first, number, static_cast<std::int32_t>(r), static_cast<std::int32_t>(k - first),
                          static_cast<std::int32_t>(channel)});
        seen[at] += k - first;
      }
    }
  }
  return pieces;
}

template <class T>
class Vsl final : public PieceMatrix<T, VslPlace, Vsl<T>> {
 public:
  explicit Vsl(const BuildRequest<T>& request)
      : PieceMatrix<T, VslPlace, Vsl<T>>(request, plan_of<Plan>(request.admission)),
        rule_(vsl_rule(request.params)) {
    const Plan& plan = plan_of<Plan>(request.admission);
    group_ptr_ = buffer_of(request.context, plan.group_ptr);
    block_ptr_ = buffer_of(request.context, plan.block_ptr);
    this->fill(request.csr, plan, request.csr.pattern.col);
  }

  VslPlace place() const noexcept { return {group_ptr_.data(), rule_.pad}; }
  std::size_t place_bytes() const noexcept { return group_ptr_.bytes() + block_ptr_.bytes(); }
  std::vector<LayoutArray> place_layout() const {
    return {layout_array("group_ptr", group_ptr_), layout_array("block_ptr", block_ptr_)};
  }
  void multiply(T alpha, const T* x, T beta, T* y) const {
    const PieceProduct<T, VslPlace> product{this->row_view(), alpha, x, beta, y};
    const std::int64_t blocks = vsl_blocks(rule_, this->rows());
    parallel(useful_parts(*this->context(), group_ptr_[group_ptr_.size() - 1] * rule_.pad),
             [&](int part, int parts) {
               const Range range = even_range(blocks, part, parts);
               T sums[most_block_rows];
               for (std::int64_t b = range.begin; b < range.end; ++b) {
                 const std::int64_t top = b * rule_.rows, rows = std::min(rule_.rows, this->rows() - top);
                 std::fill_n(sums, rows, T(0));
                 for (std::int64_t c = 0; c < rule_.channels; ++c)
                   add_groups(product, block_ptr_[c * blocks + b], block_ptr_[c * blocks + b + 1], top, sums);
                 for (std::int64_t r = 0; r < rows; ++r) store(alpha, sums[r], beta, y[top + r]);
               }
             });
  }

 private:
  VslRule rule_;
  Buffer<std::int64_t> group_ptr_, block_ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const VslRule rule = vsl_rule(params);
  const std::int64_t blocks = vsl_blocks(rule, pattern.rows);
  std::vector<std::vector<BlockPiece>> cut(static_cast<std::size_t>(blocks));
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    const Range range = even_range(blocks, part, parts);
    for (std::int64_t b = range.begin; b < range.end; ++b)
      cut[static_cast<std::size_t>(b)] = cut_block(pattern, rule, b);
  });
  auto plan = std::make_shared<Plan>();
  plan->block_ptr.resize(static_cast<std::size_t>(rule.channels * blocks + 1));
  plan->piece_ptr.resize(static_cast<std::size_t>(pattern.rows) + 1);
  for (std::size_t b = 0; b < cut.size(); ++b)
    for (const BlockPiece& piece : cut[b]) {
      ++plan->block_ptr[static_cast<std::size_t>(piece.channel * blocks) + b + 1];
      ++plan->piece_ptr[static_cast<std::size_t>(piece.row) + 1];
    }
  for (std::size_t i = 1; i < plan->block_ptr.size(); ++i) plan->block_ptr[i] += plan->block_ptr[i - 1];
  for (std::size_t r = 1; r < plan->piece_ptr.size(); ++r) plan->piece_ptr[r] += plan->piece_ptr[r - 1];
  plan->resize(plan->piece_ptr.back());
  plan->group_ptr.resize(static_cast<std::size_t>(plan->pieces()) + 1);
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    const Range range = even_range(blocks, part, parts);
    for (auto b = static_cast<std::size_t>(range.begin); b < static_cast<std::size_t>(range.end); ++b) {
      const auto& pieces = cut[b];
      std::vector<std::size_t> order(pieces.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
        const BlockPiece &one = pieces[i], &other = pieces[j];
        return one.channel != other.channel ? one.channel < other.channel : one.part < other.part;
      });
      // The pieces of the block, in the order of its rows, follow the pieces of the blocks before.
      const std::int64_t first = plan->piece_ptr[b * static_cast<std::size_t>(rule.rows)];
      std::int64_t channel = -1, next = 0;
      for (const std::size_t i : order) {
        const BlockPiece& piece = pieces[i];
        if (piece.channel != channel)
          channel = piece.channel, next = plan->block_ptr[static_cast<std::size_t>(channel * blocks) + b];
        const auto p = static_cast<std::size_t>(next++);
        plan->piece[static_cast<std::size_t>(first) + i] = static_cast<std::int32_t>(p);
        plan->from[p] = piece.from, plan->length[p] = piece.length, plan->piece_row[p] = piece.row;
        plan->group_ptr[p + 1] = rule.groups(piece.length);
      }
    }
  });
  for (std::size_t p = 1; p < plan->group_ptr.size(); ++p) plan->group_ptr[p] += plan->group_ptr[p - 1];
  plan->slots = plan->group_ptr.back() * rule.pad;
  Admission admission = admit_pieces(pattern, plan->pieces(), plan->slots,
                                     vsl_bytes(rule, pattern.rows, plan->pieces()), params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "rows",
     .doc = "rows of a block",
     .default_value = "4096",
     .smallest = 1,
     .largest = most_block_rows},
    {.name = "columns",
     .doc = "columns of a part",
     .default_value = "4096",
     .smallest = 1,
     .largest = 1 << 30},
    {.name = "channels",
     .doc = "streams that share the entries of a part",
     .default_value = "16",
     .smallest = 1,
     .largest = 64},
    {.name = "pad",
     .doc = "slots of a group: the entries of a row in a channel are padded to whole groups",
     .default_value = "32",
     .smallest = 1,
     .largest = 128},
    {.name = "max_fill",
     .doc = "the format refuses more stored slots per entry than this",
     .default_value = "8",
     .smallest = 1,
     .largest = 1'000'000}};

constexpr Kernel kernels[] = {native_host_kernel<Vsl>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::vsl{.family = "tiled",
                                         .id = "vsl",
                                         .title = "Vitis sparse library: parts of 4096 x 4096 in 16 channels",
                                         .source = "Mpakos et al., IPDPS 2023; AMD, Vitis libraries",
                                         .traits = {.admits_slowly = true, .needs_alike_rows = true},
                                         .params = params,
                                         .kernels = kernels,
                                         .admit = admit,
                                         .device = &device_code::vsl};

}  // namespace protean::formats
