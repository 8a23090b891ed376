#include <cstdint>
#include <memory>

#include "benchmarks/peers/peers.hpp"

namespace protean::bench {
namespace {

// The textbook loop with its vector operations fused as far as they go: after the product one pass for p . q,
// one for x, r and both sums, one for p.
class FusedCg {
 public:
  FusedCg(Product product, const CsrMatrix<double>& A, int threads)
      : product_(std::move(product)), n_(A.rows()), threads_(threads), d_(n_), r_(n_), p_(n_), q_(n_) {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
        if (A.pattern.col[k] == i) d_[i] = 1 / A.values[k];
  }

  void solve(const double* b, double* x, int iterations) {
    const double* const d = d_.data();
    double *const r = r_.data(), *const p = p_.data(), *const q = q_.data();
    double rz = 0;
#pragma omp parallel for simd num_threads(threads_) reduction(+ : rz)
    for (std::int64_t i = 0; i < n_; ++i) {
      x[i] = 0, r[i] = b[i], p[i] = d[i] * b[i];
      rz += r[i] * p[i];
    }
    for (int k = 0; k < iterations; ++k) {
      product_.apply(p, q);
      double pq = 0, rr = 0, rz_next = 0;
#pragma omp parallel for simd num_threads(threads_) reduction(+ : pq)
      for (std::int64_t i = 0; i < n_; ++i) pq += p[i] * q[i];
      const double alpha = rz / pq;
#pragma omp parallel for simd num_threads(threads_) reduction(+ : rr, rz_next)
      for (std::int64_t i = 0; i < n_; ++i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
        rr += r[i] * r[i];
        rz_next += r[i] * d[i] * r[i];
      }
      const double beta = rz_next / rz;
      rz = rz_next;
      // The stopping test of a real solve.
      if (!(rr > 0)) break;
#pragma omp parallel for simd num_threads(threads_)
      for (std::int64_t i = 0; i < n_; ++i) p[i] = d[i] * r[i] + beta * p[i];
    }
  }

 private:
  Product product_;
  std::int64_t n_;
  int threads_;
  std::vector<double> d_, r_, p_, q_;
};

}  // namespace

std::vector<CgSolve> mkl_cg(const CsrMatrix<double>& matrix, int threads) {
  const Peer peer = mkl();
  std::vector<CgSolve> list;
  if (peer.products)
    for (Product& product : peer.products(matrix, true, threads)) {
      const std::string name = product.name + ", by hand";
      auto cg = std::make_shared<FusedCg>(std::move(product), matrix, threads);
      list.push_back(
          {name, [cg](const double* b, double* x, int iterations) { cg->solve(b, x, iterations); }});
    }
  return list;
}

}  // namespace protean::bench
