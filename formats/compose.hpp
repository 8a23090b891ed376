// Sums of storage formats that a user composes: A = A_1 + A_2 + ... Every entry lies in exactly one part, and each part
// is a matrix in any format of the catalogue. `sum` is the format of such matrices. Its parameter `parts` lists the
// parts as text:
//
//   dia[max_fill=8]:diagonals(min_fill=60) + csr@native
//
// A part is FORMAT[PARAMETERS]@KERNEL:RULE(NUMBERS). The rule says which of the entries that are left the part takes;
// the last part has no rule and takes the rest. Brackets, kernel and numbers may be left out. A problem file gives the
// same as a list (operator.parts).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/parts.hpp>

namespace PROTEAN_EXPORT protean {

// A rule and its numbers, for users.
struct CutRuleDoc {
  std::string_view name, doc;
  std::span<const ParamDoc> params;
};
// All rules: diagonals, band, rows, width, blocks, rest.
std::span<const CutRuleDoc> cut_rules() noexcept;

struct PartOfSum {
  std::string format;                 // the id of a format that is not itself composed of others
  std::string take = "rest";          // the name of a rule; "rest" for the last part and for no other
  FormatParams take_parameters = {};  // numbers of the rule
  FormatParams parameters = {};       // of the format
  std::string kernel = {};            // empty: the default of the format
};
constexpr std::size_t most_parts = 8;

// The parameter `parts` of format sum as text, and back. parts_of() throws BadArgument for text of another form. Both
// throw what check_parts() throws.
std::string text_of(std::span<const PartOfSum> parts);
std::vector<PartOfSum> parts_of(std::string_view text);

// Throws BadArgument, with what is allowed: a format, rule, kernel or parameter that is not known, numbers out of
// range, a format of composed parts, no part or more than most_parts, `rest` before the last part, or another rule in
// it. The second checks one part alone.
void check_parts(std::span<const PartOfSum> parts);
void check_part(const PartOfSum& part);

// A matrix in format sum, in the memory of the context, in which csr also lies. Throws what make_matrix() throws; the
// reason names a part that is refused.
template <class T>
PROTEAN_EXPORT std::unique_ptr<AssembledMatrix<T>> make_sum(std::span<const PartOfSum> parts,
                                                            const CsrMatrix<T>& csr,
                                                            const ContextPtr& context);

// "dia(81%) csr(19%)": percent of the entries, rounded to whole numbers.
std::string text_of(std::span<const PartShare> shares);

}  // namespace protean
