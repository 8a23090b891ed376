# METIS 5 as target Protean::metis. -DMETIS_ROOT=<prefix> names another one than the system's.
set(ProteanMETIS_FOUND FALSE)
find_path(METIS_INCLUDE metis.h HINTS ${METIS_ROOT} $ENV{METIS_ROOT} PATH_SUFFIXES include)
find_library(METIS_LIBRARY metis HINTS ${METIS_ROOT} $ENV{METIS_ROOT} PATH_SUFFIXES lib lib64)
mark_as_advanced(METIS_INCLUDE METIS_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ProteanMETIS REQUIRED_VARS METIS_LIBRARY METIS_INCLUDE)
if(ProteanMETIS_FOUND AND NOT TARGET Protean::metis)
  add_library(Protean::metis UNKNOWN IMPORTED)
  set_target_properties(Protean::metis PROPERTIES IMPORTED_LOCATION ${METIS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${METIS_INCLUDE})
endif()
