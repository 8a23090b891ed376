// The commands while memory runs out: the exit code says so, with one message, and what the command has not done it
// does when there is memory again. Each runs in a child of this process, which may have to end in the middle.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/command/command_line.hpp"
#include "core/io/atomic_file.hpp"
#include "faults/trials.hpp"
#include "formats/count_new.hpp"
#include "gtest/gtest.h"
#include "support/folder.hpp"

namespace protean::test {
namespace {

struct Command {
  const char* name;
  std::vector<std::string> words;    // FOLDER stands for the folder of the test
  std::vector<std::string> outputs;  // in it
};

const Command commands[] = {
    {"solve",
     {"solve", "FOLDER/A.mtx", "--solution", "FOLDER/x.mtx", "--report", "FOLDER/r.json", "--history",
      "FOLDER/h.csv", "--threads", "2"},
     {"x.mtx", "r.json", "h.csv"}},
    {"solve_a_problem",
     {"solve", PROTEAN_SOURCE "/problems/poisson.yaml", "--set", "matrix.generate.n=10", "--set",
      "schedule.policy=auto", "--json", "--threads", "2"},
     {}},
    {"compare",
     {"compare", "FOLDER/A.mtx", "--formats", "csr,sell-c-sigma,bcsr", "--kernels", "native", "--report",
      "FOLDER/r.json", "--html", "FOLDER/page.html", "--threads", "2"},
     {"r.json", "page.html"}},
    {"checkpoints",
     {"solve", "FOLDER/A.mtx", "--solution", "FOLDER/x.mtx", "--checkpoint", "1e-9", "--tolerance", "0.5",
      "--threads", "1", "--quiet"},
     {"x.mtx"}},
    {"inspect", {"inspect", "FOLDER/A.mtx", "--json"}, {}},
    {"formats", {"formats", "--json"}, {}},
    {"generate",
     {"generate", "poisson-3d", "--set", "matrix.generate.n=6", "-o", "FOLDER/G.mtx.gz"},
     {"G.mtx.gz"}},
    {"convert", {"convert", "FOLDER/A.mtx", "FOLDER/B.pbin"}, {"B.pbin"}},
    {"help", {"help", "problem"}, {}},
};

class CommandsWithoutMemory : public testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    void* const shared =
        mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    fired_ = static_cast<bool*>(shared);
  }
  void TearDown() override { munmap(fired_, sizeof(bool)); }

  // The exit code; -1 if a signal has ended the command. The n-th allocation of the command fails; 0: none.
  int run(std::vector<std::string> words, std::int64_t n = 0) {
    words.insert(words.begin(), "protean");
    std::vector<char*> argv;
    for (std::string& word : words) {
      if (word.starts_with("FOLDER/")) word = folder_ / word.substr(7);
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    const std::string said = beside_ / "said";
    *fired_ = true;  // unless the command says otherwise at its end
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      const int nothing = open("/dev/null", O_WRONLY),
                messages = open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      dup2(nothing, STDOUT_FILENO), dup2(messages, STDERR_FILENO);
      apps::end_with_a_message();
      fail_new(n);
      const int code = apps::run(static_cast<int>(words.size()), argv.data());
      *fired_ = new_has_failed();
      fail_new(0);
      fflush(nullptr);
      _exit(code);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    message_ = slurp(said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Folder folder_, beside_;
  std::string message_;
  bool* fired_ = nullptr;
};

TEST_P(CommandsWithoutMemory, SaySoAndGoOnLater) {
  const Command& command = GetParam();
  ASSERT_EQ(run({"generate", "poisson-2d", "--set", "matrix.generate.n=20", "-o", "FOLDER/A.mtx", "--quiet"}),
            0)
      << message_;
  for (int round = 0; round < 2; ++round) ASSERT_EQ(run(command.words), 0) << message_;
  const std::size_t files = folder_.files();
  int failed = 0;
  for (std::int64_t n = 1;; n = all_faults_are_wanted() || n < 40 ? n + 1 : n + n / 20) {
    SCOPED_TRACE(fmt::format("operator new number {} fails", n));
    for (const std::string& name : command.outputs) write_file(folder_ / name, "the old file");
    const int code = run(command.words, n);
    if (!*fired_) {
      EXPECT_EQ(code, 0) << message_;
      break;
    }
    ++failed;
    EXPECT_TRUE(code == 0 || code == 3) << "exit code " << code << ": " << message_;
    if (code == 3) {
      EXPECT_TRUE(message_.find("memory") != std::string::npos ||
                  message_.find("bad_alloc") != std::string::npos)
          << message_;
      EXPECT_EQ(message_.find("error:", message_.find("error:") + 1), std::string::npos) << message_;
    }
    for (const std::string& name : command.outputs) {
      const bool there = std::filesystem::exists(folder_ / name);
      if (code == 0) {
        EXPECT_TRUE(there && slurp(folder_ / name) != "the old file") << name << ": " << message_;
      }
      if (there) { EXPECT_FALSE(slurp(folder_ / name).empty()) << name; }
    }
    EXPECT_LE(folder_.files(), files) << "a temporary file is left";
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 40);
  EXPECT_EQ(run(command.words), 0) << message_;
  EXPECT_EQ(folder_.files(), files);
  std::printf("%d allocations failed\n", failed);
}

INSTANTIATE_TEST_SUITE_P(All, CommandsWithoutMemory, testing::ValuesIn(commands),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace protean::test
