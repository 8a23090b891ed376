# Kokkos >= 3.4 as target Protean::kokkos. Sets PROTEAN_KOKKOS_NOTE, its version and execution spaces, for users, and
# PROTEAN_KOKKOS_CUDA: whether it was built with CUDA. Files that include Kokkos must be compiled as CUDA then.
#
# Where Kokkos_ROOT is given, as a variable of CMake or of the environment, only the Kokkos of that folder is taken.
#
# Debian 12 ships Kokkos 3.4.01 with the Serial space only (libtrilinos-kokkos-dev). Its CMake target names an
# include folder that does not exist; the headers are in <prefix>/include/trilinos.
# The target of a Kokkos with CUDA carries options for nvcc_wrapper as the C++ compiler. Protean calls nvcc through
# CMake's language CUDA, so it takes only headers and libraries from such a Kokkos.
set(_named "${Kokkos_ROOT}")
if(NOT _named)
  set(_named "$ENV{Kokkos_ROOT}")
endif()
# Kokkos' config changes variables of the whole project: it turns compiler extensions off, and with CUDA it sets the
# default language standard.
set(_saved CMAKE_CXX_EXTENSIONS CMAKE_CXX_STANDARD_DEFAULT)
foreach(_variable IN LISTS _saved)
  set(_value_of_${_variable} "${${_variable}}")
endforeach()
set(CMAKE_CXX_EXTENSIONS OFF)
if(_named)
  if(Kokkos_DIR)
    file(RELATIVE_PATH _inside "${_named}" "${Kokkos_DIR}")
    if(_inside MATCHES "^\\.\\.")
      unset(Kokkos_DIR CACHE)  # of an earlier Kokkos_ROOT
    endif()
  endif()
  find_package(Kokkos QUIET CONFIG OPTIONAL_COMPONENTS separable_compilation PATHS "${_named}" NO_DEFAULT_PATH)
  if(NOT Kokkos_FOUND)
    message(FATAL_ERROR "Kokkos_ROOT is ${_named}, but no KokkosConfig.cmake was found there; name the folder where "
      "Kokkos was installed, or leave Kokkos_ROOT away")
  endif()
else()
  find_package(Kokkos QUIET CONFIG OPTIONAL_COMPONENTS separable_compilation)
endif()
foreach(_variable IN LISTS _saved)
  unset(${_variable} CACHE)
  if("${_value_of_${_variable}}" STREQUAL "")
    unset(${_variable})
  else()
    set(${_variable} "${_value_of_${_variable}}")
  endif()
endforeach()

set(ProteanKokkos_FOUND FALSE)
unset(_include)
unset(_library)
if(Kokkos_FOUND)
  # <prefix>/lib/cmake/Kokkos, or Debian's <prefix>/lib/<architecture>/cmake/Kokkos
  foreach(_prefix "${Kokkos_DIR}/../../.." "${Kokkos_DIR}/../../../..")
    find_path(_include Kokkos_Core.hpp PATHS "${_prefix}/include" PATH_SUFFIXES trilinos NO_DEFAULT_PATH NO_CACHE)
  endforeach()
  find_library(_library NAMES kokkoscore trilinos_kokkoscore PATHS "${Kokkos_DIR}/../.." NO_DEFAULT_PATH NO_CACHE)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ProteanKokkos REQUIRED_VARS _include _library)
if(NOT ProteanKokkos_FOUND)
  return()
endif()

file(STRINGS ${_include}/KokkosCore_config.h _lines REGEX "^#define KOKKOS_(VERSION|ENABLE_[A-Z]+)")
string(REGEX REPLACE ".*KOKKOS_VERSION ([0-9]+)([0-9][0-9])([0-9][0-9]).*" "\\1;\\2;\\3" _version "${_lines}")
list(GET _version 0 _major)
list(GET _version 1 _minor)
list(GET _version 2 _patch)
math(EXPR _minor "${_minor}")
math(EXPR _patch "${_patch}")
set(_note "Kokkos ${_major}.${_minor}.${_patch}, host space ")
set(_openmp FALSE)
if("${_lines}" MATCHES "KOKKOS_ENABLE_OPENMP(;|$)")
  string(APPEND _note "OpenMP")
  set(_openmp TRUE)
elseif("${_lines}" MATCHES "KOKKOS_ENABLE_THREADS(;|$)")
  string(APPEND _note "Threads")
else()
  string(APPEND _note "Serial: one thread whatever the context has")
endif()
set(PROTEAN_KOKKOS_CUDA OFF)
if("${_lines}" MATCHES "KOKKOS_ENABLE_CUDA(;|$)")
  # With 4.6.99 (the development branch of June 2025), CUDA 13 and an H200, 1,180 device tests ended with accesses to
  # invalid addresses, while all passed with 4.6.1. So a newer one is refused until it has been tried.
  option(PROTEAN_KOKKOS_UNTRIED "Take a Kokkos with CUDA that is newer than 4.6.1, of which some are known to fail" OFF)
  mark_as_advanced(PROTEAN_KOKKOS_UNTRIED)
  if("${_major}.${_minor}.${_patch}" VERSION_GREATER 4.6.1 AND PROTEAN_CUDA AND NOT PROTEAN_KOKKOS_UNTRIED)
    set(_refusal "Kokkos ${_major}.${_minor}.${_patch} with CUDA is newer than 4.6.1, the newest with which the device "
      "kernels were tried; with 4.6.99 they access invalid addresses. Take Kokkos 4.6.1, one without CUDA, or "
      "-DPROTEAN_KOKKOS_UNTRIED=ON to try it with the tests")
    if("${PROTEAN_KOKKOS}" STREQUAL "ON" OR _named)
      message(FATAL_ERROR ${_refusal})
    endif()
    string(CONCAT _refusal ${_refusal})
    message(STATUS "skipped: ${_refusal}")
    set(ProteanKokkos_FOUND FALSE)
    return()
  endif()
  set(PROTEAN_KOKKOS_CUDA ON)
  string(APPEND _note ", device space Cuda")
endif()
set(PROTEAN_KOKKOS_CUDA ${PROTEAN_KOKKOS_CUDA} CACHE INTERNAL "")
set(PROTEAN_KOKKOS_NOTE "${_note}" CACHE INTERNAL "")

if(NOT TARGET Protean::kokkos)
  find_package(Threads REQUIRED)
  add_library(Protean::kokkos UNKNOWN IMPORTED)
  set_target_properties(Protean::kokkos PROPERTIES IMPORTED_LOCATION ${_library}
    INTERFACE_INCLUDE_DIRECTORIES ${_include} INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS};Threads::Threads")
  if(_openmp)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set_property(TARGET Protean::kokkos APPEND PROPERTY INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
    set_property(TARGET Protean::kokkos APPEND PROPERTY INTERFACE_COMPILE_OPTIONS
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${OpenMP_CXX_FLAGS}>")
  endif()
  if(PROTEAN_KOKKOS_CUDA)
    set_property(TARGET Protean::kokkos APPEND PROPERTY INTERFACE_LINK_LIBRARIES CUDA::cudart_static CUDA::cuda_driver)
  endif()
endif()
