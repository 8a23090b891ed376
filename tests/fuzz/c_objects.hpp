// Contexts, matrices and solvers of protean.h that a sequence of calls makes and frees, what is promised of each call,
// and functions of the caller.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "fuzz/c_words.hpp"
#include "fuzz/target.hpp"
#include "interfaces/c/protean.h"

namespace protean::fuzz {

class Objects;

// The arrays of a matrix, of exactly the lengths that are stated.
struct Arrays {
  std::vector<std::int32_t> row_ptr, col;
  std::vector<std::int64_t> row_ptr64, constrained;
  std::vector<double> values;
  std::vector<float> values32;
};

struct Matrix {
  protean_matrix* handle = nullptr;
  bool single = false, csr = false;
  std::int64_t rows = 0, cols = 0;
  std::vector<std::unique_ptr<Arrays>> arrays;  // arrays of new values, too
  std::size_t values = 0;                       // so many are needed
  int busy = 0;                                 // calls that are running with it
};
struct Solver {
  protean_solver* handle = nullptr;
  int busy = 0;
  bool monitored = false;
};

// What a function of the caller knows.
struct Caller {
  Objects* objects;
  std::int64_t rows, cols;
};

class Objects {
 public:
  explicit Objects(Bytes input) : in_(input) {}
  virtual ~Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  // Called by functions of the caller: a call or two in the middle of a solve or a product.
  virtual int interlude() = 0;

 protected:
  // The last thing that a sequence does: functions of the caller may be called until then.
  void free_all() {
    for (Solver& one : solvers_) protean_solver_free(one.handle);
    for (Matrix& one : matrices_) protean_matrix_free(one.handle);
    for (protean_context* one : contexts_) protean_context_free(one);
  }

  // --- what is promised of each call ---
  protean_status checked(protean_status status) {
    if (status < PROTEAN_OK || status > PROTEAN_CALLBACK_FAILED || status == PROTEAN_DEVICE_ERROR)
      broken("a status that cannot be");
    if (status == PROTEAN_INTERNAL_ERROR) broken(protean_last_error());
    if (status != PROTEAN_OK && std::strlen(protean_last_error()) < 10) broken("a failure without a reason");
    if (std::strcmp(protean_status_name(status), "unknown") == 0) broken("a status without a name");
    return status;
  }
  // A call that makes a handle writes it where it succeeds, and only there.
  template <class Handle, class Make>
  Handle* made(Make&& make) {
    Handle* const untouched = reinterpret_cast<Handle*>(std::uintptr_t{0x40});
    Handle* handle = untouched;
    const protean_status status = checked(make(&handle));
    if ((status == PROTEAN_OK) == (handle == untouched))
      broken("a handle after a failure, or none after a success");
    return status == PROTEAN_OK ? handle : nullptr;
  }

  void make_context(std::size_t at) {
    if (contexts_[at]) return;
    constexpr std::array<const char*, 6> options = {nullptr,
                                                    nullptr,
                                                    "deterministic",
                                                    "vector_kernels=native",
                                                    "x",
                                                    "deterministic,vector_kernels=native"};
    const char* const option = options[in_.below(options.size())];
    const unsigned b = in_.byte();
    // One thread each: a run must not depend on when threads are woken. Others are refused numbers.
    contexts_[at] = made<protean_context>([&](protean_context** to) {
      if (b == 255) return protean_context_make(nullptr, 1, option, to);
      if (b == 254) return protean_context_make("space", 1, option, to);
      if (b == 253) return protean_context_host(-1, to);
      if (b == 252) return protean_context_make("host", std::numeric_limits<int>::max(), option, to);
      return protean_context_make("host", 1, option, to);
    });
    checked_null(b);
  }
  void checked_null(unsigned b) {
    if (b != 251) return;
    if (protean_context_host(1, nullptr) != PROTEAN_BAD_ARGUMENT) broken("a null pointer is taken");
  }
  void free_context(std::size_t at) {
    protean_context_free(contexts_[at]);
    contexts_[at] = nullptr;
  }
  protean_context* context() { return contexts_[in_.below(contexts_.size())]; }

