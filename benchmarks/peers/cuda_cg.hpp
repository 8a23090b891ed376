// Jacobi-CG as a skilled user writes it today: cuSPARSE CSR product (preprocessed), cuBLAS vectors with
// scalars on the device, all of it in a CUDA graph. CUDA builds only.
#pragma once
#include "core/csr.hpp"

namespace protean::bench {

struct CudaCgTimes {
  double graph_us = 0;   // an iteration, replayed in a graph of ten
  double stream_us = 0;  // an iteration, launched call by call
  double residual = 0;   // ||r|| / ||b|| after the iterations
};

// `iterations` iterations on A x = b with b = ones, from zero. diagonal: device memory. dot for the norm,
// since cublasDnrm2 is slower. Microseconds are medians of `repeats` solves.
CudaCgTimes cuda_cg(const Context& context, const CsrMatrix<double>& device_matrix,
                    const double* inverse_diagonal, int iterations, int repeats);

// Device-to-device copy of 1 GiB, bytes read and written a second.
double copy_bandwidth(const Context& context);

}  // namespace protean::bench
