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
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "fuzz/c_objects.hpp"
#include "fuzz/c_words.hpp"
#include "interfaces/c/protean.h"

namespace protean::fuzz {
namespace {

class Sequence final : public Objects {
 public:
  using Objects::Objects;
  ~Sequence() override { free_all(); }

  void run() {
    // Something to work with, so that most bytes are for what follows.
    make_context(0), make_matrix(matrices_[0]), make_solver(solvers_[0]);
    for (int step = 0; step < 16 && !in_.ended(); ++step) do_step();
  }

  int interlude() override {
    if (depth_ >= 2 || in_.ended()) return 0;
    ++depth_;
    const unsigned b = in_.byte();
    if (b % 4 == 0) do_step();
    --depth_;
    return b >= 250 ? static_cast<int>(b) : 0;
  }

 private:
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
