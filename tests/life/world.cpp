#include "life/world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "life/systems.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/options.hpp"
#include "support/engines.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

std::atomic<std::uint64_t> looks_at_clock{0}, clock_microseconds{0};

std::vector<Place> places_of(std::string_view space) {
  if (space == "host") return {Place::host, Place::host, Place::one_thread, Place::ordered};
  if (space == "simulated") return {Place::simulated, Place::simulated, Place::host};
  return {Place::device, Place::device, Place::ordered_device, Place::ordered_device, Place::host};
}

Kind draw_kind(Draw& draw, Place place) {
  using enum Kind;
  // The simulated device has no kernels for element matrices, and deterministic mode refuses them.
  if (place == Place::simulated || place == Place::ordered || place == Place::ordered_device)
    return draw.of({assembled, in_order, adaptive, adaptive, adaptive, callback});
  return draw.of({assembled, assembled, in_order, adaptive, adaptive, adaptive, adaptive, callback, elements,
                  adaptive_elements, adaptive_elements});
}

bool of_elements(Kind kind) { return kind == Kind::elements || kind == Kind::adaptive_elements; }

const char* draw_order(Draw& draw) { return draw.of({"rcm", "length", "cluster"}); }

OperatorSpec draw_spec(Draw& draw, Place place) {
  OperatorSpec spec;
  spec.place = place, spec.kind = draw_kind(draw, place);
  // Each piece of work on the simulated device costs time for each page it touches.
  const std::int64_t largest = place == Place::simulated ? 500 : largest_system();
  const auto fits = [&] {
    const SystemInfo& system = systems()[spec.system];
    return system.size <= largest && (system.elements || !of_elements(spec.kind));
  };
  do spec.system = draw.below(static_cast<int>(systems().size()));
  while (!fits());
  // Element matrices that are not finite are refused.
  do spec.generation = draw.number();
  while (of_elements(spec.kind) && quality(spec.generation) == Quality::not_finite);
  spec.format = pick_format(place, draw.number());
  if (of_elements(spec.kind)) spec.format = {.entry = nullptr, .params = {}, .kernel = {}, .elements = true};
  const char* const order = draw_order(draw);
  if (spec.kind == Kind::in_order) spec.format.order = order;
  if (spec.kind == Kind::adaptive && draw.one_in(3)) spec.format.order = order;
  spec.scatter = draw.of(
      {ElementScatter::automatic, ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather});
  spec.recordable = draw.one_in(2);
  return spec;
}

}  // namespace

std::string_view to_string(Place place) {
  constexpr std::string_view names[] = {
      "host, two threads", "host, one thread", "host, deterministic", "simulated device", "GPU",
      "GPU, deterministic"};
  return names[static_cast<int>(place)];
}
bool on_gpu(Place place) { return place == Place::device || place == Place::ordered_device; }

ContextPtr make_context(Place place, int threads) {
  switch (place) {
    case Place::host:
      return Context::host(2);
    case Place::one_thread:
      return Context::host(1);
    case Place::ordered:
      return Context::host(threads, {.vector_kernels = VectorKernels::native, .deterministic = true});
    case Place::simulated:
      return fake_device_context({.steps_ahead = 3, .steps_after_end = 4});
    case Place::device:
      return Context::device();
    case Place::ordered_device:
      return Context::device(0, {.deterministic = true});
  }
  throw std::logic_error("no such place");
}

std::string_view to_string(Kind kind) {
  constexpr std::string_view names[] = {"a matrix",         "an adaptive operator",
                                        "element matrices", "an adaptive operator of element matrices",
                                        "a callback",       "a matrix in another order"};
  return names[static_cast<int>(kind)];
}

std::string describe(const OperatorSpec& spec) {
  constexpr std::string_view qualities[] = {"", ", an entry of the diagonal negated", ", an entry is NaN"};
  return fmt::format("{} of '{}', values {}{}, in {}, on {}", to_string(spec.kind),
                     systems()[spec.system].name, spec.generation,
                     qualities[static_cast<int>(quality(spec.generation))], spec.format.name(),
                     to_string(spec.place));
}

