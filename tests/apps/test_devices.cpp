// operator.devices: what the command does over several GPUs, shown on simulated ones, which a test puts in their place.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command/command_line.hpp"
#include "apps/problem/devices.hpp"
#include "apps/problem/problem_file.hpp"
#include "core/error.hpp"
#include "gtest/gtest.h"
#include "support/command.hpp"
#include "support/fake_device.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

const std::string system = R"(matrix: {generate: {kind: poisson-2d, n: 20}}
solver: {method: cg, relative_tolerance: 1.0e-9}
preconditioner: {type: jacobi}
rhs: {solution: {random: 3}}
)";

// A machine with this many simulated devices.
class Devices : public testing::Test {
 protected:
  void machine_has(int count) {
    made_.clear();
    apps::set_device_source({[count] { return count; },
                             [this](int number, const DeviceOptions&) {
                               made_.push_back(number);
                               return fake_device_context({.steps_ahead = 2, .steps_after_end = 1});
                             }});
  }
  void SetUp() override { before_ = apps::device_source(); }
  void TearDown() override { apps::set_device_source(before_); }

  std::string file(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }
  Outcome run(std::vector<std::string> words) const {
    words.insert(words.begin(), "protean");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    testing::internal::CaptureStderr(), testing::internal::CaptureStdout();
    Outcome o;
    o.code = apps::run(static_cast<int>(words.size()), argv.data());
    o.out = testing::internal::GetCapturedStdout(), o.err = testing::internal::GetCapturedStderr();
    return o;
  }
  Outcome solve(const std::string& problem, const std::vector<std::string>& more = {}) const {
    write("p.yaml", problem);
    std::vector<std::string> words{"solve", file("p.yaml")};
    words.insert(words.end(), more.begin(), more.end());
    return run(std::move(words));
  }
  Json report() const { return Json::parse(slurp(file("r.json"))); }
  void expect_refused(const std::string& problem, int code, const std::string& text) const {
    for (const char* const name : {"x.mtx", "r.json"}) std::filesystem::remove(file(name));
    const Outcome o = solve(problem, {"--solution", file("x.mtx"), "--report", file("r.json")});
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_FALSE(std::filesystem::exists(file("x.mtx")) || std::filesystem::exists(file("r.json")));
  }

  std::vector<int> made_;
  const Folder folder_;

 private:
  apps::DeviceSource before_;
};

TEST_F(Devices, ShareTheRowsOfASystem) {
  machine_has(4);
  ASSERT_EQ(solve(system, {"--quiet", "--report", file("r.json"), "--solution", file("one.mtx")}).code, 0);
  const Json one = report();
  struct Case {
    const char* devices;
    std::vector<int> numbers;
  };
  for (const auto& [devices, numbers] :
       {Case{"2", {0, 1}}, Case{"all", {0, 1, 2, 3}}, Case{"[3, 1]", {3, 1}}, Case{"3", {0, 1, 2}}}) {
    SCOPED_TRACE(devices);
    made_.clear();
    const Outcome o =
        solve(system + "operator: {space: device, devices: " + devices + ", format: ell}\n",
              {"--report", file("r.json"), "--solution", file("x.mtx"), "--history", file("h.csv")});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(made_, numbers);
    const Json r = report();
    EXPECT_EQ(r["status"], "converged");
    EXPECT_LE(r["residual"]["true_relative"].get<double>(), 1e-9);
    EXPECT_LT(r["error"]["relative"].get<double>(), 1e-6);
    EXPECT_NEAR(r["iterations"].get<double>(), one["iterations"].get<double>(), 2);
    EXPECT_EQ(r["operator"]["format"], "ell");
    EXPECT_EQ(r["operator"]["space"], "device");
    EXPECT_EQ(r["matrix"], one["matrix"]);
    EXPECT_GE(r["operator"]["products"].get<std::int64_t>(), r["iterations"].get<std::int64_t>());
    const Json& parts = r["devices"];
    EXPECT_EQ(parts["count"], numbers.size());
    EXPECT_EQ(parts["partition"], "rows");
    std::int64_t rows = 0, nonzeros = 0, bytes = 0;
    std::vector<int> shown;
    for (const Json& part : parts["by_device"]) {
      shown.push_back(part["device"].get<int>());
      rows += part["rows"].get<std::int64_t>(), nonzeros += part["nonzeros"].get<std::int64_t>();
      bytes += part["memory"]["matrix_bytes"].get<std::int64_t>();
      EXPECT_GT(part["sent_by_a_product"]["bytes"], 0);
      EXPECT_EQ(part["format"], "ell");
      EXPECT_EQ(part["boundary_format"], "csr");
    }
    EXPECT_EQ(shown, numbers);
    EXPECT_EQ(rows, 400);
    EXPECT_EQ(nonzeros, r["matrix"]["nonzeros"].get<std::int64_t>());
    EXPECT_EQ(bytes, r["memory"]["matrix_bytes"].get<std::int64_t>());
    EXPECT_TRUE(has(o.out, "on " + std::to_string(numbers.size()) + " GPUs")) << o.out;
    EXPECT_TRUE(has(o.out, "partition rows")) << o.out;
    const std::string history = slurp(file("h.csv"));
    EXPECT_EQ(std::count(history.begin(), history.end(), '\n'), r["iterations"].get<int>() + 2);
    const Json& told = r["problem"]["operator"]["devices"];
    EXPECT_EQ(told, std::string(devices) == "all" ? Json("all") : Json(numbers));
  }
}

