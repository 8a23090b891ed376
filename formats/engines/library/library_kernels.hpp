// The Kernel entries of libraries. PROTEAN_KOKKOS_KERNEL(csr) names make_kokkos_csr<T> for the host,
// PROTEAN_KOKKOS_DEVICE_KERNEL(csr) the same for a device. If the library is not in the build, the entry says
// why (macros, since there is no function to name then). PROTEAN_DEFINE_KOKKOS_KERNEL(csr, Matrix) defines the
// function in csr_kokkos.cpp, for a class template Matrix<T> with a constructor from BuildRequest<T>.
#pragma once
#include "operators/assembled_matrix.hpp"

#if defined(PROTEAN_HAVE_KOKKOS)
#define PROTEAN_KOKKOS_KERNEL(name)                                                                       \
  Kernel {                                                                                                \
    "kokkos", true, false, {}, make_kokkos_##name<double>, make_kokkos_##name<float>, PROTEAN_KOKKOS_NOTE \
  }
#else
#define PROTEAN_KOKKOS_KERNEL(name) \
  Kernel { "kokkos", true, false, "Kokkos was not found when Protean was configured (PROTEAN_KOKKOS)" }
#endif
// Kokkos promises no order of sums on a device.
#if defined(PROTEAN_KOKKOS_CUDA)
#define PROTEAN_KOKKOS_DEVICE_KERNEL(name)                                                                 \
  Kernel {                                                                                                 \
    "kokkos", false, true, {}, make_kokkos_##name<double>, make_kokkos_##name<float>, PROTEAN_KOKKOS_NOTE, \
        false                                                                                              \
  }
#elif defined(PROTEAN_HAVE_KOKKOS)
#define PROTEAN_KOKKOS_DEVICE_KERNEL(name) \
  Kernel { "kokkos", false, true, "no device code in this Kokkos: it was built without CUDA (Kokkos_ROOT)" }
#else
#define PROTEAN_KOKKOS_DEVICE_KERNEL(name) \
  Kernel { "kokkos", false, true, "Kokkos was not found when Protean was configured (PROTEAN_KOKKOS)" }
#endif
#if defined(PROTEAN_HAVE_MKL)
#define PROTEAN_MKL_KERNEL(name) \
  Kernel { "mkl", true, false, {}, make_mkl_##name<double>, make_mkl_##name<float>, PROTEAN_MKL_NOTE }
#else
#define PROTEAN_MKL_KERNEL(name) \
  Kernel { "mkl", true, false, "MKL was not named when Protean was configured (PROTEAN_MKL, MKL_ROOT)" }
#endif

#define PROTEAN_DEFINE_KOKKOS_KERNEL(name, Matrix)                                                 \
  template <class T>                                                                               \
  std::unique_ptr<AssembledMatrix<T>> make_kokkos_##name(const BuildRequest<T>& request) {         \
    return std::make_unique<Matrix<T>>(request);                                                   \
  }                                                                                                \
  template std::unique_ptr<AssembledMatrix<float>> make_kokkos_##name(const BuildRequest<float>&); \
  template std::unique_ptr<AssembledMatrix<double>> make_kokkos_##name(const BuildRequest<double>&);

namespace protean::formats {

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_csr(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_coo(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_ell(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_sell_c_sigma(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_bcsr(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_dia(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_mkl_csr(const BuildRequest<T>& request);

}  // namespace protean::formats
