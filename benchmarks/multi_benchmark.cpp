// Products and solves with several vectors against as many single ones: how much is saved by reading the matrix once
// for k vectors. Each product is compared with the single ones before it is timed. Beside them MKL's and cuSPARSE's
// products with several vectors, where these are in the build. The times of a solve are those of one iteration of all
// columns, in solves of a fixed number of iterations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "benchmarks/clock.hpp"
#include "benchmarks/gpu_matrices.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/report.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "solvers/multi_solver.hpp"
#if defined(PROTEAN_HAVE_MKL)
#include <mkl.h>
#endif
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/state.hpp"
#endif

namespace protean::bench {
namespace {

constexpr const char* usage =
    R"(usage: multi_benchmark [--space host|device] [--threads N] [--share S] [--only MATRIX,...] [--formats ID,...]
                       [--counts 1,2,4,8,16] [--method cg|bicgstab|gmres] [--iterations K] [--seconds S] [--json FILE]
  --share       the matrices of gpu_spmv_benchmark with so many times the rows; 0.1 if not given
  --only        these matrices only (names as in the table)
  --formats     csr,sell-c-sigma,sell-packed,bcsr if not given
  --counts      numbers of vectors
  --method      of the solves, cg if not given; gmres restarts after 30 steps
  --iterations  of a solve, 30 if not given; 0: no solves
  --seconds     time for each figure, 0.3 if not given
)";

struct Options {
  std::string space = "host", method = "cg", json;
  int threads = 2, iterations = 30;
  double share = 0.1, seconds = 0.3;
  std::vector<std::string> only, formats = {"csr", "sell-c-sigma", "sell-packed", "bcsr"},
                                 counts = {"1", "2", "4", "8", "16"};
};

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  const bool read = read_options(argc, argv,
                                 {{"--space", &o.space},
                                  {"--threads", &o.threads},
                                  {"--share", &o.share},
                                  {"--only", &o.only},
                                  {"--formats", &o.formats},
                                  {"--counts", &o.counts},
                                  {"--method", &o.method},
                                  {"--iterations", &o.iterations},
                                  {"--seconds", &o.seconds},
                                  {"--json", &o.json}});
  if (!read || (o.space != "host" && o.space != "device")) return {};
  return o;
}

// Seconds of one call of work(), the median; enough calls at a time for the clock not to matter.
double time_of(const Context& context, double seconds, const std::function<void()>& work) {
  work();
  context.synchronize();
  auto begin = Clock::now();
  work();
  context.synchronize();
  const int count = std::clamp(static_cast<int>(2e-3 / std::max(1e-7, seconds_since(begin))), 1, 200);
  std::vector<double> samples;
  const auto start = Clock::now();
  do {
    begin = Clock::now();
    for (int i = 0; i < count; ++i) work();
    context.synchronize();
    samples.push_back(seconds_since(begin) / count);
  } while (seconds_since(start) < seconds || samples.size() < 5);
  return median(samples);
}

struct Vectors {
  Vectors(const ContextPtr& context, std::int64_t rows, std::int64_t k, VectorLayout layout)
      : multi(context, rows, k, layout) {}
  MultiVector<double> multi;
  double* data() { return multi.data(); }
};

// A product Y := A X of a library.
struct LibraryProduct {
  std::string name;
  VectorLayout layout;
  std::function<void(const double* x, double* y)> apply;
};

