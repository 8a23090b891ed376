#include "benchmarks/peers/peers.hpp"

#if defined(PROTEAN_HAVE_MKL)
#include <fmt/format.h>
#include <mkl.h>

#include <memory>
#include <stdexcept>

#include "benchmarks/common/clock.hpp"

namespace protean::bench {
namespace {

void require_success(sparse_status_t status, const char* what) {
  if (status != SPARSE_STATUS_SUCCESS)
    throw std::runtime_error(fmt::format("MKL: {} failed with status {}", what, static_cast<int>(status)));
}

std::vector<Product> products(const CsrMatrix<double>& csr, bool, int threads) {
  const auto& p = csr.pattern;
  if (!p.row_ptr.p32) return {};
  mkl_set_num_threads(threads);
  mkl_set_dynamic(0);
  const auto start = Clock::now();
  sparse_matrix_t handle = nullptr;
  auto* row_ptr = const_cast<MKL_INT*>(p.row_ptr.p32);
  require_success(mkl_sparse_d_create_csr(&handle, SPARSE_INDEX_BASE_ZERO, static_cast<MKL_INT>(p.rows),
                                          static_cast<MKL_INT>(p.cols), row_ptr, row_ptr + 1,
                                          const_cast<MKL_INT*>(p.col), const_cast<double*>(csr.values)),
                  "create_csr");
  const std::shared_ptr<sparse_matrix> owner(handle, [](sparse_matrix_t h) { mkl_sparse_destroy(h); });
  const matrix_descr description{SPARSE_MATRIX_TYPE_GENERAL, SPARSE_FILL_MODE_FULL, SPARSE_DIAG_NON_UNIT};
  require_success(mkl_sparse_set_mv_hint(handle, SPARSE_OPERATION_NON_TRANSPOSE, description, 1000),
                  "set_mv_hint");
  require_success(mkl_sparse_optimize(handle), "optimize");
  const double seconds = seconds_since(start);
  return {{"mkl csr",
           [owner, description](const double* x, double* y) {
             require_success(
                 mkl_sparse_d_mv(SPARSE_OPERATION_NON_TRANSPOSE, 1.0, owner.get(), description, x, 0.0, y),
                 "mv");
           },
           seconds}};
}

}  // namespace

Peer mkl() {
  mkl_set_threading_layer(MKL_THREADING_GNU);
  MKLVersion version;
  mkl_get_version(&version);
  return {"MKL", fmt::format("{}.{}.{}", version.MajorVersion, version.MinorVersion, version.UpdateVersion),
          products};
}

}  // namespace protean::bench
#else
protean::bench::Peer protean::bench::mkl() { return {"MKL", "", nullptr}; }
#endif
