// The built-in machine table and the lines it is read from.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "operators/policy/builtin_machine.hpp"

namespace protean::test {
namespace {

TEST(BuiltinMachine, LinesBecomeATable) {
  const MachineTable table = parse_machine_lines(
      "# a comment\n"
      "machine\ta processor; a GPU\n"
      "\n"
      "matrix\tfirst\thost\t100\t500\t0.25\n"
      "\tcsr\t6404\t1.5\t0\n"
      "\tcsr/mkl\t6404\t1\t2e3\n"
      "matrix\tsecond\tdevice\t7\t9\t-1\n"
      "\tcsr\t140\t2\t3.896",
      "lines");
  EXPECT_EQ(table.machine, "a processor; a GPU");
  ASSERT_EQ(table.matrices.size(), 2u);
  const MeasuredMatrix &first = table.matrices[0], &second = table.matrices[1];
  EXPECT_EQ(first.matrix, "first");
  EXPECT_EQ(first.space, Space::host);
  EXPECT_EQ(first.rows, 100);
  EXPECT_EQ(first.nonzeros, 500);
  EXPECT_EQ(first.row_changes, 0.25);
  ASSERT_EQ(first.formats.size(), 2u);
  EXPECT_EQ(first.formats[1].format, "csr/mkl");
  EXPECT_EQ(first.formats[1].bytes, 6404u);
  EXPECT_EQ(first.formats[1].product_seconds, 1e-6);
  EXPECT_EQ(first.formats[1].convert_seconds, 2e-3);
  EXPECT_EQ(second.space, Space::device);
  EXPECT_EQ(second.row_changes, -1);
  ASSERT_EQ(second.formats.size(), 1u);
  EXPECT_DOUBLE_EQ(second.formats[0].convert_seconds, 3.896e-6);
}

TEST(BuiltinMachine, WrongLinesAreRefusedByTheirNumber) {
  for (const char* wrong : {
           "\tcsr\t140\t2\t0",                                  // of no matrix
           "matrix\tm\thost\t7\t9",                             // a field is missing
           "matrix\tm\thost\t7\t9\t-1\t0",                      // a field too many
           "matrix\tm\tcloud\t7\t9\t-1",                        // a space that does not exist
           "matrix\tm\thost\t0\t9\t-1",                         // no rows
           "matrix\tm\thost\t7x\t9\t-1",                        // no number
           "matrix\t\thost\t7\t9\t-1",                          // no name
           "matrix m host 7 9 -1",                              // blanks
           "matrix\tm\thost\t7\t9\t-1\n\tcsr\t140\t0\t0",       // no time
           "matrix\tm\thost\t7\t9\t-1\n\tcsr\t140\tinf\t0",     // no time
           "matrix\tm\thost\t7\t9\t-1\n\tcsr\t140\t1\t-1",      // a negative time
           "matrix\tm\thost\t7\t9\t-1\nformat\tcsr\t140\t1\t0"  // a word where a tab belongs
       }) {
    const std::string text = wrong;
    try {
      parse_machine_lines("machine\tx\n" + text, "lines");
      ADD_FAILURE() << text << " was read";
    } catch (const BadFile& error) {
      EXPECT_EQ(error.file(), "lines");
      EXPECT_EQ(error.line(), text.find('\n') == text.npos ? 2 : 3) << text;
    }
  }
}

MachineTable table_of(const std::string& name) {
  std::ifstream file(PROTEAN_MACHINE_TABLES + name);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return parse_machine_lines(text, name);
}

void expect_same(const MeasuredMatrix& a, const MeasuredMatrix& b) {
  EXPECT_EQ(a.matrix, b.matrix);
  ASSERT_EQ(a.formats.size(), b.formats.size()) << a.matrix;
  std::set<std::string> names;
  for (std::size_t k = 0; k < a.formats.size(); ++k) {
    EXPECT_EQ(a.formats[k].format, b.formats[k].format);
    EXPECT_EQ(a.formats[k].product_seconds, b.formats[k].product_seconds);
    names.insert(a.formats[k].format);
  }
  EXPECT_TRUE(names.count("csr")) << a.matrix;
  EXPECT_EQ(names.size(), a.formats.size()) << a.matrix << " has a format twice";
}

// What the program carries is the whole file of the sources: each line, and each time to the last bit.
TEST(BuiltinMachine, IsTheFileOfTheSources) {
  const MachineTable table = table_of("builtin_machine.tsv");
  const MachineTable& built_in = builtin_machine(BuiltinHost::avx512);
  EXPECT_FALSE(built_in.machine.empty());
  EXPECT_EQ(built_in.machine, table.machine);
  ASSERT_GT(table.matrices.size(), 50u);
  ASSERT_EQ(built_in.matrices.size(), table.matrices.size());
  for (std::size_t i = 0; i < table.matrices.size(); ++i)
    expect_same(built_in.matrices[i], table.matrices[i]);
}

// Each host with its own file has the assembled formats of that file. The GPU and the element matrices come from the
// other table.
TEST(BuiltinMachine, EachProcessorHasItsHost) {
  EXPECT_EQ(&builtin_machine(), &builtin_machine(builtin_host()));
  const MachineTable& other = builtin_machine(BuiltinHost::avx512);
  for (const auto& [host, file] : {std::pair{BuiltinHost::avx2, "builtin_avx2.tsv"},
                                   std::pair{BuiltinHost::amd_avx512, "builtin_amd_avx512.tsv"}}) {
    SCOPED_TRACE(file);
    const MachineTable own = table_of(file);
    const MachineTable& built_in = builtin_machine(host);
    ASSERT_GT(own.matrices.size(), 20u);
    ASSERT_GT(built_in.matrices.size(), own.matrices.size());
    for (std::size_t i = 0; i < own.matrices.size(); ++i) {
      EXPECT_EQ(own.matrices[i].space, Space::host);
      expect_same(built_in.matrices[i], own.matrices[i]);
    }
    std::size_t next = own.matrices.size(), on_device = 0;
    std::set<std::string> elements;
    for (const MeasuredMatrix& matrix : other.matrices) {
      const bool of_elements =
          std::any_of(matrix.formats.begin(), matrix.formats.end(),
                      [](const MeasuredFormat& format) { return format.format == "lma-gather"; });
      if (matrix.space == Space::host && !of_elements) continue;
      ASSERT_LT(next, built_in.matrices.size());
      const MeasuredMatrix& taken = built_in.matrices[next++];
      if (matrix.space == Space::device) {
        ++on_device;
        expect_same(taken, matrix);
        continue;
      }
      EXPECT_EQ(taken.matrix, matrix.matrix);
      for (const MeasuredFormat& format : taken.formats) elements.insert(format.format);
    }
    EXPECT_EQ(next, built_in.matrices.size());
    EXPECT_GT(on_device, 20u);
    EXPECT_EQ(elements,
              (std::set<std::string>{"assembly", "csr", "lma-atomic", "lma-coloured", "lma-gather"}));
  }
}

// What is read for one space is what the whole table has of it, and the model that reads it itself predicts the same.
TEST(BuiltinMachine, APartIsThatOfTheWhole) {
  for (const BuiltinHost host : {BuiltinHost::avx512, BuiltinHost::amd_avx512, BuiltinHost::avx2})
    for (const Space space : {Space::host, Space::device}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(host)) + std::string(to_string(space)));
      const MachineTable part = builtin_machine(host, space);
      std::vector<MeasuredMatrix> whole = builtin_machine(host).matrices;
      std::erase_if(whole, [&](const MeasuredMatrix& matrix) { return matrix.space != space; });
      EXPECT_EQ(part.machine, builtin_machine(host).machine);
      ASSERT_EQ(part.matrices.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) expect_same(part.matrices[i], whole[i]);
    }
}

