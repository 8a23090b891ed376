// Values of a matrix in float, or in a dictionary, next to vectors in double: what float holds, and the parameter that
// asks for it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/csr.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean {

// The parameter of kernels that can store values in float next to vectors in double (docs/precision.md). Products read
// fewer bytes; arithmetic and vectors stay in double.
//   auto    float if it holds every value exactly, which gives the same bits of every product; otherwise double. Never
//           float in format csr, which computes with the caller's array. A dictionary where dictionary_rule() says so
//   double  as the vectors
//   float   rounded to float. The matrix is then the rounded one, also for to_csr(). A Matrix, and so every
//           LinearSystem, keeps the given one, and its solves end by that (HasGivenMatrix)
// For a matrix in float auto and float are the same.
inline constexpr ParamDoc values_param{
    .name = "values",
    .doc =
        "how values are stored next to vectors in double: float: rounded, so a solve corrects its residual with the "
        "values that were given; auto: in float if that rounds none, and not in csr",
    .default_value = "auto",
    .choices = "auto|double|float"};
inline constexpr ParamDoc values_params[] = {values_param};

// The same of kernels that can also look the values up in a table (value_table.hpp).
//   dictionary  a byte for each value, and a table of at most 256 distinct values in double, 0.0 among them. Products
//               have the same bits
inline constexpr ParamDoc table_param{
    .name = values_param.name,
    .doc =
        "how values are stored next to vectors in double: float: rounded, so a solve corrects its residual with the "
        "values that were given; dictionary: a byte each, for at most 256 distinct values; auto: in float if that "
        "rounds none, and not in csr, or in a dictionary where that is faster",
    .default_value = "auto",
    .choices = "auto|double|float|dictionary"};
inline constexpr ParamDoc table_params[] = {table_param};

namespace detail {

// Whether the values of a kernel may be stored in float while vectors and arithmetic are in double: it has this
// parameter.
bool has_float_values(const Kernel& kernel) noexcept;
// Whether the parameter has the word dictionary.
bool has_dictionary(const Kernel& kernel) noexcept;

// When `values: auto` takes a dictionary: the matrix has at most that many distinct values, 0.0 among them, and at
// least that many entries. most_values 0: never.
struct DictionaryRule {
  int most_values = 0;
  std::int64_t least_entries = 0;
};
DictionaryRule dictionary_rule(const Context& context);

// Whether float holds every value as it is, so that products have the same bits. Values that are not finite, and values
// below float's smallest normal number, do not count: a program may have the processor take these for zero. Parallel;
// reads the values once, and stops soon after the first that float rounds. Waits for a device.
bool exact_in_float(const Context& context, const CsrMatrix<double>& csr);

// What is wrong with the first entry that float cannot hold: a finite value that overflows, or one other than zero that
// becomes zero or loses digits below float's smallest normal number. Empty: float holds all, rounded by at most 2^-24
// of each. Names row, column (from 0) and value. Waits for a device.
std::optional<std::string> beyond_float(const Context& context, const CsrMatrix<double>& csr);

// The bytes of a stored value that admit() is asked about: 4 if the parameters ask for float, 1 for a dictionary.
std::size_t stored_value_bytes(const FormatParams& params, std::size_t value_bytes);
std::size_t stored_value_bytes(const ValueStorage& storage, std::size_t value_bytes);
// The bytes of an array of values as a format stores it, with its table.
std::size_t value_array_bytes(std::int64_t stored, std::size_t value_bytes);

// How make_matrix() stores these values. `params` are complete. Throws BadArgument and FormatRefused if they ask for
// what there is not. Waits for a device.
ValueStorage value_storage(const FormatEntry& entry, std::string_view kernel, const FormatParams& params,
                           const Context& context, const CsrMatrix<double>& csr);
ValueStorage value_storage(const FormatEntry& entry, std::string_view kernel, const FormatParams& params,
                           const Context& context, const CsrMatrix<float>& csr);

// Parameters of a part of another format: its values are as admit() was asked about, unless they say otherwise.
FormatParams as_admitted(const FormatEntry& entry, std::string_view kernel, Space space, FormatParams params);

// Why a format, or this kernel of it, has no parameter `values`: with the formats that have it.
std::string no_values_param(const FormatEntry& entry, const Kernel* kernel);

}  // namespace detail
}  // namespace protean
