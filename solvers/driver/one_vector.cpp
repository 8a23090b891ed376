#include "solvers/driver/one_vector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/blas1.hpp"
#include "operators/row_arrays.hpp"
#include "solvers/driver/driver.hpp"

namespace protean::detail {
namespace {

template <class T>
class OneVectorRun final : public Driver<OneVectorRun<T>, OneInOrder<T>> {
  using Base = Driver<OneVectorRun<T>, OneInOrder<T>>;
  friend Base;

 public:
  OneVectorRun(std::string_view name, const SolverOptions& options, const System<T>& system,
               SolveObserver* observer, Workspace<T>& workspace, const VectorBlock<const T>& null_space)
      : Base(name, options, system, null_space, workspace, {*workspace.method, steps_}, 1, {},
             cycle_of(*workspace.method)),
        method_(*workspace.method),
        observer_(observer),
        workspace_(workspace),
        host_steps_(method_, callers_),
        fetched_steps_(method_, callers_) {
    if (context().simulated()) steps_ = &fetched_steps_;
  }
  ~OneVectorRun() {
    if (rows_) rows_->keep_rows(false);
  }

 private:
  using Base::options_, Base::callers_, Base::in_order_, Base::context, Base::system;
  using typename Base::Column, typename Base::Columns;

  static std::int64_t cycle_of(const Method<T>& method) {
    return method.cycles_end() ? method.period() : std::numeric_limits<std::int64_t>::max();
  }
  Column& column() noexcept { return this->columns_.front(); }
  SolveReport& written() noexcept { return column().report(); }

  void attach() {
#if defined(PROTEAN_HAVE_CUDA)
    if (context().space() == Space::device && !context().simulated()) steps_ = steps_on_device();
#endif
  }
#if defined(PROTEAN_HAVE_CUDA)
  Steps<T>* steps_on_device() {
    if (options_.device_steps != "graph") {
      std::string why;
      if (context().vector_kernels() != VectorKernels::native) {
        why = fmt::format("the vector operations come from {}", to_string(context().vector_kernels()));
      } else if (given_matrix()) {
        why = "products are with rounded values, and b - A x is to replace the residual";
      } else if (callers_.weights.size > 0) {
        why = "residual_norm is " + options_.residual_norm;
      } else if (Steps<T>* const resident = resident_steps_for(workspace_, system(), why)) {
        rows_ = system().A.abilities().row_arrays.get();
        rows_->keep_rows(true);
        return resident;
      }
      if (options_.device_steps == "resident")
        throw BadArgument(fmt::format("device_steps is resident, but {}; take auto or graph", why));
      written().steps_reason = std::move(why);
    }
    return &graph_steps();
  }

  Steps<T>& graph_steps() { return graph_steps_for(workspace_, system(), options_.device_steps == "graph"); }

  // New element matrices drop the matrix that was assembled from the old ones, and its rows.
  void continue_without_rows() {
    if (!rows_ || rows_->row_arrays().kind != RowArrays<T>::Kind::none) return;
    rows_->keep_rows(false), rows_ = nullptr;
    written().steps_reason =
        "operator " + std::string(system().A.name()) + " has no row arrays after its new values";
    steps_ = &graph_steps();
  }
#endif

  void measure_rhs() {
    copy<T>(context(), system().b, method_.scratch());
    auto& of = column().beginning;
    of.two_rhs_norm = of.rhs_norm = norm_of(method_.scratch());
    if (callers_.weights.size > 0) of.rhs_norm = measured_norm(method_.scratch());
  }
  VectorView<const T> b_of(const Column&) const { return system().b; }
  void check_null_space(const Column& c) {
    const auto [q, d] = method_.spare();
    detail::check_null_space<T>(system().A, in_order_.null_space(), b_of(c), c.beginning.two_rhs_norm, q, d,
                                workspace_.number);
  }
  void project_x(const Column&) { project(system().x); }
  void project(VectorView<T> v) {
    detail::project<T>(context(), in_order_.null_space(), v, workspace_.components);
  }

  // In scratch().
  void compute_truth(const Columns&) {
    const VectorView<T> r = method_.scratch();
    copy<T>(context(), system().b, r);
    const LinearOperator<T>* const given = given_matrix();
    (given ? *given : system().A).apply(T(-1), system().x, T(1), r);
    written().true_residual = column().two_norm = measured_norm(r);
    if (callers_.weights.size > 0) column().two_norm = norm_of(r);
    if ((given || left_rounding_) && written().iterations > 0) ++written().corrections, note_jump(r);
    project(r);
  }
  // For the observer. ||t - r||^2 = t . t - 2 t . r + r . r, which shows differences down to the root of the rounding.
  void note_jump(VectorView<const T> truth) {
    if (!method_.renews()) return;
    const VectorView<const T> r = method_.residual();
    const double tt = product_of(truth, truth), tr = product_of(truth, r), rr = product_of(r, r);
    info_.jump = tt > 0 ? std::sqrt(std::max(tt - 2 * tr + rr, 0.0) / tt) : 0;
  }
  double product_of(VectorView<const T> v, VectorView<const T> w) {
    T result = 0;
    dot<T>(context(), v, w, workspace_.number.data());
    copy<T>(context(), VectorView<const T>(workspace_.number), {&result, 1});
    return static_cast<double>(result);
  }
  double norm_of(VectorView<T> v) { return norm<T>(context(), v, workspace_.number); }
  double measured_norm(VectorView<T> v) { return norm_of(method_.measured(system(), v)); }