FormatSpec pick_format(Place place, unsigned number) {
  std::vector<const FormatEntry*> entries;
  for (const FormatEntry* entry : layouts_of_any_matrix())
    if (on_gpu(place) ? entry->device != nullptr : !entry->kernels.empty())
      entries.push_back(place == Place::simulated ? &fake_format(entry->id) : entry);
  const auto take = [&number](std::size_t of) {
    const std::size_t one = number % of;
    number /= static_cast<unsigned>(of);
    return one;
  };
  const FormatEntry& entry = *entries[take(entries.size())];
  FormatSpec spec{.entry = &entry, .params = {}, .kernel = {}, .elements = false};
  if (take(2) == 0) spec.params = most_tolerant(entry);
  if (entry.id == "sell-c-sigma" && take(2) == 0) {
    constexpr int heights[] = {1, 4, 8, 16, 32};
    const int height = heights[take(5)];
    spec.params.set("C", height), spec.params.set("sigma", take(2) == 0 ? 1 : 4 * height);
  }
  // On a GPU the kernels of libraries also take part.
  if (on_gpu(place) && take(2) == 0) {
    const auto kernels = kernels_in(entry, Space::device);
    const Kernel& kernel = kernels[take(kernels.size())];
    if (kernel.unavailable.empty()) spec.kernel = kernel.name;
  }
  return spec;
}

FormatSpec pick_change(Place place, unsigned number) {
  FormatSpec spec = pick_format(place, number);
  Draw draw(mixed(number, 77));
  if (draw.one_in(3)) return spec;
  if (draw.one_in(2)) spec.entry = nullptr, spec.params = {}, spec.kernel = {};
  spec.order = draw.one_in(3) ? "none" : draw_order(draw);
  return spec;
}

template <class T>
Operator<T>::Operator(const ContextPtr& context, const OperatorSpec& spec) : spec_(spec), context_(context) {
  switch (spec.kind) {
    case Kind::assembled: {
      auto made = make_assembled();
      assembled_ = made.get(), A_ = std::move(made);
      return;
    }
    case Kind::adaptive: {
      auto made = std::make_unique<Matrix<T>>(placed_csr(spec.generation), make_assembled(),
                                              MatrixOptions{.clock = made_up_seconds});
      adaptive_ = made.get(), A_ = std::move(made);
      bring_into_order();
      return;
    }
    case Kind::in_order:
      make_in_order();
      return;
    case Kind::elements: {
      auto made = make_elements();
      elements_ = made.get(), A_ = std::move(made);
      return;
    }
    case Kind::adaptive_elements: {
      auto made = std::make_unique<Matrix<T>>(make_elements(), MatrixOptions{.clock = made_up_seconds});
      adaptive_ = made.get(), A_ = std::move(made);
      if (!spec.format.elements && !adaptive_->switch_to(spec.format, 0))
        throw std::runtime_error("element matrices could not be assembled");
      return;
    }
    case Kind::callback:
      make_callback(context);
  }
}

