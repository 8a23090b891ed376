// Machine tables are written, read, refused and extended.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "apps/command/build_info.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/machine/measure.hpp"
#include "apps/machine/tune.hpp"
#include "apps/small_rules.hpp"
#include "core/context.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "operators/policy/cost_model.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::apps {
namespace {

using test::message_of;

TEST(MachineFile, TheBuiltInTableComesBackFromItsText) {
  const MachineTable& table = builtin_machine();
  const MachineTable back = parse_machine(machine_text({table}), "text");
  EXPECT_EQ(back.machine, table.machine);
  ASSERT_EQ(back.matrices.size(), table.matrices.size());
  for (std::size_t i = 0; i < table.matrices.size(); ++i) {
    const MeasuredMatrix &a = table.matrices[i], &b = back.matrices[i];
    EXPECT_EQ(a.matrix, b.matrix);
    EXPECT_EQ(a.space, b.space);
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.nonzeros, b.nonzeros);
    ASSERT_EQ(a.formats.size(), b.formats.size());
    for (std::size_t k = 0; k < a.formats.size(); ++k) {
      EXPECT_EQ(a.formats[k].format, b.formats[k].format);
      EXPECT_EQ(a.formats[k].bytes, b.formats[k].bytes);
      EXPECT_DOUBLE_EQ(a.formats[k].product_seconds, b.formats[k].product_seconds);
      EXPECT_DOUBLE_EQ(a.formats[k].convert_seconds, b.formats[k].convert_seconds);
    }
  }
}

TEST(MachineFile, NamesOfAnyCharactersComeBack) {
  TunedMachine table;
  table.machine = "a \"b\" \\ c\n\x7f \xc3\xa9";
  MeasuredMatrix matrix;
  matrix.matrix = "it's: [a], {b} # c\t\"";
  matrix.rows = matrix.nonzeros = 1;
  for (const char* format : {"csr", "null", "1e3", "a, b]", "-"}) {
    MeasuredFormat one;
    one.format = format, one.bytes = 1, one.product_seconds = 1e-6;
    matrix.formats.push_back(one);
  }
  table.matrices.push_back(matrix);
  const MachineTable back = parse_machine(machine_text(table), "text");
  EXPECT_EQ(back.machine, table.machine);
  ASSERT_EQ(back.matrices.size(), 1u);
  EXPECT_EQ(back.matrices[0].matrix, matrix.matrix);
  ASSERT_EQ(back.matrices[0].formats.size(), matrix.formats.size());
  for (std::size_t k = 0; k < matrix.formats.size(); ++k)
    EXPECT_EQ(back.matrices[0].formats[k].format, matrix.formats[k].format);
  EXPECT_EQ(parse_machine(machine_text(TunedMachine{}), "text").machine, "");
}

TEST(MachineFile, AnEmptyTableIsATable) {
  EXPECT_TRUE(parse_machine(machine_text({{"none", {}}}), "text").matrices.empty());
}

TEST(MachineFile, RoofsComeBackFromTheirText) {
  const TunedMachine table{{"m", {}}, {{Space::host, 1.25e10, 4.5e10, 1 << 23}, {Space::device, 3e12, 0, 0}}};
  const TunedMachine back = parse_machine(machine_text(table), "text");
  ASSERT_EQ(back.roofs.size(), 2U);
  const MeasuredRoof *const host = roof_of(back, Space::host), *const device = roof_of(back, Space::device);
  ASSERT_TRUE(host && device);
  EXPECT_EQ(host->memory, 1.25e10);
  EXPECT_EQ(host->cache, 4.5e10);
  EXPECT_EQ(host->cache_bytes, 1U << 23);
  EXPECT_EQ(device->memory, 3e12);
  EXPECT_EQ(device->cache, 0) << "it was not measured";
  EXPECT_EQ(roof_of({builtin_machine(), {}}, Space::host), nullptr)
      << "that of another machine would be no roof here";
}

