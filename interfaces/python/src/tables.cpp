// What this build has, and what is known of a matrix: formats, methods, preconditioners, options, predictions.
#include <algorithm>

#include "common.hpp"
#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "matrix.hpp"
#include "operators/policy/cost_model.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "settings.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"
#if defined(PROTEAN_PYTHON_COMMAND)
#include "apps/command/command_line.hpp"
#endif

namespace protean::python {
namespace {

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

nb::list formats() {
  nb::list all;
  for (const FormatEntry* const entry : catalogue()) {
    nb::dict row;
    row["format"] = text(entry->id);
    row["family"] = text(entry->family);
    row["title"] = text(entry->title);
    row["base"] = text(entry->base);
    nb::list kernels;
    for (const Kernel& kernel : kernels_in(*entry, Space::host))
      if (kernel.unavailable.empty()) kernels.append(text(kernel.name));
    row["kernels"] = kernels;
    nb::list on_gpu;
    for (const Kernel& kernel : kernels_in(*entry, Space::device))
      if (kernel.unavailable.empty()) on_gpu.append(text(kernel.name));
    row["gpu_kernels"] = on_gpu;
    nb::dict params;
    for (const ParamDoc& param : settable_params(*entry))
      params[text(param.name)] = text(param.default_value);
    row["parameters"] = params;
    row["deterministic"] = entry->traits.deterministic;
    row["exact"] = entry->traits.exact_values;
    row["symmetric_only"] = entry->traits.symmetric_only;
    row["source"] = text(entry->source);
    all.append(row);
  }
  return all;
}

nb::list methods() {
  nb::list all;
  for (const SolverEntry& entry : solvers()) {
    nb::dict row;
    row["method"] = text(entry.id);
    row["title"] = text(entry.title);
    row["products"] = entry.products;
    row["symmetric"] = entry.symmetric;
    row["source"] = text(entry.source);
    all.append(row);
  }
  return all;
}

nb::list preconditioner_list() {
  nb::list all;
  for (const PreconditionerEntry& entry : preconditioners()) {
    nb::dict row;
    row["preconditioner"] = text(entry.id);
    row["title"] = text(entry.title);
    row["symmetric"] = entry.symmetric;
    row["unavailable"] = text(entry.unavailable);
    all.append(row);
  }
  return all;
}

nb::object value_of(const OptionValue& value) {
  return std::visit(
      [](const auto& one) -> nb::object {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(one)>, std::string_view>)
          return text(one);
        else
          return nb::cast(one);
      },
      value);
}

template <class Options>
void add_option(nb::list& all, const Option<Options>& option, const char* section) {
  nb::dict row;
  row["option"] = text(option.name);
  row["section"] = section;
  row["default"] = value_of(option.default_value());
  row["allowed"] = allowed_text(option);
  row["readers"] = readers_text(option.readers);
  row["about"] = text(option.about);
  all.append(row);
}

nb::list options() {
  nb::list all;
  for (const Setting& setting : solve_settings()) add_option<SolveSettings>(all, setting, "solve");
  for (const auto& option : solver_options()) add_option(all, option, "solver");
  for (const auto& option : preconditioner_options()) add_option(all, option, "preconditioner");
  for (const auto& option : policy_options()) add_option(all, option, "policy");
  return all;
}

// The entries in host memory with sorted rows, as the choice needs them.
template <class T>
CsrMatrix<T> entries_of(Matrix<T>& matrix) {
  if (matrix.is_function())
    throw BadArgument("the operator is a function of yours, which has no entries to look at");
  const WithoutGil no_gil;
  return matrix.host_csr();
}
// The context in which they are looked at.
template <class T>
ContextPtr host_of(const Matrix<T>& matrix) {
  return matrix.gpu() ? context_of(0) : matrix.context();
}

template <class T>
nb::tuple choose(Matrix<T>& matrix, std::int64_t expected_iterations, const std::string& method,
                 const std::string& selector) {
  const CsrMatrix<T> csr = entries_of(matrix);
  const SparsityPattern& pattern = csr.pattern;
  const ContextPtr host = host_of(matrix);
  ChoiceOptions options;
  options.expected_iterations = expected_iterations;
  require_selector(selector);
  options.selector = selector;
  options.products_per_iteration = method == "auto" ? 1 : find_solver(method).products;
  options.value_bytes = sizeof(T);
  FormatChoice choice;
  std::vector<RankedFormat> ranked;
  OrderChoice order;
  {
    const WithoutGil no_gil;
    options.space = matrix.context()->space();
    const CostModel model(options.space);
    options.symmetric = pattern.rows == pattern.cols && !first_asymmetry<T>(*host, pattern, csr.values);
    choice = choose_format(pattern, model, options);
    ranked = rank_formats(pattern, model, options);
    if (pattern.rows == pattern.cols) order = choose_order(pattern, options, sizeof(T));
  }
  nb::list rows;
  for (const RankedFormat& one : ranked) {
    nb::dict row;
    row["format"] = text(one.entry->id);
    row["total_seconds"] = one.cost.known ? nb::cast(one.total_seconds) : nb::none();
    row["product_seconds"] = one.cost.known ? nb::cast(one.cost.product_seconds) : nb::none();
    row["convert_seconds"] = one.cost.known ? nb::cast(one.cost.convert_seconds) : nb::none();
    row["uncertainty"] = one.cost.known ? nb::cast(one.cost.uncertainty) : nb::none();
    rows.append(row);
  }
  return nb::make_tuple(text(choice.id), choice.reason, text(order.id), order.reason, rows);
}

template <class T>
nb::dict inspect(Matrix<T>& matrix) {
  const CsrMatrix<T> csr = entries_of(matrix);
  const SparsityPattern& pattern = csr.pattern;
  const ContextPtr host = host_of(matrix);
  Statistics s;
  double unequal = 0;
  std::vector<std::string> null_space;
  {
    const WithoutGil no_gil;
    s = statistics(*host, pattern);
    if (pattern.rows == pattern.cols) {
      unequal = asymmetry(*host, csr);
      null_space = in_words(null_vectors(*host, csr));
    }
  }
  nb::dict result;
  result["rows"] = s.rows;
  result["columns"] = s.cols;
  result["nonzeros"] = s.nonzeros;
  result["longest_row"] = s.longest;
  result["shortest_row"] = s.shortest;
  result["empty_rows"] = s.empty_rows;
  result["mean_row"] = s.mean;
  result["deviation_of_rows"] = s.deviation;
  result["diagonals"] = s.diagonals;
  result["lower_bandwidth"] = s.lower_bandwidth;
  result["upper_bandwidth"] = s.upper_bandwidth;
  result["block_fill_2"] = s.block_fill[0].fill;
  result["block_fill_3"] = s.block_fill[1].fill;
  result["block_fill_4"] = s.block_fill[2].fill;
  result["full_diagonal"] = s.full_diagonal;
  result["structurally_symmetric"] = s.structurally_symmetric;
  result["asymmetry"] = pattern.rows == pattern.cols ? nb::cast(unequal) : nb::none();
  result["skew"] = s.features.skew;
  result["cross_row_similarity"] = s.features.cross_row_similarity;
  result["neighbours"] = s.features.neighbours;
  result["csr_mib"] = s.features.memory_footprint_mib;
  std::string singular;
  for (const std::string& words : null_space) singular += (singular.empty() ? "" : "; ") + words;
  result["null_vector"] = singular;
  return result;
}

// What the format says of the matrix: predicted bytes, or why it refuses.
template <class T>
nb::tuple admit_format(Matrix<T>& matrix, const std::string& format) {
  const CsrMatrix<T> csr = entries_of(matrix);
  const SparsityPattern& pattern = csr.pattern;
  const ContextPtr host = host_of(matrix);
  Admission admission;
  {
    const WithoutGil no_gil;
    const FormatEntry& entry = find_format(format);
    admission = admit(entry, *host, pattern, resolve_params(entry, {}), sizeof(T));
  }
  return nb::make_tuple(admission.ok, admission.bytes, admission.reason);
}

template <class T>
void bind(nb::module_& m) {
  m.def("choose", &choose<T>, nb::arg("matrix"), nb::arg("expected_iterations"), nb::arg("method"),
        nb::arg("selector"));
  m.def("inspect", &inspect<T>, nb::arg("matrix"));
  m.def("admit", &admit_format<T>, nb::arg("matrix"), nb::arg("format"));
}

#if defined(PROTEAN_PYTHON_COMMAND)
int command(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& one : copies) argv.push_back(one.data());
  argv.push_back(nullptr);
  const WithoutGil no_gil;
  return apps::run(static_cast<int>(copies.size()), argv.data());
}
#endif

}  // namespace

