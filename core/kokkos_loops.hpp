// Loops and reductions over the entries of vectors, by Kokkos, on a host or a device. Private to blas1_kokkos.cpp:
// static functions, which the compiler puts into their callers.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/blas1.hpp"
#include "core/blas1_kokkos.hpp"
#include "core/kokkos.hpp"
#if defined(PROTEAN_KOKKOS_CUDA)
#include "core/device/kernel_tools.cuh"
#endif

namespace protean::kokkos {

using Size = std::int64_t;

// The value of a coefficient: computed before the kernel on a host, inside it on a device.
template <class T>
struct KnownNumber {
  T value;
  KOKKOS_FUNCTION T operator()() const { return value; }
};
template <class T>
struct DeviceNumber {
  T factor;
  const T *numerator, *denominator;
  Demand demand;
  // As Coefficient::value().
  KOKKOS_FUNCTION T operator()() const {
    const T top = numerator ? *numerator : T(1), bottom = denominator ? *denominator : T(1);
    if (demand == Demand::positive && !(bottom > T(0))) return T(0);
    if (demand == Demand::nonzero && (bottom == T(0) || bottom != bottom)) return T(0);
    return denominator ? factor * top / bottom : factor * top;
  }
};
template <class Exec, class T>
using Number = std::conditional_t<is_kokkos_host<Exec>, KnownNumber<T>, DeviceNumber<T>>;

// Arguments as functors hold them.
template <class Exec, class T>
static Number<Exec, T> held(const Coefficient<T>& c) {
  if constexpr (is_kokkos_host<Exec>)
    return {c.value()};
  else
    return {c.factor, c.numerator, c.denominator, c.demand};
}
template <class Exec, class T>
static KokkosArray<Exec, T> held(const VectorView<T>& view) {
  return kokkos_array<Exec>(view.size > 0 ? view.data : nullptr, view.size);
}
template <class Exec, class T>
static T held(T value) requires std::is_arithmetic_v<T> {
  return value;
}

template <class Exec, class Body>
struct Loop {
  Body body;
  KokkosStop<Exec> stop;
  KOKKOS_FUNCTION void operator()(Size i) const {
    if (!stop()) body(i);
  }
};

template <int K, class T>
struct Sums {
  T of[K];
};

// body(i, sums) adds the terms of entry i to K sums. A stopped kernel leaves the result as it is.
template <class Exec, int K, class T, class Body>
struct Reduction {
  using value_type = Sums<K, T>;
  Body body;
  KokkosStop<Exec> stop;
  const T* result;
  KOKKOS_FUNCTION void operator()(Size i, value_type& sums) const {
    if (!stop()) body(i, sums.of);
  }
  KOKKOS_FUNCTION void init(value_type& sums) const {
    for (int k = 0; k < K; ++k) sums.of[k] = 0;
  }
  KOKKOS_FUNCTION void join(value_type& sums, const value_type& others) const {
    for (int k = 0; k < K; ++k) Body::join(sums.of[k], others.of[k]);
  }
  // Kokkos before 4.0 joins volatile sums.
  KOKKOS_FUNCTION void join(volatile value_type& sums, const volatile value_type& others) const {
    for (int k = 0; k < K; ++k) {
      T sum = sums.of[k];
      Body::join(sum, others.of[k]);
      sums.of[k] = sum;
    }
  }
  KOKKOS_FUNCTION void final(value_type& sums) const {
    if (stop())
      for (int k = 0; k < K; ++k) sums.of[k] = result[k];
  }
};

// What bodies of reductions that add derive from.
struct Adding {
  template <class T>
  KOKKOS_FUNCTION static void join(T& sum, const T& other) {
    sum += other;
  }
};

// Native kernels may have left sums for the next vector operation to add.
template <class T>
static void close_sums([[maybe_unused]] const Context& context) {
#if defined(PROTEAN_KOKKOS_CUDA)
  if (context.space() == Space::device) device::close_sums<T>(context);
#endif
}

// Body<Exec, T>{arguments...}(i) for i in 0 .. n-1
template <template <class, class> class Body, class T, class... Arguments>
static void each(const Context& context, const char* name, Size n, const Arguments&... arguments) {
  if (n == 0) return;
  close_sums<T>(context);
  with_kokkos(context, [&](const auto& exec, const auto& stop) {
    using Exec = std::decay_t<decltype(exec)>;
    using Functor = Loop<Exec, Body<Exec, T>>;
    Kokkos::parallel_for(name, KokkosRange<Exec>(exec, 0, n),
                         Functor{Body<Exec, T>{held<Exec>(arguments)...}, stop});
  });
}

// Body<Exec, T>{{}, arguments...}(i, sums); the K totals go to result, which lies in the context's space.
template <int K, template <class, class> class Body, class T, class... Arguments>
static void reduce(const Context& context, const char* name, Size n, T* result,
                   const Arguments&... arguments) {
  if (n == 0) return kokkos::fill<T>(context, T(0), {result, K, context.space()});
  close_sums<T>(context);
  with_kokkos(context, [&](const auto& exec, const auto& stop) {
    using Exec = std::decay_t<decltype(exec)>;
    using Functor = Reduction<Exec, K, T, Body<Exec, T>>;
    using Result =
        Kokkos::View<Sums<K, T>, typename Exec::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Kokkos::parallel_reduce(name, KokkosRange<Exec>(exec, 0, n),
                            Functor{Body<Exec, T>{{}, held<Exec>(arguments)...}, stop, result},
                            Result(reinterpret_cast<Sums<K, T>*>(result)));
  });
}

}  // namespace protean::kokkos
