// Products of sell-packed with several vectors. Private to this folder.
#pragma once
#include "formats/compressed/sell_packed_layout.hpp"
#include "formats/engines/several/multi_rows.hpp"

namespace protean::formats::packed {

// The rows of a part. A padded lane adds nothing.
void multi_product(const Part<double>& part, const MultiTask<double>& task);
void multi_product(const Part<float>& part, const MultiTask<float>& task);
void multi_product(const Part<float>& part, const MultiTask<double>& task);
void multi_product(const Part<std::uint8_t>& part, const MultiTask<double>& task);

}  // namespace protean::formats::packed
