// Problems for the options of the command.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

#include "core/io/vector_file.hpp"
#include "support/command.hpp"
#include "support/space.hpp"

namespace protean::test {

inline const std::string spd_file =
    "%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 4\n2 1 -1\n2 2 4\n3 2 -1\n3 3 4\n";

inline const std::string b_file = "%%MatrixMarket matrix array real general\n3 1\n2\n4\n10\n";  // x = 1, 2, 3

class CommandOptions : public CommandTest {
 protected:
  // Waits for at most a minute.
  template <class Condition>
  static bool wait_for(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
    const auto before = files();
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << part << "\n" << o.err;
    EXPECT_NE(o.err.find(part), std::string::npos) << part << "\n" << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(files(), before) << part;
  }
  std::vector<double> numbers_of(const std::string& name) {
    const auto x = read_vector(test_context(), work_ / name);
    return {x.data(), x.data() + x.size()};
  }
};

}  // namespace protean::test
