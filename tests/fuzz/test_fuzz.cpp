// The fuzz targets without a fuzzer: every seed of the corpus, and random changes of seeds. An input that breaks a
// promise ends the process; it is printed before. Environment:
//
//   PROTEAN_FUZZ_SEED=7         that seed of the changes instead of the usual one
//   PROTEAN_FUZZ_INPUTS=100000  this many changed inputs for each target
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"
#include "gtest/gtest.h"

namespace protean::fuzz {
namespace {

Random& changes() {
  static Random random;
  return random;
}

}  // namespace
}  // namespace protean::fuzz

// What libFuzzer does itself: a few bytes changed, added or removed.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most) {
  using namespace protean::fuzz;
  std::string text(reinterpret_cast<const char*>(data), size);
  for (std::size_t left = 1 + below(changes(), 3); left > 0; --left) {
    const std::size_t at = below(changes(), text.size() + 1), length = 1 + below(changes(), 8);
    switch (below(changes(), 4)) {
      case 0:
        text.insert(at, 1, static_cast<char>(changes()()));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(below(changes(), text.size() + 1), length));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(changes()());
    }
  }
  return put(text, data, most);
}

namespace protean::fuzz {
namespace {

constexpr const Target* all[] = {
#define PROTEAN_FUZZ_TARGET(name) &name,
#define PROTEAN_FUZZ_LIBRARY_TARGET(name) &name,
#include "fuzz/targets.def"
};

std::vector<std::string> seeds(const Target& target) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(PROTEAN_SOURCE_DIR "/tests/fuzz/corpus/") + target.name))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

// The input that runs now, which is printed in the form of a C string if it ends the process or takes too long.
std::string printed;
void (*handler_before)(int) = SIG_DFL;
void print_input(int signal) {
  if (signal == SIGALRM) printed.insert(0, "an input does not end: ");
  (void)!write(STDERR_FILENO, printed.data(), printed.size());
  std::signal(SIGABRT, handler_before);
  std::abort();
}

class EveryTarget : public testing::TestWithParam<const Target*> {
 protected:
  void SetUp() override {
    handler_before = std::signal(SIGABRT, print_input);
    std::signal(SIGALRM, print_input);
  }
  void TearDown() override {
    alarm(0);
    std::signal(SIGABRT, handler_before), std::signal(SIGALRM, SIG_DFL);
  }

  void run(const std::string& input) const {
    static constexpr char digits[] = "0123456789abcdef";
    printed = std::string("target ") + GetParam()->name + ", input:\n";
    for (const char c : input) {
      const auto byte = static_cast<unsigned char>(c);
      printed += "\\x", printed += digits[byte >> 4], printed += digits[byte & 15];
    }
    printed += '\n';
    // In an array of exactly its length, so that a sanitizer sees reads behind it.
    const std::vector<char> bytes(input.begin(), input.end());
    constexpr unsigned longest = 60;  // seconds; other tests may have all processors
    alarm(longest);
    try {
      GetParam()->run({bytes.data(), bytes.size()});
    } catch (const std::exception& error) {
      FAIL() << "an exception that nobody expects: " << error.what() << "\n" << printed;
    }
  }
};

TEST_P(EveryTarget, TakesItsSeeds) {
  const std::vector<std::string> all_seeds = seeds(*GetParam());
  ASSERT_FALSE(all_seeds.empty());
  for (const std::string& seed : all_seeds) run(seed);
  run("");
}

TEST_P(EveryTarget, TakesChangedSeeds) {
  const char* const chosen = std::getenv("PROTEAN_FUZZ_SEED");
  const char* const count = std::getenv("PROTEAN_FUZZ_INPUTS");
  const unsigned seed = chosen ? static_cast<unsigned>(std::atoi(chosen)) : 1;
  changes().seed(seed);
  std::vector<std::string> inputs = seeds(*GetParam());
  constexpr std::size_t most = 4096;
  std::vector<std::uint8_t> data(most);
  for (std::int64_t left = count ? std::atoll(count) : 1500; left > 0; --left) {
    std::string& base = inputs[below(changes(), inputs.size())];
    const std::size_t size = put(base, data.data(), most);
    const std::size_t changed = GetParam()->mutate ? GetParam()->mutate(data.data(), size, most, changes()())
                                                   : LLVMFuzzerMutate(data.data(), size, most);
    std::string input(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(changed));
    run(input);
    if (HasFailure()) return;
    // Changes of changes get further.
    if (below(changes(), 4) == 0) base = std::move(input);
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, EveryTarget, testing::ValuesIn(all),
                         [](const auto& one) { return std::string(one.param->name); });

// Of the seeds and of changed ones: the matrix, or the message with its place, does not depend on the threads.
TEST(Threads, OneAndThreeReadTheSame) {
  const ContextPtr three = Context::host(3);
  const auto outcome = [](const ContextPtr& context, Bytes text, const ReadOptions& options) {
    std::pair<std::optional<CsrMatrix<double>>, std::string> result;
    try {
      result.first = read_matrix_market_text(context, "input", text, options);
    } catch (const Error& error) { result.second = error.what(); }
    return result;
  };
  changes().seed(2);
  std::vector<std::uint8_t> data(4096);
  for (const Target* target : {&matrix_market, &harwell_boeing, &compressed})
    for (const std::string& seed : seeds(*target))
      for (int round = 0; round < 20; ++round) {
        std::string text = seed;
        if (round > 0) {
          const std::size_t size = put(seed, data.data(), data.size());
          text.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(target->mutate(
                                                       data.data(), size, data.size(), changes()())));
        }
        const ReadOptions options = options_of(static_cast<std::uint32_t>(round));
        const auto one = outcome(one_thread(), text, options), other = outcome(three, text, options);
        ASSERT_EQ(one.second, other.second) << text;
        ASSERT_EQ(one.first.has_value(), other.first.has_value()) << text;
        if (one.first) { ASSERT_TRUE(identical(*one.first, *other.first)) << text; }
      }
}

}  // namespace
}  // namespace protean::fuzz
