# cmake -DPROTEAN_SOURCE=... -DARCHITECTURES=... -P: runs the check of CUDA architectures alone.
cmake_minimum_required(VERSION 3.22)
set(CMAKE_CUDA_ARCHITECTURES_NATIVE ${NATIVE})
set(CMAKE_CUDA_ARCHITECTURES_ALL 50 60 75 90)
include(${PROTEAN_SOURCE}/cmake/ProteanCudaArchitectures.cmake)
protean_check_cuda_architectures(${ARCHITECTURES})
