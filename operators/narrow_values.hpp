// Values of a matrix in float next to vectors in double: what float holds, and the parameter that asks for it.
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
//           float in format csr, which computes with the caller's array
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

namespace detail {

// Whether the values of a kernel may be stored in float while vectors and arithmetic are in double: it has this
// parameter.
bool has_float_values(const Kernel& kernel) noexcept;

// Whether float holds every value as it is, so that products have the same bits. Values that are not finite, and values
// below float's smallest normal number, do not count: a program may have the processor take these for zero. Parallel;
// reads the values once, and stops soon after the first that float rounds. Waits for a device.
bool exact_in_float(const Context& context, const CsrMatrix<double>& csr);

// What is wrong with the first entry that float cannot hold: a finite value that overflows, or one other than zero that
// becomes zero or loses digits below float's smallest normal number. Empty: float holds all, rounded by at most 2^-24
// of each. Names row, column (from 0) and value. Waits for a device.
std::optional<std::string> beyond_float(const Context& context, const CsrMatrix<double>& csr);

// The bytes of a stored value that admit() is asked about: 4 if the parameters ask for float.
std::size_t stored_value_bytes(const FormatParams& params, std::size_t value_bytes);

// Whether make_matrix() stores these values in float. `params` are complete. Throws BadArgument and
// FormatRefused if they ask for what there is not.
bool stores_floats(const FormatEntry& entry, const FormatParams& params, const Context& context,
                   const CsrMatrix<double>& csr);
bool stores_floats(const FormatEntry& entry, const FormatParams& params, const Context& context,
                   const CsrMatrix<float>& csr);

// Parameters of a part of another format: its values are as admit() was asked about, unless they say otherwise.
FormatParams as_admitted(const FormatEntry& entry, std::string_view kernel, Space space, FormatParams params);

// Why a format, or this kernel of it, has no parameter `values`: with the formats that have it.
std::string no_values_param(const FormatEntry& entry, const Kernel* kernel);

}  // namespace detail
}  // namespace protean
