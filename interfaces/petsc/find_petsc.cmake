# PETSc and its MPI by pkg-config. Sets PETSC_FOUND and a target protean_petsc to link, or PROTEAN_NO_PETSC: why there
# is none. PKG_CONFIG_PATH names another PETSc.
set(PETSC_FOUND FALSE)
set(PROTEAN_NO_PETSC "")
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_search_module(PROTEAN_PETSC QUIET IMPORTED_TARGET PETSc petsc)
  pkg_search_module(PROTEAN_PETSC_MPI QUIET IMPORTED_TARGET ompi-c mpich)
endif()
if(NOT PKG_CONFIG_FOUND)
  set(PROTEAN_NO_PETSC "pkg-config was not found, which is asked for PETSc (Debian: pkg-config)")
elseif(NOT PROTEAN_PETSC_FOUND)
  set(PROTEAN_NO_PETSC "PETSc was not found by pkg-config (Debian: petsc-dev, or PKG_CONFIG_PATH=<folder of PETSc.pc>)")
elseif(NOT PROTEAN_PETSC_MPI_FOUND)
  set(PROTEAN_NO_PETSC "the MPI of PETSc was not found by pkg-config (ompi-c of Open MPI, or mpich)")
else()
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES PkgConfig::PROTEAN_PETSC PkgConfig::PROTEAN_PETSC_MPI)
  check_cxx_source_compiles("
    #include <petscksp.h>
    #include <petsc/private/kspimpl.h>
    static_assert(PETSC_VERSION_GE(3, 18, 0) && sizeof(PetscInt) == 4 && sizeof(PetscScalar) == sizeof(double));
    #if defined(PETSC_USE_COMPLEX) || !defined(PETSC_USE_REAL_DOUBLE)
    #error real double scalars are needed
    #endif
    int main() { return PetscInitializeNoArguments() ? 1 : 0; }" PROTEAN_PETSC_FITS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(PROTEAN_PETSC_FITS)
    set(PETSC_FOUND TRUE)
    add_library(protean_petsc INTERFACE)
    target_link_libraries(protean_petsc INTERFACE PkgConfig::PROTEAN_PETSC PkgConfig::PROTEAN_PETSC_MPI)
  else()
    set(PROTEAN_NO_PETSC
      "PETSc ${PROTEAN_PETSC_VERSION} is not one of 3.18 or later with real double scalars, 32-bit indices and its \
private headers")
  endif()
endif()
