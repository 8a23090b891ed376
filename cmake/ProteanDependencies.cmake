# Finds what the build needs and what it can use, and prints what it found. docs/dependencies.md gives the reasons.
include(CMakeFindDependencyMacro)

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
find_package(FastFloat REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
if(PROTEAN_APPS)
  find_package(yaml-cpp REQUIRED)
  find_package(CLI11 REQUIRED)
endif()
if(PROTEAN_TESTS)
  find_package(GTest REQUIRED)
endif()

# protean_optional(<package> <find_package arguments>): reads PROTEAN_<PACKAGE> = AUTO | ON | OFF and sets
# PROTEAN_HAVE_<PACKAGE>.
function(protean_optional package)
  set(have OFF)
  if(NOT "${PROTEAN_${package}}" STREQUAL "OFF")
    set(required "")
    if("${PROTEAN_${package}}" STREQUAL "ON")
      set(required REQUIRED)
    endif()
    find_package(${ARGN} ${required} QUIET GLOBAL)
    if(${ARGV1}_FOUND)
      set(have ON)
    endif()
  endif()
  set(PROTEAN_HAVE_${package} ${have} PARENT_SCOPE)
endfunction()

# CUDA: nvcc, cuBLAS, cuSPARSE. CMAKE_CUDA_ARCHITECTURES names the GPUs to compile for, sm_75 or later. The default is
# the GPU of this machine; without one it is sm_80, sm_90 and PTX.
set(PROTEAN_HAVE_CUDA OFF)
if(NOT "${PROTEAN_CUDA}" STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
      if(no_gpu EQUAL 0 AND NOT CMAKE_VERSION VERSION_LESS 3.24)
        set(CMAKE_CUDA_ARCHITECTURES native)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
      endif()
    endif()
    # Before CMake tries the compiler, which may refuse numbers with its own message, and again after CMake has found
    # what the words native and all stand for.
    include(ProteanCudaArchitectures)
    protean_check_cuda_architectures(${CMAKE_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    protean_check_cuda_architectures(${CMAKE_CUDA_ARCHITECTURES})
    find_package(CUDAToolkit 12 REQUIRED)
    set(PROTEAN_HAVE_CUDA ON)
  elseif("${PROTEAN_CUDA}" STREQUAL "ON")
    message(FATAL_ERROR "PROTEAN_CUDA=ON, but no CUDA compiler was found; set CMAKE_CUDA_COMPILER to nvcc")
  endif()
endif()

if(CMAKE_VERSION VERSION_LESS 3.24)
  message(STATUS "CMake ${CMAKE_VERSION}: optional packages need CMake 3.24 or newer to be seen in every folder")
endif()
set(PROTEAN_KOKKOS_CUDA OFF CACHE INTERNAL "")
if("${PROTEAN_KOKKOS}" STREQUAL "FETCH")
  include(ProteanFetchKokkos)
else()
  protean_optional(KOKKOS ProteanKokkos)
endif()
if(PROTEAN_HAVE_KOKKOS AND PROTEAN_KOKKOS_CUDA AND NOT PROTEAN_HAVE_CUDA)
  # Its headers can be compiled as CUDA only.
  if("${PROTEAN_KOKKOS}" STREQUAL "ON" OR Kokkos_ROOT OR DEFINED ENV{Kokkos_ROOT})
    message(FATAL_ERROR "This Kokkos was built with CUDA (${Kokkos_DIR}), but Protean is built without: set "
      "PROTEAN_CUDA=ON, or name a Kokkos for the host by Kokkos_ROOT")
  endif()
  message(STATUS "Kokkos is not used: ${Kokkos_DIR} was built with CUDA, and PROTEAN_CUDA is off")
  set(PROTEAN_HAVE_KOKKOS OFF)
  set(PROTEAN_KOKKOS_CUDA OFF CACHE INTERNAL "")
endif()
set(PROTEAN_MKL_FOLDER "" CACHE INTERNAL "")  # nothing of an earlier configuration with MKL
protean_optional(MKL ProteanMKL)
protean_optional(METIS ProteanMETIS)
# hypre brings an MPI, which need not be the MPI of the program that uses this library. So AUTO takes only a hypre that
# is named.
if("${PROTEAN_HYPRE}" STREQUAL "AUTO")
  set(PROTEAN_HYPRE OFF)
  if(HYPRE_ROOT)
    set(PROTEAN_HYPRE ON)
  endif()
endif()
protean_optional(HYPRE ProteanHYPRE)

message(STATUS "Protean ${PROJECT_VERSION}: CUDA ${PROTEAN_HAVE_CUDA} ${CMAKE_CUDA_ARCHITECTURES}, "
  "Kokkos ${PROTEAN_HAVE_KOKKOS} (with CUDA: ${PROTEAN_KOKKOS_CUDA}), MKL ${PROTEAN_HAVE_MKL}, "
  "METIS ${PROTEAN_HAVE_METIS}, "
  "hypre ${PROTEAN_HAVE_HYPRE}")
