// The table of all storage formats in this build.
#pragma once
#include <span>
#include <string_view>

#include <protean/operators/assembled_matrix.hpp>

namespace protean {

// All formats, in the order of catalogue.def.
std::span<const FormatEntry* const> catalogue() noexcept;

// Those with a layout of their own: all but presets.
std::span<const FormatEntry* const> layouts() noexcept;

// The format with this id. Throws BadArgument with the nearest name otherwise.
const FormatEntry& find_format(std::string_view id);

// True when two formats are the same computation with this kernel, without parameters of the user: one layout, and the same
// values of all parameters. So a preset that is a mapping of a GPU's threads is its base on the host. False where a preset
// chooses a parameter for the matrix.
bool same_computation(const FormatEntry& one, const FormatEntry& other, const Kernel& kernel);

}  // namespace protean
