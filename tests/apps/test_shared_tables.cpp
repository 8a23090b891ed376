// Machine tables that are shared: what is exported and imported, what is refused, and which contributed one is used.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/command/build_info.hpp"
#include "apps/machine/shared_table.hpp"
#include "apps/machine/tune.hpp"
#include "core/error.hpp"
#include "support/command.hpp"
#include "support/text.hpp"

namespace protean::apps {
namespace {

using Json = nlohmann::json;
using test::has;
using test::Outcome;

MeasuredMatrix measured(const std::string& name, Space space, double seconds = 1e-3) {
  return {name, space, 1000, 5000, {{"csr", 64000, seconds, 0}, {"sell-packed", 60000, seconds / 2, 1e-3}}};
}

TunedMachine table_of(const std::string& processor, const std::string& gpu = {}, double seconds = 1e-3) {
  TunedMachine table{{processor + ", 2 threads", {measured("poisson-2d-120", Space::host, seconds)}}};
  if (!gpu.empty()) table.matrices.push_back(measured("poisson-2d-120", Space::device, seconds));
  table.origin = {processor, gpu, 2, "0.1.0", "2026-11-29"};
  return table;
}

class SharedTables : public test::CommandTest {
 protected:
  ~SharedTables() override { unsetenv("PROTEAN_TABLES"); }
  std::string at(const std::string& name) const { return (work_ / name).string(); }
  // A refusal has this text, is exit code 2, and leaves all files as they were.
  void expect_refused(const std::vector<std::string>& arguments, std::string_view part) {
    const auto before = files();
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_TRUE(has(o.err, part)) << part << "\n" << o.err;
    EXPECT_EQ(files(), before);
  }
};

TEST_F(SharedTables, ComeBackFromTheirFiles) {
  const std::string here = machine_info().cpu;
  TunedMachine table = table_of(here);
  table.matrices.push_back(measured("my-own-matrix", Space::host));
  write("machine.yaml", machine_text(table));
  const Outcome out = run({"tune", "--export", "shared.yaml"});
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_TRUE(has(out.out, "it is called " + file_name_of(here) + ".yaml")) << out.out;
  EXPECT_FALSE(has(test::slurp(work_ / "shared.yaml"), "my-own-matrix")) << "matrices of the user stay here";
  const Outcome in = run({"tune", "--import", "shared.yaml", "-o", "new.yaml"});
  ASSERT_EQ(in.code, 0) << in.err;
  EXPECT_TRUE(has(in.out, "1 matrices of " + here + ", 2 threads, by protean 0.1.0 on 2026-11-29")) << in.out;
  const TunedMachine back = read_machine(at("new.yaml"));
  EXPECT_EQ(back.machine, table.machine);
  EXPECT_EQ(back.origin.processor, here);
  EXPECT_EQ(back.origin.threads, 2);
  EXPECT_EQ(back.origin.date, "2026-11-29");
  ASSERT_EQ(back.matrices.size(), 1u);
  EXPECT_EQ(back.matrices[0].formats[1].product_seconds, 5e-4);
  EXPECT_EQ(run({"tune", "--import", "shared.yaml", "-o", "quiet.yaml", "--quiet"}).out, "");
}

TEST_F(SharedTables, AreRefusedWithTheReason) {
  const std::string here = machine_info().cpu;
  const auto import = [&](const TunedMachine& table, std::string_view part) {
    write("shared.yaml", machine_text(table));
    expect_refused({"tune", "--import", "shared.yaml", "-o", "new.yaml"}, part);
  };
  import(table_of("Another processor"),
         "it is of the processor 'Another processor', and this one is '" + here + "'");
  TunedMachine table = table_of(here);
  table.matrices[0].formats.push_back({"sell-pakced", 1, 1e-3, 1e-3});
  import(table, "matrices[0].formats[2] is 'sell-pakced', which is not a format of protean");
  import(table, "Did you mean 'sell-packed'?");
  for (const char* key : {"processor", "threads", "version", "date"}) {
    table = table_of(here);
    const std::string name = key;
    if (name == "processor") table.origin.processor.clear();
    if (name == "threads") table.origin.threads = 0;
    if (name == "version") table.origin.version.clear();
    if (name == "date") table.origin.date.clear();
    import(table, "the key '" + name + "' is missing");
  }
  table = table_of(here), table.matrices.clear();
  import(table, "it has no measured matrix");
  table = table_of(here), table.matrices.push_back(table.matrices[0]);
  import(table, "is poisson-2d-120 of the host again, as matrices[0]; remove one");
  write("shared.yaml", "matrices: [\n");
  expect_refused({"tune", "--import", "shared.yaml", "-o", "new.yaml"}, "shared.yaml:");
  write("shared.yaml", "date: yesterday\nmatrices: []\n");
  expect_refused({"tune", "--import", "shared.yaml", "-o", "new.yaml"},
                 "shared.yaml:1:7: date is 'yesterday'");
  write("shared.yaml", machine_text(table_of(here))), write("new.yaml", machine_text(table_of(here)));
  expect_refused({"tune", "--import", "shared.yaml", "-o", "new.yaml"}, "it is there already");
  expect_refused({"tune", "--import", "shared.yaml", "-o", "shared.yaml"}, "would overwrite --import");
  expect_refused({"tune", "--import", "none.yaml", "-o", "new2.yaml"}, "none.yaml");
  expect_refused({"tune", "--export", "e.yaml", "--import", "shared.yaml"},
                 "--export and --import are given");
  expect_refused({"tune", "--export", "e.yaml", "-o", "none.yaml"}, "there is no such machine table");
  write("mine.yaml", "machine: x\nmatrices: []\n");
  expect_refused({"tune", "--export", "e.yaml", "-o", "mine.yaml"}, "the key 'processor' is missing");
}

TEST_F(SharedTables, AreNotHalfWritten) {
  write("machine.yaml", machine_text(table_of(machine_info().cpu)));
  std::filesystem::create_directory(work_ / "closed");
  std::filesystem::permissions(work_ / "closed",
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  obeys_permissions_ = true;
  const auto before = files();
  EXPECT_EQ(run({"tune", "--export", "closed/e.yaml"}).code, 2);
  EXPECT_EQ(run({"tune", "--import", "machine.yaml", "-o", "closed/m.yaml"}).code, 2);
  EXPECT_EQ(files(), before);
}

TEST_F(SharedTables, OfThisProcessorAndGpuAreFound) {
  const auto folder = work_.string();
  bool asked = false;
  const auto gpu = [&](const std::string& name) {
    return [&asked, name] {
      asked = true;
      return name;
    };
  };
  EXPECT_FALSE(contributed_table(folder, "CPU A", gpu("GPU X")).own);
  EXPECT_FALSE(asked) << "CUDA starts for a table only";
  write("cpu-a.yaml", machine_text(table_of("CPU A", "", 1)));
  write("cpu-ab.yaml", machine_text(table_of("CPU AB", "", 2)));
  write("gpu-x.yaml", machine_text(table_of("CPU C", "GPU X", 3)));
  write("cpu-a.txt", "no table");
  const ChosenMachine host = contributed_table(folder, "CPU A", gpu(""));
  ASSERT_TRUE(host.own);
  EXPECT_EQ(host.from, at("cpu-a.yaml"));
  EXPECT_EQ(host.own->matrices.size(), 1u);
  EXPECT_EQ(contributed_table(folder, "CPU AB", gpu("")).from, at("cpu-ab.yaml"))
      << "not of the name that it begins with";
  EXPECT_FALSE(contributed_table(folder, "CPU D", gpu("")).own);
  const ChosenMachine both = contributed_table(folder, "CPU A", gpu("GPU X"));
  EXPECT_EQ(both.from, at("cpu-a.yaml") + ", " + at("gpu-x.yaml"));
  ASSERT_EQ(both.own->matrices.size(), 2u);
  EXPECT_EQ(both.own->matrices[0].space, Space::host);
  EXPECT_EQ(both.own->matrices[0].formats[0].product_seconds, 1);
  EXPECT_EQ(both.own->matrices[1].space, Space::device);
  EXPECT_EQ(both.own->matrices[1].formats[0].product_seconds, 3);
  const ChosenMachine device = contributed_table(folder, "CPU D", gpu("GPU X"));
  ASSERT_TRUE(device.own);
  EXPECT_EQ(device.own->matrices.size(), 1u) << "the host of that machine is another one";
  write("cpu-a.yaml", "matrices: [\n");
  EXPECT_THROW((void)contributed_table(folder, "CPU A", gpu("")), BadFile);
  EXPECT_FALSE(contributed_table((work_ / "nowhere").string(), "CPU A", gpu("")).own);
}

TEST_F(SharedTables, AreUsedAndNamedByEveryCommand) {
  const std::string here = machine_info().cpu, name = file_name_of(here) + ".yaml";
  std::filesystem::create_directory(work_ / "tables");
  write("tables/" + name, machine_text(table_of(here)));
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 8}}\n");
  setenv("PROTEAN_TABLES", at("tables").c_str(), 1);
  const std::string path = at("tables/" + name);
  const Outcome check = run({"check", "p.yaml", "--json"});
  EXPECT_EQ(Json::parse(check.out)["machine_table"], path) << check.err;
  const Outcome solve = run({"solve", "p.yaml", "--json"});
  EXPECT_EQ(Json::parse(solve.out)["machine"]["table"], path) << solve.err;
  EXPECT_TRUE(has(run({"doctor"}).out, name));
  write("m.yaml", machine_text(table_of(here)));
  setenv("PROTEAN_MACHINE", "m.yaml", 1);
  EXPECT_EQ(Json::parse(run({"check", "p.yaml", "--json"}).out)["machine_table"], "m.yaml")
      << "a table of one's own wins";
  unsetenv("PROTEAN_MACHINE");
  setenv("PROTEAN_TABLES", at("nowhere").c_str(), 1);
  EXPECT_EQ(Json::parse(run({"check", "p.yaml", "--json"}).out)["machine_table"], "built in");
}

TEST(SharedTableNames, AreMadeOfLettersAndDigits) {
  EXPECT_EQ(file_name_of("Intel(R) Xeon(R) CPU @ 2.10GHz"), "intel-r-xeon-r-cpu-2-10ghz");
  EXPECT_EQ(file_name_of("  "), "");
  EXPECT_TRUE(days_since("2026-02-28"));
  for (const char* text :
       {"2026-02-30", "2026-13-01", "2026-1-1", "26-01-01", "yesterday", "2026-02-28 ", ""})
    EXPECT_FALSE(days_since(text)) << text;
}

// A table that `tune` writes may be shared.
TEST(Tune, SaysWhereItMeasured) {
  const TableOrigin origin = origin_here(3);
  EXPECT_EQ(origin.processor, machine_info().cpu);
  EXPECT_EQ(origin.threads, 3);
  EXPECT_EQ(origin.version, build_info().version);
  EXPECT_TRUE(days_since(origin.date));
}

}  // namespace
}  // namespace protean::apps
