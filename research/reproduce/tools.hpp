// What the makers of exhibits share.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "research/reproduce/entries.hpp"

namespace protean::research::exhibits {

Exhibit begin(const Entry& entry, const Lab& lab);

// A cell with what the paper prints in this place.
Cell printed_cell(const PaperTable& table, std::size_t row, std::string_view column);
// The same with ours; the word says why there is no number.
Cell cell(const PaperTable& table, std::size_t row, std::string_view column, std::optional<double> ours,
          std::string word = {});
// A cell of a number that the paper states in its text (papers/data/text.tsv), or of none, for an empty quantity.
Cell stated_cell(const Lab& lab, const Exhibit& exhibit, std::string_view quantity,
                 std::optional<double> ours, std::string word = {});

// A short reason, for a cell.
std::string refusal(const Measured& measured);

double median_of(std::vector<double> values);
double geometric_mean(const std::vector<double>& values);
// least, lower quartile, median, upper quartile, largest; empty for no values
std::vector<double> box_of(std::vector<double> values);

// A number of a table by row and column: the paper's, or ours.
using Numbers = std::function<std::optional<double>(std::string_view row, std::string_view column)>;
struct Judged {
  std::optional<bool> holds;
  std::string evidence;
};
// What a statement is about. If it is about matrices of a paper, and each matrix that decides is a stand-in (its row is
// made `like:` one), there is no verdict, and the evidence says why. A stand-in has the features that the paper prints,
// and not the pattern, so it would confirm what it was made of.
enum class About : unsigned char { matrices, stand_ins };
// Judges the statement with our numbers and, in the same way, with the printed ones.
void judge(Exhibit& exhibit, std::string statement, std::string where,
           const std::function<Judged(const Numbers&)>& rule, bool deterministic = false,
           About about = About::matrices);
// With ours alone. All rows of the exhibit decide.
void judge_ours(Exhibit& exhibit, std::string statement, std::string where, Judged judged,
                bool deterministic = false, About about = About::matrices);

// "like: all 15 matrices" if each row of the exhibit is a stand-in, else empty: what a mean over them is made of.
std::string made_of_all(const Exhibit& exhibit);

// Whether point k belongs to a part of that share, in (0, 1], of a list. Of points whose features repeat with any small
// period, the part has about the same share of each value.
bool in_part(std::size_t k, double share);

// "The paper measured on an M2070; ...": that ratios compare machines, too.
void note_machine(Exhibit& exhibit, const Lab& lab, std::string_view theirs);
// How many of the rows are stand-ins.
void note_matrices(Exhibit& exhibit);
// A note about ways that are the same code in this space.
void note_same(Exhibit& exhibit, const Lab& lab, const std::vector<std::pair<std::string_view, Way>>& ways);

// A bar for each row and column with a number measured here or printed in the paper, over the rows of the exhibit.
Chart bars_of(const Exhibit& exhibit, const std::vector<std::string>& columns, bool log);

}  // namespace protean::research::exhibits
