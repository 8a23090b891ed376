# PROTEAN_BUILT names another build folder of these sources. The Python package is then linked with the library and the
# code of the command that are there, and compiles its own sources alone (`make wheel` after `make solve`). That folder
# is brought up to date first. It must have the same optional libraries as this build; one with CUDA is refused.
set(of_this "")
foreach(library CUDA KOKKOS MKL METIS HYPRE)
  if(PROTEAN_HAVE_${library})
    list(APPEND of_this ${library})
  endif()
endforeach()
if(NOT PROTEAN_PYTHON)
  message(FATAL_ERROR "PROTEAN_BUILT is for the Python package: set PROTEAN_PYTHON=ON, or leave PROTEAN_BUILT away")
endif()
if(NOT EXISTS ${PROTEAN_BUILT}/ProteanBuiltTargets.cmake)
  message(FATAL_ERROR "PROTEAN_BUILT is ${PROTEAN_BUILT}, which is not the folder of a build of Protean with the "
    "command and a static library: configure it with PROTEAN_APPS=ON and BUILD_SHARED_LIBS=OFF, or leave PROTEAN_BUILT "
    "away")
endif()
include(${PROTEAN_BUILT}/ProteanBuiltHas.cmake)
if(NOT "${PROTEAN_BUILT_HAS}" STREQUAL "${of_this}")
  message(FATAL_ERROR "PROTEAN_BUILT is ${PROTEAN_BUILT}, which was built with [${PROTEAN_BUILT_HAS}], and this build "
    "has [${of_this}] of the optional libraries: give both builds the same options, or leave PROTEAN_BUILT away")
endif()
if(PROTEAN_HAVE_CUDA)
  message(FATAL_ERROR "PROTEAN_BUILT is ${PROTEAN_BUILT}, which was built with CUDA: leave PROTEAN_BUILT away")
endif()
if(NOT PROTEAN_BUILT_SOURCES STREQUAL PROJECT_SOURCE_DIR)
  message(FATAL_ERROR "PROTEAN_BUILT is ${PROTEAN_BUILT}, which is a build of the sources in ${PROTEAN_BUILT_SOURCES}, "
    "not of those in ${PROJECT_SOURCE_DIR}: name a build of these, or leave PROTEAN_BUILT away")
endif()
include(${PROTEAN_BUILT}/ProteanBuiltTargets.cmake)
# pip builds in an environment of its own, which hides the packages of the Python that the other build has found.
add_custom_target(protean_built COMMAND ${CMAKE_COMMAND} -E env --unset=PYTHONPATH --unset=PYTHONNOUSERSITE
  ${CMAKE_COMMAND} --build ${PROTEAN_BUILT} --target protean protean_apps
  COMMENT "The library in ${PROTEAN_BUILT}" VERBATIM)
foreach(target protean protean_fem protean_apps)
  add_dependencies(ProteanBuilt::${target} protean_built)
endforeach()
add_library(protean_internal ALIAS ProteanBuilt::protean)
add_library(protean_apps ALIAS ProteanBuilt::protean_apps)
