// Runs the command in a separate folder and reads its output and its files.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace protean::test {

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// A Matrix Market file of n rows: ones in the first row, and a diagonal.
inline std::string matrix_with_a_long_row(int n) {
  std::string text = "%%MatrixMarket matrix coordinate real general\n" + std::to_string(n) + " " +
                     std::to_string(n) + " " + std::to_string(2 * n - 1) + "\n";
  for (int i = 1; i <= n; ++i) text += "1 " + std::to_string(i) + (i == 1 ? " 9\n" : " 1\n");
  for (int i = 2; i <= n; ++i) text += std::to_string(i) + " " + std::to_string(i) + " 9\n";
  return text;
}

struct Outcome {
  int code = -1;  // 128 + signal when a signal ended it
  std::string out, err;
};

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "protean-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(folder_ / "work");
    work_ = folder_ / "work";
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(work_ / name, std::ios::binary) << text;
  }

  // Name and content of all files in the working folder.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(work_))
      found[entry.path().lexically_relative(work_).string()] =
          entry.is_regular_file() ? slurp(entry.path()) : std::string("(no file)");
    return found;
  }

  pid_t start(const std::vector<std::string>& arguments) {
    std::vector<std::string> words{PROTEAN_COMMAND};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string(),
                      work = work_.string();
    const pid_t child = fork();
    if (child == 0) {
      const int o = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int e = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      // The right of root to write everywhere is lost at execv().
      if (obeys_permissions_ && geteuid() == 0 && prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE) != 0) _exit(97);
      if (chdir(work.c_str()) != 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0) _exit(99);
      execv(argv[0], argv.data());
      _exit(98);
    }
    return child;
  }
  Outcome finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(folder_ / "out"),
            slurp(folder_ / "err")};
  }
  // Waits until the command iterates: until it handles the interrupt signal, which it does from just before
  // the solve on, and has used this much processor time since. Returns false if it ended before.
  static bool wait_until_solving(pid_t child, double seconds = 0.2) {
    const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    const std::string process = "/proc/" + std::to_string(child);
    const auto catches_interrupts = [&] {
      const std::string status = slurp(process + "/status");
      const std::size_t at = status.find("SigCgt:");
      if (at == std::string::npos) return false;
      return (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
    };
    const auto ended = [&] {
      siginfo_t info{};
      return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
             info.si_pid != 0;
    };
    const auto processor_seconds =
        [&] {  // fields 14 and 15 of proc(5) stat, counted behind the name in brackets
          const std::string stat = slurp(process + "/stat");
          const std::size_t name_end = stat.rfind(')');
          if (name_end == std::string::npos) return 0.0;
          std::istringstream fields(stat.substr(name_end + 1));
          std::string skipped;
          for (int field = 3; field < 14; ++field) fields >> skipped;
          double user = 0, system = 0;
          fields >> user >> system;
          return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
        };
    while (!catches_interrupts()) {
      if (ended()) return false;
      wait();
    }
    const double begin = processor_seconds();
    while (processor_seconds() < begin + seconds) {
      if (ended()) return false;
      wait();
    }
    return true;
  }
  Outcome run(const std::vector<std::string>& arguments) { return finish(start(arguments)); }

  std::filesystem::path folder_, work_;
  bool obeys_permissions_ = false;  // the command may not write what only root may
};

}  // namespace protean::test