TEST(MachineFile, WhatIsWrongIsSaidWithItsPlace) {
  const auto message = [](const char* text) {
    return message_of<BadFile>([&] { (void)parse_machine(text, "m.yaml"); });
  };
  EXPECT_NE(message("matrix: {}").find("matri"), std::string::npos);
  EXPECT_NE(message("machine: x").find("'matrices' is missing"), std::string::npos);
  EXPECT_NE(message("matrices: []\nroofs: [{space: host}]").find("no 'memory'"), std::string::npos);
  EXPECT_NE(message("matrices: []\nroofs: [{space: host, memory: 0}]").find("roofs[0].memory"),
            std::string::npos);
  EXPECT_NE(message("matrices: []\nroofs: [{space: host, memory: 1e9}, {space: host, memory: 2e9}]")
                .find("two of the host"),
            std::string::npos);
  const char* no_csr =
      "matrices:\n  - {matrix: a, space: host, rows: 5, nonzeros: 9, formats: [[ell, 10, 1e-3, 1e-2]]}";
  EXPECT_NE(message(no_csr).find("m.yaml:2:"), std::string::npos) << message(no_csr);
  EXPECT_NE(message(no_csr).find("no csr"), std::string::npos) << message(no_csr);
  EXPECT_NE(message("matrices:\n  - {matrix: a, space: host, rows: 5, formats: []}").find("no 'nonzeros'"),
            std::string::npos);
  EXPECT_NE(
      message("matrices:\n  - {matrix: a, space: host, rows: 5, nonzeros: 9, formats: [[csr, 10, -1, 0]]}")
          .find("formats[0][2]"),
      std::string::npos);
}

TEST(MachineFile, AFileThatIsNotThereIsAnErrorAndNoSilentFallback) {
  EXPECT_THROW((void)choose_machine("/nowhere/machine.yaml"), BadFile);
  setenv("PROTEAN_MACHINE", "/nowhere/machine.yaml", 1);
  EXPECT_THROW((void)choose_machine(""), BadFile);
  unsetenv("PROTEAN_MACHINE");
  EXPECT_EQ(choose_machine("").from, "built in");
}

TEST(Tune, CasesHaveTheirOwnNames) {
  std::set<std::string> names;
  for (const TuneCase& one : tune_cases()) EXPECT_TRUE(names.insert(one.name).second) << one.name;
  EXPECT_GE(names.size(), 20U);
}

TEST(Tune, GoesOnFromWhatIsThereAndKeepsIt) {
  const test::Folder folder;
  TuneArguments arguments{folder / "m.yaml", 1, 1, true};
  std::size_t before = 0;
  // A matrix is written when all formats have been measured: the time goes with their number and with the machine.
  for (int run = 0; run < 20 && before < 2; ++run) {
    ASSERT_EQ(tune(arguments), 0);
    const std::size_t now =
        std::filesystem::exists(arguments.output) ? read_machine(arguments.output).matrices.size() : 0;
    EXPECT_GE(now, before);
    if (now == before) arguments.budget *= 2;
    before = now;
    ASSERT_LE(arguments.budget, 64) << "no matrix is measured in this time";
  }
  ASSERT_GE(before, 2U);
  TunedMachine table = read_machine(arguments.output);
  EXPECT_GE(table.matrices[0].formats.size(), 8U);
  const MeasuredRoof* const roof = roof_of(table, Space::host);
  ASSERT_NE(roof, nullptr);
  EXPECT_GT(roof->memory, 1e8) << "bytes a second";
  EXPECT_EQ(roof->cache > 0, roof->cache_bytes > 0);
  // The price of the order that the policy considers, for the matrix in a random numbering.
  const auto of = [&](std::string_view name) {
    for (const MeasuredFormat& format : table.matrices[0].formats)
      if (format.format == name) return format;
    return MeasuredFormat{};
  };
  EXPECT_EQ(of("order-rcm").bytes, of("csr").bytes);
  EXPECT_GT(of("order-rcm").product_seconds, 0);
  EXPECT_GT(of("order-rcm").convert_seconds, 2 * of("order-rcm").product_seconds);
  EXPECT_EQ(table.matrices[0].matrix, tune_cases()[0].name);
  // A value that a new measurement would not give.
  table.matrices[0].formats[0].product_seconds = 123.5;
  write_file(arguments.output, machine_text(table));
  arguments.budget = 1;
  ASSERT_EQ(tune(arguments), 0);
  EXPECT_EQ(read_machine(arguments.output).matrices[0].formats[0].product_seconds, 123.5);

  table.machine = "another";
  write_file(arguments.output, machine_text(table));
  EXPECT_THROW((void)tune(arguments), BadFile);
  arguments.spaces = "hots";
  EXPECT_THROW((void)tune(arguments), BadArgument);
  arguments.spaces = "", arguments.budget = 0;
  EXPECT_THROW((void)tune(arguments), BadArgument);
}

