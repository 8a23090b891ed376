// The life of kept systems: each LinearSystem goes through random settings, values, schedules, columns and calls that
// fail, and each solve agrees with the solve of a fresh system with the same settings and values; what a fresh system
// refuses it refuses in the same words. The environment variables are the same as for test_life.cpp (replay.hpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "kept.hpp"
#include "life/comparison.hpp"
#include "life/replay.hpp"
#include "support/multi.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

template <class T>
class KeptWorld {
 public:
  static constexpr int slots = 3;
  KeptWorld(bool gpu, std::uint64_t seed) : gpu_(gpu) {
    for (int slot = 0; slot < slots; ++slot) {
      Draw draw(mixed(seed, 21, slot));
      new_system(slot, draw);
    }
  }

  // Empty, or what is wrong.
  std::string step(std::uint64_t seed, int number) {
    Draw draw(mixed(seed, 23, static_cast<std::uint64_t>(number)));
    prefix_ = fmt::format("step {}: ", number);
    const int slot = draw.below(slots), kind = draw.below(20);
    if (kind < 7) return solve(slot, draw);
    if (kind < 12) return set(slot, draw);
    if (kind < 14) return new_values(slot, draw);
    if (kind < 16) return refused_settings(slot, draw);
    if (kind == 16) return calls_that_fail(slot);
    if (kind == 17) return set_callback(slot, draw);
    if (kind == 18) return solve_twice(slot, draw);
    if (draw.one_in(2)) new_system(slot, draw);
    return {};
  }
  const std::vector<std::string>& notes() const { return notes_; }
  std::map<std::string, std::int64_t> counts;

 private:
  void note(const std::string& text) { notes_.push_back(prefix_ + text); }

  void new_system(int slot, Draw& draw) {
    KeptSpec spec;
    const auto fits = [&] {
      const SystemInfo& info = systems()[spec.system];
      return !info.elements && info.size <= 1089;
    };
    do spec.system = draw.below(static_cast<int>(systems().size()));
    while (!fits());
    spec.place = gpu_ ? draw.of({Place::device, Place::ordered_device})
                      : draw.of({Place::host, Place::host, Place::one_thread, Place::ordered});
    do spec.generation = draw.number();
    while (quality(spec.generation) != Quality::dominant);
    spec.settings.solver.stopping.max_iterations = 400;
    if (sizeof(T) == 4) spec.settings.solver.stopping.relative_tolerance = 1e-4;
    for (int k = 0; k < 4; ++k) change(spec.settings, spec.place, draw);
    const ContextPtr context = context_of(spec.place);
    spec.settings.context = context;
    kept_[slot].reset();
    kept_[slot].emplace(spec, context);
    note(fmt::format("system {} is now '{}', values {}, {}: {}", slot, systems()[spec.system].name,
                     spec.generation, to_string(spec.place), in_words(spec.settings)));
  }
  ContextPtr context_of(Place place) {
    ContextPtr& context = contexts_[place];
    if (!context) context = make_context(place);
    return context;
  }

