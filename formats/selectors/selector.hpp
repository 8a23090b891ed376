// Choosing a storage format: the selection systems of the literature, and ours, behind one interface.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "formats/choose.hpp"
#include "formats/selectors/features.hpp"
#include "operators/assembled_matrix.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean {

struct TrainedModels;  // formats/selectors/trained.hpp

// Seconds of one product and of the conversion, as a selector that measures finds them.
struct FormatTimes {
  double product_seconds = 0, convert_seconds = 0;
};
// Measures a format on the matrix of the question; nothing if the format refuses it.
using FormatTimer = std::function<std::optional<FormatTimes>(const FormatEntry&)>;

// The question to a selector. It keeps references: pattern, model and options must outlive it.
class SelectorQuestion {
 public:
  // A pattern in host memory with sorted rows. Without `timer` selectors that measure do so themselves, with values of
  // one; without `trained` the models come with the build.
  SelectorQuestion(const SparsityPattern& pattern, const CostModel& model, const ChoiceOptions& options,
                   FormatTimer timer = {}, const TrainedModels* trained = nullptr);
  // A pattern in the memory of the context with sorted rows. `on_host`: the same in host memory, if the caller has it.
  SelectorQuestion(ContextPtr context, const SparsityPattern& pattern, const SparsityPattern* on_host,
                   const CostModel& model, const ChoiceOptions& options);

  // In host memory. A pattern that lies on a device alone is copied at the first call: selectors that need a sample of
  // the rows only do not ask for it.
  const SparsityPattern& pattern() const;
  // If the caller has it, and the context of that memory.
  const SparsityPattern& given() const noexcept { return pattern_; }
  const Context& context() const noexcept { return *context_; }
  const CostModel& model() const noexcept { return model_; }
  const ChoiceOptions& options() const noexcept { return options_; }
  const MachineTable& machine() const { return options_.machine ? *options_.machine : builtin_machine(); }
  const TrainedModels& trained() const;
  double products() const noexcept { return options_.products(); }
  double csr_bytes() const noexcept;        // of pattern and values
  double csr_seconds() const;               // of a product, by the cost model; 0: not known
  const PatternFeatures& features() const;  // computed at the first call
  std::optional<FormatTimes> time(const FormatEntry& entry) const;

 private:
  ContextPtr context_;
  const SparsityPattern& pattern_;
  const SparsityPattern* on_host_ = nullptr;
  mutable std::optional<SparsityPattern> copied_;
  const CostModel& model_;
  const ChoiceOptions& options_;
  FormatTimer timer_;
  const TrainedModels* trained_;
  mutable std::optional<PatternFeatures> features_;
};

// A format in the answer of a selector.
struct SelectedFormat {
  const FormatEntry* entry = nullptr;
  FormatParams parameters = {};
  double score = 0;            // what the selector ranks by: the smaller the better
  double product_seconds = 0;  // predicted or measured; 0: the selector predicts no times
  double convert_seconds = 0;  // 0 also if the selector ignores conversions
  double uncertainty = 0;   // relative, of product_seconds; of a classifier 1 - the confidence in this format
  std::string reason = {};  // for a person
};

// A rule that ranks formats for a matrix. Without state: one object serves any number of questions.
class FormatSelector {
 public:
  virtual ~FormatSelector() = default;
  virtual std::string_view name() const noexcept = 0;
  // Authors, where, and what of it is our reading.
  virtual std::string_view source() const noexcept = 0;
  // The formats other than csr that it knows; empty: all formats of the machine table.
  virtual std::span<const std::string_view> formats() const noexcept { return {}; }
  // Its numbers were trained for a host; it refuses a device.
  virtual bool host_only() const noexcept { return false; }
  // It measures products of the matrix when it is asked (always, or if it is in doubt).
  virtual bool measures() const noexcept { return false; }
  // The best first. csr is always there, each format once, and of the other formats the ones that a sample of the
  // matrix admits with their native kernel. The first is the choice. For matrices of any shape, also without rows or
  // entries.
  virtual std::vector<SelectedFormat> rank(const SelectorQuestion& question) const = 0;
};

// All, in the order of the documentation.
std::span<const FormatSelector* const> selectors() noexcept;
std::vector<std::string_view> selector_names();
// Throws BadArgument with all names and the nearest one.
const FormatSelector& find_selector(std::string_view name);
// The same, and throws NotAvailable for a selector that knows no times of this space.
const FormatSelector& find_selector(std::string_view name, Space space);

namespace selectors_detail {

struct Candidate {
  const FormatEntry* entry = nullptr;
  double bytes = 0;  // of the whole matrix, estimated from a sample
};
// csr first; then the formats of `known` that a sample of the matrix admits, in the order of the catalogue.
std::vector<Candidate> candidates(const SelectorQuestion& question, std::span<const std::string_view> known);
// The smallest score first, csr before others of the same score, then in the order given.
void sort_by_score(std::vector<SelectedFormat>& formats);

}  // namespace selectors_detail

}  // namespace protean
