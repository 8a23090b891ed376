#include "apps/doctor/doctor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "apps/command/build_info.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/json.hpp"
#include "apps/report/output.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/parallel.hpp"
#include "core/processors.hpp"
#include "formats/catalogue.hpp"
#include "systems/linear_system.hpp"

namespace protean::apps {
namespace {

std::string environment_or(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value && *value ? value : otherwise;
}

Finding processor_finding() {
  const MachineInfo machine = machine_info();
  const BuildInfo build = build_info();
  Finding found{"processor",
                Health::ok,
                fmt::format("{}; {}; vector instructions {}", machine.cpu, machine.system, build.simd_chosen),
                {}};
  if (build.simd_chosen.empty() || build.simd_chosen.starts_with("EMU") || build.simd_chosen == "SCALAR") {
    found.health = Health::warning;
    found.advice = fmt::format(
        "None of the vector instructions of this build ({}) are used, so products are slow: "
        "run on the processor itself, not on one that an emulator restricts.",
        fmt::join(build.simd_targets, ", "));
  }
  return found;
}

std::vector<Finding> build_findings() {
  const BuildInfo build = build_info();
  Finding of_build{"build",
                   Health::ok,
                   fmt::format("protean {}, {}, {}; OpenMP {}", build.version, build.compiler,
                               build.build_type, build.openmp),
                   {}};
  if (build.build_type != "Release" && build.build_type != "RelWithDebInfo") {
    of_build.health = Health::warning;
    of_build.advice =
        "Solves are slow in this type of build: configure with preset cpu-release or cuda-release.";
  }
  std::vector<Finding> all{std::move(of_build)};
  for (const auto& [name, text] : {std::pair{"Kokkos", build.kokkos},
                                   {"MKL", build.mkl},
                                   {"METIS", build.metis},
                                   {"hypre", build.hypre}})
    all.push_back({name, Health::ok, text, {}});
  return all;
}

// The folder itself, or the nearest one above it that is there.
std::string nearest_folder(std::filesystem::path folder) {
  std::error_code error;
  while (!std::filesystem::is_directory(folder, error) && folder.has_parent_path() &&
         folder != folder.parent_path())
    folder = folder.parent_path();
  return folder.string();
}

double largest_difference(VectorView<const double> a, VectorView<const double> b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.size; ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

// y = A x in two formats against a serial sum of each row, and A x = b. Empty if all is right.
std::string wrong_in(const ContextPtr& host, const ContextPtr& context, std::string& what) {
  constexpr double side = 60, rounding = 1e-12, tolerance = 1e-10, allowed_error = 1e-6;
  const CsrMatrix<double> csr = generate(host, "poisson-2d", {{"n", side}});
  const std::int64_t n = csr.rows();
  Vector<double> x(host, n), expected(host, n), b(host, n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = random_value(1, i);
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
      sum += csr.values[k] * x[csr.pattern.col[k]];
    expected[i] = sum;
  }
  const CsrMatrix<double> source = context == host ? csr : upload(context, csr);
  Vector<double> there(context, n), product(context, n);
  copy<double>(*context, x, there);
  for (const char* const format : {"csr", "sell-packed"}) {
    make_matrix(find_format(format), source, context)->apply(there, product);
    copy<double>(*context, product, b);
    context->synchronize();
    if (const double off = largest_difference(b, expected); !(off <= rounding))
      return fmt::format("a product in format {} is wrong by {:.1e}", format, off);
  }
  LinearSystem<double> system(csr, {.method = "cg",
                                    .solver = {.stopping = {.relative_tolerance = tolerance}},
                                    .preconditioner = "jacobi",
                                    .format = "csr",
                                    .context = context});
  copy<double>(*context, expected, product);
  fill<double>(*context, 0.0, there);
  const SolveResult result = system.solve(product, there);
  if (!result.converged())
    return fmt::format("a solve that must converge ends with {}", to_string(result.report.reason));
  copy<double>(*context, there, b);
  context->synchronize();
  if (const double off = largest_difference(b, x); !(off <= allowed_error))
    return fmt::format("the solution of a small system is wrong by {:.1e}", off);
  what = fmt::format("products in csr and sell-packed, and cg in {} iterations, are right",
                     result.report.iterations);
  return {};
}

Finding trial(const std::string& name, Space space) {
  Finding found{name, Health::ok, {}, {}};
  try {
    const ContextPtr host = Context::host(std::min(available_threads(), detail::usable_processors()));
    std::string why = wrong_in(host, space == Space::host ? host : Context::device(), found.text);
    if (why.empty()) return found;
    found.text = std::move(why);
    found.advice = "Solves cannot be trusted here: report this with the output of `protean doctor --json`.";
  } catch (const std::exception& error) {
    found.text = error.what();
    found.advice =
        "Mend what the lines above say, and report this with the output of `protean doctor --json` if it stays.";
  }
  found.health = Health::fault;
  return found;
}

std::string coloured(Health health, bool colours) {
  const std::string text = fmt::format("{:<7}", to_string(health));
  if (!colours) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m",
                     health == Health::ok        ? 32
                     : health == Health::warning ? 33
                                                 : 31,
                     text);
}

std::string findings_text(std::span<const Finding> findings) {
  constexpr std::size_t indent = 26;
  const std::size_t width = static_cast<std::size_t>(std::max(terminal_width(STDOUT_FILENO), 60));
  const bool colours = isatty(STDOUT_FILENO) == 1 && environment_or("NO_COLOR", "").empty();
  std::string page = "\n";
  int warnings = 0, faults = 0;
  for (const Finding& one : findings) {
    warnings += one.health == Health::warning ? 1 : 0, faults += one.health == Health::fault ? 1 : 0;
    page += fmt::format("  {}  {:<13}  {}\n", coloured(one.health, colours), one.name,
                        wrapped(one.text, indent, width));
    if (!one.advice.empty()) page += fmt::format("{:{}}{}\n", "", indent, wrapped(one.advice, indent, width));
  }
  return page + fmt::format("\n  {} {}, {} {}\n", warnings, warnings == 1 ? "warning" : "warnings", faults,
                            faults == 1 ? "fault" : "faults");
}

Health worst_of(std::span<const Finding> findings) noexcept {
  Health worst = Health::ok;
  for (const Finding& one : findings) worst = std::max(worst, one.health);
  return worst;
}

std::string findings_json(std::span<const Finding> findings) {
  Json json = {{"version", build_info().version},
               {"worst", to_string(worst_of(findings))},
               {"findings", Json::array()}};
  for (const Finding& one : findings)
    json["findings"].push_back(
        {{"name", one.name}, {"health", to_string(one.health)}, {"text", one.text}, {"advice", one.advice}});
  return text(json);
}

}  // namespace

std::vector<Finding> examine() {
  std::vector<Finding> all{processor_finding(), finding_of(thread_facts()), finding_of(memory_facts())};
  const GpuFacts gpu = gpu_facts();
  all.push_back(finding_of(gpu));
  for (Finding& one : build_findings()) all.push_back(std::move(one));
  all.push_back(finding_of(mpi_facts()));
  all.push_back(finding_of(table_facts()));
  all.push_back(
      finding_of(folder_facts("temporary", environment_or("TMPDIR", "/tmp"), "MPI and generated code")));
  std::error_code error;
  all.push_back(finding_of(folder_facts("this folder", std::filesystem::current_path(error).string(),
                                        "outputs whose paths are relative")));
  if (gpu.in_build && gpu.error.empty())
    all.push_back(finding_of(folder_facts(
        "kernel cache",
        nearest_folder(environment_or("CUDA_CACHE_PATH", environment_or("HOME", "/") + "/.nv/ComputeCache")),
        "kernels that the driver has compiled")));
  all.push_back(trial("trial", Space::host));
  if (gpu.in_build && gpu.error.empty()) all.push_back(trial("trial on GPU", Space::device));
  return all;
}

int exit_code_of(std::span<const Finding> findings) noexcept {
  const Health worst = worst_of(findings);
  return worst == Health::ok ? 0 : worst == Health::warning ? 1 : 3;
}

int doctor(const DoctorArguments& arguments) {
  const std::vector<Finding> findings = examine();
  print(arguments.json ? findings_json(findings) : findings_text(findings));
  return exit_code_of(findings);
}

}  // namespace protean::apps