  // One of the settings becomes another one, which may not go with the others.
  void change(SolveSettings& s, Place place, Draw& draw) {
    switch (draw.below(11)) {
      case 0:
        s.method = draw.of({"cg", "cg", "cg", "bicgstab", "gmres", "minres", "fcg"});
        break;
      case 1:
      case 2:
        s.preconditioner = draw.of({"none", "jacobi", "ic0", "ssor", "amg", "block-jacobi", "spai0",
                                    on_gpu(place) ? "jacobi" : "ilu0", "auto", "chebyshev"});
        break;
      case 3:
        s.preconditioning.refresh =
            draw.of({Refresh::automatic, Refresh::every, Refresh::when_slower, Refresh::never});
        break;
      case 4:
      case 5:
        s.format = draw.one_in(4) ? "auto" : std::string(pick_format(place, draw.number()).entry->id);
        if (draw.one_in(5)) s.format = "dia";
        break;
      case 6:
        s.order = draw.of({"none", "none", "rcm", "length", "cluster", "auto"});
        break;
      case 7:
        s.policy = "by-format", s.schedule.clear();
        if (draw.one_in(3)) s.policy = "auto";
        if (s.policy != "auto" && draw.one_in(2)) add_schedule(s, place, draw);
        break;
      case 8:
        s.solver.stopping.relative_tolerance =
            sizeof(T) == 4 ? draw.of({1e-3, 1e-4, 2e-5}) : draw.of({1e-4, 1e-8, 1e-10});
        s.solver.stopping.baseline = draw.of({Baseline::rhs, Baseline::rhs, Baseline::initial_residual});
        break;
      case 9:
        s.solver.stopping.max_iterations = draw.of({0, 3, 12, 400, 400, 400});
        break;
      case 10:
        s.expected_iterations = draw.of({0, 0, 20, 300});
        break;
    }
  }
  void add_schedule(SolveSettings& s, Place place, Draw& draw) {
    SchedulePoint point;
    point.at = static_cast<double>(draw.below(12)), point.to = pick_change(place, draw.number());
    point.overlapped = false;
    s.schedule = {point};
    if (draw.one_in(2))
      point.at += 4, point.to = pick_change(place, draw.number()), s.schedule.push_back(point);
  }

  std::string set(int slot, Draw& draw) {
    Kept<T>& one = *kept_[slot];
    KeptSpec& spec = one.spec();
    SolveSettings next = spec.settings;
    for (int k = 1 + draw.below(3); k > 0; --k) change(next, spec.place, draw);
    note(fmt::format("system {} gets settings {}", slot, in_words(next)));
    one.system().set(next);
    ++counts["settings"];
    const bool same_preconditioner = next.preconditioner.name() == spec.settings.preconditioner.name();
    spec.settings = next;
    // One that is set up again belongs to the present values.
    if (!same_preconditioner) spec.lagging = false;
    return {};
  }

  std::string refused_settings(int slot, Draw& draw) {
    Kept<T>& one = *kept_[slot];
    SolveSettings bad = one.spec().settings;
    for (int k = draw.below(4); k > 0; --k) change(bad, one.spec().place, draw);
    const int what = draw.below(9);
    if (what == 0) bad.method = "cgg";
    if (what == 1) bad.preconditioner = "ilu00";
    if (what == 2) bad.format = "cssr";
    if (what == 3) bad.order = "rmc";
    if (what == 4) bad.format = "csr", bad.kernel = "nativ";
    if (what == 5) bad.policy = "auto", bad.schedule = {{.at = 1, .to = {&find_format("csr")}}};
    if (what == 6) bad.context = Context::host(7);
    if (what == 7) bad.check_arrays = false;
    if (what == 8) bad.solver.stopping.relative_tolerance = -1;
    note(fmt::format("system {} gets settings that are refused, number {}", slot, what));
    ++counts["refused settings"];
    std::string said[2];
    for (std::string& text : said) try {
        one.system().set(bad);
        return fmt::format("refused settings {} are accepted", what);
      } catch (const Error& error) { text = error.what(); }
    if (said[0] != said[1]) return fmt::format("'{}', and then '{}'", said[0], said[1]);
    const SolveSettings& now = one.system().settings();
    if (in_words(now) != in_words(one.spec().settings)) return "the settings have changed: " + in_words(now);
    return {};
  }

