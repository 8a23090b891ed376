// SELL-C-sigma multiplied by Kokkos, on the arrays of sell_c_sigma.cpp: one loop over slices on Kokkos' host
// device.
#include "core/kokkos.hpp"
#include "formats/ell/sliced_kokkos.hpp"

namespace protean::formats {
namespace {

constexpr std::int64_t largest_slice = 64;

template <class T>
void product_of_slices(const SlotProduct<T>& w) {
  const std::lock_guard lock(kokkos_mutex());
  const std::int64_t C = w.stride, slices = (w.rows + C - 1) / C;
  Kokkos::parallel_for(
      "protean::sliced", KokkosRows(0, slices), KOKKOS_LAMBDA(const std::int64_t s) {
        T sums[largest_slice] = {};
        for (std::int64_t slot = w.ptr[s]; slot < w.ptr[s + 1]; slot += C)
          for (std::int64_t i = 0; i < C; ++i) sums[i] += w.values[slot + i] * w.x[w.col[slot + i]];
        const std::int64_t first = s * C, end = std::min(first + C, w.rows);
        for (auto e = std::lower_bound(w.empty.begin(), w.empty.end(), first); e != w.empty.end() && *e < end;
             ++e)
          sums[*e - first] = T(0);
        for (std::int64_t p = first; p < end; ++p) {
          T& y = w.y[w.perm ? w.perm[p] : p];
          y = w.beta == T(0) ? w.alpha * sums[p - first] : w.alpha * sums[p - first] + w.beta * y;
        }
      });
  KokkosHost().fence();
}

}  // namespace

void start_sliced_kokkos(const Context& context) { start_kokkos(context); }
void kokkos_sliced_product(const SlotProduct<double>& product) { product_of_slices(product); }
void kokkos_sliced_product(const SlotProduct<float>& product) { product_of_slices(product); }

}  // namespace protean::formats
