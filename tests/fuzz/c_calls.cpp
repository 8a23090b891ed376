// Sequences of calls of protean.h: objects made, used and freed in any order, nonsense numbers and texts, null
// pointers, and calls from functions of the caller while a solve runs. The input is read byte by byte as what to do
// next.
//
// The rules of protean.h are kept: arrays have the lengths that the caller states and live as long as the matrix, and
// each handle is used by one thread. What is promised:
//   - a call that fails gives a reason, changes nothing, and is no internal error;
//   - what is in use is not freed;
//   - nothing outside of the caller's arrays is read or written (the sanitizer's business);
//   - all memory of the library is given back.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "fuzz/mutate.hpp"
#include "interfaces/c/protean.h"

namespace protean::fuzz {
namespace {

class Sequence;

// What the next bytes mean; zeros behind the end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  bool ended() const { return at_ >= bytes_.size(); }
  unsigned byte() { return ended() ? 0 : static_cast<unsigned char>(bytes_[at_++]); }
  unsigned below(unsigned count) { return byte() % count; }
  bool rarely() { return byte() >= 240; }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

constexpr std::int64_t most_rows = 12;

std::int64_t nonsense(Reader& in) {
  constexpr std::array<std::int64_t, 14> numbers = {-1,
                                                    0,
                                                    1,
                                                    2,
                                                    7,
                                                    std::numeric_limits<std::int32_t>::max(),
                                                    std::int64_t{1} << 31,
                                                    std::numeric_limits<std::int64_t>::max(),
                                                    std::numeric_limits<std::int64_t>::min(),
                                                    std::int64_t{1} << 40,
                                                    std::int64_t{1} << 61,
                                                    -(std::int64_t{1} << 33),
                                                    std::numeric_limits<std::int32_t>::min(),
                                                    1000000};
  return numbers[in.below(numbers.size())];
}
double nonsense_number(Reader& in) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 14> numbers = {0,     1,    -1,  2,   0.5,      1e-8,    3,
                                              1e300, -inf, inf, NAN, 4.9e-324, 1.7e308, 2147483648.0};
  return numbers[in.below(numbers.size())];
}
double value(Reader& in) {
  const unsigned b = in.byte();
  if (b >= 252) return nonsense_number(in);
  return (static_cast<double>(b) - 100) / 8;
}

// All names of a kind, which are constants: asked for once.
const std::vector<const char*>& names_of(protean_kind kind) {
  static std::map<protean_kind, std::vector<const char*>> known;
  std::vector<const char*>& names = known[kind];
  if (names.empty())
    while (const char* const one = protean_name(kind, static_cast<std::int64_t>(names.size())))
      names.push_back(one);
  return names;
}

// A name that the library knows, or none, or another text.
const char* name(Reader& in, protean_kind kind) {
  static const std::string long_text(300, 'x');
  const unsigned b = in.byte();
  if (b >= 250) return nullptr;
  if (b >= 245)
    return b == 245   ? ""
           : b == 246 ? "auto"
           : b == 247 ? "\n=,%s{}"
           : b == 248 ? long_text.c_str()
                      : "element";
  const std::vector<const char*>& names = names_of(kind);
  return names[(b + 7 * in.byte()) % names.size()];
}
const char* parameters(Reader& in) {
  constexpr std::array<const char*, 18> texts = {
      nullptr,       nullptr,        nullptr,         "",
      "C=8,sigma=1", "C=4",          "rows=2,cols=2", "max_fill=1000000",
      "T=measured",  "C=0",          "C=-1",          "C=99999999999999999999",
      "=",           "a=b",          "rows",          ",,",
      "parts=csr",   "tile=1,work=1"};
  return texts[in.below(texts.size())];
}
const char* kernel(Reader& in) {
  constexpr std::array<const char*, 6> texts = {nullptr, nullptr, nullptr, "native", "naive", "mkl"};
  return texts[in.below(texts.size())];
}

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
  std::vector<std::unique_ptr<Arrays>> arrays;  // those of new values, too
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
  Sequence* sequence;
  std::int64_t rows, cols;
};

