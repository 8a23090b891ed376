// Runs the command in a folder of its own and looks at what it left.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
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

  // name -> content, of everything in the working folder.
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
  Outcome run(const std::vector<std::string>& arguments) { return finish(start(arguments)); }

  std::filesystem::path folder_, work_;
};

}  // namespace protean::test