  void make_matrix(Matrix& matrix) {
    if (matrix.handle) return;
    matrix = {};
    switch (in_.below(8)) {
      case 0:
        return make_elements(matrix);
      case 1:
        return make_callback(matrix);
      default:
        return make_csr(matrix);
    }
  }

  void make_csr(Matrix& matrix) {
    const unsigned kind = in_.byte();
    const bool single = (kind & 1) != 0, wide = (kind & 2) != 0, square = (kind & 12) != 0;
    const int base = (kind >> 4) & 1;
    const bool symmetric = (kind & 32) != 0;
    auto arrays = std::make_unique<Arrays>();
    std::int64_t rows = in_.below(most_rows + 1), cols = square ? rows : in_.below(most_rows + 1);
    arrays->row_ptr.push_back(base);
    for (std::int64_t r = 0; r < rows; ++r) {
      // Bits of columns; the diagonal is always there in most matrices.
      unsigned bits = in_.byte() | in_.byte() << 8;
      if (symmetric && square) bits = 7u << (r > 0 ? r - 1 : 0);
      if ((kind & 64) == 0) bits |= 1u << r;
      for (std::int64_t c = 0; c < cols; ++c)
        if ((bits >> c & 1) != 0) {
          arrays->col.push_back(static_cast<std::int32_t>(c) + base);
          arrays->values.push_back(symmetric ? (r == c ? 4.0 : -1.0) : value(in_));
        }
      arrays->row_ptr.push_back(static_cast<std::int32_t>(arrays->col.size()) + base);
    }
    std::int64_t nonzeros = static_cast<std::int64_t>(arrays->col.size());
    // A mistake now and then. Sizes never state more than there is, but where a check comes before the first read.
    int index_base = base;
    switch (in_.below(32)) {
      case 0:
        arrays->row_ptr[in_.below(static_cast<unsigned>(rows) + 1)] =
            static_cast<std::int32_t>(nonsense(in_));
        break;
      case 1:
        if (nonzeros > 0)
          arrays->col[in_.byte() % static_cast<std::size_t>(nonzeros)] =
              static_cast<std::int32_t>(nonsense(in_));
        break;
      case 2:
        rows = std::min(nonsense(in_), std::int64_t{0});
        break;
      case 3:
        cols = nonsense(in_);
        break;
      case 4:
        nonzeros = nonsense(in_);
        break;
      case 5:
        index_base = static_cast<int>(nonsense(in_));
        break;
      case 6:
        rows = std::int64_t{1} << 31;
        break;
      case 7:
        if (nonzeros > 1) std::swap(arrays->col[0], arrays->col[1]);
        break;
      default:
        break;
    }
    arrays->row_ptr64.assign(arrays->row_ptr.begin(), arrays->row_ptr.end());
    arrays->values32.assign(arrays->values.begin(), arrays->values.end());
    const bool null_values = in_.rarely();
    const Arrays& a = *arrays;
    protean_context* const where = context();
    matrix.handle = made<protean_matrix>([&](protean_matrix** to) {
      const double* const v = null_values ? nullptr : a.values.data();
      const float* const v32 = null_values ? nullptr : a.values32.data();
      if (single)
        return wide ? protean_matrix_csr64_f32(where, rows, cols, nonzeros, a.row_ptr64.data(), a.col.data(),
                                               v32, index_base, to)
                    : protean_matrix_csr_f32(where, rows, cols, nonzeros, a.row_ptr.data(), a.col.data(), v32,
                                             index_base, to);
      return wide ? protean_matrix_csr64(where, rows, cols, nonzeros, a.row_ptr64.data(), a.col.data(), v,
                                         index_base, to)
                  : protean_matrix_csr(where, rows, cols, nonzeros, a.row_ptr.data(), a.col.data(), v,
                                       index_base, to);
    });
    matrix.single = single, matrix.csr = true;
    finish(matrix, std::move(arrays), rows, cols,
           static_cast<std::size_t>(std::max<std::int64_t>(nonzeros, 0)));
  }

