// A solve under `ulimit -v`: a format that does not fit is refused before its memory is taken, and the solve
// goes on.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "address_space_limit.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

// 512,000 rows and 3,545,600 entries. coo takes 16 bytes an entry: 54.1 MiB.
constexpr double coo_bytes = 3545600 * 16.0;
const std::string problem = R"(matrix: {generate: {kind: poisson-3d, n: 80}}
solver: {method: cg, relative_tolerance: 1.0e-6}
operator: {format: csr, threads: 1}
output: {report: r.json}
)";

class MemoryLimit : public CommandTest {
 protected:
  // Of the command while it solves the problem in csr.
  double address_space() {
    write("endless.yaml", problem);
    const pid_t child = start({"solve", "endless.yaml", "--set", "solver.relative_tolerance=1e-300", "--set",
                               "solver.max_iterations=1000000000"});
    EXPECT_TRUE(wait_until_solving(child));
    const std::string status = slurp("/proc/" + std::to_string(child) + "/status");
    const std::size_t at = status.find("VmSize:");
    kill(child, SIGINT);
    finish(child);
    return at == std::string::npos ? 0 : 1024 * std::stod(status.substr(at + 7));
  }
};

TEST_F(MemoryLimit, AFormatThatDoesNotFitIsRefusedAndTheSolveGoesOn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where memory is short";
#endif
  const double solving = address_space();
  ASSERT_GT(solving, coo_bytes);
  for (const char* overlapped : {"true", "false"}) {
    SCOPED_TRACE(overlapped);
    write("p.yaml",
          problem + "schedule:\n  - {at_iteration: 5, format: coo, overlapped: " + overlapped + "}\n");
    Outcome outcome;
    {
      const AddressSpaceLimit limit(static_cast<rlim_t>(solving + 0.5 * coo_bytes));
      outcome = run({"solve", "p.yaml"});
    }
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json r = Json::parse(files()["r.json"]);
    EXPECT_TRUE(r["switches"].empty());
    ASSERT_EQ(r["failed_switches"].size(), 1u);
    EXPECT_EQ(r["failed_switches"][0]["failure"], "out-of-memory");
    const auto why = r["failed_switches"][0]["why"].get<std::string>();
    EXPECT_NE(why.find("format coo needs 54.1 MiB"), std::string::npos) << why;
    EXPECT_NE(why.find("may be used for it"), std::string::npos) << why;
  }
  // The limit alone is what was in the way.
  const AddressSpaceLimit limit(static_cast<rlim_t>(solving + 10 * coo_bytes));
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  EXPECT_EQ(Json::parse(files()["r.json"])["switches"].size(), 1u);
}

}  // namespace
}  // namespace protean::test
