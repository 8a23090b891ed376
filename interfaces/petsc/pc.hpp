// The PC type protean: our preconditioners in PETSc's PC.
#pragma once
#include <petsc/private/pcimpl.h>
#include <petscksp.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/protean.hpp>

#include "calls.hpp"
#include "matrix.hpp"
#include "options.hpp"
#include "vectors.hpp"

namespace protean_petsc {

inline constexpr char PCPROTEAN[] = "protean";

namespace detail {

// What pc->data points to.
struct PcData {
  std::string type = "fields";  // protean::preconditioners()
  protean::PreconditionerOptions options;
  int threads = 0;
  // Fields in the order of the calls, each with its rows.
  std::vector<std::pair<std::string, std::vector<PetscInt>>> fields;
  std::unique_ptr<Matrix> matrix;
  std::unique_ptr<protean::Preconditioner<double>> M;
  void forget() { M.reset(), matrix.reset(); }
};
inline PcData& data_of(PC pc) { return *static_cast<PcData*>(pc->data); }

// The fields of the program as a text for option `fields`.
inline std::string fields_text(const PcData& data, std::int64_t rows) {
  std::vector<std::int32_t> label(static_cast<std::size_t>(rows), -1);
  for (std::size_t f = 0; f < data.fields.size(); ++f)
    for (const PetscInt row : data.fields[f].second) {
      const std::string& name = data.fields[f].first;
      if (row < 0 || row >= rows)
        throw protean::BadArgument("field " + name + " has row " + std::to_string(row) +
                                   ", and the matrix has " + std::to_string(rows) + " rows, counted from 0");
      std::int32_t& of = label[static_cast<std::size_t>(row)];
      if (of >= 0)
        throw protean::BadArgument("row " + std::to_string(row) + " is in field " +
                                   data.fields[static_cast<std::size_t>(of)].first + " and again in field " +
                                   name);
      of = static_cast<std::int32_t>(f);
    }
  const auto none = std::find(label.begin(), label.end(), -1);
  if (none != label.end())
    throw protean::BadArgument("row " + std::to_string(none - label.begin()) +
                               " is in no field; give each row to one by PCProteanSetFieldIS()");
  // The parts begin with the labels, in ascending order.
  const std::string text = protean::fields_of_labels(label);
  std::string named;
  std::size_t from = 0;
  for (const auto& [name, own] : data.fields) {
    if (own.empty()) throw protean::BadArgument("field " + name + " has no rows");
    const std::size_t end = std::min(text.find(", ", from), text.size());
    named +=
        (named.empty() ? "" : ", ") + name + text.substr(text.find(' ', from), end - text.find(' ', from));
    from = end + 2;
  }
  return named;
}

inline PetscErrorCode pc_setup(PC pc) {
  return guarded(comm_of(pc), [&] {
    PcData& data = data_of(pc);
    Mat P = nullptr;
    must(PCGetOperators(pc, nullptr, &P));
    if (!data.matrix || data.matrix->mat() != P) {
      data.forget();
      if (!is_seqaij(P))
        throw protean::NotAvailable(
            "PC type protean needs the entries of a matrix of type seqaij, and this one is of type " +
            type_of(P) + "; convert it (MatConvert() or -mat_type aij)");
      data.matrix =
          std::make_unique<Matrix>(protean::Context::host(data.threads), P, MatrixOptions{.format = "csr"});
    } else {
      data.matrix->update();
    }
    const protean::LinearOperator<double>& A = data.matrix->get();
    if (!data.M) {
      protean::PreconditionerOptions options = data.options;
      if (!data.fields.empty()) options.fields = fields_text(data, A.rows());
      data.M = protean::make_preconditioner<double>(data.type, A, options);
    }
    if (data.M) data.M->ensure(A);
  });
}

inline PetscErrorCode pc_apply(PC pc, Vec r, Vec z) {
  const PcData& data = data_of(pc);
  if (!data.M) return VecCopy(r, z);
  return guarded(comm_of(pc), [&] {
    const Reading from(r);
    const Writing to(z, false);
    data.M->apply(from.view(), to.view());
  });
}

inline PetscErrorCode pc_reset(PC pc) {
  return guarded(comm_of(pc), [&] { data_of(pc).forget(); });
}
inline PetscErrorCode pc_destroy(PC pc) {
  return guarded(comm_of(pc), [&] { delete static_cast<PcData*>(std::exchange(pc->data, nullptr)); });
}

inline PetscErrorCode pc_view(PC pc, PetscViewer viewer) {
  return guarded(comm_of(pc), [&] {
    PetscBool text = PETSC_FALSE;
    must(PetscObjectTypeCompare(object(viewer), PETSCVIEWERASCII, &text));
    if (!text) return;
    const PcData& data = data_of(pc);
    must(PetscViewerASCIIPrintf(viewer, "  preconditioner %s\n", data.type.c_str()));
    if (const std::string made = data.M ? data.M->description() : std::string(); !made.empty())
      must(PetscViewerASCIIPrintf(viewer, "  %s\n", made.c_str()));
  });
}

// Sets an option of the table to what a text says.
inline void set_option(protean::PreconditionerOptions& options,
                       const protean::Option<protean::PreconditionerOptions>& option,
                       const std::string& text) {
  const std::string called = "-pc_protean_" + std::string(option.name);
  protean::OptionValue value = std::string_view(text);
  if (option.kind == protean::OptionKind::number || option.kind == protean::OptionKind::whole) {
    double number = 0;
    const bool zero = !option.zero.empty() && text == option.zero;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (!zero && (error != std::errc() || end != text.data() + text.size()))
      throw protean::BadArgument(called + " is '" + text + "'; it must be " + allowed_text(option));
    if (option.kind == protean::OptionKind::number)
      value = number;
    else if (number == static_cast<double>(static_cast<std::int64_t>(number)))
      value = static_cast<std::int64_t>(number);
    else
      throw protean::BadArgument(called + " is '" + text + "'; it must be " + allowed_text(option));
  }
  require_allowed(option, value, called);
  option.set(options, value);
}

template <class Items>
PetscErrorCode read_pc_options(PcData& data, Items PetscOptionsObject, bool& any) {
  std::vector<std::string> names = {"-pc_protean_type", "-pc_protean_threads"};
  protean::PreconditionerOptions options = data.options;
  char text[4096] = "";
  PetscBool set = PETSC_FALSE;
  PetscInt threads = data.threads;
  std::string type = data.type;
  PetscOptionsHeadBegin(PetscOptionsObject, "PC protean options");
  PetscCall(PetscOptionsString("-pc_protean_type", "type: fields, amg, ilu0, ic0 and others",
                               "PCProteanSetOptions", type.c_str(), text, sizeof text, &set));
  if (set) type = text, any = true;
  PetscCall(PetscOptionsInt("-pc_protean_threads", "threads, 0: as many as the process may use",
                            "PCProteanSetOptions", threads, &threads, &set));
  if (set) any = true;
  for (const auto& option : protean::preconditioner_options()) {
    names.push_back("-pc_protean_" + std::string(option.name));
    const std::string about(option.about);
    PetscCall(PetscOptionsString(names.back().c_str(), about.c_str(), "PCProteanSetOptions", "", text,
                                 sizeof text, &set));
    if (set) set_option(options, option, text), any = true;
  }
  PetscOptionsHeadEnd();
  const std::vector<std::string_view> known(names.begin(), names.end());
  refuse_unknown_options(PetscOptionsObject->options, PetscOptionsObject->prefix, "-pc_protean_", known);
  data.type = type, data.options = options, data.threads = static_cast<int>(threads);
  return PetscErrorCode(0);
}

template <class Items>
PetscErrorCode pc_set_from_options(PC pc, Items items) {
  return guarded(comm_of(pc), [&] {
    bool any = false;
    must(read_pc_options(data_of(pc), items, any));
    if (any) data_of(pc).forget(), pc->setupcalled = 0;
  });
}

inline PetscErrorCode pc_create(PC pc) {
  PetscMPIInt ranks = 0;
  PetscCallMPI(MPI_Comm_size(comm_of(pc), &ranks));
  PetscCheck(
      ranks == 1, comm_of(pc), PETSC_ERR_SUP,
      "PC type protean computes on one MPI rank, and this PC has %d. Run the program on one rank, or let it "
      "be the preconditioner of the block of each rank: -pc_type bjacobi -sub_pc_type protean",
      static_cast<int>(ranks));
  PetscCall(guarded(comm_of(pc), [&] { pc->data = new PcData; }));
  pc->ops->setup = pc_setup;
  pc->ops->apply = pc_apply;
  pc->ops->reset = pc_reset;
  pc->ops->destroy = pc_destroy;
  pc->ops->view = pc_view;
  pc->ops->setfromoptions = pc_set_from_options;
  return PetscErrorCode(0);
}

inline PetscErrorCode require_type(PC pc) {
  PetscBool ours = PETSC_FALSE;
  PetscCall(PetscObjectTypeCompare(object(pc), PCPROTEAN, &ours));
  PetscCheck(ours, comm_of(pc), PETSC_ERR_ARG_WRONG,
             "the PC is not of type protean; call PCSetType(pc, \"protean\") first");
  return PetscErrorCode(0);
}

}  // namespace detail

// Registers the type. Once, after PetscInitialize(): then -pc_type protean, with -pc_protean_type (default: fields) and
// each option of our preconditioners, such as -pc_protean_inner "u amg, p jacobi".
inline PetscErrorCode PCRegisterProtean() {
  PetscCall(PCRegister(PCPROTEAN, detail::pc_create));
  return PetscErrorCode(0);
}

// The rows of this index set form a field of type fields, like PCFieldSplitSetIS(). Each row of the matrix belongs to
// one field. The order of the calls is the order of the fields: a constraint, such as a pressure, is the last one.
// The rows are copied. A set of the same name takes the place of the one before. Wrong rows are an error at the next
// setup, which names row and field. name: a word without a comma; null: the number of the field.
inline PetscErrorCode PCProteanSetFieldIS(PC pc, const char* name, IS rows) {
  PetscCall(detail::require_type(pc));
  return detail::guarded(detail::comm_of(pc), [&] {
    detail::PcData& data = detail::data_of(pc);
    const std::string called = name ? std::string(name) : std::to_string(data.fields.size());
    if (called.empty() || called.find_first_of(", \t\n") != std::string::npos)
      throw protean::BadArgument("the name of a field is '" + called +
                                 "'; it must be a word without a comma");
    PetscInt size = 0;
    const PetscInt* at = nullptr;
    detail::must(ISGetLocalSize(rows, &size));
    detail::must(ISGetIndices(rows, &at));
    std::vector<PetscInt> own(at, at + size);
    detail::must(ISRestoreIndices(rows, &at));
    const auto before = std::find_if(data.fields.begin(), data.fields.end(),
                                     [&](const auto& one) { return one.first == called; });
    if (before != data.fields.end())
      before->second = std::move(own);
    else
      data.fields.emplace_back(called, std::move(own));
    data.M.reset(), pc->setupcalled = 0;
  });
}

// Sets the type of protean::preconditioners(), its options and the number of threads (0: OMP_NUM_THREADS, else what
// affinity and control group allow), for programs. Wrong options are an error at the next setup. What
// options.schur_operator points to must live until then.
inline PetscErrorCode PCProteanSetOptions(PC pc, const char* type,
                                          const protean::PreconditionerOptions& options, int threads = 0) {
  PetscCall(detail::require_type(pc));
  return detail::guarded(detail::comm_of(pc), [&] {
    detail::PcData& data = detail::data_of(pc);
    data.forget();
    data.type = type, data.options = options, data.threads = threads;
    pc->setupcalled = 0;
  });
}

}  // namespace protean_petsc
