// The driver shared by all methods: checks, norms, the observer, restarts from the true residual, the report.
#include "solvers/solver.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/option_checks.hpp"
#include "operators/kernel_loading.hpp"
#include "operators/order.hpp"
#include "operators/row_arrays.hpp"
#include "solvers/advice.hpp"
#include "solvers/diagnosis.hpp"
#include "solvers/iteration_control.hpp"
#include "solvers/method.hpp"
#include "solvers/methods.hpp"
#include "solvers/null_space.hpp"
#include "solvers/options.hpp"
#include "solvers/ordered_solve.hpp"
#include "solvers/steps.hpp"

namespace protean {
namespace detail {
namespace {

// One solve.
template <class T>
class Run final : private OrderFollower {
 public:
  Run(std::string_view name, const SolverOptions& options, const System<T>& system, SolveObserver* observer,
      Workspace<T>& workspace, VectorBlock<const T> null_space)
      : name_(name),
        options_(options),
        callers_null_space_(null_space),
        rule_(options.stopping),
        method_(*workspace.method),
        callers_(system),
        observer_(observer),
        workspace_(workspace),
        host_steps_(method_, callers_),
        fetched_steps_(method_, callers_) {
    if (has_order_)
      has_order_->follow(*this);
    else
      own_ = {};
  }

