// What the command knows of several ranks without any MPI: who was started with it, and how rows are shared out.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "apps/command/launch.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/ranks/shares.hpp"
#include "core/error.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

// The environment of a launcher, for the time of an object.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> given) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                             "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}) {
      if (const char* const before = std::getenv(name)) before_[name] = before;
      unsetenv(name);
    }
    for (const auto& [name, value] : given) setenv(name.c_str(), value.c_str(), 1), given_.push_back(name);
  }
  ~Environment() {
    for (const std::string& name : given_) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> given_;
  std::map<std::string, std::string> before_;
};

apps::Launch launch_in(std::map<std::string, std::string> given) {
  const Environment environment(std::move(given));
  return apps::launch_of_environment();
}

TEST(Launch, IsReadFromTheEnvironmentOfTheLauncher) {
  EXPECT_EQ(launch_in({}).count, 1);
  for (const auto& [rank, count] :
       {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, std::pair{"PMI_RANK", "PMI_SIZE"},
        std::pair{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}) {
    const apps::Launch launch = launch_in({{rank, "3"}, {count, "8"}});
    EXPECT_EQ(launch.rank, 3) << rank;
    EXPECT_EQ(launch.count, 8) << rank;
    // What is no launch counts as none.
    EXPECT_EQ(launch_in({{rank, "3"}}).count, 1) << rank;
    EXPECT_EQ(launch_in({{rank, "8"}, {count, "8"}}).count, 1) << rank;
    EXPECT_EQ(launch_in({{rank, "x"}, {count, "8"}}).count, 1) << rank;
    EXPECT_EQ(launch_in({{rank, "3"}, {count, "8 "}}).count, 1) << rank;
  }
}

class WithoutRanks : public CommandTest {};

// A command that was installed without PETSc says what to install and build, in which order, and into which folder.
TEST_F(WithoutRanks, SaysWhatToDoInWhichOrder) {
  write("p.yaml", "matrix: {generate: {kind: poisson-2d, n: 4}}\nengine: petsc\n");
  std::filesystem::create_directory(folder_ / "bin");
  for (const std::filesystem::path& command : {folder_ / "bin" / "protean", folder_ / "protean"}) {
    std::filesystem::copy_file(PROTEAN_COMMAND, command);
    const std::string line = command.string() + " solve " + (work_ / "p.yaml").string() + " 2>&1";
    FILE* const pipe = popen(line.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string told;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) told += static_cast<char>(c);
    EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 3) << told;
    std::size_t at = 0;
    const bool installed = command.parent_path().filename() == "bin";
    for (const std::string& part :
         {std::string("petsc-dev openmpi-bin"),
          installed ? "make install PREFIX=" + folder_.string() : std::string("--target protean_ranks"),
          std::string("call this again")}) {
      at = told.find(part, at);
      ASSERT_NE(at, std::string::npos) << part << ": " << told;
    }
  }
}

TEST(Shares, HaveEquallyManyEntriesBeyond32And63Bits) {
  // 40 rows of 10^11 entries each.
  std::vector<std::int64_t> pointers{0};
  for (int i = 0; i < 40; ++i) pointers.push_back(pointers.back() + 100'000'000'000);
  const RowPointers rows{nullptr, pointers.data()};
  EXPECT_EQ(apps::ranks::first_rows(rows, 40, 4), (std::vector<std::int64_t>{0, 10, 20, 30, 40}));
  EXPECT_EQ(apps::ranks::first_rows(rows, 40, 3), (std::vector<std::int64_t>{0, 14, 27, 40}));
  // before * parts is more than 2^63.
  const std::int64_t entries = std::int64_t{1} << 62;
  EXPECT_EQ(apps::ranks::part_of_row(entries / 2, entries, 16384), 8192);
  EXPECT_EQ(apps::ranks::part_of_row(entries - 1, entries, 16384), 16383);
}

TEST(Shares, OfFewRowsAndOfRowsWithoutEntries) {
  const std::vector<std::int32_t> three{0, 1, 2, 3}, none(6, 0), one{0, 0, 9, 9, 9};
  EXPECT_EQ(apps::ranks::first_rows({three.data(), nullptr}, 3, 5),
            (std::vector<std::int64_t>{0, 1, 2, 2, 3, 3}));
  EXPECT_EQ(apps::ranks::first_rows({none.data(), nullptr}, 5, 2), (std::vector<std::int64_t>{0, 5, 5}));
  // All entries in one row; the empty rows behind it lie with the last rank.
  EXPECT_EQ(apps::ranks::first_rows({one.data(), nullptr}, 4, 3), (std::vector<std::int64_t>{0, 2, 2, 4}));
  // Each row is in the part that it is said to be in.
  for (const int parts : {1, 2, 3, 7}) {
    const std::vector<std::int64_t> first = apps::ranks::first_rows({three.data(), nullptr}, 3, parts);
    for (std::int64_t row = 0; row < 3; ++row) {
      const auto part =
          static_cast<std::size_t>(apps::ranks::part_of_row(three[static_cast<std::size_t>(row)], 3, parts));
      EXPECT_TRUE(first[part] <= row && row < first[part + 1]) << row << " of " << parts;
    }
  }
}

TEST(EngineKeys, AreReadAndRefused) {
  const std::string matrix = "matrix: {generate: {kind: poisson-2d}}\n";
  const auto read = [&](const std::string& more) {
    return apps::parse_problem(matrix + more, "p.yaml").engine;
  };
  EXPECT_EQ(read("").name, "auto");
  EXPECT_EQ(read("engine: petsc\n").name, "petsc");
  // Options of PETSc's ask for its engine, and so does a partition, unless it is of devices.
  EXPECT_EQ(read("partition: graph\n").name, "petsc");
  EXPECT_EQ(read("petsc_options: '-ksp_view'\n").options, "-ksp_view");
  EXPECT_EQ(read("partition: {file: parts}\n").partition_file.given, "parts");
  const auto refused = [&](const std::string& more, const std::string& part) {
    try {
      (void)read(more);
      ADD_FAILURE() << more;
    } catch (const BadFile& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  EXPECT_EQ(read("engine: protean\npartition: graph\n").name, "protean");
  EXPECT_EQ(read("operator: {space: device, devices: 2}\npartition: graph\n").name, "auto");
  refused("engine: protean\npetsc_options: '-ksp_view'\n", "for engine: petsc");
  refused("engine: hypre\n", "auto, protean, petsc");
  refused("petsc_options: ksp_view\n", "such as '-ksp_view");
  refused("partition: {files: parts}\n", "Did you mean 'file'");
}

}  // namespace
}  // namespace protean::test
