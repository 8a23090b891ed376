#include "life/steps.hpp"

#include <fmt/format.h>

#include <limits>
#include <thread>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "life/comparison.hpp"

namespace protean::test::life {
namespace {

SolvePlan draw_plan(Draw& draw) {
  SolvePlan plan;
  plan.op = draw.below(World<double>::operators), plan.solver = draw.below(World<double>::solvers);
  plan.preconditioning = draw.one_in(3) ? draw.of({Preconditioning::none, Preconditioning::jacobi})
                                        : static_cast<Preconditioning>(draw.below(preconditionings));
  plan.rhs = draw.one_in(20) ? draw.of({Rhs::zero, Rhs::infinite_entry}) : Rhs::random;
  plan.guess = draw.of({Guess::zero, Guess::zero, Guess::random, Guess::last_solution});
  plan.memory = draw.of({Memory::same, Memory::same, Memory::moved, Memory::arena, Memory::shifted});
  plan.numbers = draw.number();
  if (draw.one_in(2))
    plan.change = draw.of({Change::now, Change::now, Change::beside, Change::beside, Change::automatic,
                           Change::automatic, Change::cancelled, Change::left});
  plan.change_at = draw.below(30), plan.overlapped = !draw.one_in(3), plan.format = draw.number();
  if (draw.one_in(3)) plan.event = draw.of({Event::interrupt, Event::exception, Event::new_values});
  plan.event_at = draw.below(draw.one_in(3) ? 3 : 40), plan.exact = draw.one_in(2);
  plan.generation = draw.number();
  if (draw.one_in(4)) plan.throw_at_product = 1 + draw.below(60);
  if (draw.one_in(10)) plan.failing_allocation = 1 + draw.below(draw.one_in(2) ? 4 : 40);
  return plan;
}

template <class T>
std::vector<T> random_vector(std::int64_t n, std::uint64_t seed) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(2 * uniform(seed, i) - 1);
  return v;
}

template <class T>
std::vector<T> right_hand_side(const SolvePlan& plan, std::int64_t n) {
  if (plan.rhs == Rhs::zero) return std::vector<T>(static_cast<std::size_t>(n), T(0));
  std::vector<T> b = random_vector<T>(n, mixed(plan.numbers, 1));
  if (plan.rhs == Rhs::infinite_entry) b[b.size() / 2] = std::numeric_limits<T>::infinity();
  return b;
}

// One solve with kept objects, which is later repeated with fresh ones.
template <class T>
class Trial {
 public:
  Trial(World<T>& world, const SolvePlan& plan, const std::vector<T>* x0 = nullptr)
      : world_(world), plan_(plan), before_(world.op(plan.op).spec()), b_(right_hand_side<T>(plan, size())) {
    std::vector<T>& last = world.vectors(plan.op).last_x;
    const bool usable = last.size() == b_.size() && std::isfinite(last.front());
    x0_.assign(b_.size(), T(0));
    if (plan.guess == Guess::random) x0_ = random_vector<T>(size(), mixed(plan.numbers, 2));
    if (plan.guess == Guess::last_solution && usable) x0_ = last;
    if (x0) x0_ = *x0;
  }

  void with_kept_objects() {
    Operator<T>& A = world_.op(plan_.op);
    Vectors<T>& vectors = world_.vectors(plan_.op);
    const auto b = vectors.view(false, plan_.memory, A.context(), A.size());
    const auto x = vectors.view(true, plan_.memory, A.context(), A.size());
    Preconditioner<T>* const M = world_.preconditioner(plan_.preconditioning, plan_.op);
    const FailingAllocation fault(plan_.failing_allocation);
    kept_ = carry_out<T>(plan_, {A, world_.solver(plan_.solver), M, b, x}, b_, x0_);
  }

