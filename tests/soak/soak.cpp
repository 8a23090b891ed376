// Many solves with random settings on one context in one process: what is left behind?
//
//   soak SOLVES [SEED]
//
// After the first thousand (or the first half) memory grows by 1 MB at most, and at the end as many descriptors and
// threads are open as then. Reference systems are solved at the beginning, between the others and at the end, each
// time with the same bits. Formats and preconditioners may refuse a matrix, and methods a preconditioner; everything
// else that is thrown is a failure. Prints what it did as JSON, and exits with 1 where something is wrong.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "protean.hpp"

namespace {

using namespace protean;
constexpr std::int64_t allowed_growth = 1 << 20;

template <class T>
struct Values {
  CsrMatrix<T> csr;
  std::vector<T> b;
};
struct System {
  Values<double> wide;
  Values<float> narrow;
  bool symmetric = false;
};

template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& one : v) one = static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
  return v;
}

std::vector<System> make_systems(const ContextPtr& context) {
  const std::pair<const char*, GeneratorParams> kinds[] = {{"poisson-2d", {{"n", 12}}},
                                                           {"poisson-3d", {{"n", 8}}},
                                                           {"anisotropic-2d", {{"n", 20}}},
                                                           {"elasticity-3d", {{"n", 3}}},
                                                           {"graph-laplacian", {{"n", 300}}},
                                                           {"random-spd", {{"n", 400}}},
                                                           {"convection-diffusion-3d", {{"n", 7}}},
                                                           {"banded", {{"n", 500}}}};
  std::vector<System> systems;
  for (const auto& [kind, params] : kinds) {
    System one;
    one.wide.csr = generate(context, kind, params);
    one.narrow.csr = convert_values<float>(context, one.wide.csr);
    one.wide.b = numbers<double>(one.wide.csr.rows(), 5),
    one.narrow.b = numbers<float>(one.wide.csr.rows(), 5);
    one.symmetric = find_generator(kind).symmetric_positive_definite;
    systems.push_back(std::move(one));
  }
  return systems;
}

struct Names {
  std::vector<std::string> formats, preconditioners, orders{"none", "none", "auto"};
  Names() {
    for (const FormatEntry* entry : catalogue())
      if (!kernels_in(*entry, Space::host).empty()) formats.emplace_back(entry->id);
    // Other libraries keep memory of their own.
    for (const PreconditionerEntry& entry : protean::preconditioners())
      if (entry.unavailable.empty() && entry.library.empty()) preconditioners.emplace_back(entry.id);
    for (const OrderingEntry& entry : orderings())
      if (entry.unavailable.empty()) orders.emplace_back(entry.id);
  }
};

class Soak {
 public:
  explicit Soak(std::uint64_t seed) : systems_(make_systems(context_)), random_(seed) {}

  void solve_one() {
    const System& system = systems_[below(systems_.size())];
    below(2) == 0 ? solve_with(system.wide, system.symmetric) : solve_with(system.narrow, system.symmetric);
  }

  // x and the iterations of the reference systems, as bytes.
  std::string reference() {
    const char* const methods[] = {"cg", "minres", "bicgstab", "gmres", "idr", "fcg", "fgmres", "bicgstab2"};
    const char* const preconditioners[] = {"ic0",   "jacobi", "ilu0", "block-jacobi",
                                           "spai0", "ssor",   "none", "ilu"};
    const char* const formats[] = {"csr", "sell-c-sigma", "sell-packed", "bcsr", "coo", "ell", "csc", "dia"};
    const char* const orders[] = {"none", "rcm", "none", "cluster", "length", "none", "rcm", "none"};
    std::string bytes;
    for (std::size_t i = 0; i < systems_.size(); ++i) {
      const Values<double>& one = systems_[i].wide;
      SolveSettings settings{.method = methods[i],
                             .solver = {.stopping = {.max_iterations = 60}},
                             .preconditioner = preconditioners[i],
                             .format = formats[i],
                             .order = orders[i],
                             .context = context_};
      std::vector<double> x(one.b.size(), 0.0);
      const auto n = static_cast<std::int64_t>(x.size());
      if (settings.format == "dia" || settings.format == "ell")
        settings.parameters = {{"max_fill", "1000000"}};
      const SolveResult result = solve(one.csr, {one.b.data(), n}, {x.data(), n}, settings);
      const std::size_t begin = bytes.size(), size = x.size() * sizeof(double);
      bytes.resize(begin + size + sizeof result.report.iterations);
      std::memcpy(bytes.data() + begin, x.data(), size);
      std::memcpy(bytes.data() + begin + size, &result.report.iterations, sizeof result.report.iterations);
    }
    return bytes;
  }

  std::map<std::string, std::int64_t> ended, refused;

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  const std::string& of(const std::vector<std::string>& names) { return names[below(names.size())]; }