TEST(BuiltinMachine, AModelThatReadsItItselfPredictsTheSame) {
  for (const Space space : {Space::host, Space::device}) {
    const CostModel whole(builtin_machine(), space), itself(space), of_none = model_of(nullptr, space);
    const CostQuery query{50000, 350000, 4400004};
    std::set<std::string, std::less<>> formats{"csr", "sell-packed", "no-such-format", "order-rcm",
                                               "assembly"};
    for (const MeasuredMatrix& matrix : builtin_machine().matrices)
      for (const MeasuredFormat& format : matrix.formats) formats.insert(format.format);
    EXPECT_GT(formats.size(), 70u);
    for (const std::string& format : formats) {
      const CostPrediction expected = whole.absolute(query, format, 4000000);
      for (const CostModel* const model : {&itself, &of_none}) {
        const CostPrediction prediction = model->absolute(query, format, 4000000);
        EXPECT_EQ(prediction.known, expected.known) << format;
        EXPECT_EQ(prediction.product_seconds, expected.product_seconds) << format;
        EXPECT_EQ(prediction.convert_seconds, expected.convert_seconds) << format;
        EXPECT_EQ(model->may_be_fastest(format), whole.may_be_fastest(format)) << format;
      }
    }
    const MachineTable table{"test", {{"a", space, 1000, 7000, {{"csr", 88004, 2e-6, 0}}}}};
    EXPECT_FALSE(model_of(&table, space).absolute(query, "dia", 4000000).known);
  }
}

