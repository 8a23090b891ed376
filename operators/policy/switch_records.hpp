// The name of a storage of a matrix, and the records of changes that took place and of changes that did not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/operators/format_params.hpp>

namespace PROTEAN_EXPORT protean {

struct FormatEntry;  // operators/assembled_matrix.hpp

// Names a storage of a matrix: format, parameters and kernel, or element matrices, and the order of its rows.
struct FormatSpec {
  const FormatEntry* entry = nullptr;
  FormatParams params = {};
  std::string kernel = {};  // empty: the default kernel of the space
  // True: the element matrices of which the operator was made. entry is null then.
  bool elements = false;
  // The order of rows and columns: "none" is the caller's, others are in orderings(). Empty: the present order of the
  // operator. An order without a format (entry is null) keeps the format, its parameters and its kernel.
  std::string order = {};
  // False: the change fails if a GPU would hand the search of the order over to the host (find_order()).
  bool hand_over_order = true;

  // "sell-c-sigma"; "csr/mkl" for a kernel other than native; "element"; "csr in order rcm"; "order rcm";
  // "dia in float" if its parameter `values` says so.
  std::string name() const;
};

// A format that a matrix could have, with the facts known before it is built.
struct SwitchTarget {
  FormatSpec spec;
  bool admitted = true;
  std::string why;        // the reason, if not admitted
  std::size_t bytes = 0;  // may be an estimate
  // How many more it would be with values in the precision of the vectors: the format stores them in float.
  std::size_t saved_bytes = 0;
  bool rounds = false;  // float does not hold all values
  // Seconds that one thread of the host needs for the part of the conversion that was timed on a sample. 0: no part was
  // timed.
  double plan_seconds = 0;
  // Whether it multiplies several vectors in one pass (HasMultiProduct). False: column by column.
  bool one_pass = false;
  // Bytes a second of such a pass, relative to csr; 0: not known.
  double several_bandwidth = 0;
};

// One change of format that took place.
struct SwitchRecord {
  std::int64_t iteration = 0;        // given to switch_to() or adopt_prepared()
  std::int64_t begun_iteration = 0;  // given to prepare(); the same as iteration if not overlapped
  std::string from, to;              // format ids; lma-atomic etc. for element matrices
  std::string from_kernel, to_kernel;
  std::string from_order = "none", to_order = "none";
  std::string from_values,
      to_values;                // AssembledMatrix::stored_values(); of element matrices "double" or "float"
  FormatParams parameters;      // of `to`, complete
  double convert_seconds = 0;   // the build, in whichever thread it ran, with the product for the check
  double assemble_seconds = 0;  // the part of the build that assembled element matrices
  double order_seconds = 0;     // the part of the build that found a new order and permuted the matrix
  double wait_seconds = 0;  // time that the caller waited: all of the build, or the adoption if overlapped
  bool overlapped = false;
  std::string reason;
  std::size_t bytes_before = 0, bytes_after = 0;  // of the two matrices
  std::size_t bytes_peak = 0;  // source (with element matrices), old matrix and new matrix together
};

// Why a requested change did not take place.
enum class SwitchFailure : unsigned char {
  refused,        // format, parameters or kernel are not possible for this matrix, or not exact
  out_of_memory,  // not enough memory next to the source and the running matrix
  failed,         // the build threw an exception
  wrong_product,  // the product of the new matrix differs from the product of the running one
  cancelled       // by cancel(), another prepare(), new values, or the operator's destructor
};
std::string_view to_string(SwitchFailure failure) noexcept;

struct FailedSwitch {
  std::int64_t iteration = 0;  // at which the failure was noticed
  // As requested; kernel and order may be empty. If only an order was requested, `to` and the rest name the running
  // format.
  std::string to, kernel, order;
  FormatParams parameters;  // as requested
  bool overlapped = false;
  std::string reason;  // why the change was requested
  SwitchFailure failure = SwitchFailure::failed;
  std::string why;  // why it did not take place, for a person
};

}  // namespace protean
