// Chooses a storage format for a matrix before a solve, and the order of its rows.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/permutation.hpp>
#include <protean/formats/choice_record.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/policy/cost_model.hpp>

namespace PROTEAN_EXPORT protean {

struct FormatChoice {
  std::string_view id;           // in the catalogue
  std::string reason;            // for a person
  FormatParams parameters = {};  // that the selector has chosen; defaults for the others
};

// The number of formats next to csr that a policy considers, from the ranking of a named selector.
inline constexpr int policy_candidates = 3;

// The number of iterations that a choice assumes if nobody gives one.
inline constexpr std::int64_t assumed_iterations = 300;

struct ChoiceOptions {
  Space space = Space::host;
  std::int64_t expected_iterations = 0;  // 0: unknown, assumed_iterations are used
  double products_per_iteration = 1;     // 2 for BiCGStab
  bool deterministic = false;            // only kernels with a deterministic mode
  bool symmetric = false;                // values are known to be symmetric to the bit: see survey_formats()
  std::size_t value_bytes = sizeof(double);
  bool exact_in_float = false;  // float holds all values as they are (parameter `values`): bytes are smaller
  const MachineTable* machine = nullptr;  // of make_chosen_matrix(); null: the built-in one
  // What chooses the format (docs/selectors.md): a selection system of the literature, or our own.
  std::string_view selector = default_selector;

  // The number of products that the solve is expected to need.
  double products() const noexcept {
    return static_cast<double>(expected_iterations > 0 ? expected_iterations : assumed_iterations) *
           products_per_iteration;
  }
};
// Below this many entries no conversion is worth its time.
inline constexpr std::int64_t least_entries_to_convert = 1000;

// The selectors by name, in the order of docs/selectors.md.
std::vector<std::string_view> selector_words();
// Throws BadArgument for another word (the message has all of them and the nearest).
void require_selector(std::string_view word);

// The choice of the selector that `options` names: csr for matrices of fewer than least_entries_to_convert entries.
// docs/results/choice.md has the times that selectors take. Throws BadArgument for an unknown selector, and
// NotAvailable for a selector that knows no times of the space.
//
// Selector "model" takes the format with the smallest
//   convert_margin * conversion time
//     + expected iterations * products_per_iteration * product time * (1 + pessimism * uncertainty),
// with predicted times and the doubts of PolicyOptions, for the bytes that survey_formats() estimates from the pattern
// (in host memory). It takes csr if no other format is then expected to save 5 % of the time in csr, and 5 products of
// csr. Only native kernels are considered. The choice takes the time of a few products.
FormatChoice choose_format(const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options = {});

// The same for a pattern in the memory of the context with sorted rows. Few rows of a device pattern come to the host,
// unless the selector needs more.
FormatChoice choose_format(const ContextPtr& context, const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options = {});

struct OrderChoice {
  std::string_view id;  // "none", or an order of make_order()
  std::string reason;   // for a person
};
// The rule behind `order: auto`, for a square pattern in host memory: rcm if forecast_order() expects that the products
// of the solve save more time than order_products products, which cover finding the order and permuting the matrix. It
// takes none if x has at most cached_bytes_of_x (256 KiB), which is read fast enough in any order. The choice takes the
// time of about one product.
OrderChoice choose_order(const SparsityPattern& pattern, const ChoiceOptions& options = {},
                         std::size_t value_bytes = sizeof(double));

// The words that name an order of the rows everywhere: "none" (the caller's), "auto" if `with_auto`, and the names of
// orderings().
std::vector<std::string_view> order_words(bool with_auto = true);
// Throws BadArgument for another word (the message has all of them and the nearest), and NotAvailable for an order that
// is not in this build.
void require_order(std::string_view word, bool with_auto = true);

// A matrix in an order by name.
template <class T>
struct OrderedMatrix {
  std::string order = "none";                // "auto" has become "none" or the order that was chosen
  std::string reason;                        // of "auto", for a person; else empty
  std::optional<PermutedMatrix<T>> ordered;  // empty with "none"
};
// Puts rows and columns of a square matrix into the order with this name: one of order_words(); "auto" is
// choose_order(). The matrix lies in the space of the context, and so does the result; find_order() says where the
// order is found. Space and deterministic mode of `choice` are the context's. Throws what require_order() and
// make_order() throw, and ShapeMismatch, WrongSpace, ArraysChanged, OutOfMemory.
template <class T>
PROTEAN_EXPORT OrderedMatrix<T> put_in_order(std::string_view order, const CsrMatrix<T>& csr,
                                             const ContextPtr& context, const ChoiceOptions& choice = {});

// A format that the rule considers for a matrix.
struct RankedFormat {
  const FormatEntry* entry = nullptr;
  CostPrediction cost;       // not known for a format that the table of the model lacks
  double total_seconds = 0;  // what the rule compares; 0 if the cost is not known
  std::size_t bytes = 0;     // estimated from a sample
};

// All formats that the rule considers: csr, and the formats that survey_formats() admits with their native kernel in
// the space. First those with a known cost, the smallest total first; then the others, in the order of the catalogue.
// The pattern lies in host memory. Takes the time of a few products.
std::vector<RankedFormat> rank_formats(const SparsityPattern& pattern, const CostModel& model,
                                       const ChoiceOptions& options = {});

// A matrix in the format that `auto` stands for, and why.
template <class T>
struct ChosenMatrix {
  std::unique_ptr<AssembledMatrix<T>> matrix;
  std::string reason;  // for a person; it names formats that were chosen and then refused
  ChoiceRecord choice = {};
};
// A matrix in the format that choose_format() names by the machine table of `options`. With the default selector:
// - If fewer iterations are expected than a look at the formats is worth, it is csr, without a look.
// - If many are expected (products_worth_trials products, formats/trials.hpp), for one column and outside deterministic
//   mode, up to six formats are built one after another and measured, and the fastest is taken. That costs at most 2 %
//   of the expected time, unless a conversion takes far longer than predicted, and needs the memory of csr and two
//   formats.
//
// The choice sees only a sample. If the whole matrix is refused, the next format of the selector's ranking that is
// expected to be faster than csr is tried, three in all. The format is csr if all of these refuse, if rows are not
// sorted, if the free memory does not suffice, and with `several_columns` unless a product of the format with several
// vectors may take less time (several_bandwidth()); `reason` says so. Space, deterministic mode and size of values of
// `options` are taken from the matrix, and symmetry of its values is found out if it matters. `on_host`: the same
// matrix in host memory, for a caller that has it; otherwise a matrix in device memory is copied to the host to look at
// it.
template <class T>
PROTEAN_EXPORT ChosenMatrix<T> make_chosen_matrix(const CsrMatrix<T>& csr, const ContextPtr& context,
                                                  ChoiceOptions options = {},
                                                  const CsrMatrix<T>* on_host = nullptr,
                                                  bool several_columns = false);

// The matrix in the format of this name, as make_matrix(find_format(format), ...) makes it; "auto" means
// make_chosen_matrix(), and name() of the matrix says which format it is. Throws what the other make_matrix() throws,
// and BadArgument for parameters or a kernel with "auto", since these belong to one format.
template <class T>
PROTEAN_EXPORT std::unique_ptr<AssembledMatrix<T>> make_matrix(
    std::string_view format, const CsrMatrix<T>& csr, const ContextPtr& context,
    const FormatParams& params = {}, std::string_view kernel = {}, const ChoiceOptions& choice = {});

}  // namespace protean