std::vector<LibraryProduct> library_products([[maybe_unused]] const ContextPtr& context,
                                             [[maybe_unused]] const CsrMatrix<double>& csr,
                                             [[maybe_unused]] std::int64_t k) {
  std::vector<LibraryProduct> list;
  if (!csr.pattern.row_ptr.p32) return list;
#if defined(PROTEAN_HAVE_MKL)
  if (context->space() == Space::host) {
    mkl_set_num_threads(context->threads());
    mkl_set_dynamic(0);
    for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns}) {
      sparse_matrix_t handle = nullptr;
      auto* const row_ptr = const_cast<MKL_INT*>(csr.pattern.row_ptr.p32);
      if (mkl_sparse_d_create_csr(&handle, SPARSE_INDEX_BASE_ZERO, static_cast<MKL_INT>(csr.rows()),
                                  static_cast<MKL_INT>(csr.cols()), row_ptr, row_ptr + 1,
                                  const_cast<MKL_INT*>(csr.pattern.col),
                                  const_cast<double*>(csr.values)) != SPARSE_STATUS_SUCCESS)
        throw Error("MKL: create_csr failed");
      const std::shared_ptr<sparse_matrix> owner(handle, [](sparse_matrix_t h) { mkl_sparse_destroy(h); });
      const matrix_descr description{SPARSE_MATRIX_TYPE_GENERAL, SPARSE_FILL_MODE_FULL, SPARSE_DIAG_NON_UNIT};
      const bool rows = layout == VectorLayout::interleaved;
      const sparse_layout_t order = rows ? SPARSE_LAYOUT_ROW_MAJOR : SPARSE_LAYOUT_COLUMN_MAJOR;
      const auto columns = static_cast<MKL_INT>(k);
      mkl_sparse_set_mm_hint(handle, SPARSE_OPERATION_NON_TRANSPOSE, description, order, columns, 1000);
      mkl_sparse_optimize(handle);
      const auto ldx = rows ? columns : static_cast<MKL_INT>(csr.cols());
      const auto ldy = rows ? columns : static_cast<MKL_INT>(csr.rows());
      list.push_back({"mkl csr", layout, [=](const double* x, double* y) {
                        mkl_sparse_d_mm(SPARSE_OPERATION_NON_TRANSPOSE, 1.0, owner.get(), description, order,
                                        x, columns, ldx, 0.0, y, ldy);
                      }});
    }
  }
#endif
#if defined(PROTEAN_HAVE_CUDA)
  if (context->space() == Space::device) {
    for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns}) {
      const cusparseHandle_t cusparse = device::cusparse(*context);
      const bool rows = layout == VectorLayout::interleaved;
      const cusparseOrder_t order = rows ? CUSPARSE_ORDER_ROW : CUSPARSE_ORDER_COL;
      cusparseSpMatDescr_t matrix = nullptr;
      device::check(
          cusparseCreateCsr(&matrix, csr.rows(), csr.cols(), csr.nonzeros(),
                            const_cast<std::int32_t*>(csr.pattern.row_ptr.p32),
                            const_cast<std::int32_t*>(csr.pattern.col), const_cast<double*>(csr.values),
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
          "cusparseCreateCsr");
      const std::shared_ptr<cusparseSpMatDescr> owner(
          matrix, [](cusparseSpMatDescr_t m) { (void)cusparseDestroySpMat(m); });
      const auto dense = [order, rows, k](std::int64_t n, double* data) {
        cusparseDnMatDescr_t made = nullptr;
        device::check(cusparseCreateDnMat(&made, n, k, rows ? k : n, data, CUDA_R_64F, order),
                      "cusparseCreateDnMat");
        return made;
      };
      const cusparseSpMMAlg_t algorithm = rows ? CUSPARSE_SPMM_CSR_ALG2 : CUSPARSE_SPMM_CSR_ALG1;
      // The descriptors of the vectors and the workspace, made in the first call.
      struct Ready {
        cusparseDnMatDescr_t x = nullptr, y = nullptr;
        Buffer<char> workspace;
        bool made = false;
      };
      const auto ready = std::make_shared<Ready>();
      const ContextPtr where = context;
      const std::int64_t n = csr.rows(), m = csr.cols();
      list.push_back(
          {"cusparse csr", layout, [=](const double* x, double* y) {
             // The handle reads scalars from device memory elsewhere.
             const double one = 1, zero = 0;
             device::check(cusparseSetPointerMode(cusparse, CUSPARSE_POINTER_MODE_HOST), "pointer mode");
             if (!ready->made) {
               ready->x = dense(m, const_cast<double*>(x)), ready->y = dense(n, y);
               std::size_t bytes = 0;
               device::check(cusparseSpMM_bufferSize(
                                 cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                 &one, owner.get(), ready->x, &zero, ready->y, CUDA_R_64F, algorithm, &bytes),
                             "cusparseSpMM_bufferSize");
               ready->workspace =
                   Buffer<char>(where, static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)));
               ready->made = true;
             }
             device::check(cusparseSpMM(cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                        CUSPARSE_OPERATION_NON_TRANSPOSE, &one, owner.get(), ready->x, &zero,
                                        ready->y, CUDA_R_64F, algorithm, ready->workspace.data()),
                           "cusparseSpMM");
             device::check(cusparseSetPointerMode(cusparse, CUSPARSE_POINTER_MODE_DEVICE), "pointer mode");
           }});
    }
  }
