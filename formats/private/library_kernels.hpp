// The Kernel entries of libraries. PROTEAN_KOKKOS_KERNEL(csr) names make_kokkos_csr<T>, defined in
// csr_kokkos.cpp, when the library is in the build, and says why not otherwise (macros, since there is no
// function to name then).
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
#if defined(PROTEAN_HAVE_MKL)
#define PROTEAN_MKL_KERNEL(name) \
  Kernel { "mkl", true, false, {}, make_mkl_##name<double>, make_mkl_##name<float>, PROTEAN_MKL_NOTE }
#else
#define PROTEAN_MKL_KERNEL(name) \
  Kernel { "mkl", true, false, "MKL was not named when Protean was configured (PROTEAN_MKL, MKL_ROOT)" }
#endif

namespace protean::formats {

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_csr(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_coo(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_mkl_csr(const BuildRequest<T>& request);

}  // namespace protean::formats
