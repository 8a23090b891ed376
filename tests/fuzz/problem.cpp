// A whole problem file with settings of the command line: a problem whose every option is in range and which can be
// written as JSON, or a BadFile with a place. The input is the text of the file; what follows a byte 0x1e is a --set.
#include <array>
#include <string>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "apps/report/json.hpp"
#include "formats/catalogue.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"

namespace protean::fuzz {
namespace {

constexpr char separator = '\x1e';

template <class Options>
void require_in_range(std::span<const Option<Options>> table, const Options& options) {
  try {
    check_options<Options>(table, options);
  } catch (const BadArgument& error) { broken(error.what()); }
}

void run(Bytes input) {
  const std::size_t end = std::min(input.find(separator), input.size());
  std::vector<std::string> settings;
  for (std::size_t at = end; at < input.size();) {
    const std::size_t next = std::min(input.find(separator, at + 1), input.size());
    settings.emplace_back(input.substr(at + 1, next - at - 1));
    at = next;
  }
  try {
    const apps::Problem problem = apps::parse_problem(input.substr(0, end), "folder/problem.yaml", settings);
    require_in_range(solver_options(), problem.settings.solver);
    require_in_range(preconditioner_options(), problem.settings.preconditioning);
    if (problem.settings.format != "auto")
      (void)resolve_params(find_format(problem.settings.format), problem.settings.parameters);
    if (problem.settings.method != "auto")
      (void)make_solver<double>(problem.settings.method, problem.settings.solver);
    (void)apps::text(apps::problem_json(problem));
  } catch (const BadFile& error) {
    const std::string message = error.what();
    if (message.empty() || message.size() > 20000) broken("a message that nobody would read");
  } catch (const NotAvailable&) {}  // a method or kernel that is not in this build
}

// Keys of the file with values of their kind.
std::string line(Random& random) {
  const auto keys = apps::problem_keys();
  const apps::KeyDoc& key = keys[below(random, keys.size())];
  constexpr std::array<std::string_view, 16> values = {
      "0",     "1",    "-1",   "1e6", "1e300", ".inf",  "2147483648", "true",
      "false", "auto", "none", "{}",  "[]",    "a.mtx", "\"1\"",      "element"};
  std::string value(values[below(random, values.size())]);
  if (!key.words.empty() && below(random, 4) != 0) value = key.words[below(random, key.words.size())];
  if (key.name == "format" && below(random, 2) == 0)
    value = catalogue()[below(random, catalogue().size())]->id;
  if (key.section.empty()) return "\n" + std::string(key.name) + ": " + value + "\n";
  return below(random, 2) == 0
             ? "  " + std::string(key.name) + ": " + value + "\n"
             : separator + std::string(key.section) + "." + std::string(key.name) + "=" + value;
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  if (below(random, 2) == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::string added = line(random);
  // A key at the beginning of a line, a setting at the end.
  std::size_t at = added[0] == separator ? text.size() : text.find('\n', below(random, text.size() + 1));
  at = at == std::string::npos ? text.size() : added[0] == separator ? at : at + 1;
  text.insert(at, added);
  return put(text, data, most);
}

}  // namespace

extern const Target problem{"problem", run, mutate};

}  // namespace protean::fuzz
