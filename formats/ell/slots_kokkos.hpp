// The product of ell and sell-c-sigma by Kokkos, on the arrays of ell.cpp and sell_c_sigma.cpp. A thread of a
// device has one position, so that neighbouring threads read neighbouring slots; a thread of a host has eight at
// a time, which it adds in SIMD. Include this only in files compiled with Kokkos. Private to this folder.
#pragma once
#include <bit>

#include "formats/engines/library/kokkos_matrix.hpp"

namespace protean::formats {

// Positions [first, first + B) of a matrix; if they are complete they lie in one slice.
template <class Exec, class T>
struct SlotRows {
  std::int64_t rows, positions, stride, width;
  int shift;  // stride = 2^shift if there are slices
  KokkosArray<Exec, const std::int64_t> slice_ptr;
  KokkosArray<Exec, const std::int32_t> col, perm, empty;
  KokkosArray<Exec, const T> values;

  SlotRows(const SlotView<T>& a)
      : rows(a.rows),
        positions(a.positions),
        stride(a.stride),
        width(a.width),
        shift(std::countr_zero(static_cast<std::uint64_t>(a.stride))),
        slice_ptr(kokkos_array<Exec>(a.slice_ptr, a.slice_ptr ? (a.positions >> shift) + 1 : 0)),
        col(kokkos_array<Exec>(a.col, a.slots)),
        perm(kokkos_array<Exec>(a.perm, a.perm ? a.rows : 0)),
        empty(kokkos_array<Exec>(a.empty, a.empty_count)),
        values(kokkos_array<Exec>(a.values, a.slots)) {}

  struct Slots {
    std::int64_t base, width;
  };
  KOKKOS_FUNCTION Slots slots(std::int64_t p) const {
    if (!slice_ptr.data()) return {p, width};
    const std::int64_t slice = p >> shift, first = slice_ptr(slice);
    return {first + p - (slice << shift), (slice_ptr(slice + 1) - first) >> shift};
  }
  KOKKOS_FUNCTION std::int64_t row(std::int64_t p) const { return perm.data() ? perm(p) : p; }
  KOKKOS_FUNCTION bool is_empty(std::int64_t p) const {
    std::int64_t low = 0, high = static_cast<std::int64_t>(empty.extent(0));
    const std::int64_t end = high;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (empty(middle) < p)
        low = middle + 1;
      else
        high = middle;
    }
    return low < end && empty(low) == p;
  }
};

template <int B, class Exec, class T>
struct SlotSums {
  SlotRows<Exec, T> a;
  KokkosArray<Exec, const T> x;
  KokkosResult<Exec, T> result;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = item * B;
    const int count = a.positions - first < B ? static_cast<int>(a.positions - first) : B;
    T sums[B];
    for (int i = 0; i < B; ++i) sums[i] = 0;
    const auto slots = a.slots(first);
    std::int64_t slot = slots.base;
    if (count == B)
      for (std::int64_t k = 0; k < slots.width; ++k, slot += a.stride)
        for (int i = 0; i < B; ++i) sums[i] += a.values(slot + i) * x(a.col(slot + i));
    else
      for (std::int64_t k = 0; k < slots.width; ++k, slot += a.stride)
        for (int i = 0; i < count; ++i) sums[i] += a.values(slot + i) * x(a.col(slot + i));
    for (int i = 0; i < count; ++i) {
      const std::int64_t p = first + i;
      if (p >= a.rows) return;
      // Padding of a row without entries reads x[0], which may be NaN or infinite.
      if (sums[i] != sums[i] && a.is_empty(p)) sums[i] = 0;
      result.store(a.row(p), sums[i]);
    }
  }
};

template <class Exec, class T>
struct SlotDiagonal {
  SlotRows<Exec, T> a;
  KokkosArray<Exec, T> d;
  KOKKOS_FUNCTION void operator()(std::int64_t p) const {
    const std::int64_t r = a.row(p);
    if (r >= static_cast<std::int64_t>(d.extent(0))) return;
    const auto slots = a.slots(p);
    T found = 0;
    // The first slot with this column is the entry; padding repeats it.
    for (std::int64_t k = 0, slot = slots.base; k < slots.width; ++k, slot += a.stride)
      if (a.col(slot) == r) {
        if (!a.is_empty(p)) found = a.values(slot);
        break;
      }
    d(r) = found;
  }
};

template <class T>
class SlotKokkos : public KokkosOnArrays<T, SlotView<T>> {
 public:
  explicit SlotKokkos(const BuildRequest<T>& request) : KokkosOnArrays<T, SlotView<T>>(request) {}

  void diagonal(VectorView<T> d) const final {
    const SlotView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      kokkos_for("protean::slot_diagonal", exec, stop, this->rows(),
                 SlotDiagonal<Exec, T>{a, kokkos_array<Exec>(d.data, d.size)});
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const final {
    const SlotView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      constexpr int B = static_cast<int>(on_host_or_device<Exec>(8, 1));
      const auto multiply = [&](auto block) {
        constexpr int size = decltype(block)::value;
        kokkos_for(
            "protean::slots", exec, stop, (a.positions + size - 1) / size,
            SlotSums<size, Exec, T>{
                a, kokkos_array<Exec>(x.data, x.size), {alpha, beta, kokkos_array<Exec>(y.data, y.size)}});
      };
      // A block may not cross slices.
      if (!a.slice_ptr || a.stride % B == 0)
        multiply(std::integral_constant<int, B>());
      else
        multiply(std::integral_constant<int, 1>());
    });
    this->has_multiplied();
  }
};

}  // namespace protean::formats
