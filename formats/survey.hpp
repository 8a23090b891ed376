// Estimates the bytes of a matrix in every storage format from a sample of its rows, fast enough for the
// middle of a solve.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/operators/elements/element_operator.hpp>
#include <protean/operators/matrix/matrix.hpp>
#include <protean/operators/policy/cost_model.hpp>

namespace PROTEAN_EXPORT protean {

namespace PROTEAN_HIDDEN detail {
// Bytes of a value in the precision of the vectors. exact_in_float: the values are known to be exact in float, so
// formats on the host that can store them so do (parameter `values`). offer_floats: formats that can store them in
// float are offered so, too, next to the format as it is; why_no_floats: why none of these may be taken.
struct ValueBytes {
  std::size_t of_vectors;
  bool exact_in_float = false, offer_floats = false;
  std::string why_no_floats = {};
  ValueBytes(std::size_t bytes, bool exact = false) noexcept : of_vectors(bytes), exact_in_float(exact) {}
};
// Whether a survey has the kernel that `spec` names. On a host it has all of them. On a GPU it has the first one, and
// others if the table of the model has times of them; of csr the first one alone, which chooses its mapping of threads
// by the lengths of the rows: what tables said of the others, from other matrices, was wrong by factors of 3 to 40.
bool surveyed(const FormatSpec& spec, Space space, const CostModel* model);
}  // namespace detail

// A part of a pattern with the same structure: blocks of neighbouring rows from several places, moved
// together along their diagonals, so that diagonals, blocks and slices are the same as in the whole.
struct PatternSample {
  SparsityPattern pattern;  // as many columns as the shifted blocks need
  double share = 1;         // entries of the sample / entries of the whole
};

// At most about `entries` entries in `blocks` blocks (more if 96 rows have more), whose first rows are
// multiples of 192. The whole pattern if it is not much larger than that. The sample lies in host memory; of a pattern
// in the memory of a device context only its rows are copied. Time O(entries).
PatternSample sample_rows(const ContextPtr& context, const SparsityPattern& pattern,
                          std::int64_t entries = 3072, int blocks = 4);

// Every format of the catalogue with exact values and default parameters, with its kernels in `space` that this build
// has (on a GPU the first one, and others that the table of the model has measured), in the order of the catalogue. The
// admit() of each format is asked about the sample, on the host for both spaces. Formats that pad all rows to one
// length are also asked about the longest row. Bytes are scaled in proportion to csr. Only for patterns in host memory.
// Reads all row pointers and the columns of the sample, in the time of one or two products.
// - deterministic: only kernels with that mode.
// - symmetric: also formats of symmetric matrices. The caller knows that the matrix is symmetric to the bit
//   (first_asymmetry() in core/statistics.hpp), which no sample shows.
// - model: only csr and the formats that may be the fastest by its table (CostModel::may_be_fastest()), since the
//   others would only cost time in the middle of a solve.
std::vector<SwitchTarget> survey_formats(const SparsityPattern& pattern, Space space,
                                         bool deterministic = false, std::size_t value_bytes = 8,
                                         bool symmetric = false, const CostModel* model = nullptr);

// Bytes a second of a product with several vectors in one pass (HasMultiProduct), relative to csr, of this format with
// this kernel of the space; empty: its first one. 0: it multiplies them one by one. A constant of the layout. On a host
// it is the geometric mean over 2, 4 and 8 vectors of five matrices, in processor time of one core of a Xeon with
// AVX-512 next to other work. On a GPU it is an estimate, by the times of 8 vectors of the three matrices of
// docs/results/gpu-products.md and by bytes as on the host.
PROTEAN_HIDDEN double several_bandwidth(const FormatEntry& entry, std::string_view kernel, Space space);

// The first one, for values of which more is known.
PROTEAN_HIDDEN std::vector<SwitchTarget> survey_on_host(const SparsityPattern& pattern, Space space,
                                                        bool deterministic, detail::ValueBytes value_bytes,
                                                        bool symmetric, const CostModel* model);

// The same for a pattern in the memory of the context and formats in that memory. If the pattern is in device memory,
// the rows of the sample are copied to the host, and the longest row is found on the device.
PROTEAN_HIDDEN std::vector<SwitchTarget> survey_formats(const Context& context,
                                                        const SparsityPattern& pattern, bool deterministic,
                                                        detail::ValueBytes value_bytes, bool symmetric,
                                                        const CostModel* model);

// The same for the formats of these ids alone; none without ids.
PROTEAN_HIDDEN std::vector<SwitchTarget> survey_named(const SparsityPattern& pattern,
                                                      std::span<const std::string_view> named, Space space,
                                                      bool deterministic = false,
                                                      detail::ValueBytes value_bytes = 8,
                                                      bool symmetric = false);

// The same for the matrix that element matrices would be assembled into. The matrix is not assembled. The pattern of
// some hundred rows is computed, and all bytes are scaled by the number of rows. It takes the time of a few products
// at most.
template <class T>
PROTEAN_EXPORT std::vector<SwitchTarget> survey_formats(const ElementOperator<T>& elements,
                                                        const CostModel* model = nullptr);

// The survey that the policy makes during a solve (FormatSurvey). It returns the formats of the matrix of A, in the
// order of the rows at the time of the call. If A still consists of element matrices, it returns the formats of the
// assembled matrix. If the matrix is in device memory, the rows of the sample are copied to the host and the longest
// row is found on the device. This takes some milliseconds, on the stream of the calling thread (BackgroundWork).
// on_host: the pattern in host memory, if the caller has it. If background work is cancelled, the survey throws
// Cancelled between two formats. with_floats: formats on the host that can store the values in float are offered so,
// too (parameter `values`: float), unless A has begun in float. They are not admitted if float cannot hold a value,
// which takes a pass over the values to know.
template <class T>
PROTEAN_EXPORT std::vector<SwitchTarget> survey_formats(const Matrix<T>& A, const CostModel& model,
                                                        const SparsityPattern& on_host = {},
                                                        bool with_floats = false);

}  // namespace protean
