// Systems of several fields, saddle points and coupled unknowns: each recipe of preconditioner fields, what `auto`
// does, PETSc's fieldsplit and amgcl with the same fields, from x = 0 to the same relative tolerance. The right-hand
// side is A times a vector of numbers in [-1, 1). Times are medians of rounds (--rounds), in each of which all take
// turns. A time of ours is the time of the call of solve(), a time of a peer the time of its setup and its solve.
// Generated systems also in larger sizes (--grow); matrices of a folder only if it is given. Not in the list: lnsp3937,
// which neither library solves in 300 iterations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/preconditioned.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_input.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/fields/found.hpp"
#include "solve.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json;
  std::vector<std::string> systems = {"stokes-2d:64:contrast=100",
                                      "stokes-2d:64:convection=200",
                                      "darcy-2d:128:contrast=1e-4",
                                      "reservoir-2d:128:contrast=1e3",
                                      "taylor-hood-2d:32",
                                      "taylor-hood-2d:32:contrast=1e4",
                                      "taylor-hood-3d:6",
                                      "taylor-hood-3d:6:contrast=1e4",
                                      "ex14",
                                      "tuma2"},
                           recipes, grow = {"1"};
  double tolerance = 1e-8;
  int threads = 1, iterations = 2000, rounds = 1;
  bool others = true;  // no preconditioner, and the peers
};

// What is solved: "kind:n:key=value" or the name of a file.
struct System {
  std::string name;
  CsrMatrix<double> A;
  std::optional<CsrMatrix<double>> mass;    // in place of the Schur complement
  bool symmetric = false, coupled = false;  // coupled: without a zero block, two unknowns in turn
  TwoFields fields;
};
struct Figure {
  std::string library, what, method;
  std::int64_t iterations = 0;
  std::vector<double> setups, all;  // seconds of each round: of the setup, and of everything
  bool converged = true;            // in all rounds

  double seconds() const { return median(all); }
};

// A kind, its n times `factor` and its parameters; the name with that n.
std::optional<CsrMatrix<double>> generated(const ContextPtr& host, std::string& name, double factor,
                                           const std::string& instead = {}) {
  std::vector<std::string> words = split(name, ':');
  if (words.size() < 2) return std::nullopt;
  GeneratorParams params = {{"n", std::round(factor * std::stod(words[1]))}};
  std::string text = fmt::format("{}:{:.0f}", words[0], params["n"]);
  for (std::size_t k = 2; k < words.size(); ++k) {
    const std::vector<std::string> pair = split(words[k], '=');
    params[pair.at(0)] = std::stod(pair.at(1));
    text += ":" + words[k];
  }
  CsrMatrix<double> made = generate(host, instead.empty() ? words[0] : instead, params);
  if (instead.empty()) name = text;
  return made;
}

System system_of(const ContextPtr& host, const Options& options, const std::string& name, double factor) {
  System one;
  one.name = name;
  constexpr std::string_view taylor_hood = "taylor-hood", mass = "pressure-mass";
  if (name.starts_with(taylor_hood))
    one.mass = generated(host, one.name, factor,
                         fmt::format("{}{}", mass, split(name, ':')[0].substr(taylor_hood.size())));
  if (auto made = generated(host, one.name, factor))
    one.A = std::move(*made);
  else
    one.A = read_matrix(host, fmt::format("{}/{}.mtx.xz", options.folder, name));
  const CsrMatrix<double>& A = one.A;
  one.symmetric = asymmetry<double>(*host, A) <= symmetry_tolerance<double>;
  detail::FoundFields found = detail::find_fields(A, one.symmetric);
  one.coupled = !found.zero_block && !found.stabilised;
  if (!one.coupled) {
    one.fields.constant = detail::maps_constant_to_zero(A, found.fields, 1);
    if (name.starts_with(taylor_hood)) one.fields.unknowns = name.find("3d") != std::string::npos ? 3 : 2;
  }
  one.fields.field_of_row = std::move(found.fields.of_row);
  if (one.coupled)
    for (std::int64_t i = 0; i < A.rows(); ++i) one.fields.field_of_row[static_cast<std::size_t>(i)] = i % 2;
  return one;
}

double relative_residual(const AssembledMatrix<double>& A, const std::vector<double>& b,
                         const std::vector<double>& x) {
  std::vector<double> r = b;
  const auto n = static_cast<std::int64_t>(b.size());
  A.apply(-1.0, {x.data(), n}, 1.0, {r.data(), n});
  double rr = 0, bb = 0;
  for (std::size_t i = 0; i < b.size(); ++i) rr += r[i] * r[i], bb += b[i] * b[i];
  return std::sqrt(rr / bb);
}