// The few formats in the files are the formats that a model chooses from all times. After a change of the times, the
// lines that the test names belong behind the line of the machine.
TEST(BuiltinMachine, TheFewAreThoseOfTheTimes) {
  for (const auto& [host, file] : {std::pair{BuiltinHost::avx512, "builtin_machine.tsv"},
                                   std::pair{BuiltinHost::amd_avx512, "builtin_amd_avx512.tsv"},
                                   std::pair{BuiltinHost::avx2, "builtin_avx2.tsv"}})
    for (const Space space : {Space::host, Space::device}) {
      const CostModel model(builtin_machine(host), space), with_rare = model.with_rare_formats();
      std::set<std::string> likely, rare;
      for (const MeasuredMatrix& matrix : builtin_machine(host).matrices)
        for (const MeasuredFormat& format : matrix.formats) {
          if (model.may_be_fastest(format.format))
            likely.insert(format.format);
          else if (with_rare.may_be_fastest(format.format))
            rare.insert(format.format);
        }
      FewFormats few = builtin_few(host, space);
      std::sort(few.likely.begin(), few.likely.end()), std::sort(few.rare.begin(), few.rare.end());
      const auto line = [&, name = to_string(space)](const char* kind, const std::set<std::string>& formats) {
        return fmt::format("few\t{}\t{}\t{}\n", name, kind, fmt::join(formats, " "));
      };
      EXPECT_TRUE(std::equal(likely.begin(), likely.end(), few.likely.begin(), few.likely.end()) &&
                  std::equal(rare.begin(), rare.end(), few.rare.begin(), few.rare.end()))
          << (space == Space::device ? "builtin_machine.tsv" : file) << " should have\n"
          << line("likely", likely) << line("rare", rare);
    }
}

TEST(BuiltinMachine, FormatsThatAreNotWantedArePassedOver) {
  const std::string text =
      "machine\tm\nfew\thost\tlikely\tdia ell\nmatrix\ta\thost\t10\t20\t-1\n\tcsr\t8\t1\t0\n"
      "\tdia\tnot read\n";
  const MachineTable table =
      parse_machine_lines(text, "a.tsv", {}, [](std::string_view format) { return format == "csr"; });
  ASSERT_EQ(table.matrices.size(), 1u);
  ASSERT_EQ(table.matrices[0].formats.size(), 1u);
  EXPECT_EQ(table.matrices[0].formats[0].format, "csr");
  EXPECT_THROW((void)parse_machine_lines(text, "a.tsv"), BadFile);
  for (const char* wrong : {"few\thost\tlikely\n", "few\thost\tsome\tdia\n", "few\there\tlikely\tdia\n",
                            "few\thost\tlikely\tdia\tell\n"})
    EXPECT_THROW((void)parse_machine_lines(wrong, "a.tsv"), BadFile) << wrong;
}

// A model may live longer than its table. Of a format that a matrix has twice, the first counts; a matrix
// without csr says nothing.
TEST(CostModel, KeepsWhatItNeedsOfTheTable) {
  MachineTable table{"test",
                     {{"a", Space::host, 1000, 7000, {{"dia", 60000, 1e-6, 1e-5}, {"csr", 88004, 2e-6, 0}}},
                      {"b", Space::host, 1000, 7000, {{"ell", 84000, 1e-6, 1e-5}}}}};
  const CostQuery query{1000, 7000, 88004};
  const double once = CostModel(table, Space::host).absolute(query, "dia", 60000).product_seconds;
  EXPECT_NEAR(once, 1e-6, 1e-9);
  table.matrices[0].formats.push_back({"dia", 60000, 5e-6, 1e-5});
  const CostModel model(table, Space::host);
  table = {};
  EXPECT_EQ(model.absolute(query, "dia", 60000).product_seconds, once);
  EXPECT_FALSE(model.absolute(query, "ell", 84000).known);
}

}  // namespace
}  // namespace protean::test