class Sequence {
 public:
  explicit Sequence(Bytes input) : in_(input) {}
  ~Sequence() {
    for (Solver& one : solvers_) protean_solver_free(one.handle);
    for (Matrix& one : matrices_) protean_matrix_free(one.handle);
    for (protean_context* one : contexts_) protean_context_free(one);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  void run() {
    // Something to work with, so that most bytes are for what follows.
    make_context(0), make_matrix(matrices_[0]), make_solver(solvers_[0]);
    for (int step = 0; step < 16 && !in_.ended(); ++step) do_step();
  }

  // Called by functions of the caller: a call or two in the middle of a solve or a product.
  int interlude() {
    if (depth_ >= 2 || in_.ended()) return 0;
    ++depth_;
    const unsigned b = in_.byte();
    if (b % 4 == 0) do_step();
    --depth_;
    return b >= 250 ? static_cast<int>(b) : 0;
  }

 private:
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

  void do_step() {
    Matrix& matrix = matrices_[in_.below(matrices_.size())];
    Solver& solver = solvers_[in_.below(solvers_.size())];
    switch (in_.below(24)) {
      case 0:
        return make_context(in_.below(contexts_.size()));
      case 1:
        return free_context(in_.below(contexts_.size()));
      case 2:
        return make_matrix(matrix);
      case 3:
        return free_matrix(matrix);
      case 4:
        return make_solver(solver);
      case 5:
        return free_solver(solver);
      case 6:
        return set_format(matrix);
      case 7:
        return void(checked(protean_matrix_set_order(matrix.handle, name(in_, PROTEAN_KIND_ORDER))));
      case 8:
        return update_values(matrix);
      case 9:
        return apply(matrix);
      case 10:
        return apply_multi(matrix);
      case 11:
        return set_option(solver);
      case 12:
        return set_text(solver);
      case 13:
        return set_monitor(solver);
      case 14:
        return set_preconditioner(solver);
      case 15:
        return schedule(solver);
      case 16:
        return void(checked(protean_solver_schedule_clear(solver.handle)));
      case 17:
        return solve_multi(solver, matrix);
      case 18:
        return ask(matrix, solver);
      case 19:
        return changed(matrix);
      case 20:
        return void(checked(protean_matrix_watch(matrix.handle)));
      case 21:
        return set_near_null_space(solver);
      default:
        return solve(solver, matrix);
    }
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
    return caller.sequence->interlude();
  }
  template <class T>
  static int diagonal(void* user, T* d, void*) {
    const auto& caller = *static_cast<Caller*>(user);
    std::fill_n(d, std::min(caller.rows, caller.cols), T(4));
    return caller.sequence->interlude();
  }
  // z := r, of as many entries as the matrix of the solve has rows.
  template <class T>
  static int precondition(void* user, const T* r, T* z, void*) {
    const auto& caller = *static_cast<Caller*>(user);
    std::copy_n(r, caller.sequence->solved_rows_, z);
    return caller.sequence->interlude();
  }
  static int setup(void* user, int) { return static_cast<Caller*>(user)->sequence->interlude(); }
  static int monitor(void* user, const protean_iteration* now) {
    if (now->iteration < 0 || std::strlen(now->format) == 0 || std::strlen(now->order) == 0)
      broken("an iteration without a number, a format or an order");
    return static_cast<Caller*>(user)->sequence->interlude();
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

  void set_format(Matrix& matrix) {
    const std::string before = protean_matrix_format(matrix.handle);
    const char* const format = name(in_, PROTEAN_KIND_FORMAT);
    const char* const params = parameters(in_);
    const char* const how = kernel(in_);
    const protean_status status = checked(protean_matrix_set_format(matrix.handle, format, params, how));
    if (status != PROTEAN_OK && before != protean_matrix_format(matrix.handle))
      broken("a refusal changes the format");
    if (matrix.busy > 0 && status == PROTEAN_OK && solving_ > 0) broken("the format changes in a solve");
  }

  void update_values(Matrix& matrix) {
    auto arrays = std::make_unique<Arrays>();
    for (std::size_t k = 0; k < matrix.values; ++k) arrays->values.push_back(value(in_));
    arrays->values32.assign(arrays->values.begin(), arrays->values.end());
    const bool other = in_.rarely();
    // Of the other precision it is refused, whatever the array is.
    const protean_status status = checked(
        matrix.single != other ? protean_matrix_update_values_f32(matrix.handle, arrays->values32.data())
                               : protean_matrix_update_values(matrix.handle, arrays->values.data()));
    if (other && status == PROTEAN_OK && matrix.handle) broken("values of the other precision are taken");
    matrix.arrays.push_back(std::move(arrays));
  }

  template <class T>
  static std::vector<T> vector(Reader& in, std::int64_t size) {
    std::vector<T> entries(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
    const unsigned b = in.byte();
    for (std::size_t i = 0; i < entries.size(); ++i)
      entries[i] = b == 255 ? static_cast<T>(nonsense_number(in)) : static_cast<T>((i * 7 + b) % 11) / 4 - 1;
    return entries;
  }

  // Counts what is in use while a call runs.
  class InUse {
   public:
    InUse(Matrix* matrix, Solver* solver, int* solving = nullptr)
        : matrix_(matrix), solver_(solver), solving_(solving) {
      ++matrix_->busy;
      if (solver_) ++solver_->busy;
      if (solving_) ++*solving_;
    }
    ~InUse() {
      --matrix_->busy;
      if (solver_) --solver_->busy;
      if (solving_) --*solving_;
    }

   private:
    Matrix* matrix_;
    Solver* solver_;
    int* solving_;
  };

  void apply(Matrix& matrix) { matrix.single ? apply_in<float>(matrix) : apply_in<double>(matrix); }
  template <class T>
  void apply_in(Matrix& matrix) {
    const auto alpha = static_cast<T>(value(in_)), beta = static_cast<T>(value(in_));
    std::vector<T> x = vector<T>(in_, matrix.cols), y = vector<T>(in_, matrix.rows);
    const T* const from = in_.rarely() ? nullptr : x.data();
    // Overlapping vectors are refused.
    T* const to = in_.rarely() && matrix.rows <= matrix.cols ? x.data() : y.data();
    const InUse used(&matrix, nullptr);
    if constexpr (sizeof(T) == 4)
      checked(protean_matrix_apply_f32(matrix.handle, alpha, from, beta, to));
    else
      checked(protean_matrix_apply(matrix.handle, alpha, from, beta, to));
  }

  void apply_multi(Matrix& matrix) { matrix.single ? multi_in<float>(matrix) : multi_in<double>(matrix); }
  template <class T>
  void multi_in(Matrix& matrix) {
    std::int64_t count = in_.below(4), ldx = matrix.cols + in_.below(2), ldy = matrix.rows + in_.below(2);
    std::vector<T> x = vector<T>(in_, count * ldx), y = vector<T>(in_, count * ldy);
    switch (in_.below(24)) {
      case 0:
        count = std::min<std::int64_t>(nonsense(in_), -1);
        break;
      case 1:
        ldx = std::min(nonsense(in_), matrix.cols - 1);
        break;
      case 2:
        ldy = std::min(nonsense(in_), matrix.rows - 1);
        break;
      case 3:
        if (count > 1) ldx = std::numeric_limits<std::int64_t>::max();
        break;
      default:
        break;
    }
    const auto alpha = static_cast<T>(value(in_)), beta = static_cast<T>(value(in_));
    const InUse used(&matrix, nullptr);
    if constexpr (sizeof(T) == 4)
      checked(
          protean_matrix_apply_multi_f32(matrix.handle, count, alpha, x.data(), ldx, beta, y.data(), ldy));
    else
      checked(protean_matrix_apply_multi(matrix.handle, count, alpha, x.data(), ldx, beta, y.data(), ldy));
  }

  void set_option(Solver& solver) {
    const char* const option = name(in_, PROTEAN_KIND_OPTION);
    const double number = in_.below(2) == 0 ? in_.below(8) : nonsense_number(in_);
    // A solve of an input ends soon.
    if (option && std::strcmp(option, "max_iterations") == 0 && !(number < 20)) return;
    checked(protean_solver_set(solver.handle, option, number));
  }
  void set_text(Solver& solver) {
    const char* const option = name(in_, PROTEAN_KIND_TEXT_OPTION);
    constexpr std::array<const char*, 22> words = {
        "auto",   "none",      "rhs",     "initial-residual", "constant",  "mgs",  "cgs2",  "levels",
        "sweeps", "symmetric", "forward", "aggregation",      "classical", "true", "false", "model",
        "one",    "rows",      "refuse",  "replace",          "?",         nullptr};
    const char* const word =
        in_.below(4) == 0 ? name(in_, PROTEAN_KIND_SELECTOR) : words[in_.below(words.size())];
    // A policy starts threads of its own: seldom.
    if (option && word && std::strcmp(option, "policy") == 0 && std::strcmp(word, "auto") == 0 &&
        !in_.rarely())
      return;
    checked(protean_solver_set_text(solver.handle, option, word));
  }
  void set_monitor(Solver& solver) {
    const bool off = in_.below(4) == 0;
    const protean_status status =
        checked(protean_solver_set_monitor(solver.handle, off ? nullptr : monitor, caller(0, 0)));
    if (status == PROTEAN_OK) solver.monitored = !off;
  }
  void set_preconditioner(Solver& solver) {
    const unsigned b = in_.byte();
    const protean_setup prepare = (b & 1) != 0 ? setup : nullptr;
    void* const user = caller(0, 0);
    checked((b & 2) != 0
                ? protean_solver_set_preconditioner_f32(
                      solver.handle, (b & 12) == 0 ? nullptr : precondition<float>, prepare, user, 0)
                : protean_solver_set_preconditioner(
                      solver.handle, (b & 12) == 0 ? nullptr : precondition<double>, prepare, user, 0));
  }
  void set_near_null_space(Solver& solver) {
    // Of a body of a few nodes, whose modes serve matrices of as many rows, or nonsense.
    const int dimensions = in_.rarely() ? static_cast<int>(in_.below(5)) : 2 + static_cast<int>(in_.below(2));
    const auto nodes = static_cast<std::int64_t>(in_.below(12));
    std::vector<double> coordinates(static_cast<std::size_t>(nodes) * 5), modes(coordinates.size() * 6);
    for (double& one : coordinates) one = in_.rarely() ? nonsense_number(in_) : in_.below(16);
    checked(protean_rigid_body_modes(nodes, dimensions, coordinates.data(), modes.data()));
    const std::int64_t vectors = in_.below(8);
    checked(protean_solver_set_near_null_space(solver.handle, nodes * dimensions, vectors,
                                               in_.rarely() ? nullptr : modes.data()));
  }
  void schedule(Solver& solver) {
    const char* const trigger = in_.rarely() ? name(in_, PROTEAN_KIND_TRIGGER) : "at_iteration";
    const double at = in_.rarely() ? nonsense_number(in_) : in_.below(4);
    const char* const format = name(in_, PROTEAN_KIND_FORMAT);
    const char* const params = parameters(in_);
    const char* const how = kernel(in_);
    const int overlapped = in_.byte() == 255 ? 1 : 0;
    if (in_.below(2) == 0)
      checked(protean_solver_schedule(solver.handle, trigger, at, format, params, how, overlapped));
    else
      checked(protean_solver_schedule_order(solver.handle, trigger, at, name(in_, PROTEAN_KIND_ORDER),
                                            in_.below(2) == 0 ? nullptr : format, params, how, overlapped));
  }

  void solve(Solver& solver, Matrix& matrix) {
    matrix.single ? solve_in<float>(solver, matrix) : solve_in<double>(solver, matrix);
  }
  template <class T>
  void solve_in(Solver& solver, Matrix& matrix) {
    std::vector<T> b = vector<T>(in_, matrix.rows), x = vector<T>(in_, matrix.cols);
    const T* const from = in_.rarely() ? nullptr : b.data();
    const std::int64_t outer = std::exchange(solved_rows_, matrix.rows);
    {
      const InUse used(&matrix, &solver, &solving_);
      if constexpr (sizeof(T) == 4)
        checked(protean_solve_f32(solver.handle, matrix.handle, from, x.data()));
      else
        checked(protean_solve(solver.handle, matrix.handle, from, x.data()));
    }
    solved_rows_ = outer;
  }
  void solve_multi(Solver& solver, Matrix& matrix) {
    matrix.single ? solve_multi_in<float>(solver, matrix) : solve_multi_in<double>(solver, matrix);
  }
  template <class T>
  void solve_multi_in(Solver& solver, Matrix& matrix) {
    std::int64_t count = in_.below(4), ldb = matrix.rows + in_.below(2), ldx = matrix.cols + in_.below(2);
    std::vector<T> b = vector<T>(in_, count * ldb), x = vector<T>(in_, count * ldx);
    if (in_.rarely()) count = std::min<std::int64_t>(nonsense(in_), -1);
    const std::int64_t outer = std::exchange(solved_rows_, matrix.rows);
    {
      const InUse used(&matrix, &solver, &solving_);
      if constexpr (sizeof(T) == 4)
        checked(protean_solve_multi_f32(solver.handle, matrix.handle, count, b.data(), ldb, x.data(), ldx));
      else
        checked(protean_solve_multi(solver.handle, matrix.handle, count, b.data(), ldb, x.data(), ldx));
    }
    solved_rows_ = outer;
  }

  // All that tells of a matrix and a solver, with indices out of range, too.
  void ask(Matrix& matrix, Solver& solver) {
    const protean_matrix* const m = matrix.handle;
    const protean_solver* const s = solver.handle;
    if (protean_matrix_rows(m) != matrix.rows || protean_matrix_cols(m) != matrix.cols)
      broken("sizes have changed");
    if (m && protean_matrix_is_f32(m) != (matrix.single ? 1 : 0)) broken("the precision has changed");
    (void)protean_matrix_bytes(m);
    for (const char* text : {protean_matrix_format(m), protean_matrix_order(m),
                             protean_matrix_order_reason(m), protean_solver_multi_product(s),
                             protean_solver_reason(s), protean_solver_advice(s), protean_solver_detail(s)})
      if (!text || std::strlen(text) > 100000) broken("no text");
    const std::int64_t index = in_.below(2) == 0 ? in_.below(3) : nonsense(in_);
    protean_column column;
    if (checked(protean_solver_column(s, index, &column)) == PROTEAN_OK) (void)std::strlen(column.detail);
    protean_switch change;
    if (checked(protean_solver_switch(s, index, &change)) == PROTEAN_OK)
      (void)(std::strlen(change.from) + std::strlen(change.to) + std::strlen(change.reason));
    protean_failed_switch failure;
    if (checked(protean_solver_failed_switch(s, index, &failure)) == PROTEAN_OK)
      (void)(std::strlen(failure.to) + std::strlen(failure.why) + std::strlen(failure.order));
    if (!protean_solver_decision(s, index)) broken("no text of a decision");
    (void)(protean_solver_iterations(s) + protean_solver_restarts(s) + protean_solver_columns(s) +
           protean_solver_switches(s) + protean_solver_failed_switches(s) + protean_solver_decisions(s));
    (void)(protean_solver_true_residual(s) + protean_solver_recurrence_residual(s) +
           protean_solver_initial_residual(s) + protean_solver_seconds(s) + protean_solver_converged(s));
    // Kinds that there are, and others.
    const char* const text = name(in_, PROTEAN_KIND_METHOD);
    (void)protean_name(static_cast<protean_kind>(text ? std::strlen(text) % 16 : 0), index);
  }
  void changed(Matrix& matrix) {
    checked(protean_matrix_changed(matrix.handle, static_cast<int>(in_.below(2))));
  }

  Reader in_;
  std::array<protean_context*, 2> contexts_{};
  std::array<Matrix, 3> matrices_;
  std::array<Solver, 3> solvers_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::int64_t solved_rows_ = 0;  // of the solve that is running
  int depth_ = 0, solving_ = 0;
};

void run(Bytes input) {
  const std::size_t before = allocated_bytes();
  Sequence(input).run();
  if (allocated_bytes() != before) broken("memory of the library is not given back");
}

}  // namespace

extern const Target c_calls{"c_calls", run};

}  // namespace protean::fuzz