TEST_F(Devices, TakeTheKeyPartition) {
  machine_has(3);
  std::string parts;
  for (int row = 0; row < 400; ++row) parts += std::to_string(row % 2 == 0 ? 0 : 2) + "\n";
  write("parts.txt", parts);
  const std::string on_three = system + "operator: {space: device, devices: 3}\n";
  for (const char* partition : {"graph", "{file: parts.txt}", "rows"}) {
    SCOPED_TRACE(partition);
    const Outcome o = solve(on_three + "partition: " + partition + "\n",
                            {"--quiet", "--report", file("r.json"), "--solution", file("x.mtx")});
    if (o.code == 3 && o.err.find("METIS") != std::string::npos) continue;
    ASSERT_EQ(o.code, 0) << o.err;
    const Json r = report();
    EXPECT_LT(r["error"]["relative"].get<double>(), 1e-6);
    const bool given = std::string(partition).starts_with("{");
    EXPECT_EQ(r["devices"]["partition"], given ? "file" : partition);
    if (!given) continue;
    ASSERT_EQ(r["devices"]["by_device"].size(), 2u) << "device 1 has no rows";
    EXPECT_EQ(r["devices"]["by_device"][1]["device"], 2);
    EXPECT_EQ(r["devices"]["by_device"][1]["rows"], 200);
  }
  write("parts.txt", "0\n1\n3\n");
  expect_refused(on_three + "partition: {file: parts.txt}\n", 2, "parts.txt:3:1: '3' is not a part");
  write("parts.txt", "0\n1\n");
  expect_refused(on_three + "partition: {file: parts.txt}\n", 2, "has 2 lines; the matrix has 400 rows");
  expect_refused(on_three + "partition: {file: none.txt}\n", 2, "p.yaml:6:19");
}

TEST_F(Devices, OneOfThemIsASolveOnOneDevice) {
  machine_has(1);
  write("p.yaml", system + "operator: {space: device, devices: all, format: csr}\n");
  const Outcome o = run({"check", file("p.yaml")});
  EXPECT_EQ(made_, std::vector<int>{0});
  // The formats of this build may have no kernels for devices; nothing else may be wrong.
  if (o.code == 0)
    EXPECT_TRUE(has(o.out, "the GPU")) << o.out;
  else
    EXPECT_TRUE(has(o.err, "csr")) << o.err;
  machine_has(4);
  write("p.yaml", system + "operator: {space: device, devices: [2], format: csr}\n");
  (void)run({"check", file("p.yaml")});
  EXPECT_EQ(made_, std::vector<int>{2});
}