#endif
  return list;
}

const char* name_of(VectorLayout layout) {
  return layout == VectorLayout::columns ? "columns" : "interleaved";
}

class Table {
 public:
  Table(const Options& options, ContextPtr context) : options_(options), context_(std::move(context)) {}

  void add(const GpuMatrix& matrix) {
    const CsrMatrix<double> host = matrix.make(Context::host(options_.threads));
    const CsrMatrix<double> csr = context_->space() == Space::host ? host : upload(context_, host);
    fmt::print("\n{}: {} rows, {} entries\n{:24} {:>3} {:>12} {:>12} {:>12} {:>8} {:>12} {:>12} {:>8}\n",
               matrix.name, csr.rows(), csr.nonzeros(), "", "k", "k single", "interleaved", "columns", "gain",
               "k solves", "together", "gain");
    for (const std::string& count : options_.counts) {
      const std::int64_t k = std::stoll(count);
      for (const std::string& id : options_.formats) {
        std::unique_ptr<AssembledMatrix<double>> A;
        try {
          A = make_matrix(find_format(id), csr, context_);
        } catch (const FormatRefused& refused) {
          if (k == std::stoll(options_.counts.front())) fmt::print("{:24} {}\n", id, refused.what());
          continue;
        }
        run(matrix.name, *A, k, csr.rows() == csr.cols());
      }
      for (const LibraryProduct& product : library_products(context_, csr, k)) {
        Vectors x(context_, csr.cols(), k, product.layout), y(context_, csr.rows(), k, product.layout);
        fill<double>(*context_, 1.0, {x.data(), csr.cols() * k, context_->space()});
        const double seconds =
            time_of(*context_, options_.seconds, [&] { product.apply(x.data(), y.data()); });
        fmt::print("{:24} {:3} {:12} {:12.3f} {}\n", product.name, k, "", seconds * 1e3,
                   name_of(product.layout));
        results_.push_back({{"matrix", matrix.name},
                            {"format", product.name},
                            {"k", k},
                            {"layout", name_of(product.layout)},
                            {"product_seconds", seconds}});
      }
      std::fflush(stdout);
    }
  }

  nlohmann::json results() const { return results_; }

