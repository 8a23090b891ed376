# Debian packages of a build: `cpack -G DEB` in its folder, with DEBFULLNAME and DEBEMAIL of who makes them in the
# environment. Nothing is compiled. docs/packaging.md has the packages, tests/install/debian_packages.py tries them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME protean)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_PROTEAN_SOURCES ${PROJECT_SOURCE_DIR})
# Who makes the packages; copyright, changelog and compressed man pages, as Debian's policy asks; the same without what
# cpack adds.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/contact.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/policy.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/repack.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(shared libprotean${PROTEAN_SOVERSION})
set(same_version "${shared} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# protean_package(<component> <package> <section> <title> <contents>): a package with one component of the installation.
function(protean_package component package section title contents)
  string(TOUPPER CPACK_DEBIAN_${component} variable)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  set(${variable}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(${variable}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(${variable}_DESCRIPTION "solvers of large sparse systems, ${title}
Protean solves Ax = b by Krylov methods with preconditioners on CPUs and NVIDIA
GPUs. It watches each solve and converts the matrix to a faster storage format
in mid-solve when that pays off.

${contents}" PARENT_SCOPE)
endfunction()

protean_package(library ${shared} libs "shared library"
  "This package has the shared library for programs in C++, C and Fortran.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
# Programs that link it depend on this package, and the cache of the loader is renewed.
file(WRITE ${PROJECT_BINARY_DIR}/packages/shlibs
  "libprotean ${PROTEAN_SOVERSION} ${shared} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/packages/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  "${PROJECT_BINARY_DIR}/packages/shlibs;${PROJECT_BINARY_DIR}/packages/triggers")

protean_package(development libprotean-dev libdevel "development files"
  "This package has the headers, the archive, the Fortran module, and what CMake
and pkg-config need.")
# Target Protean::protean is the archive, and its package of CMake asks for what that is linked with.
set(needs ${same_version} libfmt-dev libhwy-dev libfast-float-dev zlib1g-dev liblzma-dev)
foreach(library METIS:libmetis-dev HYPRE:libhypre-dev KOKKOS:libtrilinos-kokkos-dev)
  if(library MATCHES "(.*):(.*)" AND PROTEAN_HAVE_${CMAKE_MATCH_1})
    list(APPEND needs ${CMAKE_MATCH_2})
  endif()
endforeach()
list(JOIN needs ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)

if(PROTEAN_APPS)
  protean_package(tools protean math "command"
    "This package has the command protean, which solves the system of a problem
file, compares storage formats, and inspects, converts and generates matrices.")
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "protean-doc, protean-petsc")

  protean_package(documentation protean-doc doc "documentation"
    "This package has the pages, problem files with their matrices, and examples.")
  set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_ARCHITECTURE all)
endif()

if(TARGET protean_petsc_code)
  protean_package(petsc protean-petsc math "for PETSc"
    "This package has the matrix types and the KSP that PETSc loads at run time,
and the program by which the command protean solves on several MPI ranks.")
  set(CPACK_DEBIAN_PETSC_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PETSC_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
  set(CPACK_DEBIAN_PETSC_PACKAGE_DEPENDS "${same_version}")
endif()
include(CPack)