TEST_F(Devices, AreShownByCheck) {
  machine_has(3);
  write("p.yaml", system + "partition: graph\noperator: {space: device, devices: all}\n");
  const Outcome o = run({"check", file("p.yaml")});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(has(o.out, "3 GPUs, numbers 0, 1, 2, rows divided by graph")) << o.out;
  EXPECT_TRUE(has(o.out, "may change      nothing")) << o.out;
  const Outcome json = run({"check", file("p.yaml"), "--json"});
  EXPECT_EQ(Json::parse(json.out)["devices"], Json({0, 1, 2}));
  EXPECT_EQ(Json::parse(json.out)["problem"]["operator"]["devices"], "all");
}

TEST_F(Devices, ThatDoNotExistAreNamed) {
  machine_has(2);
  const std::string key = "operator: {space: device, devices: ";
  expect_refused(system + key + "3}\n", 3,
                 "p.yaml:5:36: operator.devices: there is no GPU 2; this machine has 2, numbers 0 to 1; take "
                 "some of these, or all");
  expect_refused(system + key + "[0, 7]}\n", 3, "there is no GPU 7");
  machine_has(1);
  expect_refused(system + key + "2}\n", 3, "there is no GPU 1; this machine has one, number 0");
}

// Without a GPU the message is the one of space: device.
TEST_F(Devices, NeedAGpu) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  if (apps::device_source().count() > 0) GTEST_SKIP() << "this process has a GPU already";
  for (const char* devices : {"1", "2", "all", "[1, 0]"})
    expect_refused(system + "operator: {space: device, devices: " + devices + "}\n", 3,
                   "operator.space is device, but ");
}

std::string refusal(const std::string& problem, const std::vector<std::string>& settings = {}) {
  try {
    (void)apps::parse_problem(problem, "p.yaml", settings);
  } catch (const BadFile& error) { return error.what(); }
  return {};
}

TEST(DevicesKey, IsCheckedWithItsPlace) {
  const std::string matrix = "matrix: {generate: {kind: poisson-2d, n: 5}}\n";
  const auto with = [&](const std::string& value) {
    return refusal(matrix + "operator: {space: device, devices: " + value + "}\n");
  };
  EXPECT_EQ(with("16"), "");
  EXPECT_EQ(with("all"), "");
  EXPECT_EQ(with("[5]"), "");
  EXPECT_TRUE(has(with("0"), "p.yaml:2:36: operator.devices")) << with("0");
  EXPECT_TRUE(has(with("17"), "p.yaml:2:36: operator.devices")) << with("17");
  EXPECT_TRUE(has(with("many"), "all")) << with("many");
  EXPECT_TRUE(has(with("\"2\""), "operator.devices")) << "a text is no number: " << with("\"2\"");
  EXPECT_TRUE(has(with("2.5"), "operator.devices")) << with("2.5");
  EXPECT_TRUE(has(with("[]"), "p.yaml:2:36: operator.devices has 0 numbers")) << with("[]");
  EXPECT_TRUE(has(with("[1, 0, 1]"), "p.yaml:2:43: operator.devices has GPU 1 twice")) << with("[1, 0, 1]");
  EXPECT_TRUE(has(with("[0, -1]"), "operator.devices[1]")) << with("[0, -1]");
  EXPECT_TRUE(has(with("{first: 0}"), "a list of numbers of GPUs")) << with("{first: 0}");
  EXPECT_TRUE(has(refusal(matrix + "operator: {devices: 2}\n"),
                  "p.yaml:2:21: operator.devices is for operator.space: device, and the space is host"));
  EXPECT_TRUE(has(refusal(matrix, {"operator.space=device", "operator.devices=[0, 0]"}),
                  "--set operator.devices=[0, 0]"));
}

