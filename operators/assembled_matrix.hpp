// A matrix in a storage format, and the description of a format that is known before a matrix is built.
#pragma once
#include <any>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/pattern_mark.hpp>
#include <protean/operators/format_params.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/rows.hpp>
#include <protean/operators/transposed_product.hpp>

namespace PROTEAN_EXPORT protean {

// One parameter of a format. Integers have a range; choices have a list of words.
struct ParamDoc {
  std::string_view name, doc;
  std::string_view default_value;
  std::int64_t smallest = 0, largest = 0;  // integers
  std::string_view choices = {};           // "a|b|c": a choice; "a|b|...": text, and examples of it
};

// The result of admit(), before anything is allocated. bytes is what bytes() of the built matrix will return.
struct Admission {
  bool ok = false;
  std::size_t bytes = 0;
  std::int64_t stored_values = 0;  // with padding and fill
  std::string reason;              // why the matrix is refused, for a person
  // Findings of admit() for the maker of the same format, so that nothing is sorted or counted twice. keep_plan()
  // writes them, plan_of() reads them.
  std::any plan = {};
  static Admission accept(std::size_t bytes, std::int64_t stored_values) {
    return {true, bytes, stored_values, {}, {}};
  }
  static Admission refuse(std::string reason, std::size_t bytes = 0, std::int64_t stored_values = 0) {
    return {false, bytes, stored_values, std::move(reason), {}};
  }
};

template <class Plan>
void keep_plan(Admission& admission, std::shared_ptr<Plan> plan) {
  admission.plan = std::shared_ptr<const Plan>(std::move(plan));
}
// Throws std::bad_any_cast if admit() has kept no plan, or a plan of another type.
template <class Plan>
const Plan& plan_of(const Admission& admission) {
  return *std::any_cast<const std::shared_ptr<const Plan>&>(admission.plan);
}

struct FormatTraits {
  bool deterministic = true;    // the same bits in every run with the same number of threads
  bool exact_values = true;     // to_csr() returns the values it was built from, bit for bit
  bool symmetric_only = false;  // refuses an unsymmetric matrix
  bool square_only = false;
  // On the host: accepts rows whose columns are distinct but not sorted. to_csr() returns them in the same
  // order.
  bool unsorted_rows = false;
  // Its matrices use the arrays from which they are built, and take no further memory.
  bool uses_source = false;
  // Users or planners choose what it stores, so `auto` and the policy do not consider it.
  bool chosen_by_name = false;
  // Threads may share a row, so a single very long row does no harm.
  bool shares_rows = false;
  // What a sample of the rows says about admit() of the whole matrix (formats/survey).
  bool admits_slowly = false;       // admit() takes ten times as long as for others: a small sample must do
  bool needs_alike_rows = false;    // what neighbouring rows refuse, the matrix refuses
  bool grows_with_longest = false;  // one long row may pad all others
  bool admission_converts = false;  // on a host, admit() does nearly all the work of a conversion
};

struct FormatEntry;
template <class T>
class AssembledMatrix;

namespace PROTEAN_HIDDEN detail {
class ValueTable;
// How the values of a matrix are stored: as the vectors, unless one of these says otherwise.
struct ValueStorage {
  bool floats = false;
  std::shared_ptr<const ValueTable> table;  // a byte for each value: its place in this table
};
}  // namespace detail

// The arguments of a maker. Parameters are complete; the matrix is valid, sorted and admitted. `asked` has the
// parameters without the ones that a preset chooses for the matrix.
template <class T>
struct BuildRequest {
  const CsrMatrix<T>& csr;
  const FormatParams& params;
  const ContextPtr& context;
  const FormatEntry& entry;
  std::string_view kernel;
  const Admission& admission;
  const FormatParams& asked;
  // Whether values are stored in float although T is double. Only if the kernel has parameter
  // `values` (docs/precision.md).
  bool float_values = false;
  // If not null: each value is stored as its place in this table. Only if that parameter has the word dictionary; the
  // matrix has the ability HasValueTable (operators/value_table.hpp).
  std::shared_ptr<const detail::ValueTable> table = {};
};

template <class T>
using MakeMatrix = std::unique_ptr<AssembledMatrix<T>> (*)(const BuildRequest<T>&);

using Admit = Admission (*)(const Context&, const SparsityPattern&, const FormatParams&,
                            std::size_t value_bytes);

// A way to compute with one format: our own code ("native"), or the code of a library.
struct Kernel {
  std::string_view name;
  bool host = false, device = false;
  std::string_view unavailable = {};  // why it is not in this build; empty if it is
  MakeMatrix<double> make_f64 = nullptr;
  MakeMatrix<float> make_f32 = nullptr;
  std::string_view note = {};  // for users: the library's version, its limits in this build
  bool deterministic = true;   // false: the order of additions may differ between runs
  // On the host: supports deterministic mode (HostOptions), in which it adds the entries of each row in
  // ascending order of columns with fused multiply-adds. A kernel without it is refused in that mode.
  bool ordered = false;
  // Parameters of this kernel alone, such as threads a row. They change how it computes, not what is stored.
  std::span<const ParamDoc> params = {};
  // Set if this native kernel needs other workspace than the first kernel of its space; null: the format's own admit().
  Admit admit = nullptr;
};

// The device side of a format, defined in its .cu file: its kernels on a device, and admit() for a pattern in device
// memory. A build without CUDA has no such code; the catalogue has null there.
struct DeviceCode {
  std::span<const Kernel> kernels;  // the first is the default
  Admit admit;
  bool simulated = false;  // only for the simulated devices of tests
};

// A format that is another one (its base) with fixed parameters, or with one of its kernels: it has the arrays and the
// code of the base. A plain constant, one for each line PROTEAN_PRESET of formats/catalogue.def.
struct FixedParam {
  std::string_view name, value;
};
struct Preset {
  std::string_view family, id, title, source;
  std::string_view base;  // its id; not a preset itself
  std::span<const FixedParam> fixed = {};
  // Sets the parameters `chosen` of the base for a matrix in the context's space; null when there are none.
  void (*choose)(const Context&, const SparsityPattern&, FormatParams&) = nullptr;
  std::span<const std::string_view> chosen = {};
  // Its only kernel in each space; empty: all kernels of the base.
  std::string_view host_kernel = {}, device_kernel = {};
};

// A storage format: a plain constant, one for each line of formats/catalogue.def. The catalogue
// completes it with the engine, and the entries of presets from their base.
struct FormatEntry {
  std::string_view family, id, title, source;  // source: authors, year, where published
  FormatTraits traits;
  std::span<const ParamDoc> params;
  std::span<const Kernel> kernels;  // on the host; the first is the default
  // Called through protean::admit(). Predicts the exact bytes for values of value_bytes each, or refuses.
  // Parameters are complete. Takes at most the time of a few products.
  Admit admit;
  const DeviceCode* device = nullptr;  // null in a build without CUDA, or for a format without device kernels
  // How a product goes through the arrays, from catalogue.def, which lists the engines. Empty for a format that is not
  // in catalogue.def.
  std::string_view engine = {};
  // The id of the format whose layout this is; empty for a format with its own layout.
  std::string_view base = {};
  const Preset* preset = nullptr;  // null for a format with its own layout
  // The parameters of the base, with the ones that the preset fixes or chooses. Other fixed parameters belong to a
  // kernel, which need not be in this build.
  std::span<const ParamDoc> base_params = {};
  // The format in which a matrix keeps A^T for products with it: csr, from the catalogue. Null for an entry that is not
  // from the catalogue; its matrices have no such products, unless they are symmetric_only.
  const FormatEntry* transposed = nullptr;
  // The layouts with a kernel that has parameter `values`, from the catalogue: "csr, dia". Empty as above.
  std::string_view float_formats = {};
};

// A matrix built from CSR. Its arrays lie in the context's space.
template <class T>
class AssembledMatrix : public LinearOperator<T>,
                        public HasDiagonal<T>,
                        public HasRows<T>,
                        public HasTransposedProduct<T> {
 public:
  explicit AssembledMatrix(const BuildRequest<T>& request)
      : LinearOperator<T>(request.context, {request.csr.rows(), request.csr.cols()}),
        entry_(request.entry),
        params_(request.asked),
        kernel_(request.kernel),
        nonzeros_(request.csr.nonzeros()),
        float_values_(request.float_values) {
    if (!entry_.traits.uses_source) pattern_ = PatternMark(*request.context, request.csr.pattern);
    note_rounding(request.csr);
  }

  // The matrix from which it was built: the exact inverse of the construction, sorted, without padding. If values are
  // rounded (rounds_values()), they are the values that products read.
  virtual CsrMatrix<T> to_csr() const = 0;
  CsrMatrix<T> rows_as_csr() const final { return to_csr(); }
  // Bytes of all arrays and workspace of this format, shared ones included.
  virtual std::size_t bytes() const noexcept = 0;

  // Sets new values for the same pattern, in CSR order. Throws ShapeMismatch for any other pattern; the values are then
  // as before. Row pointers and columns are read once to find out, unless the owner of the matrix's arrays also owns
  // these. A format with the trait uses_source takes arrays at the addresses in use for the same: nobody may change
  // them (watched() finds out). Not safe while another thread computes products.
  void update_values(const CsrMatrix<T>& csr);
  // For a caller who knows that the pattern is the same: only sizes are compared.
  void update_values(const CsrMatrix<T>& csr, SamePattern same);
  // Throws whatever update_values(csr) throws before it changes anything.
  void require_same_pattern(const CsrMatrix<T>& csr) const;
  // Stores values in the precision of the vectors from now on, also after update_values(): csr has the values that were
  // given last. For a matrix with parameter values float. If it throws OutOfMemory, the matrix is as before. Not safe
  // while another thread computes products.
  void store_in_full(const CsrMatrix<T>& csr);

  // Whether values are stored in float although T is double (parameter `values`), and whether that rounds any.
  bool float_values() const noexcept { return float_values_; }
  bool rounds_values() const noexcept { return rounds_values_; }
  // Whether values are places in a table (values: dictionary).
  bool has_value_table() const noexcept;
  // "dictionary", "float (exact)", "float (rounded)" or "double"; of T = float "float".
  std::string_view stored_values() const noexcept;

  // Products with A^T (HasTransposedProduct says what they keep).
  std::string_view no_transposed_product() const noexcept final;
  void prepare_transposed() const final;
  std::size_t transposed_bytes() const noexcept final;
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const final;

  const FormatEntry& entry() const noexcept { return entry_; }
  const FormatParams& params() const noexcept { return params_; }
  std::string_view kernel() const noexcept { return kernel_; }
  std::int64_t nonzeros() const noexcept { return nonzeros_; }
  std::string_view name() const noexcept final { return entry_.id; }
  Revision revision() const noexcept final { return revision_; }
  // The addresses of its arrays do not change until update_values(). The kernels are our own; a matrix whose product is
  // queued by a library says that it does not heed the stop.
  Recording recording() const noexcept override { return {true, 1 + revision_.values, bytes(), true}; }
  void check_arrays() const final {
    if (entry_.traits.uses_source) protean::check_arrays(arrays_in_use());
  }

 protected:
  // Called after float_values(), and the table of a format with HasValueTable, have become what they are to be for
  // these values. If it throws, the matrix has its old values.
  virtual void do_update_values(const CsrMatrix<T>& csr) = 0;
  // Of a format with the trait uses_source: the arrays that it uses.
  virtual CsrMatrix<T> arrays_in_use() const { return to_csr(); }
  // If the arrays of the format are A^T in CSR, sorted: a view of them, which is valid until update_values(). Otherwise
  // empty; A^T is then made of to_csr().
  virtual CsrMatrix<T> own_transpose() const { return {}; }

 private:
  void check_values(const CsrMatrix<T>& csr) const;
  void take_values(const CsrMatrix<T>& csr);
  PROTEAN_HIDDEN void take_values_in(const CsrMatrix<T>& csr, detail::ValueStorage storage);
  PROTEAN_HIDDEN detail::ValueStorage storage_for(const CsrMatrix<T>& csr) const;
  PROTEAN_HIDDEN void note_rounding(const CsrMatrix<T>& csr);
  bool is_own_transpose() const noexcept { return entry_.traits.symmetric_only; }
  const AssembledMatrix& transposed() const;

  const FormatEntry& entry_;
  FormatParams params_;
  std::string_view kernel_;
  std::int64_t nonzeros_;
  bool float_values_, rounds_values_ = false;
  bool in_full_ = false;  // store_in_full() was called
  PatternMark pattern_;   // of arrays that may be gone; empty if the matrix computes with them
  Revision revision_;
  mutable std::mutex transposed_mutex_;  // of the next two while products are computed
  mutable std::unique_ptr<AssembledMatrix>
      transposed_;  // A^T with the present values; null before the first product
  mutable std::size_t transposed_bytes_ = 0;
};

// The parameters that a user may set: the format's parameters that no preset fixes or chooses, and the parameters of
// this kernel (without a kernel: of all its kernels).
std::vector<ParamDoc> settable_params(const FormatEntry& entry, const Kernel* kernel = nullptr);

// Fills in defaults, and the fixed parameters of a preset. Throws BadArgument for an unknown name (the message
// lists the names), a value out of range, or another value than the fixed one. Parameters of the kernel are among the
// names if one is given. Without a kernel, parameters of all kernels of the entry are checked and left out.
FormatParams resolve_params(const FormatEntry& entry, const FormatParams& given,
                            const Kernel* kernel = nullptr);

// The kernel of a format in a space by name; the default one for an empty name. Throws BadArgument if the
// format has no kernel of this name, NotAvailable if the kernel is not in this build or does not run in this
// space.
const Kernel& find_kernel(const FormatEntry& entry, std::string_view kernel, Space space);

// What a format says about a matrix in the context's space: its exact bytes, or a refusal. Throws BadArgument for
// parameters that resolve_params() refuses, and NotAvailable for a format without kernels in this space.
Admission admit(const FormatEntry& entry, const Context& context, const SparsityPattern& pattern,
                const FormatParams& params, std::size_t value_bytes);

// Builds a matrix after checking the parameters, the kernel, admit(), and that its bytes, without arrays that it shares
// with csr, are at most most_bytes (0: the free memory, for matrices of 1 MiB or more). It never falls back to another
// format. Throws BadArgument, NotAvailable, FormatRefused, OutOfMemory. Rows must be sorted. On the host BadMatrix is
// thrown otherwise, except for formats with the trait unsorted_rows outside deterministic mode. On a device this is not
// checked. A deterministic context also throws FormatRefused for a kernel without a fixed order of additions.
template <class T>
PROTEAN_EXPORT std::unique_ptr<AssembledMatrix<T>> make_matrix(
    const FormatEntry& entry, const CsrMatrix<T>& csr, const ContextPtr& context,
    const FormatParams& params = {}, std::string_view kernel = {}, std::size_t most_bytes = 0);

// All kernels of a format in a space, including kernels that are not in this build.
std::span<const Kernel> kernels_in(const FormatEntry& entry, Space space) noexcept;

// Whether this kernel can be used in a deterministic context of a space. On the host it must add in the order
// that all formats share there, on a device in any fixed order.
bool has_deterministic_mode(const FormatEntry& entry, const Kernel& kernel, Space space) noexcept;

// Bytes that this process can still allocate in the context's space: available_memory(), or the free memory
// of the GPU.
std::size_t available_bytes(const Context& context);

}  // namespace protean
