#include "solvers/driver/one_vector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "operators/kernel_loading.hpp"
#include "operators/row_arrays.hpp"
#include "solvers/driver/arguments.hpp"
#include "solvers/driver/course.hpp"
#include "solvers/driver/followed_order.hpp"
#include "solvers/driver/rounding.hpp"
#include "solvers/null_space.hpp"

namespace protean::detail {
namespace {

template <class T>
class OneVectorRun final : private Inquiry<T> {
 public:
  OneVectorRun(std::string_view name, const SolverOptions& options, const System<T>& system,
               SolveObserver* observer, Workspace<T>& workspace, const VectorBlock<const T>& null_space)
      : options_(options),
        method_(*workspace.method),
        callers_(system),
        observer_(observer),
        workspace_(workspace),
        findings_{.method = name, .preconditioner = system.M ? system.M->name() : std::string_view()},
        course_(options.stopping, findings_),
        host_steps_(method_, callers_),
        fetched_steps_(method_, callers_),
        in_order_(callers_, null_space, workspace.in_an_order, {method_, steps_}) {}

  ~OneVectorRun() {
    if (rows_) rows_->keep_rows(false);
  }
  OneVectorRun(const OneVectorRun&) = delete;
  OneVectorRun& operator=(const OneVectorRun&) = delete;

  SolveReport operator()() {
    require_options_of_space(options_, context());
    if (context().simulated()) steps_ = &fetched_steps_;
    if (weighs_residuals(options_)) weigh_residuals();
    in_order_.begin();
#if defined(PROTEAN_HAVE_CUDA)
    if (context().space() == Space::device && !context().simulated()) steps_ = steps_on_device();
#endif
    if (begin()) iterate();
    return report();
  }

 private:
  const Context& context() const noexcept { return callers_.context(); }
  const System<T>& system() const noexcept { return in_order_.system(); }
  SolveReport& written() noexcept { return course_.report(); }