  SolveSettings draw(bool symmetric, bool several) {
    SolveSettings settings;
    std::vector<std::string> methods;
    if (several)
      for (const std::string_view id : multi_methods()) methods.emplace_back(id);
    else
      for (const SolverEntry& entry : solvers()) methods.emplace_back(entry.id);
    settings.context = context_, settings.method = of(methods);
    // Half of the time the method and the preconditioner suit the matrix.
    if (!symmetric && below(2) == 0) settings.method = "gmres";
    settings.preconditioner = of(names_.preconditioners);
    SolverOptions options;
    options.stopping.relative_tolerance = std::pow(10.0, -2 - static_cast<double>(below(7)));
    options.stopping.max_iterations = 1 + static_cast<std::int64_t>(below(80));
    options.restart = 1 + static_cast<std::int64_t>(below(40)),
    options.s = 1 + static_cast<std::int64_t>(below(6));
    options.directions = 1 + static_cast<std::int64_t>(below(6));
    options.orthogonalization = below(2) == 0 ? "cgs2" : "mgs";
    settings.solver = options_read_by(settings.method, options);
    settings.format = below(3) == 0 ? "auto" : of(names_.formats);
    settings.order = of(names_.orders);
    if (several) return settings;
    if (below(4) == 0) {
      settings.policy = true, settings.overlapped = below(2) == 0;
      settings.policy_options.worst_factor = 2;
    } else if (below(4) == 0) {
      SchedulePoint point;
      point.at = static_cast<double>(below(20)), point.overlapped = below(2) == 0;
      point.to.entry = &find_format(of(names_.formats));
      settings.schedule = {point};
    }
    return settings;
  }

  template <class T>
  void solve_with(const Values<T>& values, bool symmetric) {
    const auto n = static_cast<std::int64_t>(values.b.size());
    const std::int64_t k = below(5) == 0 ? 1 + static_cast<std::int64_t>(below(5)) : 0;
    const SolveSettings settings = draw(symmetric, k > 0);
    try {
      if (k > 0) {
        std::vector<T> B, X(static_cast<std::size_t>(n * k), T(0));
        for (std::int64_t j = 0; j < k; ++j) B.insert(B.end(), values.b.begin(), values.b.end());
        const auto all = multi_solve(values.csr, {B.data(), n, k, n}, {X.data(), n, k, n}, settings);
        for (const SolveReport& column : all.report.columns) ++ended[std::string(to_string(column.reason))];
      } else {
        std::vector<T> x(values.b.size(), T(0));
        const SolveResult one = solve(values.csr, {values.b.data(), n}, {x.data(), n}, settings);
        ++ended[std::string(to_string(one.report.reason))];
      }
    } catch (const FormatRefused&) {
      ++refused["the format refuses the matrix"];
    } catch (const BadMatrix& error) {
      // ic of a matrix that is not symmetric.
      if (std::strstr(error.what(), "needs a symmetric matrix") == nullptr) throw;
      ++refused["the preconditioner refuses the matrix"];
    } catch (const BadArgument& error) {
      // One that is not for this method: "cg needs a symmetric preconditioner".
      if (std::strstr(error.what(), "needs a symmetric preconditioner") == nullptr) throw;
      ++refused["the method refuses the preconditioner"];
    }
  }

  const ContextPtr context_ = Context::host(2);
  const std::vector<System> systems_;
  const Names names_;
  std::mt19937_64 random_;
};

std::int64_t entries_of(const char* folder) {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

struct Resources {
  std::int64_t resident = 0, descriptors = 0, threads = 0;  // resident: VmRSS in bytes
  std::size_t allocated = 0;
};
Resources resources() {
  // What the allocator keeps for later is no leak.
  malloc_trim(0);
  Resources now{.descriptors = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task")};
  now.allocated = allocated_bytes();
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") status >> now.resident, now.resident *= 1024;
  return now;
}

std::string json_of(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", name, count);
  return "{" + text + "}";
}
std::string json_of(const Resources& r) {
  return fmt::format(R"({{"resident_bytes": {}, "allocated_bytes": {}, "descriptors": {}, "threads": {}}})",
                     r.resident, r.allocated, r.descriptors, r.threads);
}

int soak(std::int64_t solves, std::uint64_t seed) {
  const auto begin = std::chrono::steady_clock::now();
  Soak soak(seed);
  const std::string reference = soak.reference();
  Resources warm;
  std::int64_t other_bits = 0;
  const std::int64_t first = std::min<std::int64_t>(1000, solves / 2),
                     every = std::max<std::int64_t>(solves / 20, 1);
  for (std::int64_t i = 1; i <= solves; ++i) {
    soak.solve_one();
    if (i % every == 0 || i == solves) other_bits += soak.reference() != reference;
    if (i == first) warm = resources();
  }
  const Resources end = resources();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print(
      "{{\"solves\": {}, \"seed\": {}, \"seconds\": {:.1f}, \"ended\": {}, \"refused\": {},\n"
      " \"after_the_first\": {},\n \"at_the_end\": {},\n \"references_with_other_bits\": {}}}\n",
      solves, seed, seconds, json_of(soak.ended), json_of(soak.refused), json_of(warm), json_of(end),
      other_bits);
  int wrong = 0;
  const auto complain = [&](bool bad, const char* what) {
    if (bad) ++wrong, fmt::print(stderr, "soak: {}\n", what);
  };
  complain(other_bits > 0, "a reference system has other bits than at the beginning");
  complain(end.resident > warm.resident + allowed_growth, "memory has grown by more than 1 MB");
  complain(end.allocated != warm.allocated, "buffers are still held");
  complain(end.descriptors != warm.descriptors, "descriptors are open that were not");
  complain(end.threads != warm.threads, "the number of threads has changed");
  complain(soak.ended.empty() || soak.ended.count("relative-tolerance") == 0, "no solve has converged");
  return wrong > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t solves = argc > 1 ? std::atoll(argv[1]) : 0;
  if (solves < 20 || argc > 3) {
    fmt::print(stderr, "soak SOLVES [SEED], 20 solves or more\n");
    return 2;
  }
  try {
    return soak(solves, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
}
