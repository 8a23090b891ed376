// A kernel reads an invalid address during a solve: device_kernel_fault library|command. The library must
// throw DeviceError now and at every later use of this context, and must still solve on the host. The command
// must exit with code 3 and write no report. Exit status of this program: 0 passed, 77 no GPU.
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/command/command_line.hpp"
#include "core/allocation_hook.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "operators/callback_operator.hpp"
#include "solvers/device_kernels.hpp"
#include "solvers/solver.hpp"
#include "support/folder.hpp"

namespace {

using namespace protean;
using namespace protean::test;

int failed(const char* what) {
  std::printf("failed: %s\n", what);
  return 1;
}

std::vector<double> solve_on_host() {
  const ContextPtr host = Context::host(2);
  const auto A = make_matrix(find_format("csr"), generate(host, "poisson-2d", {{"n", 20}}), host);
  std::vector<double> b(400, 1.0), x(400, 0.0);
  if (!make_solver<double>("cg")->solve(*A, {b.data(), 400}, {x.data(), 400}).converged()) x.clear();
  return x;
}

int of_the_library() {
  const std::vector<double> before = solve_on_host();
  const ContextPtr context = Context::device();
  int calls = 0;
  const CallbackOperator<double> A(context, {400, 400}, [&](const double* x, double* y, CUstream_st* stream) {
    queue_stencil(20, x, y, stream);
    if (++calls == 4) queue_poison(stream);
  });
  Vector<double> b(context, 400), x(context, 400);
  fill<double>(*context, 1.0, b), fill<double>(*context, 0.0, x);
  try {
    (void)make_solver<double>("cg")->solve(A, b, x);
    return failed("the solve did not notice");
  } catch (const DeviceError& error) { std::printf("DeviceError: %s\n", error.what()); }
  try {
    fill<double>(*context, 1.0, b);
    context->synchronize();
    return failed("the context works again");
  } catch (const DeviceError&) {}
  return before.empty() || solve_on_host() != before ? failed("the host solves differently") : 0;
}

std::atomic<int> seen{0};

int of_the_command() {
  const Folder folder;
  const std::string report = folder / "r.json";
  std::vector<std::string> words = {"protean",  "solve", PROTEAN_SOURCE "/problems/poisson.yaml",
                                    "--quiet",  "--set", "operator.space=device",
                                    "--report", report};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // The fault occurs while the matrix is converted.
  detail::allocation_hook = [](Space space, std::size_t) {
    if (space == Space::device && ++seen == 8) queue_poison(nullptr);
  };
  const int code = apps::run(static_cast<int>(words.size()), argv.data());
  if (seen < 8) return failed("nothing was poisoned");
  std::printf("exit code %d\n", code);
  if (code != 3) return failed("the exit code is not 3");
  return std::filesystem::exists(report) ? failed("a report was written") : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (Context::device_count() == 0) {
    std::printf("skipped: no device: this machine has no GPU\n");
    return 77;
  }
  return argc > 1 && std::string(argv[1]) == "command" ? of_the_command() : of_the_library();
}
