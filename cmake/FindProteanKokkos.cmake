# Kokkos >= 3.4 as target Protean::kokkos, and KOKKOS_VERSION.
#
# Debian 12 ships Kokkos 3.4.01 with the Serial device only (libtrilinos-kokkos-dev). Its CMake target names an
# include folder that does not exist; the headers lie in <prefix>/include/trilinos. That is mended here and
# nowhere else.
find_package(Kokkos QUIET NO_MODULE)
set(ProteanKokkos_FOUND FALSE)
find_path(PROTEAN_KOKKOS_INCLUDE Kokkos_Core.hpp HINTS ${Kokkos_DIR}/../../../include PATH_SUFFIXES trilinos)
find_library(PROTEAN_KOKKOS_LIBRARY NAMES kokkoscore trilinos_kokkoscore)
mark_as_advanced(PROTEAN_KOKKOS_INCLUDE PROTEAN_KOKKOS_LIBRARY)
if(Kokkos_FOUND AND TARGET Kokkos::kokkoscore)
  get_target_property(_include Kokkos::kokkoscore INTERFACE_INCLUDE_DIRECTORIES)
  set(_healthy TRUE)
  foreach(_folder IN LISTS _include)
    if(IS_ABSOLUTE "${_folder}" AND NOT EXISTS "${_folder}")
      set(_healthy FALSE)
    endif()
  endforeach()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ProteanKokkos REQUIRED_VARS PROTEAN_KOKKOS_INCLUDE PROTEAN_KOKKOS_LIBRARY)
if(ProteanKokkos_FOUND AND NOT TARGET Protean::kokkos)
  if(_healthy AND TARGET Kokkos::kokkos)
    add_library(Protean::kokkos INTERFACE IMPORTED)
    target_link_libraries(Protean::kokkos INTERFACE Kokkos::kokkos)
  else()
    add_library(Protean::kokkos UNKNOWN IMPORTED)
    set_target_properties(Protean::kokkos PROPERTIES
      IMPORTED_LOCATION ${PROTEAN_KOKKOS_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${PROTEAN_KOKKOS_INCLUDE}
      INTERFACE_LINK_LIBRARIES "dl;Threads::Threads")
  endif()
endif()