 private:
  void run(const std::string& matrix, const AssembledMatrix<double>& A, std::int64_t k, bool square) {
    const Context& c = *context_;
    std::vector<double> numbers(static_cast<std::size_t>(A.cols() * k));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>(i * 2654435761u % 1000) / 1000;
    Vectors x(context_, A.cols(), k, VectorLayout::columns), y(context_, A.rows(), k, VectorLayout::columns);
    copy<double>(c, {numbers.data(), std::ssize(numbers)}, {x.data(), std::ssize(numbers), c.space()});
    const double single = time_of(c, options_.seconds, [&] {
      for (std::int64_t j = 0; j < k; ++j) A.apply(x.multi.view().column(j), y.multi.view().column(j));
    });
    std::vector<double> expected(static_cast<std::size_t>(A.rows() * k)), found(expected.size());
    copy<double>(c, {y.data(), std::ssize(expected), c.space()}, {expected.data(), std::ssize(expected)});
    double seconds[2] = {};
    for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns}) {
      Vectors in(context_, A.cols(), k, layout), out(context_, A.rows(), k, layout),
          back(context_, A.rows(), k, VectorLayout::columns);
      std::vector<ColumnPair> all;
      for (std::int32_t j = 0; j < k; ++j) all.push_back({j, j});
      copy_columns<double>(c, x.multi, in.multi, all);
      seconds[layout == VectorLayout::columns] =
          time_of(c, options_.seconds, [&] { multi_apply<double>(A, in.multi, out.multi); });
      copy_columns<double>(c, out.multi, back.multi, all);
      copy<double>(c, {back.data(), std::ssize(found), c.space()}, {found.data(), std::ssize(found)});
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        largest = std::max(largest, std::abs(expected[i])),
        difference = std::max(difference, std::abs(expected[i] - found[i]));
      if (!(difference <= 1e-12 * largest)) {
        fmt::print("{:24} {:3} WRONG product ({}): relative difference {:.1e}\n", A.name(), k,
                   name_of(layout), difference / largest);
        return;
      }
    }
    const auto [solves, together] = square && options_.iterations > 0 ? iterations(A, y, k) : Iterations{};
    fmt::print("{:24} {:3} {:12.3f} {:12.3f} {:12.3f} {:8.2f} {:12.3f} {:12.3f} {:8.2f}\n", A.name(), k,
               single * 1e3, seconds[0] * 1e3, seconds[1] * 1e3, single / seconds[0], solves * 1e3,
               together * 1e3, together > 0 ? solves / together : 0);
    results_.push_back({{"matrix", matrix},
                        {"format", A.name()},
                        {"k", k},
                        {"product", column_by_column<double>(A).empty() ? "in one pass" : "column by column"},
                        {"single_seconds", single},
                        {"interleaved_seconds", seconds[0]},
                        {"columns_seconds", seconds[1]},
                        {"single_iteration_seconds", solves},
                        {"multi_iteration_seconds", together}});
  }

  // Seconds of an iteration of all columns in k solves and in one; 0 where a solve ends early.
  struct Iterations {
    double single = 0, together = 0;
  };
  Iterations iterations(const AssembledMatrix<double>& A, Vectors& b, std::int64_t k) const {
    const Context& c = *context_;
    SolverOptions how;
    how.stopping.relative_tolerance = 0, how.stopping.max_iterations = options_.iterations,
    how.stopping.divergence = 1e300;
    const auto one = make_solver<double>(options_.method, how);
    MultiSolver<double> several(options_.method, how);
    Vectors x(context_, A.rows(), k, VectorLayout::columns);
    StopReason reason = StopReason::max_iterations;
    const auto look_at = [&](const SolveReport& report) {
      if (report.reason != StopReason::max_iterations) reason = report.reason;
    };
    const auto time = [&](const std::function<void()>& solve) {
      return time_of(c, options_.seconds,
                     [&] {
                       fill<double>(c, 0.0, {x.data(), A.rows() * k, c.space()});
                       solve();
                     }) /
             options_.iterations;
    };
    const Iterations found{time([&] {
                             for (std::int64_t j = 0; j < k; ++j)
                               look_at(one->solve(A, b.multi.view().column(j), x.multi.view().column(j)));
                           }),
                           time([&] {
                             for (const SolveReport& column : several.solve(A, b.multi, x.multi).columns)
                               look_at(column);
                           })};
    if (reason == StopReason::max_iterations) return found;
    fmt::print("{:24} {:3} solves end early: {}\n", A.name(), k, to_string(reason));
    return {};
  }

  const Options& options_;
  const ContextPtr context_;
  nlohmann::json results_ = nlohmann::json::array();
};

int run(const Options& options) {
  const ContextPtr context = options.space == "device" ? Context::device() : Context::host(options.threads);
  fmt::print(
      "milliseconds: of k products one after another, of one product with k vectors (interleaved, by "
      "columns), and of an "
      "iteration of k solves of {} one after another and together\n",
      options.method);
  Table table(options, context);
  for (const GpuMatrix& matrix : gpu_matrices(options.share))
    if (wanted(options.only, matrix.name)) table.add(matrix);
  if (!options.json.empty())
    write_json(options.json, {{"machine", machine(options.threads)},
                              {"space", options.space},
                              {"share", options.share},
                              {"method", options.method},
                              {"results", table.results()}});
  return 0;
}

}  // namespace
}  // namespace protean::bench

int main(int argc, char** argv) {
  using namespace protean::bench;
  return run_program(usage, parse(argc, argv), run);
}