  std::string new_values(int slot, Draw& draw) {
    Kept<T>& one = *kept_[slot];
    const unsigned generation = draw.number();
    const std::int64_t failing = draw.one_in(4) ? 1 + draw.below(4) : 0;
    note(fmt::format("system {} gets values {}{}", slot, generation,
                     failing > 0 ? fmt::format("; allocation {} fails", failing) : std::string()));
    // Numbers of the test are made before an allocation fails.
    (void)numbers<T>(one.spec().system, generation);
    try {
      const FailingAllocation fault(failing);
      one.set_values(generation, draw.one_in(2));
    } catch (const BadMatrix&) {
      ++counts["refused values"];
      if (quality(generation) != Quality::not_finite) throw;
      return {};
    } catch (const OutOfMemory&) {
      ++counts["new values that memory was short for"];
      if (failing == 0) throw;
      return {};
    }
    if (quality(generation) == Quality::not_finite) return "values that are not finite are accepted";
    ++counts["new values"];
    const std::string& M = one.spec().settings.preconditioner;
    const Refresh refresh = one.spec().settings.preconditioning.refresh;
    if (refresh == Refresh::never || refresh == Refresh::when_slower || M == "amg" || M == "auto")
      one.spec().lagging = true;
    return {};
  }

  std::string calls_that_fail(int slot) {
    Kept<T>& one = *kept_[slot];
    LinearSystem<T>& system = one.system();
    note(fmt::format("calls with wrong arguments of system {}", slot));
    CsrMatrix<T> other = system.matrix().given();
    other.pattern.nonzeros += 1;
    std::vector<T> shorter(static_cast<std::size_t>(one.size() - 1), T(1));
    std::vector<T> b(static_cast<std::size_t>(one.size()), T(1));
    const auto less = std::ssize(shorter), n = one.size();
    const std::function<void()> calls[] = {
        [&] { system.update_values(other); },
        [&] { system.update_values(std::span<const ElementGroup<T>>()); },
        [&] {
          (void)system.solve({shorter.data(), less}, {shorter.data(), less});
        },
        [&] {
          (void)system.solve({b.data(), n}, {b.data(), n});
        },
        [&] {
          (void)system.multi_solve({shorter.data(), less, 1, less}, {shorter.data(), less, 1, less});
        }};
    for (std::size_t i = 0; i < std::size(calls); ++i) try {
        calls[i]();
        return fmt::format("wrong call {} is accepted", i);
      } catch (const Error&) { ++counts["calls with wrong arguments"]; }
    return wrong_null_space(one);
  }

