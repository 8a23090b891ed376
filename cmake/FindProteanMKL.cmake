# Intel MKL through its own CMake config, as target Protean::mkl. PyPI's mkl and mkl-devel in a virtual
# environment serve: -DMKL_ROOT=<environment> or -DMKL_DIR=<environment>/lib/cmake/mkl.
set(ProteanMKL_FOUND FALSE)
set(MKL_LINK sdl)
set(MKL_INTERFACE lp64)
find_package(MKL QUIET CONFIG HINTS ${MKL_ROOT} $ENV{MKLROOT} $ENV{VIRTUAL_ENV})
if(MKL_FOUND AND TARGET MKL::MKL)
  set(ProteanMKL_FOUND TRUE)
  if(NOT TARGET Protean::mkl)
    add_library(Protean::mkl INTERFACE IMPORTED)
    target_link_libraries(Protean::mkl INTERFACE MKL::MKL)
  endif()
endif()
