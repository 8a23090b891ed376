# find_package(deal.II), without its macros: they change compiler and flags of a whole project. Sets DEALII_FOUND and a
# target protean_dealii to link, or PROTEAN_NO_DEALII: the reason why there is none.
find_package(deal.II 9.3 QUIET CONFIG)
if(deal.II_FOUND AND DEAL_II_TARGET_CONFIG AND NOT TARGET "${DEAL_II_TARGET_RELEASE}")
  include(${DEAL_II_TARGET_CONFIG})  # where its libraries are; its macros would do it
endif()
set(DEALII_FOUND FALSE)
set(PROTEAN_NO_DEALII "")
if(NOT deal.II_FOUND)
  set(PROTEAN_NO_DEALII
    "deal.II was not found (Debian: libdeal.ii-dev, or -D deal.II_DIR=<folder of deal.IIConfig.cmake>)")
elseif(DEAL_II_WITH_64BIT_INDICES)
  set(PROTEAN_NO_DEALII "deal.II has 64-bit indices; columns here have 32")
elseif(NOT TARGET "${DEAL_II_TARGET_RELEASE}")
  set(PROTEAN_NO_DEALII "deal.II ${DEAL_II_PACKAGE_VERSION} has no optimised library")
else()
  set(DEALII_FOUND TRUE)
  add_library(protean_dealii INTERFACE)
  target_include_directories(protean_dealii SYSTEM INTERFACE ${DEAL_II_INCLUDE_DIRS})
  target_compile_definitions(protean_dealii INTERFACE ${DEAL_II_USER_DEFINITIONS} ${DEAL_II_USER_DEFINITIONS_RELEASE})
  target_link_libraries(protean_dealii INTERFACE ${DEAL_II_TARGET_RELEASE})
endif()