template <class T>
CsrMatrix<T> Operator<T>::placed_csr(unsigned generation) const {
  const auto values = numbers<T>(spec_.system, generation);
  return placed<T>(context_, values->csr);
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> Operator<T>::make_assembled() {
  return make_assembled(placed_csr(spec_.generation));
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> Operator<T>::make_assembled(const CsrMatrix<T>& csr) {
  const FormatEntry& plain = spec_.place == Place::simulated ? fake_format("csr") : find_format("csr");
  try {
    return make_matrix(*spec_.format.entry, csr, context_, spec_.format.params, spec_.format.kernel);
  } catch (const FormatRefused&) {
    spec_.format.entry = &plain, spec_.format.params = {}, spec_.format.kernel = {};
    return make_matrix(plain, csr, context_);
  }
}

template <class T>
void Operator<T>::make_in_order() {
  const ContextPtr host = context_->space() == Space::host ? context_ : test_context();
  const CsrMatrix<T> csr = numbers<T>(spec_.system, spec_.generation)->csr;
  PermutedMatrix<T> permuted(host, csr,
                             Permutation(context_, make_order(spec_.format.order, *host, csr.pattern)));
  auto matrix = make_assembled(permuted.matrix());
  inside_ = matrix.get();
  auto made =
      std::make_unique<Matrix<T>>(placed_csr(spec_.generation), spec_.format.order, std::move(permuted),
                                  std::move(matrix), MatrixOptions{.changes = false});
  in_order_ = made.get(), A_ = std::move(made);
}

// A format may refuse the matrix in that order; then the operator has no other order, as spec() will say.
template <class T>
void Operator<T>::bring_into_order() {
  if (!spec_.format.order.empty() && spec_.format.order != "none")
    (void)adaptive_->switch_to(spec_.format, 0);
}

template <class T>
std::unique_ptr<ElementOperator<T>> Operator<T>::make_elements() const {
  const auto values = numbers<T>(spec_.system, spec_.generation);
  const SystemInfo& system = systems()[spec_.system];
  const ElementGroup<T> group{.elements = static_cast<std::int64_t>(values->elements.size() / 4),
                              .nodes = 4,
                              .connectivity = values->elements,
                              .matrices = values->matrices};
  ElementOptions options;
  options.scatter = spec_.scatter, options.symmetric = system.symmetric;
  return make_element_operator<T>(context_, system.size, std::span(&group, 1), options);
}

template <class T>
void Operator<T>::make_callback(const ContextPtr& context) {
  inner_ = make_assembled();
  const std::int64_t n = inner_->rows();
  const Space space = context->space();
  ProductFunction<T> product = [this, n, space](const T* x, T* y, CUstream_st*) {
    if (until_throw_ > 0 && --until_throw_ == 0) throw Thrown("the product of the callback throws");
    inner_->apply({x, n, space}, {y, n, space});
  };
  auto made = std::make_unique<CallbackOperator<T>>(context, Shape{n, n}, std::move(product),
                                                    CallbackOptions{"callback", spec_.recordable});
  made->set_diagonal([this, n, space](T* d, CUstream_st*) { inner_->diagonal({d, n, space}); });
  callback_ = made.get(), A_ = std::move(made);
}

template <class T>
OperatorSpec Operator<T>::spec() const {
  OperatorSpec now = spec_;
  if (elements_) now.scatter = elements_->scatter();
  const AssembledMatrix<T>* matrix = assembled_ ? assembled_ : in_order_ ? inside_ : inner_.get();
  std::string order = in_order_ ? spec_.format.order : std::string();
  if (adaptive_) {
    order = adaptive_->order_id();
    if (adaptive_->elements()) now.scatter = adaptive_->elements()->scatter();
    matrix = adaptive_->on_elements() ? nullptr : &adaptive_->current();
  }
  if (matrix)
    now.format = {&matrix->entry(), matrix->params(), std::string(matrix->kernel()), false, order};
  else
    now.format = {nullptr, {}, {}, true, {}};
  return now;
}

template <class T>
void Operator<T>::set_values(unsigned generation) {
  if (of_elements(spec_.kind)) {
    const auto values = numbers<T>(spec_.system, generation);
    const ElementGroup<T> group{.elements = static_cast<std::int64_t>(values->elements.size() / 4),
                                .nodes = 4,
                                .connectivity = {},
                                .matrices = values->matrices};
    const std::span groups(&group, 1);
    adaptive_ ? adaptive_->update_values(groups) : elements_->update_values(groups);
  } else if (adaptive_) {
    adaptive_->update_values(placed_csr(generation));
  } else if (in_order_) {
    in_order_->update_values(placed_csr(generation));
  } else {
    (inner_ ? inner_.get() : assembled_)->update_values(placed_csr(generation));
    if (callback_) callback_->changed();
  }
  spec_.generation = generation;
}

template <class T>
std::string Operator<T>::complaint(bool faults) {
  if (!adaptive_) return {};
  had_faults_ = had_faults_ || faults;
  if (adaptive_->rows_kept()) return "the operator believes that a solve still keeps its rows";
  for (const auto failures = adaptive_->failures(); failures_seen_ < failures.size();) {
    const FailedSwitch& one = failures[failures_seen_++];
    if (one.failure == SwitchFailure::refused || one.failure == SwitchFailure::cancelled) continue;
    if (one.failure == SwitchFailure::out_of_memory && had_faults_) continue;
    // A build next to the solves can take the allocation that was to fail in another object.
    if (one.why.find("the test's allocation failed") != std::string::npos) continue;
    return fmt::format("a change to {} failed: {}: {}", one.to, protean::to_string(one.failure), one.why);
  }
  return {};
}

std::string_view to_string(Preconditioning kind) {
  constexpr std::string_view names[] = {"no preconditioner",
                                        "jacobi",
                                        "a callback preconditioner",
                                        "block-jacobi",
                                        "spai0",
                                        "gauss-seidel",
                                        "ssor",
                                        "ic0",
                                        "ic",
                                        "ilu0",
                                        "ilu",
                                        "chebyshev"};
  static_assert(std::size(names) == preconditionings);
  return names[static_cast<int>(kind)];
}

template <class T>
std::unique_ptr<Preconditioner<T>> make_preconditioning(Preconditioning kind, const LinearOperator<T>& A) {
  if (kind == Preconditioning::none) return nullptr;
  if (kind != Preconditioning::callback) return make_preconditioner<T>(to_string(kind), A);
  const ContextPtr context = A.context();
  const std::int64_t n = A.rows();
  const auto half = std::make_shared<Vector<T>>();
  const auto setup = [context, n, half](const LinearOperator<T>& of, bool) {
    Vector<T> next(context, n), unusable(context, 1);
    dynamic_cast<const HasDiagonal<T>&>(of).diagonal(next);
    reciprocal<T>(*context, next, unusable.data());
    scale<T>(*context, T(0.5), next);
    std::swap(*half, next);
  };
  const auto solve = [context, n, half](const T* r, T* z, CUstream_st*) {
    const Space space = context->space();
    multiply<T>(*context, half->view(), {r, n, space}, {z, n, space});
  };
  return std::make_unique<CallbackPreconditioner<T>>(context, A.shape(), ProductFunction<T>(solve), setup,
                                                     CallbackOptions{"half of jacobi", true});
}

double made_up_seconds() {
  const std::uint64_t step = 1 + mixed(looks_at_clock++) % 60;
  return 1e-6 * static_cast<double>(clock_microseconds += step);
}
void seed_made_up_clock(std::uint64_t seed) { looks_at_clock = seed % 1'000'000'007; }

std::string_view to_string(Memory memory) {
  constexpr std::string_view names[] = {"where they were", "moved", "at the beginning of a large array",
                                        "one entry into a large array"};
  return names[static_cast<int>(memory)];
}

template <class T>
VectorView<T> Vectors<T>::view(bool of_x, Memory memory, const ContextPtr& context, std::int64_t n) {
  Vector<T>& own = of_x ? x : b;
  if (memory == Memory::same && own.size() != n) own = Vector<T>(), own = Vector<T>(context, n);
  if (memory == Memory::moved) own = Vector<T>(context, n);
  if (memory == Memory::same || memory == Memory::moved) return own.view();
  Vector<T>& arena = of_x ? arena_x : arena_b;
  if (arena.size() == 0) arena = Vector<T>(context, largest_system() + 1);
  return {arena.data() + (memory == Memory::shifted ? 1 : 0), n, context->space()};
}

SolverOptions draw_options(Draw& draw, bool single, bool gpu) {
  SolverOptions options;
  StoppingRule& rule = options.stopping;
  rule.relative_tolerance = draw.of({1e-4, 1e-6, 1e-8, 1e-10});
  if (single) rule.relative_tolerance = std::max(rule.relative_tolerance, 2e-5);
  if (draw.one_in(6)) rule.absolute_tolerance = 1e-3;
  rule.max_iterations = draw.of({3, 40, 400, 400, 400, 400});
  if (draw.one_in(6)) rule.stagnation_window = 20;
  if (draw.one_in(6)) rule.baseline = Baseline::initial_residual;
  options.restart = draw.of({1, 4, 30, 30, 200});
  options.orthogonalization = draw.one_in(2) ? "mgs" : "cgs2";
  options.directions = draw.of({1, 3, 5, 8});
  options.s = draw.of({1, 2, 4, 8});
  // If it cannot be, resident is refused each time.
  if (draw.one_in(gpu ? 4 : 20)) options.device_steps = "resident";
  if (draw.one_in(4) && gpu) options.device_steps = "graph";
  return options;
}

template <class T>
World<T>::World(std::string_view space, std::uint64_t seed) : places_(places_of(space)) {
  for (int slot = 0; slot < operators; ++slot) {
    operators_.emplace_back();
    Draw draw(mixed(seed, 1, slot));
    new_operator(slot, draw);
  }
  for (int slot = 0; slot < solvers; ++slot) {
    solvers_.emplace_back();
    Draw draw(mixed(seed, 2, slot));
    new_solver(slot, draw);
  }
  for (int slot = 0; slot < multi_solvers; ++slot) {
    multi_solvers_.emplace_back();
    Draw draw(mixed(seed, 4, slot));
    new_multi_solver(slot, draw);
  }
}

template <class T>
Preconditioner<T>* World<T>::preconditioner(Preconditioning kind, int slot) {
  if (kind == Preconditioning::none) return nullptr;
  auto& one = kept(slot).preconditioners[{op(slot).size(), kind}];
  if (!one) one = make_preconditioning<T>(kind, op(slot).get());
  return one.get();
}

template <class T>
void World<T>::new_operator(int slot, Draw& draw) {
  const Place place = places_[draw.below(static_cast<int>(places_.size()))];
  ContextPtr& context = contexts_[place];
  if (!context || draw.one_in(on_gpu(place) ? 30 : 5)) context = make_context(place);
  // Half of the time the new operator may lie where the old one was.
  if (draw.one_in(2)) operators_[slot].reset();
  operators_[slot] = std::make_unique<Operator<T>>(context, draw_spec(draw, place));
  note(fmt::format("operator {} is now {}", slot, describe(op(slot).spec())));
  // Contexts without operators go, except the parts that solvers still hold.
  std::erase_if(kept_, [&](const auto& one) {
    return std::none_of(operators_.begin(), operators_.end(),
                        [&](const auto& used) { return used && used->context() == one.first; });
  });
}

template <class T>
void World<T>::new_solver(int slot, Draw& draw) {
  // The first four are of all methods, cg twice; later ones of any.
  constexpr const char* methods[] = {"cg",     "cg",        "bicgstab", "gmres", "fcg",
                                     "minres", "bicgstab2", "idr",      "fgmres"};
  const char* const method =
      methods[solvers_[slot] ? draw.below(static_cast<int>(std::size(methods))) : slot];
  const bool gpu = on_gpu(places_.front());
  SolverOptions options = draw_options(draw, sizeof(T) == 4, gpu);
  if (slot == 0) options.device_steps = "auto";
  options = options_read_by(method, options);
  solvers_[slot] = make_solver<T>(method, options);
  note(fmt::format(
      "solver {} is now a {} with relative tolerance {:g}, absolute {:g}, at most {} iterations, stagnation "
      "window {}, {}, restart {}, {}, device_steps {}",
      slot, method, options.stopping.relative_tolerance, options.stopping.absolute_tolerance,
      options.stopping.max_iterations, options.stopping.stagnation_window,
      options.stopping.baseline == Baseline::rhs ? "relative to b" : "relative to the initial residual",
      options.restart, options.orthogonalization, options.device_steps));
}

template <class T>
void World<T>::new_multi_solver(int slot, Draw& draw) {
  // The first ones are of all methods that take several right-hand sides.
  const auto methods = multi_methods();
  const auto one = multi_solvers_[slot] ? draw.below(static_cast<int>(methods.size())) : slot;
  const std::string_view method = methods[static_cast<std::size_t>(one) % methods.size()];
  SolverOptions options = draw_options(draw, sizeof(T) == 4, false);
  options.device_steps = "auto";
  options = options_read_by(method, options);
  multi_solvers_[slot] = std::make_unique<MultiSolver<T>>(method, options);
  note(fmt::format(
      "multi solver {} is now a {} with relative tolerance {:g}, absolute {:g}, at most {} iterations, "
      "restart {}, {}",
      slot, method, options.stopping.relative_tolerance, options.stopping.absolute_tolerance,
      options.stopping.max_iterations, options.restart, options.orthogonalization));
}

template <class T>
void World<T>::drop_preconditioners() {
  for (auto& [context, one] : kept_) one.preconditioners.clear();
}

template <class T>
int World<T>::operator_elsewhere(int slot, int from) const {
  for (int k = 0; k < operators; ++k)
    if (operators_[(from + k) % operators]->context() != operators_[slot]->context())
      return (from + k) % operators;
  return -1;
}

#define LIFE_INSTANTIATE(T)   \
  template class Operator<T>; \
  template class World<T>;    \
  template struct Vectors<T>; \
  template std::unique_ptr<Preconditioner<T>> make_preconditioning(Preconditioning, const LinearOperator<T>&);
LIFE_INSTANTIATE(float)
LIFE_INSTANTIATE(double)

}  // namespace protean::test::life