// After the built-in matrices, which this table has already.
TEST(Tune, MeasuresMatricesOfFiles) {
  const test::Folder folder;
  TunedMachine table;
  table.machine =
      fmt::format("{}, 1 threads{}", machine_info().cpu, Context::device_count() > 0 ? ", and a GPU" : "");
  for (const TuneCase& one : tune_cases())
    table.matrices.push_back({one.name, Space::host, 10, 20, {{"csr", 244, 1e-6, 0}}});
  std::string square = "%%MatrixMarket matrix coordinate real general\n50 50 99\n";
  for (int i = 1; i <= 50; ++i)
    square += fmt::format("{0} {0} 2\n", i) + (i > 1 ? fmt::format("{} {} 1\n", i, i - 1) : "");
  write_file(folder / "mine.v2.mtx", square);
  write_file(folder / "wide.mtx",
             "%%MatrixMarket matrix coordinate real general\n2 5 3\n1 1 1\n1 5 2\n2 3 4\n");
  TuneArguments arguments{folder / "m.yaml", 4, 1, true};
  arguments.spaces = "host";
  arguments.matrices = {folder / "mine.v2.mtx", folder / "nowhere.mtx"};
  write_file(arguments.output, machine_text(table));
  EXPECT_THROW((void)tune(arguments), BadArgument) << "one is not there";
  arguments.matrices[1] = folder / "wide.mtx";
  const std::size_t all = tune_cases().size() + 2;
  for (; arguments.budget <= 128 && read_machine(arguments.output).matrices.size() < all;
       arguments.budget *= 2)
    ASSERT_EQ(tune(arguments), 0);
  const MachineTable measured = read_machine(arguments.output);
  ASSERT_EQ(measured.matrices.size(), all);
  const MeasuredMatrix &mine = measured.matrices[all - 2], &wide = measured.matrices[all - 1];
  EXPECT_EQ(mine.matrix, "mine");
  EXPECT_EQ(mine.nonzeros, 99);
  EXPECT_EQ(wide.matrix, "wide");
  EXPECT_EQ(wide.rows, 2);
  const auto has = [](const MeasuredMatrix& matrix, std::string_view name) {
    return std::any_of(matrix.formats.begin(), matrix.formats.end(),
                       [&](const MeasuredFormat& format) { return format.format == name; });
  };
  EXPECT_TRUE(has(mine, "sell-packed") && has(mine, "dia") && has(mine, "order-rcm"));
  EXPECT_TRUE(has(wide, "csr") && !has(wide, "order-rcm")) << "an order applies to rows and columns";
}