class SystemRun {
 public:
  SystemRun(const Options& options, const ContextPtr& host, System system, nlohmann::json& figures)
      : options_(options),
        host_(host),
        system_(std::move(system)),
        figures_(figures),
        A_(make_matrix(find_format("csr"), system_.A, host)),
        b_(static_cast<std::size_t>(system_.A.rows())),
        x_(b_.size()) {
    const std::int64_t n = system_.A.rows();
    const std::vector<double> solution = random_numbers(n);
    A_->apply(VectorView<const double>{solution.data(), n}, VectorView<double>{b_.data(), n});
    fmt::print("{}: {} rows, {} entries, {}\n", system_.name, n, system_.A.nonzeros(),
               system_.symmetric ? "symmetric" : "not symmetric");
  }

  void run() {
    for (int round = 0; round < options_.rounds; ++round) take_turns(round);
    for (const Figure& one : done_) put(one);
    summary();
  }

 private:
  // Each round begins with another one, so that none always follows the same.
  void take_turns(int round) {
    std::vector<std::function<void()>> turns = {[this] { ours("auto", {}); }};
    if (options_.others) turns.emplace_back([this] { ours("none", {.preconditioner = "none"}); });
    for (const FieldRecipe recipe : field_recipes)
      if (recipe != FieldRecipe::automatic && wanted(options_.recipes, std::string(to_string(recipe))))
        turns.emplace_back([this, recipe] { ours(recipe); });
    if (options_.others && system_.coupled) {
      turns.emplace_back([this] { petsc("lower", nullptr, "gamg"); });
      turns.emplace_back([this] { amgcl("cpr", {}); });
    } else if (options_.others) {
      for (const char* const recipe : {"schur-upper", "schur-full"}) {
        for (const char* const inner : {"gamg", "jacobi"})
          turns.emplace_back([=, this] { petsc(recipe, nullptr, inner); });
        if (system_.mass) turns.emplace_back([=, this] { petsc(recipe, &*system_.mass, "ilu"); });
        for (const char* const inner : {"amg", "spai0", "ilu0"})
          turns.emplace_back([=, this] { amgcl(recipe, inner); });
      }
    }
    std::rotate(turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(round) % std::ssize(turns),
                turns.end());
    for (const auto& turn : turns) turn();
  }
  void add(const std::string& library, const std::string& what, const std::string& method,
           std::int64_t iterations, double setup, double all, bool converged) {
    auto at = std::find_if(done_.begin(), done_.end(),
                           [&](const Figure& one) { return one.library == library && one.what == what; });
    if (at == done_.end()) at = done_.insert(at, Figure{library, what, method, iterations, {}, {}, true});
    at->setups.push_back(setup), at->all.push_back(all), at->converged &= converged;
  }
  void put(const Figure& one) {
    fmt::print("  {:8} {:44} {:8} {:6} iterations, setup {:9.3f} ms, all {:9.3f} ms{}\n", one.library,
               one.what, one.method, one.iterations, 1e3 * median(one.setups), 1e3 * one.seconds(),
               one.converged ? "" : ", not converged");
    std::fflush(stdout);
    figures_.push_back({{"system", system_.name},
                        {"rows", system_.A.rows()},
                        {"entries", system_.A.nonzeros()},
                        {"symmetric", system_.symmetric},
                        {"library", one.library},
                        {"what", one.what},
                        {"method", one.method},
                        {"iterations", one.iterations},
                        {"setup_seconds", median(one.setups)},
                        {"seconds", one.seconds()},
                        {"converged", one.converged}});
  }
  // The preconditioner, or the recipe of fields.
  static std::string taken(const SolveResult& result) {
    constexpr std::string_view before = "; recipe ";
    const std::string& reason = result.preconditioner_reason;
    const std::size_t at = reason.find(before);
    if (result.preconditioner != "fields" || at == std::string::npos) return result.preconditioner;
    return reason.substr(at + before.size(), reason.find(';', at + 1) - at - before.size());
  }
  void ours(const std::string& what, SolveSettings settings) {
    settings.context = host_, settings.solver.stopping.relative_tolerance = options_.tolerance;
    settings.solver.stopping.max_iterations = options_.iterations;
    std::fill(x_.begin(), x_.end(), 0.0);
    const auto n = static_cast<std::int64_t>(b_.size());
    try {
      const auto begin = Clock::now();
      const SolveResult result = solve(system_.A, VectorView<const double>{b_.data(), n},
                                       VectorView<double>{x_.data(), n}, settings);
      const double all = seconds_since(begin);
      add("protean", what == "auto" ? fmt::format("auto: {}", taken(result)) : what, result.method,
          result.report.iterations, result.setup_seconds, all, result.converged());
    } catch (const Error& error) { fmt::print("  protean  {:44} refused: {}\n", what, error.what()); }
  }
  // A recipe with each Schur complement that it may take. The sweeps need blocks that can be solved with, and a system
  // without a zero block has no field to eliminate.
  void ours(FieldRecipe recipe) {
    const bool schur = recipe >= FieldRecipe::schur_diagonal;
    if (schur == system_.coupled) return;
    SolveSettings settings{.preconditioner = "fields"};
    settings.preconditioning.recipe = recipe;
    if (!schur) {
      settings.preconditioning.interleaved = 2;
      return ours(std::string(to_string(recipe)), settings);
    }
    for (const SchurComplement how : schur_complements) {
      settings.preconditioning.schur = how;
      ours(fmt::format("{} by {}", to_string(recipe), to_string(how)), settings);
    }
    if (!system_.mass) return;
    settings.preconditioning.schur = SchurComplement::diagonal;
    settings.preconditioning.schur_operator = &*system_.mass;
    ours(fmt::format("{} by the mass matrix", to_string(recipe)), settings);
  }
  void petsc(const std::string& recipe, const CsrMatrix<double>* schur, const std::string& inner) {
    system_.fields.schur = schur, system_.fields.inner = inner;
    peer("petsc", petsc_fieldsplit, recipe);
  }
  void amgcl(const std::string& recipe, const std::string& inner) {
    system_.fields.inner = inner;
    peer("amgcl", amgcl_fields, recipe);
  }
  void peer(const std::string& library, decltype(&petsc_fieldsplit) solve_by, const std::string& recipe) {
    const PreconditionedSolve wanted{.method = "fgmres",
                                     .preconditioner = recipe,
                                     .tolerance = options_.tolerance,
                                     .max_iterations = options_.iterations};
    std::fill(x_.begin(), x_.end(), 0.0);
    if (const auto result = solve_by(system_.A, b_, system_.fields, wanted, x_))
      add(library, result->what, "fgmres", result->iterations, result->setup_seconds,
          result->setup_seconds + result->solve_seconds,
          relative_residual(*A_, b_, x_) <= 1.1 * options_.tolerance);
  }
  // auto next to the fastest recipe and the fastest peer.
  void summary() const {
    const auto fastest = [&](const auto& of) {
      const Figure* best = nullptr;
      for (const Figure& one : done_)
        if (one.converged && of(one) && (!best || one.seconds() < best->seconds())) best = &one;
      return best;
    };
    const auto is_auto = [](const Figure& one) { return one.what.starts_with("auto"); };
    const Figure* const chosen = fastest(is_auto);
    const Figure* const recipe =
        fastest([&](const Figure& one) { return one.library == "protean" && !is_auto(one); });
    const Figure* const peer = fastest([](const Figure& one) { return one.library != "protean"; });
    if (!chosen) fmt::print("  auto did not solve it\n");
    if (chosen && recipe)
      fmt::print("  auto takes {:.2f} times as long as {}\n", chosen->seconds() / recipe->seconds(),
                 recipe->what);
    if (chosen && peer)
      fmt::print("  {} of {} takes {:.2f} times as long as auto\n", peer->what, peer->library,
                 peer->seconds() / chosen->seconds());
  }

