// BCSR of Choi, Singh and Vuduc: value e of all blocks of a block row lie together, and a model gives the size of the
// blocks.
//
//        | 1 . 2 . |     2 x 2 blocks                          (. is a stored 0)
//    A = | . 3 . . |     block_ptr = 0 2 4
//        | . . . . |     block_col = 0 1 0 1
//        | 4 5 . 6 |     values    = 1 2 . . . . 3 . | . . . . 4 . 5 6
//
// Arrays: as in bcsr, except values [R C blocks]: value e, counted row by row, of block k of the n blocks of a block
//   row lies at R C block_ptr + e n + k.
// Bytes: as bcsr.
// Parameters: rows, cols: R and C from 1 to 8, or auto, which takes them from the model; max_fill, the most stored
//   values per entry.
// Wins: on a GPU, when block rows have many blocks: neighbouring lanes take neighbouring blocks of a block row and read
//   neighbouring values. On a host bcsr is faster.
// Refuses: when R C blocks > max_fill nonzeros.
// Source: J. W. Choi, A. Singh, R. W. Vuduc, Model-driven autotuning of sparse matrix-vector multiply on GPUs, PPoPP
//   2010, doi:10.1145/1693453.1693471.
//
// The model. Block rows that run at the same time wait for the longest of them: T = sum over groups of
// (block rows of the group) (ceil(longest / L) L t_block + t_row), with L lanes a block row. The paper measures the
// times of an iteration and of a start on dense blocks of each size. Here they are the bytes that these move: t_block =
// v R C + 4 + v C / 4, since most of x comes from a cache, and t_row = 8 + 2 v R. Groups are the 32 groups of 24 rows
// that are sampled, and R and C are 2, 3 or 4. bellpack uses the same model: there a group is a slice of the sampled
// block rows, which are sorted, and one thread computes a block row (L = 1). Blocks of threads always have 256 threads.
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers it.
#include <algorithm>
#include <functional>

#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

int choi_lanes(std::int64_t blocks, std::int64_t block_rows) {
  int lanes = 1;
  while (lanes < 32 && 2 * lanes * block_rows < blocks) lanes *= 2;
  return lanes;
}

BlockShape choi_model(const BlockRule& rule, const std::vector<BlockShape>& shapes,
                      const BlockSamples& samples, std::int64_t, std::size_t value_bytes) {
  const bool in_slices = rule.container == BlockContainer::slices;
  const auto v = static_cast<double>(value_bytes);
  BlockShape best = shapes[0];
  double least = -1;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const auto [R, C] = shapes[s];
    std::vector<std::int32_t> counts = samples[s];
    if (in_slices && rule.sorted) std::sort(counts.begin(), counts.end(), std::greater<>());
    std::int64_t blocks = 0;
    for (const std::int32_t count : counts) blocks += count;
    const auto in_all = static_cast<std::int64_t>(counts.size());
    const std::int64_t lanes = in_slices ? 1 : choi_lanes(blocks, in_all),
                       in_group = in_slices ? rule.height(std::max<std::int64_t>(1, in_all)) : group_rows / R;
    const double of_block = v * static_cast<double>(R * C) + 4 + v * static_cast<double>(C) / 4,
                 of_row = 8 + 2 * v * static_cast<double>(R);
    double time = 0;
    for (std::int64_t first = 0; first < in_all; first += in_group) {
      const std::int64_t last = std::min(first + in_group, in_all);
      const std::int64_t longest = *std::max_element(counts.begin() + first, counts.begin() + last);
      time += static_cast<double>(last - first) *
              (static_cast<double>((longest + lanes - 1) / lanes * lanes) * of_block + of_row);
    }
    if (least < 0 || time < least) least = time, best = shapes[s];
  }
  return best;
}

BlockSpec bcsr_choi_spec(const FormatParams& params) {
  return {{.order = BlockOrder::row}, allowed_shapes(params), choi_model};
}

namespace {
constexpr ParamDoc params[] = {{.name = "rows",
                                .doc = "rows of a block; auto takes them from the model",
                                .default_value = "auto",
                                .choices = "auto|measured|1|2|3|4|5|6|7|8"},
                               {.name = "cols",
                                .doc = "columns of a block; auto takes them from the model",
                                .default_value = "auto",
                                .choices = "auto|measured|1|2|3|4|5|6|7|8"},
                               block_fill_param};
constexpr Kernel kernels[] = {native_host_kernel<BlockMatrix>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::bcsr_choi{
    .family = "block",
    .id = "bcsr-choi",
    .title = "Compressed rows of interleaved blocks, sizes from a model",
    .source = "Choi, Singh, Vuduc, PPoPP 2010",
    .traits = {.admits_slowly = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_blocks_on_host<bcsr_choi_spec>,
    .device = &device_code::bcsr_choi};

}  // namespace protean::formats
