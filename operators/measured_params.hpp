// Parameters that are chosen by trying: a parameter whose choices have the word `measured` takes the one of its other
// words with which a product takes the least time on this machine. Private to the library.
#pragma once
#include <functional>

#include "operators/assembled_matrix.hpp"

namespace protean::detail {

// Whether a value is `measured`.
bool any_measured(const FormatParams& params);

// The parameters with their default instead of `measured`: for admit(), which sees no values and runs no products.
FormatParams without_measured(std::span<const ParamDoc> docs, FormatParams params);

// Seconds of a product, which the argument queues.
using ProductClock = std::function<double(const std::function<void()>&)>;
// Runs the product some times, waits for the context each time, and returns the least time.
ProductClock clock_of(const Context& context);

// Complete parameters without `measured`. All combinations of the words of measured parameters are tried, in the order
// of the words: each is built and multiplied, and the first one of the least time is taken. The words auto, measured
// and ... are not tried. A combination that the format refuses, or for which there is no memory, is passed over. Throws
// FormatRefused when there is no other, with the last reason, and BadArgument for more than 96 combinations.
template <class T>
FormatParams measured_params(const FormatEntry& entry, std::string_view kernel, const CsrMatrix<T>& csr,
                             const ContextPtr& context, const FormatParams& params, std::size_t most_bytes,
                             const ProductClock& clock);

}  // namespace protean::detail
