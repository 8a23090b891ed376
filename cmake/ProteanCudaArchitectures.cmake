# protean_check_cuda_architectures(<list>): ends the configuration with a message if CUDA kernels would be compiled for
# a GPU before sm_75. CUDA 13 compiles for sm_75 and later; earlier ones are not tested. The words native, all and
# all-major are replaced by the architectures that CMake found for them.
set(PROTEAN_OLDEST_CUDA_ARCHITECTURE 75)
function(protean_check_cuda_architectures)
  set(architectures ${ARGN})
  if(architectures STREQUAL "native")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
  elseif(architectures STREQUAL "all")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_ALL})
  elseif(architectures STREQUAL "all-major")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_ALL_MAJOR})
  endif()
  foreach(architecture IN LISTS architectures)
    # 90a-real: number, suffix, kind of code
    if(architecture MATCHES "^([0-9]+)[a-z]?(-real|-virtual)?$" AND CMAKE_MATCH_1 LESS PROTEAN_OLDEST_CUDA_ARCHITECTURE)
      message(FATAL_ERROR "CUDA architecture ${architecture}: Protean's kernels need a GPU of architecture "
        "${PROTEAN_OLDEST_CUDA_ARCHITECTURE} (Turing, 2018) or later. Set CMAKE_CUDA_ARCHITECTURES to "
        "${PROTEAN_OLDEST_CUDA_ARCHITECTURE} or more, or build without CUDA: -DPROTEAN_CUDA=OFF")
    endif()
  endforeach()
endfunction()
