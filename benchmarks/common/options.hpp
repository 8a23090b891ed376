// The options of a subcommand, pairs of a name and a value, and the usage that is made from their list.
#pragma once
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace protean::bench {

// "a,b" -> {a, b}
std::vector<std::string> split(const std::string& text, char at = ',');

// An empty list means all.
bool wanted(const std::vector<std::string>& list, std::string_view name);

// Where a value goes: as it is, cut at commas, as a number, or false for "no". What is there already is the default.
using OptionValue = std::variant<std::string*, std::vector<std::string>*, int*, double*, bool*>;

// What a value must be.
struct Rule {
  std::vector<std::string> words = {};  // one of these (each word of a list); empty: any
  double least = -std::numeric_limits<double>::infinity();
  bool above = false;     // above `least`, not equal to it
  bool required = false;  // there is no default
};
Rule one_of(std::vector<std::string> words);
Rule at_least(double least);
Rule above(double least);
Rule required();

struct Option {
  std::string name;  // and what stands for the value in the usage: "--json FILE"
  OptionValue value;
  std::string help;
  Rule rule = {};
};

// Options that several subcommands have, with one name and one meaning each.
namespace shared {
Option space(std::string& value);
Option threads(int& value);
Option folder(std::string& value);
Option only(std::vector<std::string>& value);
Option formats(std::vector<std::string>& value, const std::string& help = "our formats");
Option repeat(int& value, const std::string& help = "repetitions of everything");
Option seconds(double& value, const std::string& help = "time for each figure");
// The matrices of matrices.hpp: the size of the ones from formulas, and the size to which the ones of a folder are
// repeated.
Option share(double& value);
Option entries(double& value);
Option json(std::string& value);
}  // namespace shared

struct BadUsage : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct HelpWanted {};

// The words after a subcommand's name.
class Arguments {
 public:
  Arguments(std::string command, std::string about, std::vector<std::string> words);
  // Sets the values. Throws BadUsage for a name that isn't known or a value that breaks a rule, HelpWanted for --help.
  void read(const std::vector<Option>& options);
  [[noreturn]] void refuse(const std::string& why) const { throw BadUsage(why); }
  // After read(): what the subcommand measures, and its options.
  const std::string& usage() const { return usage_; }

 private:
  std::string command_, about_, usage_;
  std::vector<std::string> words_;
};

}  // namespace protean::bench
