// A matrix in some storage format, and what the library knows about a format before it builds one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <protean/core/csr.hpp>
#include <protean/operators/linear_operator.hpp>

namespace protean {

// One parameter of a format. Integers have a range; choices have a list of words.
struct ParamDoc {
  std::string_view name, doc;
  std::string_view default_value;
  std::int64_t smallest = 0, largest = 0;  // integers
  std::string_view choices = {};           // "a|b|c": a choice, not an integer
};

// Values of a format's parameters by name. Made complete and checked by resolve_params().
class FormatParams {
 public:
  FormatParams() = default;
  FormatParams(std::initializer_list<std::pair<const std::string, std::string>> values) : values_(values) {}
  void set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  void set(std::string name, std::int64_t value) { set(std::move(name), std::to_string(value)); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  // Of complete parameters only: throw BadArgument for a name that is not there or not an integer.
  std::int64_t integer(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const noexcept { return values_; }
  bool operator==(const FormatParams&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// What admit() says before anything is allocated. bytes is what bytes() of the built matrix will return.
struct Admission {
  bool ok = false;
  std::size_t bytes = 0;
  std::int64_t stored_values = 0;  // with padding and fill
  std::string reason;              // why it was refused, for a person
  // What admit() worked out and the same format's maker can use, so that it is not found twice.
  std::shared_ptr<const void> plan = {};
  static Admission accept(std::size_t bytes, std::int64_t stored_values) {
    return {true, bytes, stored_values, {}, {}};
  }
  static Admission refuse(std::string reason, std::size_t bytes = 0, std::int64_t stored_values = 0) {
    return {false, bytes, stored_values, std::move(reason), {}};
  }
};

struct FormatTraits {
  bool deterministic = true;    // the same bits in every run with the same number of threads
  bool exact_values = true;     // to_csr() returns the values it was built from, bit for bit
  bool symmetric_only = false;  // refuses an unsymmetric matrix
  bool square_only = false;
  // On the host: takes rows whose columns are distinct but in any order. to_csr() gives them back in it.
  bool unsorted_rows = false;
};

struct FormatEntry;
template <class T>
class AssembledMatrix;

// What a maker is given. Parameters are complete; the matrix is valid, sorted and admitted.
template <class T>
struct BuildRequest {
  const CsrMatrix<T>& csr;
  const FormatParams& params;
  const ContextPtr& context;
  const FormatEntry& entry;
  std::string_view kernel;
  const Admission& admission;
};

template <class T>
using MakeMatrix = std::unique_ptr<AssembledMatrix<T>> (*)(const BuildRequest<T>&);

// A way to compute with one format: our own code ("native"), or a library's.
struct Kernel {
  std::string_view name;
  bool host = false, device = false;
  std::string_view unavailable = {};  // why it is not in this build; empty when it is
  MakeMatrix<double> make_f64 = nullptr;
  MakeMatrix<float> make_f32 = nullptr;
  std::string_view note = {};  // what a user should know: the library's version, its limits in this build
  bool deterministic = true;   // false: sums may be added in another order in another run
  // On the host: knows deterministic mode (HostOptions), where it adds each row's entries in ascending
  // order of columns with fused multiply-adds, and is refused there otherwise.
  bool ordered = false;
};

using Admit = Admission (*)(const Context&, const SparsityPattern&, const FormatParams&,
                            std::size_t value_bytes);

// The device side of a format, defined in its .cu file: its kernels there, and admit() for a pattern that
// lies in device memory.
struct DeviceCode {
  std::span<const Kernel> kernels;  // the first is the default
  Admit admit;
  bool simulated = false;  // for simulated devices, and only for them: of tests
};

// A storage format: a plain constant, one for each line of formats/catalogue.def.
struct FormatEntry {
  std::string_view family, id, title, source;  // source: authors, year, where published
  FormatTraits traits;
  std::span<const ParamDoc> params;
  std::span<const Kernel> kernels;  // on the host; the first is the default
  // Predicts the exact bytes for values of value_bytes each, or refuses. Time at most that of a few products.
  Admit admit;
  const DeviceCode* device = nullptr;  // null in a build without CUDA, or when there is none
};

// A matrix built from CSR. Its arrays lie in the context's space.
template <class T>
class AssembledMatrix : public LinearOperator<T>, public HasDiagonal<T> {
 public:
  explicit AssembledMatrix(const BuildRequest<T>& request)
      : LinearOperator<T>(request.context, {request.csr.rows(), request.csr.cols()}),
        entry_(request.entry),
        params_(request.params),
        kernel_(request.kernel),
        nonzeros_(request.csr.nonzeros()) {}

  // The matrix it was built from: exact inverse of construction, sorted, without padding.
  virtual CsrMatrix<T> to_csr() const = 0;
  // Bytes of all arrays and workspace of this format, shared ones included.
  virtual std::size_t bytes() const noexcept = 0;

  // New values for the same pattern, given in CSR order. Throws ShapeMismatch when shape or number of entries
  // differ; that the columns are the same is the caller's promise. Not safe while another thread applies.
  void update_values(const CsrMatrix<T>& csr);

  const FormatEntry& entry() const noexcept { return entry_; }
  const FormatParams& params() const noexcept { return params_; }
  std::string_view kernel() const noexcept { return kernel_; }
  std::int64_t nonzeros() const noexcept { return nonzeros_; }
  std::string_view name() const noexcept final { return entry_.id; }
  Revision revision() const noexcept final { return revision_; }
  // Its arrays stay where they are until update_values().
  Recording recording() const noexcept override { return {true, 1 + revision_.values}; }
  // Of csr, which uses the arrays it was made of; the others have their own.
  void check_arrays() const final {
    if (entry_.id == "csr") protean::check_arrays(to_csr());
  }

 protected:
  virtual void do_update_values(const CsrMatrix<T>& csr) = 0;

 private:
  const FormatEntry& entry_;
  FormatParams params_;
  std::string_view kernel_;
  std::int64_t nonzeros_;
  Revision revision_;
};

// Defaults filled in; BadArgument for an unknown name (with the names there are) or a value out of range.
FormatParams resolve_params(const FormatEntry& entry, const FormatParams& given);

// The named kernel of a format in a space. BadArgument when there is no such kernel, NotAvailable when it is
// not in this build or does not run in this space. An empty name gives the default.
const Kernel& find_kernel(const FormatEntry& entry, std::string_view kernel, Space space);

// Builds a matrix: parameters checked, kernel found, admission asked, memory compared with most_bytes (0:
// what is free). Throws BadArgument, NotAvailable, FormatRefused, OutOfMemory. Never falls back to another
// format. Rows must be sorted: BadMatrix where they are not, on the host, but for formats whose traits say
// unsorted_rows; on a device the caller answers for it. In a deterministic context, where all must be,
// FormatRefused also says of a kernel that it has no fixed order of sums.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_matrix(const FormatEntry& entry, const CsrMatrix<T>& csr,
                                                const ContextPtr& context, const FormatParams& params = {},
                                                std::string_view kernel = {}, std::size_t most_bytes = 0);

// The kernels a format has in a space, in this build or not.
std::span<const Kernel> kernels_in(const FormatEntry& entry, Space space) noexcept;

// Whether matrices with this kernel can be made in a deterministic context of a space: on the host it must
// keep to the one order in which all formats add there, on a device to any fixed one.
bool has_deterministic_mode(const FormatEntry& entry, const Kernel& kernel, Space space) noexcept;

// Bytes the machine, or the GPU, could still give this process.
std::size_t available_bytes(const Context& context);

}  // namespace protean