void bind_tables(nb::module_& m) {
  m.def("formats", formats);
  m.def("methods", methods);
  m.def("preconditioners", preconditioner_list);
  m.def("options", options);
  m.def(
      "rigid_body_modes",
      [](const ColumnsArray<const double>& coordinates) {
        const auto nodes = static_cast<std::int64_t>(coordinates.shape(0)),
                   axes = static_cast<std::int64_t>(coordinates.shape(1));
        MultiVector<double> copied(Context::host(1), nodes, axes);
        for (std::int64_t k = 0; k < axes; ++k)
          for (std::int64_t i = 0; i < nodes; ++i)
            copied.view()(i, k) = coordinates.data()[i * coordinates.stride(0) + k * coordinates.stride(1)];
        const MultiVector<double> modes = rigid_body_modes(Context::host(1), copied.view());
        // rows x vectors, vector after vector
        const auto rows = static_cast<std::size_t>(modes.rows()),
                   vectors = static_cast<std::size_t>(modes.columns());
        return nb::cast(
            nb::ndarray<nb::numpy, const double, nb::ndim<2>, nb::f_contig>(modes.data(), {rows, vectors}),
            nb::rv_policy::copy);
      },
      nb::arg("coordinates"));
  m.def("default_threads", [] { return context_of(0)->threads(); });
  bind<double>(m);
  bind<float>(m);
#if defined(PROTEAN_PYTHON_COMMAND)
  m.def("command", [](const nb::list& words) {
    std::vector<std::string> all;
    for (const nb::handle one : words) all.push_back(nb::cast<std::string>(one));
    return command(all);
  });
#endif
}

}  // namespace protean::python