  ~Run() override {
    if (has_order_) has_order_->unfollow(*this);
    if (rows_) rows_->keep_rows(false);
    try {
      bring_back();
    } catch (...) {}  // the exception of the solve tells of it
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  SolveReport operator()() {
    for (const Option<SolverOptions>& option : solver_options())
      if (option.on_device && context().space() == Space::host && !option.is_default(options_))
        throw BadArgument(fmt::format("{} is {}, but the operator is not on a GPU; leave it at {}",
                                      option.name, value_text(option, option.value(options_)),
                                      value_text(option, option.default_value())));
    if (options_.device_steps == "resident" && context().simulated())
      throw BadArgument("device_steps is 'resident', but the operator is not on a GPU; take auto");
    if (context().simulated()) steps_ = &fetched_steps_;
    if (weighs_residuals(options_)) weigh_residuals();
    if (const Permutation order = has_order_ ? has_order_->order() : Permutation(); order.size() > 0) {
      prepare_order(order);
      adopt_order();
      require_change();
    }
#if defined(PROTEAN_HAVE_CUDA)
    if (context().space() == Space::device && !context().simulated()) steps_ = steps_on_device();
#endif
    copy<T>(context(), system_->b, method_.scratch());
    rhs_norm_ = report_.rhs_norm = norm<T>(context(), method_.scratch(), workspace_.number);
    if (rhs_norm_ == 0) {
      fill<T>(context(), T(0), system_->x);
      observe(0);
      return end(StopReason::zero_right_hand_side);
    }
    if (callers_.weights) report_.rhs_norm = measured_norm(method_.scratch());
    if (null_space_.count > 0) {
      const auto [q, d] = method_.spare();
      check_null_space<T>(system_->A, null_space_, system_->b, report_.rhs_norm, q, d, workspace_.number);
      project(system_->x);
    }
    report_.initial_residual = compute_true_residual();
    initial_norm_ = callers_.weights ? norm<T>(context(), method_.scratch(), workspace_.number)
                                     : report_.initial_residual;
    report_.recurrence_residual = report_.initial_residual;
    control_.emplace(rule_, report_.rhs_norm, report_.initial_residual);
    if (!std::isfinite(report_.rhs_norm) || !std::isfinite(report_.initial_residual)) {
      observe(report_.initial_residual);
      return end(StopReason::not_finite,
                 fmt::format("||b|| = {}, ||b - A x0|| = {}", report_.rhs_norm, report_.initial_residual));
    }
    if (const StopReason good = control_->satisfied(report_.true_residual); converged(good)) {
      observe(report_.initial_residual);
      return end(good);
    }
    if (null_space_.count > 0) {
      const double part = part_in_null_space<T>(context(), null_space_, system_->b, workspace_.components);
      if (part > tolerance_of_2_norm()) {
        observe(report_.initial_residual);
        return end(StopReason::inconsistent, inconsistent_detail(part, tolerance_of_2_norm()));
      }
    }
    return iterate();
  }

 private:
  const Context& context() const noexcept { return callers_.context(); }

  Permuted permuted() const override {
    const bool diagonal = callers_.M && callers_.M->inverse_diagonal().size > 0;
    const std::size_t vectors = method_.kept_vectors(steps_->runs_ahead()).size() + (diagonal ? 1 : 0);
    const int others = callers_.weights ? 4 : 3;  // b, x, and x at the end; the weights
    return {others + static_cast<int>(vectors) + static_cast<int>(callers_null_space_.count),
            callers_.M && !diagonal ? 2 : 0};
  }

  // Called by the operator while the observer runs, between two steps.
  void prepare_order(const Permutation& next) override {
    const ContextPtr& its_context = callers_.A.context();
    const std::int64_t n = callers_.x.size;
    const auto has_memory = [&](Vector<T>& v, std::int64_t size) {
      if (v.size() != size) v = Vector<T>(its_context, size);
    };
    ChangeOfOrder<T> change;
    change.to = next;
    if (next.size() > 0) {
      has_memory(own_.b, n), has_memory(own_.x, n),
          has_memory(own_.null_space, callers_null_space_.count * n);
      if (callers_.weights) has_memory(own_.weights, n);
      if (callers_.M) {
        // That of an earlier solve in this order, so that a recorded graph can be used again.
        const bool known = order_.size() == 0 && own_.M && own_.M->is_of(*callers_.M, next);
        change.M = known ? own_.M : std::make_shared<OrderedPreconditioner<T>>(*callers_.M, next);
        change.M->refresh();
      }
    }
    if (begun_) change.kept = method_.kept_vectors(steps_->runs_ahead());
    if (begun_ || order_.size() > 0) change.copy = Vector<T>(its_context, n);
    change_ = std::move(change);
  }

  // On a device all of it is queued after the steps that are in flight, which end in the order before.
  void adopt_order() noexcept override {
    const Permutation from = std::exchange(order_, change_.to);
    null_space_ = callers_null_space_, system_ = &callers_;
    try {
      for (const VectorView<T> v : change_.kept) permute(from, v);
      if (!change_.kept.empty()) method_.order_changed();
      if (from.size() > 0 && order_.size() > 0)
        permute(from, own_.x);
      else if (order_.size() > 0)
        order_.template apply<T>(callers_.x, own_.x);
      else if (from.size() > 0)
        from.template apply_inverse<T>(own_.x, callers_.x);
      if (order_.size() > 0) {
        order_.template apply<T>(callers_.b, own_.b);
        if (callers_null_space_.count > 0)
          null_space_ = in_order(order_, callers_null_space_, own_.null_space);
        if (callers_.weights) {
          order_.template apply<T>(weights_.entries, own_.weights);
          ordered_weights_ = {own_.weights, weights_.weighted, weights_.squared};
        }
      }
    } catch (...) { failed_change_ = std::current_exception(); }  // a broken device
    if (order_.size() > 0) {
      own_.M = std::move(change_.M);
      system_ =
          &ordered_.emplace(System<T>{has_order_->in_order(), own_.b, own_.x, own_.M.get(),
                                      own_.M ? own_.M->inverse_diagonal() : VectorView<const T>{}, has_order_,
                                      nullptr, callers_.weights ? &ordered_weights_ : nullptr});
    }
    change_ = {};
    steps_->change_system(*system_);
  }

  // A vector of the order `from` in the present one. It stays where it is.
  void permute(const Permutation& from, VectorView<T> v) {
    if (from.size() > 0)
      from.template apply_inverse<T>(v, change_.copy);
    else
      copy<T>(context(), v, change_.copy);
    if (order_.size() > 0)
      order_.template apply<T>(change_.copy, v);
    else
      copy<T>(context(), change_.copy, v);
  }

  void require_change() {
    if (failed_change_) std::rethrow_exception(std::exchange(failed_change_, nullptr));
  }

  // Shows the observer x in the caller's order.
  void show_solution() {
    if (order_.size() > 0) order_.template apply_inverse<T>(own_.x, callers_.x);
  }

  // x in the caller's order. Nothing more is done with that of the solve afterwards.
  void bring_back() {
    if (order_.size() == 0) return;
    const Permutation order = std::exchange(order_, {});
    order.template apply_inverse<T>(own_.x, callers_.x);
  }

#if defined(PROTEAN_HAVE_CUDA)
  Steps<T>* steps_on_device() {
    if (options_.device_steps != "graph") {
      std::string why;
      if (context().vector_kernels() != VectorKernels::native) {
        why = fmt::format("the vector operations are those of {}", to_string(context().vector_kernels()));
      } else if (callers_.weights) {
        why = "residual_norm is " + options_.residual_norm;
      } else if (Steps<T>* const resident = resident_steps_for(workspace_, *system_, why)) {
        rows_ = system_->A.abilities().row_arrays.get();
        rows_->keep_rows(true);
        return resident;
      }
      if (options_.device_steps == "resident")
        throw BadArgument(fmt::format("device_steps is resident, but {}; take auto or graph", why));
      report_.steps_reason = std::move(why);
    }
    return &graph_steps_for(workspace_, *system_);
  }

  // New element matrices drop the matrix that was assembled from the old ones, and its rows.
  void continue_without_rows() {
    if (!rows_ || rows_->row_arrays().kind != RowArrays<T>::Kind::none) return;
    rows_->keep_rows(false), rows_ = nullptr;
    report_.steps_reason =
        "operator " + std::string(system_->A.name()) + " has no row arrays after its new values";
    steps_ = &graph_steps_for(workspace_, *system_);
  }
#endif

  SolveReport iterate() {
    begin();
    begun_ = true;
    for (Verdict verdict = steps_->first(*control_);;) {
      report_.recurrence_residual = verdict.residual;
      std::string detail = verdict.detail;
      StopReason reason = verdict.event;
      if (!observe(verdict.residual) && reason == StopReason::running) reason = StopReason::interrupted;
      if (reason == StopReason::running) reason = control_->limit(info_, detail);
      // With new values of A the recurrence is worthless.
      const bool new_values = system_->A.revision() != revision_;
      if (reason != StopReason::running || new_values) catch_up(verdict);
      const Signals<T> signals = method_.signals();

      if (reason != StopReason::running || verdict.reached || signals.cycle_ended || new_values) {
        method_.finish(*system_);
        project(system_->x);
        compute_true_residual();
        if (const StopReason good = control_->satisfied(report_.true_residual); converged(good))
          return end(good);
        if (reason == StopReason::inconsistent) {
          Diagnosis found =
              check_least_squares(method_, *system_, workspace_.number,
                                  norm<T>(context(), method_.scratch(), workspace_.number), rhs_norm_);
          reason = found.reason, detail = std::move(found.detail);
        }
        // A breakdown may be a happy one: x then solves the system up to the rounding of a large x0. Without progress
        // in the first step it would come again.
        const bool goes_on = reason == StopReason::breakdown && report_.iterations < rule_.max_iterations &&
                             (steps_since_begin_ > 1 || report_.true_residual < 0.9 * begun_from_);
        // At the limit it does not go on for that reason.
        if (reason == StopReason::breakdown && !goes_on && steps_since_begin_ > 1)
          reason = StopReason::max_iterations, detail = fmt::format("{} iterations", report_.iterations);
        if (reason != StopReason::running && !goes_on) return end_of(reason, std::move(detail), verdict);
        if (new_values) {
          revision_ = system_->A.revision();
          if (order_.size() > 0 && own_.M) own_.M->refresh();
#if defined(PROTEAN_HAVE_CUDA)
          continue_without_rows();
#endif
          restart(false);
        } else if (verdict.reached && signals.resumable && report_.true_residual <= 2 * verdict.residual) {
          control_->aim_lower(verdict.residual, report_.true_residual);
        } else {
          const bool planned = signals.cycle_ended && !verdict.reached && reason == StopReason::running;
          if (!planned && !restart_helps())
            return end_of(reason == StopReason::breakdown ? reason : StopReason::stagnation,
                          restart_detail(verdict, detail), verdict);
          if (planned && report_.true_residual > 0.9 * begun_from_ && !std::exchange(asked_, true))
            if (auto found = find_no_solution()) return end(found->reason, std::move(found->detail));
          restart(planned);
        }
      }
      verdict = steps_->next(*control_, room());
      ++report_.iterations, ++steps_since_begin_;
    }
  }

  // How many steps may be computed before the iteration limit, or before the next stop of the observer.
  std::int64_t room() const {
    const std::int64_t stop = observer_ ? observer_->next_stop() : rule_.max_iterations;
    return (stop > report_.iterations ? std::min(stop, rule_.max_iterations) : rule_.max_iterations) -
           report_.iterations;
  }

  // A device may have done some steps beyond the one that ends the solve. They have changed x, so they count.
  void catch_up(Verdict& verdict) {
    const std::int64_t more = steps_->settle(*control_, verdict);
    report_.iterations += more, steps_since_begin_ += more;
    report_.recurrence_residual = verdict.residual;
  }

  // scratch := b - A x and its norm
  double compute_true_residual() {
    const VectorView<T> r = method_.scratch();
    copy<T>(context(), system_->b, r);
    system_->A.apply(T(-1), system_->x, T(1), r);
    report_.true_residual = measured_norm(r);
    // A method begins without the part that no step can reduce.
    project(r);
    return report_.true_residual;
  }

  // ||v||, or ||W v||.
  double measured_norm(VectorView<T> v) {
    if (!callers_.weights) return norm<T>(context(), v, workspace_.number);
    const ResidualWeights<T>& w = *system_->weights;
    multiply<T>(context(), w.entries, v, w.weighted);
    return norm<T>(context(), w.weighted, workspace_.number);
  }
  // ||v|| is above it for no v that meets the tolerance.
  double tolerance_of_2_norm() const { return control_->tolerance() * largest_inverse_weight_; }

  // W := D^-1
  void weigh_residuals() {
    const Ability<HasDiagonal<T>> known = callers_.A.abilities().diagonal;
    if (!known)
      throw BadArgument(fmt::format(
          "residual_norm is {}, but operator {} does not tell its diagonal{}{}; take euclidean",
          options_.residual_norm, callers_.A.name(), known.why().empty() ? "" : ": ", known.why()));
    const ContextPtr& its_context = callers_.A.context();
    if (workspace_.weights.size() != callers_.x.size || workspace_.weighted_squared.size() == 0) {
      for (Vector<T>* v : {&workspace_.weights, &workspace_.weighted})
        *v = make_vector<T>(its_context, callers_.x.size);
      workspace_.weighted_squared = make_vector<T>(its_context, 1);
    }
    T largest = 0, replaced = 0;
    known->diagonal(workspace_.weights);
    max_abs<T>(context(), workspace_.weights, workspace_.number.data());
    copy<T>(context(), workspace_.number.view(), {&largest, 1});
    reciprocal<T>(context(), workspace_.weights, workspace_.number.data());
    copy<T>(context(), workspace_.number.view(), {&replaced, 1});
    largest_inverse_weight_ = std::max(static_cast<double>(largest), replaced > 0 ? 1.0 : 0.0);
    weights_ = {workspace_.weights, workspace_.weighted, workspace_.weighted_squared.data()};
    callers_.weights = &weights_;
  }

  void project(VectorView<T> v) { detail::project<T>(context(), null_space_, v, workspace_.components); }

  // From b - A x, which is in scratch().
  void begin() {
    method_.begin(*system_, method_.scratch());
    measure(method_, *system_);
    begun_from_ = report_.true_residual;
  }
  void restart(bool planned) {
    ++report_.restarts;
    begin();
    if (!planned) control_->restart(report_.true_residual, report_.iterations);
    steps_since_begin_ = 0;
  }

  // Of two unplanned restarts at least one must reduce the true residual by a tenth or more.
  bool restart_helps() {
    const bool fell = report_.true_residual < 0.9 * smallest_restart_;
    fruitless_ = fell ? 0 : fruitless_ + 1;
    smallest_restart_ = std::min(smallest_restart_, report_.true_residual);
    return fruitless_ < 2;
  }
  std::string restart_detail(const Verdict& verdict, const std::string& detail) const {
    return fmt::format(
        "{}{}the residual of the recurrence is {:.3g}, that of b - A x is {:.3g}, and restarts no longer "
        "help",
        detail, detail.empty() ? "" : "; ", verdict.residual, report_.true_residual);
  }

  bool observe(double residual) {
    info_ = {.iteration = report_.iterations,
             .residual = residual,
             .relative_residual = control_ ? control_->relative(residual) : 0,
             .seconds = seconds(),
             .restarts = report_.restarts,
             .record_seconds = steps_->record_seconds()};
    if (!observer_) return true;
    if (observer_->reads_solution(info_)) show_solution();
    const bool go_on = observer_->on_iteration(info_);
    require_change();
    return go_on;
  }

  // b - A x is in scratch().
  SolveReport end_of(StopReason reason, std::string detail, const Verdict& verdict) {
    const bool first = report_.iterations <= 1 && report_.restarts == 0;
    Diagnosis found = diagnose(method_, *system_, workspace_.number, verdict, first, initial_norm_, reason,
                               std::move(detail));
    if (may_be_inconsistent(found.reason))
      if (auto none = find_no_solution()) {
        if (!found.detail.empty()) none->detail += "; " + found.detail;
        found = std::move(*none);
      }
    // The next line overwrites b - A x, and so comes after all that reads it.
    if (depends_on_symmetry(found.reason) && find_solver(name_).symmetric) {
      symmetric_ = is_symmetric(method_, *system_, workspace_.number, found.detail);
      positive_diagonal_ = has_positive_diagonal(method_, *system_);
    }
    return end(found.reason, std::move(found.detail));
  }

  std::optional<Diagnosis> find_no_solution() {
    return find_inconsistent(method_, *system_, workspace_.number, tolerance_of_2_norm());
  }

  // x is the caller's from here on. Whatever the residual says, an x that is not finite is no solution.
  SolveReport end(StopReason reason, std::string detail = {}) {
    bring_back();
    bool lost = false;
    if (report_.iterations > 0)
      if (const auto bad = first_not_finite<T>(context(), callers_.x, workspace_.number)) {
        lost = std::isfinite(report_.true_residual);
        detail += (detail.empty() ? "" : "; ") + text_of<T>(*bad, lost, method_, callers_, workspace_.number);
        reason = StopReason::not_finite;
      }
    report_.reason = reason;
    report_.detail = std::move(detail);
    std::string fault;
    if (blames_preconditioner(reason)) fault = fault_of_preconditioner(method_, callers_, workspace_.number);
    report_.advice =
        advice_for(reason, {.method = name_,
                            .preconditioner = callers_.M ? callers_.M->name() : std::string_view(),
                            .symmetric = symmetric_,
                            .positive_diagonal = positive_diagonal_,
                            .preconditioner_fault = fault,
                            .x_not_determined = lost});
    if (control_) {
      report_.recurrence_relative = control_->relative(report_.recurrence_residual);
      report_.true_relative = control_->relative(report_.true_residual);
    }
    report_.graphs_recorded = steps_->recorded(), report_.graphs_made = steps_->made();
    report_.steps = steps_->name();
    report_.seconds = seconds();
    detail::count_solve(context(), report_.seconds);
    return std::move(report_);
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  const std::string_view name_;  // of the method
  const SolverOptions& options_;
  const VectorBlock<const T> callers_null_space_;
  // The null space in the order of the operator.
  VectorBlock<const T> null_space_ = callers_null_space_;
  const StoppingRule& rule_;
  Method<T>& method_;
  System<T> callers_;
  const HasOrder<T>* const has_order_ = callers_.A.abilities().order.get();
  ResidualWeights<T> weights_, ordered_weights_;  // of the two systems, where residuals are weighed
  double largest_inverse_weight_ = 1;
  // The system in the order of the operator: callers_, or ordered_.
  const System<T>* system_ = &callers_;
  std::optional<System<T>> ordered_;
  Permutation order_;                 // of the present vectors; of no rows: the caller's
  ChangeOfOrder<T> change_;           // that prepare_order() has got ready
  std::exception_ptr failed_change_;  // of adopt_order()
  bool begun_ = false;                // the method has vectors
  SolveObserver* observer_;
  Workspace<T>& workspace_;
  InAnOrder<T>& own_ = workspace_.in_an_order;
  HostSteps<T> host_steps_;
  FetchedSteps<T> fetched_steps_;
  Steps<T>* steps_ = &host_steps_;
  const HasRowArrays<T>* rows_ = nullptr;  // the operator, while keep_rows() holds its row arrays
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<IterationControl> control_;
  Revision revision_ = system_->A.revision();
  SolveReport report_;
  IterationInfo info_;
  double rhs_norm_ = 0, initial_norm_ = 0;  // 2-norms of b and b - A x0
  double begun_from_ = 0;                   // the true residual when the method began last
  bool asked_ = false;                      // whether x exists at all, between two cycles
  std::int64_t steps_since_begin_ = 0;
  double smallest_restart_ = std::numeric_limits<double>::infinity();
  int fruitless_ = 0;
  // Of the matrix, as far as a failed solve has found out.
  std::optional<bool> symmetric_, positive_diagonal_;
};

}  // namespace
}  // namespace detail

namespace {

// The symmetric preconditioner that is most alike.
std::string_view symmetric_relative(std::string_view name) {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == name && !entry.symmetric) return entry.symmetric_relative;
  return "jacobi";
}

}  // namespace

template <class T>
Solver<T>::Solver(SolverOptions options) : options_(std::move(options)) {}
template <class T>
Solver<T>::~Solver() = default;

template <class T>
SolveReport Solver<T>::solve(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x,
                             const Preconditioner<T>* M, SolveObserver* observer) {
  const std::int64_t n = A.rows();
  const Space space = A.context()->space();
  if (A.cols() != n)
    throw ShapeMismatch(fmt::format("the operator is {} x {}; {} needs a square one", n, A.cols(), name()));
  require<T>(b, n, space, "b");
  require<T>(x, n, space, "x");
  detail::require_device_memory(*A.context(), b.data, "b");
  detail::require_device_memory(*A.context(), x.data, "x");
  const std::less<const T*> before;
  if (n > 0 && before(b.data, x.data + n) && before(x.data, b.data + n))
    throw BadArgument("b and x of a solve overlap; give two vectors");
  VectorView<const T> d;
  if (M) {
    if (M->rows() != n || M->cols() != n)
      throw ShapeMismatch(
          fmt::format("the preconditioner is {} x {}; the operator is {} x {}", M->rows(), M->cols(), n, n));
    if (M->context()->space() != space)
      throw WrongSpace(fmt::format("the preconditioner works on {} memory, the operator on {} memory",
                                   to_string(M->context()->space()), to_string(space)));
    d = M->inverse_diagonal();
    if (d.size > 0) require<T>(d, n, space, "the preconditioner's diagonal");
    if (needs_symmetric_preconditioner() && !M->symmetric())
      throw BadArgument(fmt::format(
          "{} needs a symmetric preconditioner, and {} is not symmetric even if the matrix is; use {} "
          "instead, or method gmres or bicgstab",
          name(), M->name(), symmetric_relative(M->name())));
  }
  const detail::DeviceScope scope(*A.context());
  A.check_arrays();
  if (busy_.exchange(true))
    throw BadArgument(
        fmt::format("this {} solver is solving already; give each thread its own solver", name()));
  struct Release {
    std::atomic<bool>& flag;
    ~Release() { flag.store(false); }
  } release{busy_};
  const detail::System<T> system{A, b, x, M, d};
  if (const detail::WorkspaceLayout layout = detail::layout_of(system);
      !workspace_ || workspace_->layout != layout) {
    workspace_.reset();  // before the new one, so that memory holds one of them at most
    workspace_ = std::make_unique<detail::Workspace<T>>(layout, make_method(layout));
  }
  if (const auto bad = detail::first_not_finite<T>(*A.context(), x, workspace_->number))
    throw BadArgument(detail::guess_text("the initial guess", *bad));
  const VectorBlock<const T> N = detail::null_space_of<T>(options_, null_space_, A.context(), n,
                                                          workspace_->constant, workspace_->components);
  return detail::Run<T>(name(), options_, system, observer, *workspace_, N)();
}

template <class T>
void Solver<T>::set_null_space(VectorBlock<const T> N) {
  if (N.count > 0) detail::require_null_space_method(name());
  null_space_ = N;
}

std::span<const SolverEntry> solvers() noexcept {
  static const SolverEntry entries[] = {detail::cg,        detail::fcg, detail::minres, detail::bicgstab,
                                        detail::bicgstab2, detail::idr, detail::gmres,  detail::fgmres};
  return entries;
}

const SolverEntry& find_solver(std::string_view method) {
  std::vector<std::string_view> ids;
  for (const SolverEntry& entry : solvers()) {
    if (entry.id == method) return entry;
    ids.push_back(entry.id);
  }
  throw BadArgument(fmt::format("there is no method '{}'; there are {}.{}", method, fmt::join(ids, ", "),
                                detail::did_you_mean(method, ids)));
}

template <class T>
std::unique_ptr<Solver<T>> make_solver(std::string_view method, const SolverOptions& options) {
  const SolverEntry& entry = find_solver(method);
  check_options(solver_options(), options);
  require_read(solver_options(), options, "method", entry.id);
  if constexpr (sizeof(T) == 8)
    return entry.make_f64(options);
  else
    return entry.make_f32(options);
}

template class Solver<float>;
template class Solver<double>;
template std::unique_ptr<Solver<float>> make_solver<float>(std::string_view, const SolverOptions&);
template std::unique_ptr<Solver<double>> make_solver<double>(std::string_view, const SolverOptions&);

}  // namespace protean