  // Empty, or what is wrong.
  std::string compared_with_fresh_objects() {
    Operator<T>& A = world_.op(plan_.op);
    world_.vectors(plan_.op).last_x = kept_.x;
    count();
    const Solver<T>& solver = world_.solver(plan_.solver);
    const Solved<T> solved{before_.system, A.spec().generation, b_, solver.name(), solver.options().stopping};
    if (std::string text = A.complaint(plan_.failing_allocation > 0); !text.empty()) return text;
    if (kept_.out_of_memory && plan_.failing_allocation > 0) return {};
    if (std::string text = lie(kept_, solved); !text.empty()) return text;

    SolvePlan plan = plan_;
    plan.failing_allocation = 0;
    // A change of format that memory was short for did not happen, and elsewhere the format matters.
    const Owed exactly = plan_.failing_allocation > 0 && plan_.change != Change::none
                             ? Owed::rounding
                             : owed(before_, plan, A.context()->threads());
    const ContextPtr context = context_of_fresh_objects(before_, A.context(), plan.numbers);
    Operator<T> fresh(context, spec_of_fresh_operator(before_, kept_.orders_adopted > 0, plan));
    const auto again = make_solver<T>(solver.name(), solver.options());
    const auto M = make_preconditioning<T>(plan.preconditioning, fresh.get());
    Vector<T> b(context, size()), x(context, size());
    const Outcome<T> outcome = carry_out<T>(plan, {fresh, *again, M.get(), b.view(), x.view()}, b_, x0_);
    if (std::string text = difference(exactly, kept_, outcome, solved); !text.empty()) return text;
    return kept_.orders_adopted > 0 ? compared_with_no_change_of_order(solved) : std::string();
  }

  // A recurrence goes on in another order, so the solve takes the iterations that it takes without.
  std::string compared_with_no_change_of_order(const Solved<T>& solved) {
    const Solver<T>& solver = world_.solver(plan_.solver);
    const ContextPtr context =
        context_of_fresh_objects(before_, world_.op(plan_.op).context(), plan_.numbers);
    OperatorSpec spec = before_;
    spec.format.order = {};
    SolvePlan plan = plan_;
    plan.change = Change::none, plan.failing_allocation = 0;
    Operator<T> plain(context, spec);
    const auto again = make_solver<T>(solver.name(), solver.options());
    const auto M = make_preconditioning<T>(plan.preconditioning, plain.get());
    Vector<T> b(context, size()), x(context, size());
    const Outcome<T> outcome = carry_out<T>(plan, {plain, *again, M.get(), b.view(), x.view()}, b_, x0_);
    const std::string text = difference(Owed::rounding, kept_, outcome, solved);
    return text.empty() ? text : "compared with no change of order, " + text;
  }

  const std::vector<T>& x() const { return kept_.x; }
  const std::vector<T>& x0() const { return x0_; }

 private:
  std::int64_t size() const { return world_.op(plan_.op).size(); }

  void count() {
    auto& counts = world_.counts;
    ++counts["solves"];
    if (kept_.out_of_memory) ++counts["solves ended by an allocation that failed"];
    if (kept_.thrown == "the observer throws") ++counts["exceptions of the observer"];
    if (kept_.thrown == "the product of the callback throws") ++counts["exceptions of a callback"];
    if (!kept_.thrown.empty()) return;
    ++counts[kept_.report.converged() ? "converged" : "ended without convergence"];
    if (kept_.report.reason == StopReason::interrupted) ++counts["interrupted"];
    if (kept_.event_happened && plan_.event == Event::new_values) ++counts["new values in a solve"];
    const auto adopted = static_cast<std::int64_t>(kept_.changes_adopted);
    if (plan_.change == Change::now) counts["changes of format by a schedule"] += adopted;
    if (plan_.change == Change::beside) counts["changes of format built next to the solve"] += adopted;
    if (plan_.change == Change::automatic) counts["changes of format by an AutoSwitcher"] += adopted;
    const auto orders = static_cast<std::int64_t>(kept_.orders_adopted);
    if (plan_.change == Change::now) counts["changes of order by a schedule"] += orders;
    if (plan_.change == Change::beside) counts["changes of order built next to the solve"] += orders;
    counts["changes back to the order before"] += static_cast<std::int64_t>(kept_.orders_left);
    const std::string& order = before_.format.order;
    if (!order.empty() && order != "none") ++counts["solves that begin in another order"];
    if (before_.kind == Kind::in_order) ++counts["solves with a matrix that stays in an order"];
    ++counts["steps: " + kept_.report.steps];
  }

