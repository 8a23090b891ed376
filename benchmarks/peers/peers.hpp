// Products of other libraries, each as its users would get the best from it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/csr.hpp"

namespace protean::bench {

// y := A x. Owns what it needs; the CSR arrays it was made from must outlive it.
struct Product {
  std::string name;
  std::function<void(const double* x, double* y)> apply;
  double setup_seconds = 0;
};

// The products of one library for this matrix.
struct Peer {
  std::string library, version;  // version is empty when the library is not in this build
  std::vector<Product> (*products)(const CsrMatrix<double>& matrix, bool symmetric, int threads);
};

// Row-major sparse matrix, its own OpenMP loop.
Peer eigen();
// Inspector-executor CSR with a hint of 1000 products, optimised; GNU threads, so that all share one pool.
Peer mkl();
// Sequential AIJ and SELL, and SBAIJ for symmetric matrices; one rank, hence one thread.
Peer petsc();

// Jacobi-CG of another library (or written by hand on its product) for one matrix. solve() does exactly this
// many iterations from x = 0 and leaves x; what is made once for a matrix is made in advance.
struct CgSolve {
  std::string name;
  std::function<void(const double* b, double* x, int iterations)> solve;
};
// Empty when the library is not in this build.
std::vector<CgSolve> eigen_cg(const CsrMatrix<double>& matrix, int threads);
// mkl().products() must work; vector operations are fused OpenMP loops over plain arrays, as a skilled user
// writes them.
std::vector<CgSolve> mkl_cg(const CsrMatrix<double>& matrix, int threads);
// KSPCG with PCJACOBI on AIJ, SELL and SBAIJ; one rank.
std::vector<CgSolve> petsc_cg(const CsrMatrix<double>& matrix);

}  // namespace protean::bench
