# Intel MKL through its own CMake config, as target Protean::mkl, and PROTEAN_MKL_NOTE: its version, for users.
#
# Only an MKL that was named is used: by -DMKL_ROOT=<folder>, -DMKL_DIR=<folder>/lib/cmake/mkl, the environment
# variable MKLROOT that Intel's own scripts set, or an activated virtual environment with PyPI's mkl and mkl-devel.
# System folders and PATH are not searched. PROTEAN_MKL_FOLDER is the folder of its shared libraries: what is installed
# looks there, because no system folder leads to it.
set(ProteanMKL_FOUND FALSE)
set(MKL_LINK sdl)
set(MKL_INTERFACE lp64)
find_package(MKL QUIET CONFIG PATHS ${MKL_ROOT} $ENV{MKLROOT} $ENV{VIRTUAL_ENV} NO_DEFAULT_PATH)
if(MKL_FOUND AND TARGET MKL::MKL)
  set(ProteanMKL_FOUND TRUE)
  set(PROTEAN_MKL_NOTE "MKL ${MKL_VERSION}, inspector-executor with a hint of 1000 products" CACHE INTERNAL "")
  if(NOT TARGET Protean::mkl)
    add_library(Protean::mkl INTERFACE IMPORTED)
    target_link_libraries(Protean::mkl INTERFACE MKL::MKL)
  endif()
  get_target_property(location MKL::mkl_rt IMPORTED_LOCATION)
  get_filename_component(folder "${location}" DIRECTORY)
  set(PROTEAN_MKL_FOLDER "${folder}" CACHE INTERNAL "")
endif()
