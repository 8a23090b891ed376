// LightSpMV: csr whose rows are handed out one after another while the product runs.
//
//        | 1 . 2 . |     next = 0: the first who asks gets row 0, and next is 1;
//    A = | . 3 . . |     who is ready first asks for row 1, ...
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays:
//   row_ptr, col, values  as in csr: the caller's own arrays.
//   next  [1] uint64, on a device only: the next row to be handed out. A launch sets it to 0 before each product.
// Bytes: (v + 4) nnz + p (rows + 1), and 8 on a device; v bytes a value, p = 4 or 8 bytes a row pointer.
// Parameters: on a GPU, level: who asks for rows, a warp (for as many rows as it computes side by side) or each group
//   of threads (for one row).
// Wins: when the lengths vary and no row is very long: threads with short rows take more of them. On a GPU 2, 4, 8 or
//   32 threads compute a row, for mean lengths up to 2, up to 4, up to 64 and above. On a host a thread asks for as
//   many rows as have about 4096 entries.
// Refuses: never.
// Source: Y. Liu, B. Schmidt, LightSpMV: faster CSR-based sparse matrix-vector multiplication on CUDA-enabled GPUs,
//   ASAP 2015, 82-89, doi:10.1109/ASAP.2015.7245713.
//
// Each row is added by one group or thread in a fixed order, so the result is the same in every run.
#include <atomic>

#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr std::int64_t entries_asked_for = 4096;

template <class T>
class LightSpmv final : public CsrInShares<T> {
 public:
  explicit LightSpmv(const BuildRequest<T>& request) : CsrInShares<T>(request) {
    // For products with x . y, whose terms are added in the order of the threads.
    this->set_shares(shares_of_whole_rows(request.csr.pattern, this->parts()));
    const std::int64_t rows = request.csr.rows(), entries = std::max<std::int64_t>(1, request.csr.nonzeros());
    rows_asked_for_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(static_cast<double>(entries_asked_for) * static_cast<double>(rows) /
                                  static_cast<double>(entries)),
        1, entries_asked_for);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    this->with_work(alpha, x, beta, y, [&](const auto& work) {
      std::atomic<std::int64_t> next{0};
      parallel(this->parts(), [&](int, int) {
        for (;;) {
          const std::int64_t begin = next.fetch_add(rows_asked_for_, std::memory_order_relaxed);
          if (begin >= this->rows()) return;
          const std::int64_t end = std::min(this->rows(), begin + rows_asked_for_);
          rows_product(work, RowShare{begin, end, work.row_ptr[begin], work.row_ptr[end]}, false);
        }
      });
      return T(0);
    });
  }

 private:
  std::int64_t rows_asked_for_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(csr_bytes(pattern, value_bytes), pattern.nonzeros);
}

constexpr Kernel kernels[] = {native_host_kernel<LightSpmv>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::lightspmv{.family = "row",
                                               .id = "lightspmv",
                                               .title = "csr, rows handed out while the product runs",
                                               .source = "Liu, Schmidt, ASAP 2015",
                                               .traits = {.unsorted_rows = true, .uses_source = true},
                                               .params = {},
                                               .kernels = kernels,
                                               .admit = admit,
                                               .device = &device_code::lightspmv};

}  // namespace protean::formats
