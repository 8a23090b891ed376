# PROTEAN_KOKKOS=FETCH: downloads Kokkos, builds it for the host within this build, and makes target Protean::kokkos of
# it. The release is pinned by its commit. A Kokkos with CUDA is built apart and named by Kokkos_ROOT.
set(PROTEAN_KOKKOS_REPOSITORY https://github.com/kokkos/kokkos.git CACHE STRING
  "With PROTEAN_KOKKOS=FETCH: where Kokkos is cloned from")
mark_as_advanced(PROTEAN_KOKKOS_REPOSITORY)
if(Kokkos_ROOT OR DEFINED ENV{Kokkos_ROOT})
  message(FATAL_ERROR "PROTEAN_KOKKOS is FETCH, and Kokkos_ROOT names an installed Kokkos; leave one of them away")
endif()
include(FetchContent)
FetchContent_Declare(kokkos GIT_REPOSITORY ${PROTEAN_KOKKOS_REPOSITORY}
  GIT_TAG 1b1383c6001f3bfe9fe309ca923c2d786600cc79)  # release 4.6.01
set(Kokkos_ENABLE_SERIAL ON CACHE BOOL "" FORCE)
find_package(OpenMP QUIET COMPONENTS CXX)
set(Kokkos_ENABLE_OPENMP ${OpenMP_CXX_FOUND} CACHE BOOL "" FORCE)
FetchContent_MakeAvailable(kokkos)
foreach(target kokkoscore kokkoscontainers kokkossimd)
  # Their headers are not ours to warn about.
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
    $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
endforeach()
set(space Serial)
if(OpenMP_CXX_FOUND)
  set(space OpenMP)
endif()
set(PROTEAN_KOKKOS_NOTE "Kokkos 4.6.1, host space ${space}" CACHE INTERNAL "")
set(PROTEAN_KOKKOS_CUDA OFF CACHE INTERNAL "")
if(NOT TARGET Protean::kokkos)
  add_library(Protean::kokkos INTERFACE IMPORTED GLOBAL)
  target_link_libraries(Protean::kokkos INTERFACE Kokkos::kokkos)
endif()
set(PROTEAN_HAVE_KOKKOS ON)
