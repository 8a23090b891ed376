// Device code of a user's program, and its faults. In CUDA builds only.
#pragma once
#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace protean::test {

// y := A x of poisson-2d on m x m points; d := its diagonal; z := r / 4.
void queue_stencil(std::int64_t m, const double* x, double* y, CUstream_st* stream);
void queue_fill(std::int64_t n, double value, double* d, CUstream_st* stream);
void queue_scaled(std::int64_t n, double factor, const double* r, double* z, CUstream_st* stream);
// A launch that every GPU refuses; a kernel that writes to an invalid address, which ends the CUDA context; a
// wait for the stream.
void queue_impossible(CUstream_st* stream);
void queue_poison(CUstream_st* stream);
void wait_for(CUstream_st* stream);
// Waits for all work of the current GPU. False if the GPU refused, as it does while a graph is recorded.
bool wait_for_device();

// The GPU that is the calling thread's current one, as a program that uses CUDA itself sets it.
int current_gpu();
void set_current_gpu(int ordinal);

// Device memory that is not from a Buffer.
enum class Kind { pinned, managed, plain };  // plain: cudaMalloc's
void* take(Kind kind, std::size_t bytes);
void give_back(Kind kind, void* memory);

}  // namespace protean::test
