// Many solves with random settings on one context in one process: what is left behind?
//
//   soak SOLVES [SEED] [host|device]
//
// device: on a GPU, exit status 77 if there is none. After the first thousand (or the first half) memory grows by
// 1 MB at most (32 MB with a GPU, whose driver keeps its own memory), buffers of the host and of the GPU hold as many
// bytes, and at the end as many descriptors and threads are open as then. Reference systems are solved at the
// beginning, between the others and at the end, each time with the same bits. Formats and preconditioners may refuse a
// matrix, and methods a preconditioner; everything else that is thrown is a failure. Prints what it did as JSON, and
// exits with 1 if something is wrong.
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
constexpr std::int64_t allowed_growth = 1 << 20, allowed_growth_beside_a_driver = 32 << 20;

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
  explicit Names(Space space) {
    for (const FormatEntry* entry : catalogue())
      if (!kernels_in(*entry, space).empty()) formats.emplace_back(entry->id);
    // Other libraries keep their own memory.
    for (const PreconditionerEntry& entry : protean::preconditioners())
      if (entry.unavailable.empty() && entry.library.empty()) preconditioners.emplace_back(entry.id);
    for (const OrderingEntry& entry : orderings())
      if (entry.unavailable.empty()) orders.emplace_back(entry.id);
  }
};

// A copy of numbers in the memory of a context.
template <class T>
Vector<T> placed(const ContextPtr& context, const std::vector<T>& numbers) {
  const auto n = static_cast<std::int64_t>(numbers.size());
  Vector<T> vector(context, n);
  copy<T>(*context, {numbers.data(), n}, vector);
  return vector;
}

class Soak {
 public:
  Soak(ContextPtr context, std::uint64_t seed)
      : context_(std::move(context)), systems_(make_systems(Context::host(2))), random_(seed) {}

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
      // Some formats add in their own order on a GPU.
      const auto kernels = kernels_in(find_format(formats[i]), context_->space());
      const bool same_bits = !kernels.empty() && kernels.front().deterministic;
      SolveSettings settings{.method = methods[i],
                             .solver = {.stopping = {.max_iterations = 60}},
                             .preconditioner = preconditioners[i],
                             .format = same_bits ? formats[i] : "csr",
                             .order = orders[i],
                             .context = context_};
      std::vector<double> x(one.b.size(), 0.0);
      const auto n = static_cast<std::int64_t>(x.size());
      if (settings.format == "dia" || settings.format == "ell")
        settings.parameters = {{"max_fill", "1000000"}};
      const Vector<double> b = placed(context_, one.b);
      Vector<double> there = placed(context_, x);
      const SolveResult result = solve(one.csr, b, there, settings);
      copy<double>(*context_, there, {x.data(), n});
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
      settings.policy = "auto", settings.overlapped = below(2) == 0;
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
        std::vector<T> columns;
        for (std::int64_t j = 0; j < k; ++j) columns.insert(columns.end(), values.b.begin(), values.b.end());
        const Vector<T> B = placed(context_, columns);
        Vector<T> X = placed(context_, std::vector<T>(columns.size(), T(0)));
        const auto view = [&](auto* data) {
          return MultiVectorView<std::remove_pointer_t<decltype(data)>>{
              data, n, k, n, VectorLayout::columns, context_->space()};
        };
        const auto all = multi_solve(values.csr, view(B.data()), view(X.data()), settings);
        for (const SolveReport& column : all.report.columns) ++ended[std::string(to_string(column.reason))];
      } else {
        const Vector<T> b = placed(context_, values.b);
        Vector<T> x = placed(context_, std::vector<T>(values.b.size(), T(0)));
        const SolveResult one = solve(values.csr, b, x, settings);
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

  const ContextPtr context_;
  const std::vector<System> systems_;
  const Names names_{context_->space()};
  std::mt19937_64 random_;
};

std::int64_t entries_of(const char* folder) {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

struct Resources {
  std::int64_t resident = 0, descriptors = 0, threads = 0;  // resident: VmRSS in bytes
  std::size_t allocated = 0, on_device = 0;
};
Resources resources(const Context& context) {
  // What the allocator keeps for later is no leak.
  malloc_trim(0);
  Resources now{.descriptors = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task")};
  now.allocated = allocated_bytes();
  if (context.space() == Space::device) now.on_device = allocated_bytes(context);
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
  return fmt::format(
      R"({{"resident_bytes": {}, "allocated_bytes": {}, "device_bytes": {}, "descriptors": {}, "threads": {}}})",
      r.resident, r.allocated, r.on_device, r.descriptors, r.threads);
}

int soak(std::int64_t solves, std::uint64_t seed, const ContextPtr& context) {
  const auto begin = std::chrono::steady_clock::now();
  Soak soak(context, seed);
  const std::string reference = soak.reference();
  Resources warm;
  std::string resident;  // bytes after each twentieth part
  std::int64_t other_bits = 0;
  const std::int64_t first = std::min<std::int64_t>(1000, solves / 2),
                     every = std::max<std::int64_t>(solves / 20, 1);
  for (std::int64_t i = 1; i <= solves; ++i) {
    soak.solve_one();
    if (i % every == 0 || i == solves) {
      other_bits += soak.reference() != reference;
      // Whether growth ends: a driver loads each kernel when it is used first.
      resident += fmt::format("{}{}", resident.empty() ? "" : ", ", resources(*context).resident);
    }
    if (i == first) warm = resources(*context);
  }
  const Resources end = resources(*context);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print(
      "{{\"solves\": {}, \"seed\": {}, \"space\": \"{}\", \"seconds\": {:.1f}, \"ended\": {}, \"refused\": "
      "{},\n"
      " \"after_the_first\": {},\n \"at_the_end\": {},\n \"resident_bytes\": [{}],\n "
      "\"references_with_other_bits\": {}}}\n",
      solves, seed, to_string(context->space()), seconds, json_of(soak.ended), json_of(soak.refused),
      json_of(warm), json_of(end), resident, other_bits);
  int wrong = 0;
  const auto complain = [&](bool bad, const char* what) {
    if (bad) ++wrong, fmt::print(stderr, "soak: {}\n", what);
  };
  complain(other_bits > 0, "a reference system has other bits than at the beginning");
  const std::int64_t growth =
      context->space() == Space::device ? allowed_growth_beside_a_driver : allowed_growth;
  complain(end.resident > warm.resident + growth, growth == allowed_growth
                                                      ? "memory has grown by more than 1 MB"
                                                      : "memory has grown by more than 32 MB");
  complain(end.allocated != warm.allocated, "buffers are still held");
  complain(end.on_device != warm.on_device, "buffers of the GPU are still held");
  complain(end.descriptors != warm.descriptors, "descriptors are open that were not");
  complain(end.threads != warm.threads, "the number of threads has changed");
  complain(soak.ended.empty() || soak.ended.count("relative-tolerance") == 0, "no solve has converged");
  return wrong > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t solves = argc > 1 ? std::atoll(argv[1]) : 0;
  const std::string space = argc > 3 ? argv[3] : "host";
  if (solves < 20 || argc > 4 || (space != "host" && space != "device")) {
    fmt::print(stderr, "soak SOLVES [SEED] [host|device], 20 solves or more\n");
    return 2;
  }
  if (space == "device" && Context::device_count() == 0) {
    fmt::print("skipped: no device: this machine has no GPU\n");
    return 77;
  }
  try {
    return soak(solves, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1,
                space == "device" ? Context::device() : Context::host(2));
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
}
