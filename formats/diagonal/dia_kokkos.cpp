// DIA multiplied by Kokkos, on the arrays of dia.cpp. A thread of a device has one row, a thread of a host many at
// a time, so that it passes along each diagonal.
#include "formats/engines/library/kokkos_matrix.hpp"

namespace protean::formats {
namespace {

template <class Exec, class T>
struct DiaProduct {
  static constexpr std::int64_t B = on_host_or_device<Exec>(128, 1);
  std::int64_t rows, cols, diagonals;
  KokkosArray<Exec, const std::int32_t> off;
  KokkosArray<Exec, const T> values, x;
  KokkosResult<Exec, T> result;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = item * B, count = rows - first < B ? rows - first : B;
    T sums[B];
    for (std::int64_t i = 0; i < B; ++i) sums[i] = 0;
    for (std::int64_t d = 0; d < diagonals; ++d) {
      // Rows first + i whose column first + i + off[d] exists.
      const std::int64_t col = first + off(d), at = d * rows + first;
      const std::int64_t begin = col < 0 ? -col : 0, end = cols - col < count ? cols - col : count;
      for (std::int64_t i = begin; i < end; ++i) sums[i] += values(at + i) * x(col + i);
    }
    for (std::int64_t i = 0; i < count; ++i) result.store(first + i, sums[i]);
  }
};

template <class Exec, class T>
struct DiaMain {
  std::int64_t rows, diagonals;
  KokkosArray<Exec, const std::int32_t> off;
  KokkosArray<Exec, const T> values;
  KokkosArray<Exec, T> d;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    T found = 0;
    for (std::int64_t k = 0; k < diagonals; ++k)
      if (off(k) == 0) found = values(k * rows + r);
    d(r) = found;
  }
};

template <class T>
class DiaKokkos final : public KokkosOnArrays<T, DiaView<T>> {
 public:
  explicit DiaKokkos(const BuildRequest<T>& request) : KokkosOnArrays<T, DiaView<T>>(request) {}

  void diagonal(VectorView<T> d) const override {
    const DiaView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      kokkos_for("protean::dia_diagonal", exec, stop, d.size,
                 DiaMain<Exec, T>{a.rows, a.diagonals, kokkos_array<Exec>(a.off, a.diagonals),
                                  kokkos_array<Exec>(a.values, a.rows * a.diagonals),
                                  kokkos_array<Exec>(d.data, d.size)});
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DiaView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      constexpr std::int64_t B = DiaProduct<Exec, T>::B;
      kokkos_for("protean::dia", exec, stop, (a.rows + B - 1) / B,
                 DiaProduct<Exec, T>{a.rows,
                                     a.cols,
                                     a.diagonals,
                                     kokkos_array<Exec>(a.off, a.diagonals),
                                     kokkos_array<Exec>(a.values, a.rows * a.diagonals),
                                     kokkos_array<Exec>(x.data, x.size),
                                     {alpha, beta, kokkos_array<Exec>(y.data, y.size)}});
    });
    this->has_multiplied();
  }
};

}  // namespace

PROTEAN_DEFINE_KOKKOS_KERNEL(dia, DiaKokkos)

}  // namespace protean::formats