  const Options& options_;
  ContextPtr host_;
  System system_;
  nlohmann::json& figures_;
  std::unique_ptr<AssembledMatrix<double>> A_;
  std::vector<double> b_, x_;
  std::vector<Figure> done_;
};

}  // namespace

int run_fields(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::folder(options.folder),
       {"--systems", &options.systems, "kind:n:key=value of a generated one, or a matrix of the folder"},
       {"--grow", &options.grow, "factors of n, for the growth with the size of a generated system"},
       {"--recipes", &options.recipes, "of preconditioner fields; all if there is none"},
       {"--others", &options.others, "no: neither solves without a preconditioner nor peers"},
       {"--tolerance", &options.tolerance, "relative to the right-hand side", above(0)},
       {"--iterations", &options.iterations, "the most a solve takes", at_least(1)},
       {"--rounds", &options.rounds, "in each of which all take turns", at_least(1)},
       shared::threads(options.threads),
       shared::json(options.json)});
  const ContextPtr host = Context::host(options.threads);
  Report report("fields", host->threads(), options.json);
  nlohmann::json& figures = report["fields"] = nlohmann::json::array();
  for (const std::string& name : options.systems)
    for (const std::string& factor : options.grow) {
      const bool file = name.find(':') == std::string::npos;
      if (file && options.folder.empty()) fmt::print("{}: left out, since there is no --folder\n", name);
      if (!file || !options.folder.empty())
        SystemRun(options, host, system_of(host, options, name, std::stod(factor)), figures).run();
      report.write();
      if (file) break;
    }
  return 0;
}

}  // namespace protean::bench