  void weigh_residuals() {
    typename Course<T>::Beginning& b = beginning_;
    b.largest_inverse_weight = make_weights<T>(callers_.A, options_, workspace_.weights, workspace_.number);
    const ContextPtr& its_context = callers_.A.context();
    if (workspace_.weighted.size() != callers_.x.size || workspace_.weighted_squared.size() == 0) {
      workspace_.weighted = make_vector<T>(its_context, callers_.x.size);
      workspace_.weighted_squared = make_vector<T>(its_context, 1);
    }
    weights_ = {workspace_.weights, workspace_.weighted, workspace_.weighted_squared.data()};
    callers_.weights = &weights_;
  }

#if defined(PROTEAN_HAVE_CUDA)
  Steps<T>* steps_on_device() {
    if (options_.device_steps != "graph") {
      std::string why;
      if (context().vector_kernels() != VectorKernels::native) {
        why = fmt::format("the vector operations come from {}", to_string(context().vector_kernels()));
      } else if (callers_.weights) {
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
    return &graph_steps_for(workspace_, system());
  }

  // New element matrices drop the matrix that was assembled from the old ones, and its rows.
  void continue_without_rows() {
    if (!rows_ || rows_->row_arrays().kind != RowArrays<T>::Kind::none) return;
    rows_->keep_rows(false), rows_ = nullptr;
    written().steps_reason =
        "operator " + std::string(system().A.name()) + " has no row arrays after its new values";
    steps_ = &graph_steps_for(workspace_, system());
  }
#endif

  // False: it has ended with its guess.
  bool begin() {
    copy<T>(context(), system().b, method_.scratch());
    beginning_.two_rhs_norm = beginning_.rhs_norm = two_norm(method_.scratch());
    if (beginning_.rhs_norm == 0) {
      fill<T>(context(), T(0), system().x);
      course_.end_with_zero();
      observe(0);
      return false;
    }
    if (callers_.weights) beginning_.rhs_norm = measured_norm(method_.scratch());
    const VectorBlock<const T>& null_space = in_order_.null_space();
    if (null_space.count > 0) {
      const auto [q, d] = method_.spare();
      check_null_space<T>(system().A, null_space, system().b, beginning_.two_rhs_norm, q, d,
                          workspace_.number);
      project(system().x);
      beginning_.in_null_space =
          part_in_null_space<T>(context(), null_space, system().b, workspace_.components);
    }
    compute_true_residual();
    beginning_.initial_residual = written().true_residual;
    beginning_.two_initial_residual =
        callers_.weights ? two_norm(method_.scratch()) : beginning_.initial_residual;
    if (course_.begin(beginning_)) return true;
    observe(beginning_.initial_residual);
    return false;
  }

  void iterate() {
    begin_method();
    in_order_.method_begins();
    for (course_.stepped(0, steps_->first(course_.control()));;) {
      const double residual = course_.verdict().residual;
      const bool go_on = observe(residual);
      look_at_rounding();
      course_.judge({&residual, 1}, go_on, info_.seconds);
      const bool new_values = system().A.revision() != revision_;
      if (new_values || course_.stops()) catch_up();
      if (const bool cycle_ended = method_.signals().cycle_ended;
          new_values || course_.asks_for_truth(cycle_ended)) {
        method_.finish(system());
        project(system().x);
        compute_true_residual();
        const Next next = course_.follow(new_values, cycle_ended, *this);
        if (next == Next::end) return;
        if (new_values) take_new_values();
        if (next == Next::begin) begin_method();
        if (next == Next::renew) renew_method();
      } else if (left_rounding_ || course_.asks_for_correction()) {
        if (!renews(course_)) {
          course_.needs_no_correction();
        } else {
          compute_true_residual();
          const Next next = course_.correct(*this);
          if (next == Next::end) return;
          next == Next::begin ? begin_method() : renew_method();
        }
      }
      Verdict verdict = steps_->next(course_.control(), room());
      course_.stepped(1, std::move(verdict));
    }
  }

  // From b - A x, which is in scratch().
  void begin_method() {
    method_.begin(system(), method_.scratch());
    measure(method_, system());
    course_.begun();
    left_rounding_ = false;
  }

  // The same for its residual alone.
  void renew_method() {
    method_.renew(system(), method_.scratch());
    measure(method_, system());
    course_.renewed();
    left_rounding_ = false;
  }

  // A change of format may have put the values into float, or back. After the way back the residual of the recurrence
  // is still that of the rounded matrix.
  void look_at_rounding() {
    if (!observer_) return;
    const std::uint64_t form = system().A.recording().version;
    if (std::exchange(form_, form) == form) return;
    const bool rounded = given_matrix() != nullptr;
    left_rounding_ = !rounded && (rounds_ || left_rounding_);
    rounds_ = rounded;
  }

  void take_new_values() {
    revision_ = system().A.revision();
    in_order_.refresh_preconditioner();
#if defined(PROTEAN_HAVE_CUDA)
    continue_without_rows();
#endif
  }

  // How many steps may be computed before the iteration limit, or before the next stop of the observer.
  std::int64_t room() const {
    const std::int64_t most = options_.stopping.max_iterations, now = course_.report().iterations;
    const std::int64_t stop = observer_ ? observer_->next_stop() : most;
    return (stop > now ? std::min(stop, most) : most) - now;
  }

  // A device may have done some steps beyond the one that ends the solve. They have changed x, so they count.
  void catch_up() {
    Verdict last = course_.verdict();
    const std::int64_t more = steps_->settle(course_.control(), last);
    course_.stepped(more, std::move(last));
  }

  const LinearOperator<T>* given_matrix() const { return given_matrix_of(system().A); }

  // scratch := b - A x and its norm
  void compute_true_residual() {
    const VectorView<T> r = method_.scratch();
    copy<T>(context(), system().b, r);
    const LinearOperator<T>* const given = given_matrix();
    (given ? *given : system().A).apply(T(-1), system().x, T(1), r);
    written().true_residual = measured_norm(r);
    if ((given || left_rounding_) && course_.report().iterations > 0) ++written().corrections, note_jump(r);
    // A method begins without the part that no step can reduce.
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

  double two_norm(VectorView<T> v) { return norm<T>(context(), v, workspace_.number); }
  // ||v||, or ||W v||.
  double measured_norm(VectorView<T> v) {
    if (!callers_.weights) return two_norm(v);
    const ResidualWeights<T>& w = *system().weights;
    multiply<T>(context(), w.entries, v, w.weighted);
    return two_norm(w.weighted);
  }
  void project(VectorView<T> v) {
    detail::project<T>(context(), in_order_.null_space(), v, workspace_.components);
  }

  bool observe(double residual) {
    const SolveReport& report = course_.report();
    info_ = {.iteration = report.iterations,
             .residual = residual,
             .relative_residual = course_.relative(residual),
             .seconds = agreed(context(), seconds()),  // so that all parts end at the same iteration
             .restarts = report.restarts,
             .record_seconds = steps_->record_seconds(),
             .corrections = report.corrections,
             .jump = info_.jump,
             .rounded = rounds_};
    if (!observer_) return true;
    if (observer_->reads_solution(info_)) in_order_.show_solution();
    const bool go_on = observer_->on_iteration(info_);
    in_order_.require_change();
    return go_on;
  }

  Evidence<T> evidence(const Course<T>&) override { return evidence_of(system()); }
  Evidence<T> evidence_for_caller() override { return evidence_of(callers_); }
  Evidence<T> evidence_of(const System<T>& of) {
    return {of, method_.scratch(), method_.spare(), workspace_.number};
  }
  bool resumes(const Course<T>&) override { return method_.signals().resumable; }
  // Not on a device, where steps may be queued that go on with the old residual.
  bool renews(const Course<T>&) override {
    return method_.renews() && context().space() == Space::host && (left_rounding_ || given_matrix());
  }
  bool leaves_rounding(const std::string& why) override {
    rounds_ = false;  // the method begins again
    return leave_rounding(system().A, why);
  }

  SolveReport report() {
    in_order_.bring_back();
    std::optional<BadEntry> bad;
    if (course_.report().iterations > 0) bad = first_not_finite<T>(context(), callers_.x, workspace_.number);
    course_.conclude(bad, *this);
    SolveReport& r = written();
    r.graphs_recorded = steps_->recorded(), r.graphs_made = steps_->made();
    r.steps = steps_->name();
    r.seconds = seconds();
    count_solve(context(), r.seconds);
    return std::move(r);
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  const SolverOptions& options_;
  Method<T>& method_;
  System<T> callers_;
  ResidualWeights<T> weights_;  // of the caller's system, if residuals are weighed
  SolveObserver* const observer_;
  Workspace<T>& workspace_;
  Findings findings_;
  Course<T> course_;
  typename Course<T>::Beginning beginning_{};
  HostSteps<T> host_steps_;
  FetchedSteps<T> fetched_steps_;
  Steps<T>* steps_ = &host_steps_;
  FollowedOrder<OneInOrder<T>> in_order_;
  const HasRowArrays<T>* rows_ = nullptr;  // the operator, while keep_rows() holds its row arrays
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Revision revision_ = callers_.A.revision();
  std::uint64_t form_ = callers_.A.recording().version;
  bool rounds_ = given_matrix_of(callers_.A) != nullptr;
  bool left_rounding_ = false;  // and the residual of the recurrence is to be replaced
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