  World<T>& world_;
  SolvePlan plan_;
  OperatorSpec before_;
  std::vector<T> b_, x0_;
  Outcome<T> kept_;
};

template <class T>
void note(World<T>& world, const Step& step, const std::string& what) {
  world.note(fmt::format("step {}: {}", step.number, what));
}

template <class T>
void note(World<T>& world, const Step& step, const SolvePlan& plan) {
  note(world, step,
       fmt::format("{} (operator {}: {})", describe(plan), plan.op, describe(world.op(plan.op).spec())));
}

template <class T>
std::string solve_once(World<T>& world, const Step& step, const SolvePlan& plan,
                       const std::vector<T>* x0 = nullptr) {
  note(world, step, plan);
  Trial<T> trial(world, plan, x0);
  trial.with_kept_objects();
  return trial.compared_with_fresh_objects();
}

template <class T>
std::string there_and_back(World<T>& world, const Step& step) {
  SolvePlan there = step.plan, between = step.second;
  between.solver = there.solver;
  for (const SolvePlan* plan : {&there, &between, &there})
    if (std::string text = solve_once(world, step, *plan); !text.empty()) return text;
  return {};
}

template <class T>
std::string twice(World<T>& world, const Step& step) {
  if (std::string text = solve_once(world, step, step.plan); !text.empty()) return text;
  SolvePlan again = step.plan;
  again.memory = Memory::same, again.numbers = step.second.numbers;
  return solve_once(world, step, again);
}

template <class T>
std::string columns(World<T>& world, const Step& step) {
  SolvePlan plan = step.plan;
  // There is no AutoSwitcher for several right-hand sides.
  if (plan.change == Change::automatic || plan.change == Change::cancelled) plan.change = Change::now;
  plan.change_at /= 3;
  note(world, step,
       fmt::format("{} (operator {}: {})", describe(plan, step.columns), plan.op,
                   describe(world.op(plan.op).spec())));
  return solve_columns(world, plan, step.columns);
}

template <class T>
std::string two_threads(World<T>& world, const Step& step) {
  SolvePlan first = step.plan, second = step.second;
  second.op = world.operator_elsewhere(first.op, second.op);
  if (second.op < 0) return {};
  if (second.solver == first.solver) second.solver = (first.solver + 1) % World<T>::solvers;
  first.failing_allocation = second.failing_allocation = 0;
  note(world, step, first);
  note(world, step, second);
  world.note("  both at the same time, in two threads");
  ++world.counts["pairs of solves in two threads"];
  Trial<T> one(world, first), other(world, second);
  std::thread beside([&] { other.with_kept_objects(); });
  one.with_kept_objects();
  beside.join();
  if (std::string text = one.compared_with_fresh_objects(); !text.empty()) return text;
  return other.compared_with_fresh_objects();
}

template <class T>
std::vector<T> product_of(Operator<T>& A, const Product<T>& product) {
  const Context& context = *A.context();
  const auto n = A.size();
  Vector<T> x(A.context(), n), y(A.context(), n);
  copy<T>(context, {product.x.data(), n}, x);
  copy<T>(context, {product.y0.data(), n}, y);
  A.get().apply(product.alpha, x, product.beta, y);
  std::vector<T> result(product.x.size());
  copy<T>(context, y, {result.data(), n});
  return result;
}

template <class T>
std::string product(World<T>& world, const Step& step) {
  Operator<T>& A = world.op(step.plan.op);
  const OperatorSpec spec = A.spec();
  note(world, step, fmt::format("a product with operator {} ({})", step.plan.op, describe(spec)));
  ++world.counts["products"];
  Draw draw(step.seed);
  const auto x = random_vector<T>(A.size(), draw.number()), y0 = random_vector<T>(A.size(), draw.number());
  const Product<T> what{draw.of({T(1), T(-1), T(2.5)}), draw.of({T(0), T(1), T(-0.5)}), x, y0};
  Operator<T> fresh(on_gpu(spec.place) ? A.context() : make_context(spec.place), spec);
  return difference(owed(spec, {}, A.context()->threads()), what, product_of(A, what),
                    product_of(fresh, what), *numbers<T>(spec.system, spec.generation));
}

template <class T>
std::string new_values(World<T>& world, const Step& step) {
  Operator<T>& A = world.op(step.plan.op);
  note(world, step,
       fmt::format("operator {} gets values {}{}", step.plan.op, step.plan.generation,
                   step.failing_allocation > 0 ? fmt::format("; allocation {} fails", step.failing_allocation)
                                               : std::string()));
  try {
    const FailingAllocation fault(step.failing_allocation);
    A.set_values(step.plan.generation);
  } catch (const OutOfMemory&) {
    ++world.counts["new values that memory was short for"];
    if (step.failing_allocation == 0) throw;
  } catch (const BadMatrix&) {  // element matrices that are not finite
    if (quality(step.plan.generation) != Quality::not_finite) throw;
  }
  return A.complaint(step.failing_allocation > 0);
}

template <class T>
std::string change_format(World<T>& world, const Step& step) {
  Operator<T>& A = world.op(step.plan.op);
  Matrix<T>* const adaptive = A.adaptive();
  if (!adaptive) return {};
  Draw draw(step.seed);
  const FormatSpec format = pick_change(A.spec().place, draw.number());
  const std::size_t changes_before = adaptive->history().size();
  const int how = draw.of({0, 0, 0, 1, 2, 3, 4});
  constexpr const char* names[] = {"is brought into", "begins to build", "adopts what is ready, not",
                                   "waits and adopts what is built, not", "cancels a build, not"};
  note(world, step,
       fmt::format("operator {} {} {}{}", step.plan.op, names[how], format.name(),
                   step.failing_allocation > 0 ? fmt::format("; allocation {} fails", step.failing_allocation)
                                               : std::string()));
  {
    const FailingAllocation fault(step.failing_allocation);
    if (how == 0) (void)adaptive->switch_to(format, 0, "the test");
    if (how == 1) adaptive->prepare(format, "the test");
    if (how == 3) (void)adaptive->wait_prepared();
    if (how == 2 || how == 3) (void)adaptive->adopt_prepared(0);
    if (how == 4) adaptive->cancel(0, "the test");
  }
  for (const SwitchRecord& one : adaptive->history().subspan(changes_before)) {
    if (one.from_order == one.to_order) continue;
    ++world.counts["changes of order outside of a solve"];
    if (one.to_order == "none") ++world.counts["changes back to the order before"];
  }
  return A.complaint(step.failing_allocation > 0);
}

}  // namespace

