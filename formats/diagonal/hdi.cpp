// HDI, hacked diagonals: every hack of consecutive rows stores only the diagonals it has.
//
//        | 1 . 2 . |     hack = 2
//    A = | . 3 . . |     hack_ptr = 0 2 5
//        | . . . . |     off      =  0    2  |  -3   -2    0
//        | 4 5 . 6 |     values   = 1 3 | 2 . | . 4 | . 5 | . 6        (. is a stored 0)
//                        entries  =  3    1     2    2     2
//
// hack_ptr [hacks + 1] int64: diagonals before each hack; hacks = ceil(rows / hack).
// off      [diagonals] int32: column - row, ascending inside a hack.
// values   [hack diagonals]: a(r, r + off[d]) at d hack + r % hack; 0 where there is no entry, no such column
// or, in
//          the last hack, no such row.
// entries  [ceil(hack / 8) diagonals] uint8: bit i % 8 of byte i / 8 of diagonal d says that its value i is
// an entry,
//          so that stored zeros are told from fill. Not read by products.
// Bytes: diagonals (v hack + 4 + ceil(hack / 8)) + 8 (hacks + 1), v bytes a value.
// Parameters: hack, rows: short ones store less fill, long ones read fewer offsets. max_fill, stored values
// an entry. NaN or infinity in x also reaches rows whose diagonal has no entry there (0 times it is NaN).
// Wins where parts of the matrix are diagonal, or a stencil's diagonals come and go. Refuses when
// hack * diagonals > max_fill * nonzeros.
// Source: D. Barbieri, V. Cardellini, A. Fanfarillo, S. Filippone, Three storage formats for sparse matrices
// on GPGPUs,
//   RR-15.6, Universita di Roma Tor Vergata, 2015; S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo,
//   Sparse matrix-vector multiplication on GPGPUs, ACM TOMS 43(4), 2017, doi:10.1145/3017994.
#include "formats/diagonal/diagonals.hpp"
#include "formats/diagonal/rules.hpp"

namespace protean::formats {
namespace {

// Calls found(hack, offsets, part) for every hack; parts are consecutive ranges of hacks in order.
template <class Found>
void for_hacks(const Context& context, const SparsityPattern& pattern, std::int64_t height, Found found) {
  const std::int64_t hacks = hack_count(pattern.rows, height);
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(hacks, part, parts);
    std::vector<std::int32_t> last_seen(static_cast<std::size_t>(pattern.rows + pattern.cols), -1), offsets;
    std::int32_t* const seen = last_seen.data() + pattern.rows;
    const std::int32_t* const col = pattern.col;
    for (std::int64_t h = range.begin; h < range.end; ++h) {
      offsets.clear();
      const std::int64_t end = std::min(pattern.rows, (h + 1) * height);
      for (std::int64_t r = h * height; r < end; ++r)
        for (std::int64_t k = pattern.row_ptr[r], stop = pattern.row_ptr[r + 1]; k < stop; ++k) {
          const std::int64_t offset = col[k] - r;
          if (seen[offset] == h) continue;
          seen[offset] = static_cast<std::int32_t>(h);
          offsets.push_back(static_cast<std::int32_t>(offset));
        }
      std::sort(offsets.begin(), offsets.end());
      found(h, offsets, part);
    }
  });
}

Diagonals hacked_diagonals(const ContextPtr& context, const SparsityPattern& pattern, std::int64_t height) {
  const std::int64_t hacks = hack_count(pattern.rows, height);
  std::vector<std::vector<std::int32_t>> offsets(static_cast<std::size_t>(context->threads()));
  Diagonals result{height, Buffer<std::int64_t>(context, hacks + 1), {}};
  for_hacks(*context, pattern, height, [&](std::int64_t h, const std::vector<std::int32_t>& found, int part) {
    result.ptr[h + 1] = static_cast<std::int64_t>(found.size());
    offsets[part].insert(offsets[part].end(), found.begin(), found.end());
  });
  result.ptr[0] = 0;
  for (std::int64_t h = 0; h < hacks; ++h) result.ptr[h + 1] += result.ptr[h];
  result.off = Buffer<std::int32_t>(context, result.ptr[hacks]);
  std::int32_t* to = result.off.data();
  for (const auto& part : offsets) to = std::copy(part.begin(), part.end(), to);
  return result;
}

template <class T>
class Hdi final : public DiagonalMatrix<T> {
 public:
  explicit Hdi(const BuildRequest<T>& request)
      : DiagonalMatrix<T>(
            request, hacked_diagonals(request.context, request.csr.pattern, request.params.integer("hack"))) {
  }

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->where_.ptr.bytes(); }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("hack_ptr", this->where_.ptr), layout_array("off", this->where_.off),
            layout_array("values", this->values_), layout_array("entries", this->entries_)};
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const std::int64_t height = params.integer("hack");
  PartialSums<std::int64_t> counts(context.threads());
  for_hacks(context, pattern, height, [&](std::int64_t, const std::vector<std::int32_t>& found, int part) {
    counts[part] += static_cast<std::int64_t>(found.size());
  });
  return admit_diagonals(counts.total(), height,
                         8 * static_cast<std::size_t>(hack_count(pattern.rows, height) + 1), pattern, params,
                         value_bytes);
}

constexpr ParamDoc params[] = {
    {.name = "hack", .doc = "rows in a hack", .default_value = "32", .smallest = 1, .largest = 1024},
    {.name = "max_fill",
     .doc = "stored values an entry above which the format refuses",
     .default_value = "4",
     .smallest = 1,
     .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Hdi>()};

}  // namespace

namespace device_code {
extern const DeviceCode hdi;
}

extern const FormatEntry hdi;
constinit const FormatEntry hdi{.family = "diagonal",
                                .id = "hdi",
                                .title = "Hacked diagonals",
                                .source = "Barbieri, Cardellini, Fanfarillo, Filippone, RR-15.6, 2015",
                                .traits = {},
                                .params = params,
                                .kernels = kernels,
                                .admit = admit,
                                .device = PROTEAN_DEVICE_CODE(hdi)};

}  // namespace protean::formats