  void begin(const Columns&) {
#if defined(PROTEAN_HAVE_CUDA)
    continue_without_rows();
#endif
    method_.begin(system(), method_.scratch());
    left_rounding_ = false, correct_at_rest(false);
  }
  Verdict verdict_of(const Column& c) { return steps_->first(c.control()); }

  void advance() {
    Column& c = column();
    const std::int64_t left = c.rule().max_iterations - c.report().iterations;
    Verdict verdict = steps_->next(c.control(), std::min(this->room(observer_), left));
    c.history.push_back(verdict.residual);
    this->stepped(c, 1, std::move(verdict));
  }
  // Steps go beyond the one that has reached the goal only if something else ends the solve.
  bool settle(bool stops) {
    if (!stops) return false;
    Verdict last = column().verdict();
    const std::int64_t more = steps_->settle(column().control(), last);
    this->stepped(column(), more, std::move(last));
    return false;
  }
  void finish(const Columns&) { method_.finish(system()); }
  void pack() {}
  void give_back_x(const Column&) {}

  void renew(Column& c) {
    method_.renew(system(), method_.scratch());
    c.renewed();
    left_rounding_ = false, correct_at_rest(false);
  }
  void correct_at_rest(bool wanted) { steps_->hold(at_rest_ = wanted); }
  void correct() {
    Column& c = column();
    if (!c.in_lane() || !(left_rounding_ || at_rest_ || c.asks_for_correction())) return;
    if (!renews(c)) return c.needs_no_correction();
    // A device may have done steps ahead. They count, and have gone on with the residual of the recurrence.
    correct_at_rest(!steps_->rests());
    if (at_rest_) return;
    compute_truth({});
    const Next next = c.correct(*this);
    if (next == Next::end) return this->give_back(c);
    if (next == Next::renew) return renew(c);
    begin({});
    c.begun();
  }
  // A change of format may have put the values into float, or back. After the way back the residual of the recurrence
  // is still that of the rounded matrix.
  void look_at_rounding() {
    const std::uint64_t form = system().A.recording().version;
    if (std::exchange(form_, form) == form) return;
    const bool rounded = given_matrix() != nullptr;
    left_rounding_ = !rounded && (rounds_ || left_rounding_);
    rounds_ = rounded;
  }
  const LinearOperator<T>* given_matrix() const { return given_matrix_of(system().A); }

  bool observe() {
    if (!observer_) return true;
    const SolveReport& report = written();
    info_ = {.iteration = report.iterations,
             .residual = column().residual,
             .relative_residual = column().relative(column().residual),
             .seconds = this->now_,
             .restarts = report.restarts,
             .record_seconds = steps_->record_seconds(),
             .corrections = report.corrections,
             .jump = info_.jump,
             .rounded = rounds_};
    if (observer_->reads_solution(info_)) in_order_.show_solution();
    const bool go_on = observer_->on_iteration(info_);
    in_order_.require_change();
    look_at_rounding();
    return go_on;
  }

  Evidence<T> evidence(const Course<T>&) override { return evidence_of(system()); }
  Evidence<T> evidence_for_caller() override { return evidence_of(callers_); }
  Evidence<T> evidence_of(const System<T>& of) {
    return {of, method_.scratch(), method_.spare(), workspace_.number};
  }
  bool resumes(const Course<T>&) override { return method_.signals().resumable; }
  // Not of steps in one kernel, which holds the vectors.
  bool renews(const Course<T>&) override {
    return method_.renews() && !rows_ && (left_rounding_ || given_matrix());
  }
  bool leaves_rounding(const std::string& why) override {
    rounds_ = false;  // the method begins again
    return Base::leaves_rounding(why);
  }

  SolveReport report() {
    SolveReport& r = written();
    r.graphs_recorded = steps_->recorded(), r.graphs_made = steps_->made();
    r.steps = steps_->name();
    r.seconds = this->now_;
    return std::move(r);
  }

  Method<T>& method_;
  SolveObserver* const observer_;
  Workspace<T>& workspace_;
  HostSteps<T> host_steps_;
  FetchedSteps<T> fetched_steps_;
  Steps<T>* steps_ = &host_steps_;
  const HasRowArrays<T>* rows_ = nullptr;  // the operator, while keep_rows() holds its row arrays
  std::uint64_t form_ = callers_.A.recording().version;
  bool rounds_ = given_matrix_of(callers_.A) != nullptr;
  bool left_rounding_ = false;  // and the residual of the recurrence is to be replaced
  bool at_rest_ = false;        // the same, as soon as no step is ahead
  IterationInfo info_;
};

}  // namespace

template <class T>
SolveReport solve_one_vector(std::string_view name, const SolverOptions& options, const System<T>& system,
                             SolveObserver* observer, Workspace<T>& workspace,
                             const VectorBlock<const T>& null_space) {
  return OneVectorRun<T>(name, options, system, observer, workspace, null_space)();
}

#define PROTEAN_INSTANTIATE(T)                                                                       \
  template SolveReport solve_one_vector<T>(std::string_view, const SolverOptions&, const System<T>&, \
                                           SolveObserver*, Workspace<T>&, const VectorBlock<const T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