  // No system here is singular: if the method takes a null space the solves refuse it, else set_null_space() does.
  std::string wrong_null_space(Kept<T>& one) {
    LinearSystem<T>& system = one.system();
    const ContextPtr& context = system.matrix().context();
    const std::int64_t n = one.size();
    std::vector<T> numbers;
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      numbers.push_back(static_cast<T>(0.5 + uniform(static_cast<std::uint64_t>(i))) *
                        (i % 2 ? T(-1) : T(1)));
      squares += static_cast<double>(numbers.back()) * static_cast<double>(numbers.back());
    }
    for (T& number : numbers) number /= static_cast<T>(std::sqrt(squares));
    const Placed<T> vector(context, numbers), b(context, numbers);
    Placed<T> x(context, numbers);
    std::string said;
    try {
      system.solver().set_null_space({vector.read().data, n, n, 1, context->space()});
      (void)system.solve(b.read(), x.view());
    } catch (const Error& error) { said = error.what(); }
    system.solver().set_null_space({});
    return said.empty() ? "a null space of a system that is not singular is accepted" : std::string();
  }

  std::string set_callback(int slot, Draw& draw) {
    const bool on = draw.one_in(2);
    note(fmt::format("system {} gets {}", slot, on ? "the test's preconditioner" : "the named one"));
    kept_[slot]->set_callback(on);
    kept_[slot]->spec().lagging = false;
    return {};
  }

  Plan draw_plan(Draw& draw) {
    Plan plan;
    if (draw.one_in(3)) plan.columns = 2 + draw.below(4);
    plan.event = draw.of(
        {Event::none, Event::none, Event::none, Event::interrupt, Event::exception, Event::new_values});
    plan.event_at = draw.below(14);
    if (draw.one_in(8)) plan.failing_allocation = 1 + draw.below(12);
    plan.numbers = draw.number();
    return plan;
  }

  std::string solve(int slot, Draw& draw) { return solve(slot, draw_plan(draw)); }
  std::string solve_twice(int slot, Draw& draw) {
    Plan plan = draw_plan(draw);
    if (std::string text = solve(slot, plan); !text.empty()) return text;
    plan.event = Event::none, plan.failing_allocation = 0;
    return solve(slot, plan);
  }

  std::string solve(int slot, const Plan& plan) {
    Kept<T>& one = *kept_[slot];
    KeptSpec& spec = one.spec();
    constexpr const char* events[] = {"", ", the observer stops", ", the observer throws",
                                      ", the observer calls the system"};
    note(fmt::format("system {} solves {} of '{}', values {}{}{}{}", slot,
                     plan.columns == 1 ? "one right-hand side" : fmt::format("{} columns", plan.columns),
                     systems()[spec.system].name, spec.generation, events[static_cast<int>(plan.event)],
                     plan.event == Event::none ? "" : fmt::format(" at {}", plan.event_at),
                     plan.failing_allocation > 0
                         ? fmt::format("; allocation {} fails", plan.failing_allocation)
                         : std::string()));
    Columns<T> b, x0;
    for (std::int64_t j = 0; j < plan.columns; ++j) {
      b.emplace_back(), x0.emplace_back();
      for (std::int64_t i = 0; i < one.size(); ++i) {
        b.back().push_back(static_cast<T>(2 * uniform(plan.numbers, i, j) - 1));
        x0.back().push_back(plan.numbers % 2 ? static_cast<T>(uniform(plan.numbers, i, j, 1)) : T(0));
      }
    }
    const KeptOutcome<T> kept = carry_out<T>(plan, one.system(), false, b, x0);
    count(kept, plan);
    const Owed exactly = owed(spec);
    if (!kept.wrong.empty()) return kept.wrong;
    if (kept.out_of_memory && plan.failing_allocation > 0) return {};
    const StoppingRule& rule = spec.settings.solver.stopping;
    std::vector<Solved<T>> solved;
    for (const std::vector<T>& own : b)
      solved.push_back({spec.system, spec.generation, own, spec.settings.method, rule});
    for (std::size_t j = 0; j < kept.columns.size(); ++j)
      if (std::string text = lie(kept.columns[j], solved[j]); !text.empty()) return text;
    if (kept.thrown.empty())
      for (const Outcome<T>& column : kept.columns)
        if (column.report.iterations > rule.max_iterations)
          return fmt::format("{} iterations, and {} were allowed", column.report.iterations,
                             rule.max_iterations);

    Kept<T> made(spec, on_gpu(spec.place) ? context_of(spec.place) : make_context(spec.place));
    const KeptOutcome<T> fresh = carry_out<T>(plan, made.system(), true, b, x0);
    if (is_named(spec.settings) && kept.thrown.empty() && fresh.thrown.empty() &&
        (kept.format != fresh.format || kept.order != fresh.order))
      return fmt::format("it is in {}, order {}, and a fresh one in {}, order {}", kept.format, kept.order,
                         fresh.format, fresh.order);
    return compare(exactly, kept, fresh, solved);
  }

  std::string compare(Owed exactly, const KeptOutcome<T>& kept, const KeptOutcome<T>& fresh,
                      const std::vector<Solved<T>>& solved) {
    // Whether its iteration is reached may depend on rounding; refusals do not, except by a preconditioner that is set
    // up when the kept one is not.
    const bool by_observer = kept.thrown == observer_throws || fresh.thrown == observer_throws;
    if (kept.thrown != fresh.thrown && !by_observer && !(exactly == Owed::answer && kept.thrown.empty()))
      return fmt::format("thrown was '{}' and '{}' with a fresh system", kept.thrown, fresh.thrown);
    if (!kept.thrown.empty() && kept.thrown == fresh.thrown && !by_observer) {
      ++counts["refused by both"];
      return {};
    }
    if (exactly != Owed::bits && kept.happened != fresh.happened) return {};
    for (std::size_t j = 0; j < kept.columns.size(); ++j)
      if (std::string text = difference(exactly, kept.columns[j], fresh.columns[j], solved[j]); !text.empty())
        return fmt::format("column {}: {}", j, text);
    return {};
  }

  // Whether nothing but the settings says in which format and order a solve computes.
  static bool is_named(const SolveSettings& s) {
    return s.policy != "auto" && s.schedule.empty() && s.format != "auto" && s.order != "auto";
  }
  // A kept system owes the bits of a fresh one if neither time nor an earlier solve has an influence.
  Owed owed(const KeptSpec& spec) const {
    const SolveSettings& s = spec.settings;
    if (spec.lagging || (s.preconditioner == "auto" && !spec.callback)) return Owed::answer;
    if (on_gpu(spec.place)) return Owed::rounding;
    return !is_named(s) || s.preconditioner == "amg" || s.preconditioner == "chebyshev" ? Owed::rounding
                                                                                        : Owed::bits;
  }

  void count(const KeptOutcome<T>& kept, const Plan& plan) {
    ++counts["solves"];
    if (plan.columns > 1) ++counts["solves of several columns"];
    if (kept.out_of_memory) ++counts["solves ended by an allocation that failed"];
    if (kept.thrown == observer_throws) ++counts["exceptions of the observer"];
    if (!kept.thrown.empty()) return;
    if (kept.happened && plan.event == Event::new_values) ++counts["calls of the own system"];
    for (const Outcome<T>& column : kept.columns) {
      ++counts[column.report.converged() ? "converged" : "ended without convergence"];
      if (column.report.reason == StopReason::interrupted) ++counts["interrupted"];
    }
  }

  bool gpu_;
  std::map<Place, ContextPtr> contexts_;
  std::optional<Kept<T>> kept_[slots];
  std::vector<std::string> notes_;
  std::string prefix_;
};

