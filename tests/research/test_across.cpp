// Times across devices: the fit of numbers that are known, and stored times of two GPUs.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "apps/machine/machine_file.hpp"
#include "core/error.hpp"
#include "core/io/text_source.hpp"
#include "gtest/gtest.h"
#include "research/devices/across.hpp"
#include "support/folder.hpp"

namespace protean::test {
namespace {

using namespace research;

MeasuredMatrix matrix(const std::string& name, std::vector<MeasuredFormat> formats,
                      Space space = Space::device) {
  MeasuredMatrix one;
  one.matrix = name, one.space = space, one.rows = 10, one.nonzeros = 30, one.formats = std::move(formats);
  return one;
}

TEST(Across, ALineIsFoundExactly) {
  const auto relation = relate({{1, 2 + 0.5}, {4, 2 + 2.0}, {10, 2 + 5.0}, {100, 2 + 50.0}});
  ASSERT_TRUE(relation.has_value());
  EXPECT_NEAR(relation->fixed, 2, 1e-12);
  EXPECT_NEAR(relation->slope, 0.5, 1e-12);
  EXPECT_EQ(relation->matrices, 4);
  EXPECT_NEAR((*relation)(20), 12, 1e-11);
}

// No prediction goes beyond the ratios of the benchmark matrices: 2.5 for the smallest, 0.52 for the largest.
TEST(Across, PredictionsStayWithinTheRatiosThatWereSeen) {
  const auto relation = relate({{1, 2.5}, {4, 4}, {10, 7}, {100, 52}});
  EXPECT_NEAR((*relation)(0.01), 0.025, 1e-12);
  EXPECT_NEAR((*relation)(1e6), 0.52e6, 1e-3);
}

// Relative errors count: a time of a second does not drown times of microseconds.
TEST(Across, SmallTimesCountAsMuchAsLargeOnes) {
  const auto relation = relate({{1e-6, 2e-6}, {2e-6, 4e-6}, {3e-6, 6e-6}, {4e-6, 8e-6}, {1, 3}});
  EXPECT_NEAR((*relation)(2e-6) / 4e-6, 1, 0.15);
}

TEST(Across, TooFewOrImpossibleTimesHaveNoRelation) {
  EXPECT_FALSE(relate({{1, 1}, {2, 2}}).has_value());
  EXPECT_FALSE(relate({{1, 1}, {2, 0}, {3, 3}}).has_value());
  EXPECT_FALSE(relate({{1, 1}, {-2, 2}, {3, 3}}).has_value());
  const auto equal = relate({{2, 3}, {2, 3}, {2, 3}});
  ASSERT_TRUE(equal.has_value());
  EXPECT_NEAR((*equal)(2), 3, 1e-12);
}

TEST(Across, EachFormatHasItsOwnRelation) {
  MachineTable reference, target, measured;
  for (int i = 1; i <= 4; ++i) {
    const std::string name = "m" + std::to_string(i);
    const double t = i * i;
    reference.matrices.push_back(matrix(name, {{"csr", 100, t, 2 * t}, {"ell", 90, 3 * t, t}}));
    target.matrices.push_back(matrix(name, {{"csr", 100, t / 2, t}, {"ell", 90, 3 * t, t}}));
  }
  // Of another space, and of a matrix that only one has.
  reference.matrices.push_back(matrix("m1", {{"csr", 1, 1, 1}}, Space::host));
  target.matrices.push_back(matrix("other", {{"csr", 1, 1, 1}}));
  const AcrossDevices model(reference, target, Space::device);
  EXPECT_EQ(model.formats(), (std::vector<std::string>{"csr", "ell"}));
  EXPECT_NEAR(*model.product_seconds("csr", 8), 4, 1e-12);
  EXPECT_NEAR(*model.product_seconds("ell", 8), 8, 1e-12);
  EXPECT_FALSE(model.product_seconds("coo", 8).has_value());
  measured.matrices.push_back(matrix("new", {{"csr", 100, 8, 16}, {"ell", 90, 7, 1}, {"coo", 80, 1, 1}}));
  const MachineTable predicted = model.predicted(measured, Space::device);
  ASSERT_EQ(predicted.matrices.size(), 1u);
  ASSERT_EQ(predicted.matrices[0].formats.size(), 2u);
  // ell is the faster one on the reference, csr on the target.
  EXPECT_LT(predicted.matrices[0].formats[0].product_seconds,
            predicted.matrices[0].formats[1].product_seconds);
  EXPECT_NEAR(predicted.matrices[0].formats[0].convert_seconds, 8, 1e-12);
  MachineTable real;
  real.matrices.push_back(matrix("new", {{"csr", 100, 4, 8}, {"ell", 90, 7, 1}}));
  EXPECT_NEAR(prediction_error(predicted, real, Space::device, "csr").mean, 0, 1e-12);
  EXPECT_NEAR(choice_loss(predicted, real, Space::device, {"csr", "ell"}).mean, 1, 1e-12);
  EXPECT_NEAR(choice_loss(measured, real, Space::device, {"csr", "ell"}).mean, 7.0 / 4, 1e-12);
}

TEST(Across, TablesWithoutCommonMatricesAreRefused) {
  MachineTable reference, target;
  reference.matrices.push_back(matrix("a", {{"csr", 1, 1, 1}}));
  target.matrices.push_back(matrix("b", {{"csr", 1, 1, 1}}));
  EXPECT_THROW(AcrossDevices(reference, target, Space::device), BadArgument);
  EXPECT_THROW(AcrossDevices(0.0), BadArgument);
  EXPECT_NEAR(*AcrossDevices(2.0).product_seconds("any", 3), 1.5, 1e-12);
}

// A compressed file of docs/results/data, as a plain one in the folder.
std::string unpacked(const Folder& folder, const std::string& name) {
  const auto bytes = io_detail::open_text(std::string(PROTEAN_SOURCE) + "/docs/results/data/" + name + ".xz");
  std::ofstream plain(folder / name, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 16);
  while (const std::size_t size = bytes->read(piece.data(), piece.size()))
    plain.write(piece.data(), static_cast<std::streamsize>(size));
  return folder / name;
}

// Times that were measured on an H100 and an H200: on matrices other than the ones of the fit, a relation for each
// format is nearer to what the target took than the ratio of the bandwidths, and nearer than the same time.
TEST(Across, StoredTimesOfTwoDevices) {
  const Folder folder;
  const auto stored = [&](const char* name) { return apps::read_machine(unpacked(folder, name)); };
  const auto h100 = stored("tune-gpu-h100.yaml"), h200 = stored("tune-gpu-h200.yaml"),
             other_h100 = stored("tune-gpu-h100-held-out.yaml"),
             other_h200 = stored("tune-gpu-h200-held-out.yaml");
  struct Direction {
    const apps::TunedMachine &reference, &target, &measured, &real;
  };
  for (const Direction& its :
       {Direction{h100, h200, other_h100, other_h200}, Direction{h200, h100, other_h200, other_h100}}) {
    const MachineTable predicted =
        AcrossDevices(its.reference, its.target, Space::device).predicted(its.measured, Space::device);
    const MachineTable real = others_than(its.reference, its.real, Space::device);
    EXPECT_LT(real.matrices.size(), its.real.matrices.size());
    const double ratio = apps::roof_of(its.target, Space::device)->memory /
                         apps::roof_of(its.reference, Space::device)->memory;
    const MachineTable scaled = AcrossDevices(ratio).predicted(its.measured, Space::device);
    for (const char* format : {"csr", "ell", "coo", "hyb"}) {
      SCOPED_TRACE(format);
      const auto error = [&](const MachineTable& table) {
        return prediction_error(table, real, Space::device, format);
      };
      EXPECT_GT(error(predicted).matrices, 90);
      EXPECT_LT(error(predicted).mean, 0.14);
      EXPECT_LT(error(predicted).mean, error(scaled).mean);
      EXPECT_LT(error(predicted).mean, error(its.measured).mean);
    }
  }
}

// The program writes the predicted table as a machine file, which is read again.
TEST(Across, TheProgramWritesAMachineFile) {
  Folder folder;
  const std::string file = folder / "predicted.yaml";
  const std::string command =
      std::string(PROTEAN_RESEARCH) + " across --reference " + unpacked(folder, "tune-gpu-h100.yaml") +
      " --target " + unpacked(folder, "tune-gpu-h200.yaml") + " --measured " +
      unpacked(folder, "tune-gpu-h100-held-out.yaml") + " --output " + file + " > " + (folder / "text");
  ASSERT_EQ(std::system(command.c_str()), 0);
  const apps::TunedMachine written = apps::read_machine(file);
  EXPECT_GT(written.matrices.size(), 100u);
  EXPECT_NE(apps::roof_of(written, Space::device), nullptr);
  EXPECT_NE(slurp(folder / "text").find("| csr |"), std::string::npos);
}

}  // namespace
}  // namespace protean::test