// Only what is asked for is measured again; everything else stays as it was.
TEST(Tune, MeasuresNamedFormatsAgain) {
  const test::Folder folder;
  TuneArguments arguments{folder / "m.yaml", 30, 1, true};
  arguments.spaces = "host", arguments.formats = "ell,coo";
  TunedMachine table;
  table.machine =
      fmt::format("{}, 1 threads{}", machine_info().cpu, Context::device_count() > 0 ? ", and a GPU" : "");
  table.roofs = {{Space::host, 1e10, 0, 0}};
  const std::vector<TuneCase> cases = tune_cases();
  // The first matrix is there with old times, all others but the second one are done.
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (i == 1) continue;
    const CsrMatrix<double> csr = generate(Context::host(1), cases[i].kind, cases[i].params);
    table.matrices.push_back({cases[i].name,
                              Space::host,
                              csr.rows(),
                              csr.nonzeros(),
                              {{"csr", 1, 123.5, 0}, {"ell", 1, 123.5, 1}, {"dia", 1, 99.5, 1}}});
    if (i > 1) break;
  }
  write_file(arguments.output, machine_text(table));
  // The budget ends the run after some matrices.
  arguments.budget = 3;
  ASSERT_EQ(tune(arguments), 0);
  const TunedMachine now = read_machine(arguments.output);
  const auto seconds = [](const MeasuredMatrix& matrix, std::string_view name) {
    for (const MeasuredFormat& format : matrix.formats)
      if (format.format == name) return format.product_seconds;
    return -1.0;
  };
  EXPECT_EQ(seconds(now.matrices[0], "csr"), 123.5);
  EXPECT_EQ(seconds(now.matrices[0], "dia"), 99.5);
  EXPECT_GT(seconds(now.matrices[0], "ell"), 0);
  EXPECT_LT(seconds(now.matrices[0], "ell"), 1);
  EXPECT_GT(seconds(now.matrices[0], "coo"), 0) << "a format that the table did not have";
  ASSERT_GE(now.matrices.size(), 3U) << "the second one was added";
  const MeasuredMatrix& added = now.matrices[2];
  EXPECT_EQ(added.matrix, cases[1].name);
  EXPECT_GT(seconds(added, "csr"), 0) << "to which the others are compared";
  EXPECT_EQ(seconds(added, "order-rcm"), -1.0);
  EXPECT_EQ(roof_of(now, Space::host)->memory, 1e10) << "it was there";
  arguments.formats = "sell";
  EXPECT_THROW((void)tune(arguments), BadArgument) << "a preset";
  arguments.formats = "elll";
  EXPECT_THROW((void)tune(arguments), BadArgument);
  arguments.formats = "ell";
  table.matrices[0].rows += 1;
  write_file(arguments.output, machine_text(table));
  EXPECT_THROW((void)tune(arguments), BadFile) << "another matrix of this name";
}

// The order of a matrix on a GPU is found by the host, so its price is measured there, too.
TEST(Tune, MeasuresTheOrderOnAGpu) {
  if (Context::device_count() == 0) GTEST_SKIP() << "no device: this machine has no GPU";
  const test::Folder folder;
  TuneArguments arguments{folder / "gpu.yaml", 4, 1, true};
  arguments.spaces = "device";
  const auto measured = [&] {
    return std::filesystem::exists(arguments.output) ? read_machine(arguments.output) : TunedMachine();
  };
  for (; arguments.budget <= 128 && measured().matrices.empty(); arguments.budget *= 2)
    ASSERT_EQ(tune(arguments), 0);
  const TunedMachine table = measured();
  ASSERT_GE(table.matrices.size(), 1U);
  ASSERT_NE(roof_of(table, Space::device), nullptr);
  // Which of them is larger depends on what else the GPU does meanwhile.
  EXPECT_GT(roof_of(table, Space::device)->cache, 0);
  EXPECT_GT(roof_of(table, Space::device)->memory, 0);
  EXPECT_EQ(table.matrices[0].space, Space::device);
  EXPECT_TRUE(CostModel(table, Space::device).knows_order("rcm"));
  EXPECT_FALSE(CostModel(table, Space::host).knows_order("rcm"));
}

TEST(Timing, QuartilesLieBetweenTheTwoNearestTimes) {
  const Timing t = timing_of({10, 1, 3, 2});
  EXPECT_DOUBLE_EQ(t.median, 2.5);
  EXPECT_DOUBLE_EQ(t.lower, 1.75);
  EXPECT_DOUBLE_EQ(t.upper, 4.75);
  EXPECT_EQ(t.runs, 4);
  EXPECT_DOUBLE_EQ(timing_of({7}).median, 7);
}

}  // namespace
}  // namespace protean::apps

namespace protean::test {
namespace {

TEST_F(SmallRules, ATableOfTheHostAloneLeavesTheGpuToTheBuiltInOne) {
  write_machine();
  const apps::ChosenMachine chosen = apps::choose_machine((work_ / "machine.yaml").string());
  const auto in = [&](Space space) {
    return std::count_if(chosen.table()->matrices.begin(), chosen.table()->matrices.end(),
                         [&](const MeasuredMatrix& m) { return m.space == space; });
  };
  EXPECT_EQ(in(Space::host), 1);
  EXPECT_GT(in(Space::device), 5);
}

}  // namespace
}  // namespace protean::test
