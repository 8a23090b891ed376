// The solves that the benchmarks of CG compare: our own in several formats, and solves of other libraries.
#pragma once
#include <string>
#include <vector>

#include "benchmarks/peers/peers.hpp"
#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"

namespace protean::bench {

struct Contestant {
  CgSolve cg;
  bool ours = false;
  std::vector<double> samples = {};  // seconds
  double residual = 0;               // true, relative to b, after the first solve
  double least() const;
};

// Our solver in the named formats, the fastest product first; in csr and in the two formats with the fastest
// product when none is named. Formats that refuse the matrix are left out. Then the solvers of the other
// libraries in this build: MKL and Eigen with the threads of the context, PETSc with one (it has no threads). `peers`
// names the libraries (mkl, eigen, petsc); all when it is empty.
// The csr arrays must outlive the contestants.
std::vector<Contestant> cg_contestants(const ContextPtr& context, const CsrMatrix<double>& csr,
                                       const std::vector<std::string>& formats,
                                       const std::vector<std::string>& peers = {});

// Waits until the threads of the last contestant no longer spin. Those of GNU OpenMP spin for some milliseconds
// after a parallel region, on processors that the next contestant needs.
void let_threads_park();

}  // namespace protean::bench