// What several devices do not serve is refused where it was asked for, and not with one device.
TEST(DevicesKey, RefusesWhatSeveralDevicesDoNotServe) {
  const std::string matrix = "matrix: {generate: {kind: poisson-2d, n: 5}";
  struct Case {
    std::string rest, place, text;
  };
  for (const Case& one : {
           Case{"}\npreconditioner: {type: spai0}", "p.yaml:2:17",
                "spai0 is not served over several devices"},
           Case{"}\npreconditioner: {type: auto}\noutput: {fields: f.mtx}", "p.yaml:3:18",
                "output.fields is for one device"},
           Case{"}\npreconditioner: {type: composition, parts: [{type: jacobi}, {type: ic0}]}", "p.yaml:2:17",
                "a composition of preconditioners"},
           Case{", order: rcm}", "p.yaml:1:53", "an order of the rows"},
           Case{"}\nschedule: {policy: auto}", "p.yaml:2:20", "a policy is not served"},
           Case{"}\nschedule: [{at_iteration: 2, format: ell}]", "p.yaml:2:11", "a schedule is not served"},
           Case{"}\nrhs: {random: 1, columns: 3}", "p.yaml:2:6", "one right-hand side"},
           Case{"}\npetsc_options: -ksp_view", "devices", "is for engine: protean"},
           Case{"}\nengine: petsc", "devices", "is for engine: protean"},
       }) {
    SCOPED_TRACE(one.rest);
    const auto on = [&](const std::string& devices) {
      return refusal(matrix + one.rest + "\noperator: {space: device, devices: " + devices + "}\n");
    };
    const std::string told = on("2");
    EXPECT_TRUE(has(told, one.place) && has(told, one.text)) << told;
    EXPECT_EQ(on("1").empty(), one.text != "is for engine: protean");
  }
  EXPECT_TRUE(has(
      refusal(
          "matrix: {generate: {kind: fem-hex, n: 3, storage: element}}\noperator: {space: device, devices: 2}\n"),
      "p.yaml:2:36: operator.devices: several devices need the assembled matrix"));
  EXPECT_TRUE(has(refusal(matrix + "}\noperator: {space: device, devices: 2, expected_iterations: 9}\n"),
                  "expected_iterations is not served"));
}

TEST_F(Devices, RefuseAtTheSolveWhatIsKnownOnlyThere) {
  machine_has(2);
  const std::string on_all = "operator: {space: device, devices: all}\n";
  expect_refused(system + on_all + "schedule: {policy: auto}\n", 2, "p.yaml:6:20: a policy is not served");
  write(
      "b.mtx", "%%MatrixMarket matrix array real general\n400 2\n" + [] {
        std::string numbers;
        for (int i = 0; i < 800; ++i) numbers += "1\n";
        return numbers;
      }());
  expect_refused("matrix: {generate: {kind: poisson-2d, n: 20}}\nrhs: {file: b.mtx}\n" + on_all, 2,
                 "p.yaml:2:13: there are 2 right-hand sides, and several devices take one");
  write("p.yaml", system + on_all);
  const Outcome kept = run({"solve", file("p.yaml"), "--checkpoint", "1", "--solution", file("x.mtx")});
  EXPECT_EQ(kept.code, 2);
  EXPECT_TRUE(has(kept.err, "--checkpoint is for one device")) << kept.err;
  const Outcome compared = run({"compare", file("p.yaml"), "--quiet"});
  EXPECT_EQ(compared.code, 2);
  EXPECT_TRUE(has(compared.err, "protean compare takes GPU 0 alone")) << compared.err;
  expect_refused(system + "engine: protean\npartition: graph\n", 2, "p.yaml:6:12: partition shares rows out");
}

// A part without memory: exit code 3, the part is named, and nothing is written.
TEST_F(Devices, ThatFailAreNamed) {
  machine_has(3);
  write("gap.mtx",
        "%%MatrixMarket matrix coordinate real general\n6 6 5\n1 1 2\n2 2 2\n3 3 2\n4 4 2\n6 6 2\n");
  expect_refused(
      "matrix: {file: gap.mtx}\npreconditioner: {type: jacobi}\nsolver: {method: gmres}\n"
      "operator: {space: device, devices: 3}\n",
      2, "part 2 of 3");
}

}  // namespace
}  // namespace protean::test