  void finish(Matrix& matrix, std::unique_ptr<Arrays> arrays, std::int64_t rows, std::int64_t cols,
              std::size_t values) {
    if (!matrix.handle) return;
    if (protean_matrix_rows(matrix.handle) != rows || protean_matrix_cols(matrix.handle) != cols)
      broken("a matrix of other sizes");
    // Few entries in a billion columns are a matrix, but vectors for it would take minutes.
    if (std::max(rows, cols) > 1000) {
      protean_matrix_free(matrix.handle);
      matrix = {};
      return;
    }
    matrix.rows = rows, matrix.cols = cols, matrix.values = values;
    matrix.arrays.push_back(std::move(arrays));
  }

  void make_elements(Matrix& matrix) {
    auto arrays = std::make_unique<Arrays>();
    const bool single = in_.below(2) != 0, symmetric = in_.below(2) != 0;
    const int base = static_cast<int>(in_.below(2));
    std::int64_t nodes = 1 + in_.below(8), elements = in_.below(5);
    int components = 1 + static_cast<int>(in_.below(2)), of_element = 1 + static_cast<int>(in_.below(3));
    for (std::int64_t k = 0; k < elements * of_element; ++k)
      arrays->col.push_back(static_cast<std::int32_t>((k + in_.below(2)) % nodes) + base);
    const int m = of_element * components;
    for (std::int64_t e = 0; e < elements; ++e)
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < m; ++j) arrays->values.push_back(i == j ? 2 : symmetric ? -0.5 : value(in_));
    if (in_.below(2) != 0) arrays->constrained.push_back(in_.below(4) + base);
    int index_base = base;
    constexpr std::array<const char*, 6> variants = {nullptr,    "automatic", "atomic",
                                                     "coloured", "gather",    "?"};
    const char* const variant = variants[in_.below(variants.size())];
    std::int64_t count = static_cast<std::int64_t>(arrays->constrained.size());
    switch (in_.below(32)) {
      case 0:
        if (!arrays->col.empty())
          arrays->col[in_.byte() % arrays->col.size()] = static_cast<std::int32_t>(nonsense(in_));
        break;
      case 1:
        nodes = nonsense(in_);
        break;
      case 2:
        components = static_cast<int>(std::min<std::int64_t>(nonsense(in_), 0));
        break;
      case 3:
        elements = std::min<std::int64_t>(nonsense(in_), 0);
        break;
      case 4:
        of_element = static_cast<int>(std::min<std::int64_t>(nonsense(in_), 0));
        break;
      case 5:
        if (count > 0) arrays->constrained[0] = nonsense(in_);
        break;
      case 6:
        count = std::min<std::int64_t>(nonsense(in_), count);
        break;
      case 7:
        index_base = static_cast<int>(nonsense(in_));
        break;
      case 8:
        if (nodes < 1000) elements = std::numeric_limits<std::int64_t>::max();
        break;
      default:
        break;
    }
    // What is refused before memory is taken; a number that fits would be an operator of gigabytes.
    if (nodes > 1000 && nodes <= std::numeric_limits<std::int32_t>::max()) return;
    arrays->values32.assign(arrays->values.begin(), arrays->values.end());
    const Arrays& a = *arrays;
    protean_context* const where = context();
    matrix.handle = made<protean_matrix>([&](protean_matrix** to) {
      return single ? protean_matrix_elements_f32(where, nodes, components, elements, of_element,
                                                  a.col.data(), a.values32.data(), index_base,
                                                  a.constrained.data(), count, symmetric, variant, to)
                    : protean_matrix_elements(where, nodes, components, elements, of_element, a.col.data(),
                                              a.values.data(), index_base, a.constrained.data(), count,
                                              symmetric, variant, to);
    });
    matrix.single = single;
    if (!matrix.handle) return;
    const std::int64_t size = nodes * components;
    const std::size_t values = a.values.size();
    finish(matrix, std::move(arrays), size, size, values);
  }