struct Case {
  bool gpu, single;
};

class LifeOfKeptSystems : public testing::TestWithParam<Case> {};

TEST_P(LifeOfKeptSystems, AgreesWithFreshOnes) {
  const auto [gpu, single] = GetParam();
  if (gpu && !test_context(Space::device)) GTEST_SKIP() << no_device;
  std::map<std::string, std::int64_t> counts;
  const auto live_in = [&]<class T>(T, std::uint64_t seed, const StepList& steps) {
    KeptWorld<T> world(gpu, seed);
    const auto failure = live(world, steps, [&](int number) { return world.step(seed, number); });
    for (const auto& [name, count] : world.counts) counts[name] += count;
    return failure;
  };
  const Life life = [&, one = single](std::uint64_t seed, const StepList& steps) {
    return one ? live_in(float(), seed, steps) : live_in(double(), seed, steps);
  };
  expect_good_lives({1, 2, 3, 4}, 150, life);
  forget_numbers<float>(), forget_numbers<double>();
  for (const auto& [name, count] : counts) RecordProperty(name, std::to_string(count));
  if (chosen_by_environment()) {
    for (const auto& [name, count] : counts) fmt::print("{:6} {}\n", count, name);
    return;
  }
  if (HasFailure()) return;
  for (const char* name :
       {"converged", "interrupted", "exceptions of the observer", "calls of the own system",
        "solves of several columns", "solves ended by an allocation that failed", "settings",
        "refused settings", "new values", "refused values", "refused by both", "calls with wrong arguments"})
    EXPECT_GT(counts[name], 0) << "the steps do not reach this: " << name;
}

INSTANTIATE_TEST_SUITE_P(Spaces, LifeOfKeptSystems,
                         testing::Values(Case{false, false}, Case{false, true}, Case{true, false},
                                         Case{true, true}),
                         [](const auto& one) {
                           return std::string(one.param.gpu ? "device" : "host") +
                                  (one.param.single ? "_float" : "_double");
                         });

}  // namespace
}  // namespace protean::test::life
