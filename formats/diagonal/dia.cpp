// DIA: whole diagonals, no column index at all.
//
//        | 1 . 2 . |     off     = -3 -2 0 2                (. is a stored 0)
//    A = | . 3 . . |     values  = . . . 4 | . . . 5 | 1 3 . 6 | 2 . . .
//        | . . . . |     entries =   8     |   8     |  11     |  1
//        | 4 5 . 6 |
//
// off     [diagonals] int32: column - row of every diagonal with an entry, ascending.
// values  [rows diagonals]: a(r, r + off[d]) at d rows + r; 0 where there is no entry or no such column.
// entries [ceil(rows / 8) diagonals] uint8: bit r % 8 of byte r / 8 of diagonal d says that its value is an
// entry, so
//         that stored zeros are told from fill. Not read by products.
// Bytes: diagonals (v rows + 4 + ceil(rows / 8)), v bytes a value.
// Parameters: max_fill, stored values an entry.
// NaN or infinity in x also reaches rows whose diagonal has no entry there (0 times it is NaN).
// Wins on stencils: little more than a value is read for each entry, and no x is gathered. Refuses when
// rows * diagonals > max_fill * nonzeros.
// Source: Y. Saad, SPARSKIT: a basic tool kit for sparse matrix computations, RIACS 90-20, 1990; N. Bell, M.
// Garland,
//   Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC 2009,
//   doi:10.1145/1654059.1654078.
#include <atomic>
#include <cstring>

#include "formats/diagonal/diagonals.hpp"
#include "formats/diagonal/rules.hpp"

namespace protean::formats {
namespace {

// Offsets of all diagonals with an entry, ascending.
std::vector<std::int32_t> find_offsets(const Context& context, const SparsityPattern& pattern) {
  std::vector<char> used(static_cast<std::size_t>(pattern.rows + pattern.cols));
  char* const flags = used.data() + pattern.rows;
  const std::int32_t* const col = pattern.col;
  const auto borders = balanced_row_borders(pattern, useful_parts(context, pattern.nonzeros));
  pattern.row_ptr.visit([&](auto* row_ptr) {
    parallel(static_cast<int>(borders.size()) - 1, [&](int part, int) {
      for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r)
        for (auto k = row_ptr[r]; k < row_ptr[r + 1]; ++k) {
          const std::atomic_ref<char> flag(flags[col[k] - r]);
          if (!flag.load(std::memory_order_relaxed)) flag.store(1, std::memory_order_relaxed);
        }
    });
  });
  std::vector<std::int32_t> offsets;
  const char *const begin = used.data(), *const end = begin + used.size();
  for (const char* p = begin; p != end; ++p) {
    p = static_cast<const char*>(std::memchr(p, 1, static_cast<std::size_t>(end - p)));
    if (!p) break;
    offsets.push_back(static_cast<std::int32_t>(p - begin - pattern.rows));
  }
  return offsets;
}

Diagonals whole_diagonals(const ContextPtr& context, const SparsityPattern& pattern) {
  const auto offsets = find_offsets(*context, pattern);
  const auto count = static_cast<std::int64_t>(offsets.size());
  Diagonals result{pattern.rows, Buffer<std::int64_t>(context, 2), Buffer<std::int32_t>(context, count)};
  result.ptr[0] = 0, result.ptr[1] = count;
  std::copy(offsets.begin(), offsets.end(), result.off.begin());
  return result;
}

template <class T>
class Dia final : public DiagonalMatrix<T> {
 public:
  explicit Dia(const BuildRequest<T>& request)
      : DiagonalMatrix<T>(request, whole_diagonals(request.context, request.csr.pattern)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes(); }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("off", this->where_.off), layout_array("values", this->values_),
            layout_array("entries", this->entries_)};
  }
};

}  // namespace

Admission admit_diagonals(std::int64_t diagonals, std::int64_t height, std::size_t other,
                          const SparsityPattern& pattern, const FormatParams& params,
                          std::size_t value_bytes) {
  const std::int64_t stored = height * diagonals;
  const std::size_t bytes = diagonal_bytes(diagonals, height, value_bytes) + other;
  if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const auto diagonals = static_cast<std::int64_t>(find_offsets(context, pattern).size());
  return admit_diagonals(diagonals, pattern.rows, 0, pattern, params, value_bytes);
}

constexpr ParamDoc params[] = {{.name = "max_fill",
                                .doc = "stored values an entry above which the format refuses",
                                .default_value = "4",
                                .smallest = 1,
                                .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Dia>()};

}  // namespace

namespace device_code {
extern const DeviceCode dia;
}

extern const FormatEntry dia;
constinit const FormatEntry dia{.family = "diagonal",
                                .id = "dia",
                                .title = "Diagonals",
                                .source = "Saad, SPARSKIT, RIACS 90-20, 1990; Bell, Garland, SC 2009",
                                .traits = {},
                                .params = params,
                                .kernels = kernels,
                                .admit = admit,
                                .device = PROTEAN_DEVICE_CODE(dia)};

}  // namespace protean::formats