  // --- functions of the caller ---
  template <class T>
  static int product(void* user, const T* x, T* y, void*) {
    const auto& caller = *static_cast<Caller*>(user);
    for (std::int64_t i = 0; i < caller.rows; ++i) {
      y[i] = 0;
      for (std::int64_t j = std::max<std::int64_t>(0, i - 1); j < std::min(caller.cols, i + 2); ++j)
        y[i] += (i == j ? T(4) : T(-1)) * x[j];
    }
    return caller.objects->interlude();
  }
  template <class T>
  static int diagonal(void* user, T* d, void*) {
    const auto& caller = *static_cast<Caller*>(user);
    std::fill_n(d, std::min(caller.rows, caller.cols), T(4));
    return caller.objects->interlude();
  }
  // z := r, of as many entries as the matrix of the solve has rows.
  template <class T>
  static int precondition(void* user, const T* r, T* z, void*) {
    const auto& caller = *static_cast<Caller*>(user);
    std::copy_n(r, caller.objects->solved_rows_, z);
    return caller.objects->interlude();
  }
  static int setup(void* user, int) { return static_cast<Caller*>(user)->objects->interlude(); }
  static int monitor(void* user, const protean_iteration* now) {
    if (now->iteration < 0 || std::strlen(now->format) == 0 || std::strlen(now->order) == 0)
      broken("an iteration without a number, a format or an order");
    return static_cast<Caller*>(user)->objects->interlude();
  }
  Caller* caller(std::int64_t rows, std::int64_t cols) {
    callers_.push_back(std::make_unique<Caller>(Caller{this, rows, cols}));
    return callers_.back().get();
  }

  void make_callback(Matrix& matrix) {
    const bool single = in_.below(2) != 0, has_diagonal = in_.below(2) != 0;
    std::int64_t rows = in_.below(most_rows + 1), cols = in_.below(4) == 0 ? in_.below(most_rows + 1) : rows;
    const unsigned b = in_.byte();
    if (b >= 252) rows = std::min<std::int64_t>(nonsense(in_), -1);
    const char* const called = b == 250 ? nullptr : "product of the test";
    void* const user = caller(rows, cols);
    protean_context* const where = context();
    matrix.handle = made<protean_matrix>([&](protean_matrix** to) {
      return single
                 ? protean_matrix_callback_f32(where, rows, cols, called, b == 251 ? nullptr : product<float>,
                                               has_diagonal ? diagonal<float> : nullptr, user, 0, to)
                 : protean_matrix_callback(where, rows, cols, called, b == 251 ? nullptr : product<double>,
                                           has_diagonal ? diagonal<double> : nullptr, user, 0, to);
    });
    matrix.single = single;
    finish(matrix, std::make_unique<Arrays>(), rows, cols, 0);
  }

  // While it is in use it stays.
  void free_matrix(Matrix& matrix) {
    protean_matrix_free(matrix.handle);
    if (matrix.busy > 0) {
      if (!std::strstr(protean_last_error(), "not freed"))
        broken("a matrix in use was freed, or nothing was said");
      return;
    }
    matrix = {};
  }
  void free_solver(Solver& solver) {
    protean_solver_free(solver.handle);
    if (solver.busy > 0) {
      if (!std::strstr(protean_last_error(), "not freed"))
        broken("a solver in use was freed, or nothing was said");
      return;
    }
    solver = {};
  }

  void make_solver(Solver& solver) {
    if (solver.handle) return;
    solver = {};
    const char* const method = name(in_, PROTEAN_KIND_METHOD);
    const char* const preconditioner = in_.below(2) == 0 ? nullptr : name(in_, PROTEAN_KIND_PRECONDITIONER);
    solver.handle = made<protean_solver>(
        [&](protean_solver** to) { return protean_solver_create(method, preconditioner, to); });
    if (solver.handle && protean_solver_set(solver.handle, "max_iterations", 6) != PROTEAN_OK)
      broken("max_iterations cannot be set");
  }

  Reader in_;
  std::array<protean_context*, 2> contexts_{};
  std::array<Matrix, 3> matrices_;
  std::array<Solver, 3> solvers_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::int64_t solved_rows_ = 0;  // of the solve that is running
};

}  // namespace protean::fuzz
