// COO multiplied by Kokkos, on the arrays of coo.cpp. Each work item takes an even piece of the entries,
// writes the rows that begin in it and the rows without entries before them, and leaves what belongs to a row
// begun earlier as a carry; the carries are added in order. So there are no atomics and the result is the
// same in every run. Source: N. Bell, M. Garland, SC 2009, doi 10.1145/1654059.1654078 (segmented reduction
// with carries).
#include "core/kokkos.hpp"
#include "formats/private/coo.hpp"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

template <class T>
class CooKokkos final : public CooHolder<T> {
 public:
  explicit CooKokkos(const BuildRequest<T>& request) : CooHolder<T>(request) {
    start_kokkos(*request.context);
    const std::int64_t pieces = KokkosHost().concurrency() == 1 ? 1 : 4 * KokkosHost().concurrency();
    carries_ = Buffer<T>(request.context, std::min(pieces, std::max<std::int64_t>(1, this->nonzeros())));
  }
  std::size_t bytes() const noexcept override { return CooHolder<T>::bytes() + carries_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x_view, T beta, VectorView<T> y_view) const override {
    const std::lock_guard lock(kokkos_mutex());  // guards carries_ too
    const Triples<T> A = this->triples();
    const std::int64_t rows = this->rows(), pieces = carries_.size();
    const T* x = x_view.data;
    T *y = y_view.data, *carries = const_cast<T*>(carries_.data());
    Kokkos::parallel_for(
        "protean::coo", KokkosRows(0, pieces), KOKKOS_LAMBDA(const std::int64_t piece) {
          std::int64_t k = A.size * piece / pieces;
          const std::int64_t end = A.size * (piece + 1) / pieces;
          const std::int64_t before = k > 0 ? A.row[k - 1] : -1;
          T sum = 0;
          for (; k < end && A.row[k] == before; ++k) sum += A.values[k] * x[A.col[k]];
          carries[piece] = sum;
          std::int64_t row = before + 1;
          while (row < rows && (k < end || end == A.size)) {
            sum = 0;
            for (; k < end && A.row[k] == row; ++k) sum += A.values[k] * x[A.col[k]];
            y[row] = beta == T(0) ? alpha * sum : alpha * sum + beta * y[row];
            ++row;
          }
        });
    KokkosHost().fence();
    for (std::int64_t piece = 1; piece < pieces; ++piece) {
      const std::int64_t first = A.size * piece / pieces;
      if (first < A.size && A.row[first] == A.row[first - 1]) y[A.row[first]] += alpha * carries[piece];
    }
  }

 private:
  Buffer<T> carries_;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_coo(const BuildRequest<T>& request) {
  return std::make_unique<CooKokkos<T>>(request);
}
template std::unique_ptr<AssembledMatrix<float>> make_kokkos_coo(const BuildRequest<float>&);
template std::unique_ptr<AssembledMatrix<double>> make_kokkos_coo(const BuildRequest<double>&);

}  // namespace protean::formats