Step draw_step(std::uint64_t seed, int number) {
  using enum StepKind;
  Draw draw(mixed(seed, 3, static_cast<std::uint64_t>(number)));
  Step step;
  step.number = number;
  step.kind = draw.of({solve,         solve,         solve,          solve,          solve,
                       solve,         solve,         there_and_back, there_and_back, there_and_back,
                       twice,         two_threads,   columns,        columns,        columns,
                       columns,       product,       product,        new_values,     new_values,
                       new_values,    change_format, change_format,  change_format,  change_format,
                       change_format, new_operator,  new_operator,   new_solver,     new_preconditioners});
  step.plan = draw_plan(draw), step.second = draw_plan(draw);
  step.columns = draw_columns(draw);
  step.seed = draw.number();
  if (draw.one_in(5)) step.failing_allocation = 1 + draw.below(6);
  return step;
}

template <class T>
std::string carry_out(World<T>& world, const Step& step) {
  Draw draw(step.seed);
  switch (step.kind) {
    case StepKind::solve:
      return solve_once(world, step, step.plan);
    case StepKind::there_and_back:
      return there_and_back(world, step);
    case StepKind::twice:
      return twice(world, step);
    case StepKind::two_threads:
      return two_threads(world, step);
    case StepKind::columns:
      return columns(world, step);
    case StepKind::product:
      return product(world, step);
    case StepKind::new_values:
      return new_values(world, step);
    case StepKind::change_format:
      return change_format(world, step);
    case StepKind::new_operator:
      note(world, step, "a new operator");
      world.new_operator(step.plan.op, draw);
      return {};
    case StepKind::new_solver:
      note(world, step, "a new solver");
      if (step.plan.numbers % 3 == 0)
        world.new_multi_solver(step.columns.solver, draw);
      else
        world.new_solver(step.plan.solver, draw);
      return {};
    case StepKind::new_preconditioners:
      note(world, step, "all preconditioners are dropped");
      world.drop_preconditioners();
      return {};
  }
  return {};
}

template std::string carry_out(World<float>&, const Step&);
template std::string carry_out(World<double>&, const Step&);

}  // namespace protean::test::life
