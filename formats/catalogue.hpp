// The table of all storage formats in this build.
#pragma once
#include <span>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/operators/assembled_matrix.hpp>

namespace PROTEAN_EXPORT protean {

// All formats, in the order of catalogue.def.
std::span<const FormatEntry* const> catalogue() noexcept;

// The formats with their own layout: all except presets.
std::span<const FormatEntry* const> layouts() noexcept;

// The format with this id. Throws BadArgument, with the nearest name, for an unknown id.
const FormatEntry& find_format(std::string_view id);

namespace PROTEAN_HIDDEN detail {
// True if two formats compute the same with this kernel and without parameters of the user: they have one layout, and
// equal values of all parameters. For example, a preset that only changes how a GPU's threads are used equals its base
// on the host. False if a preset chooses a parameter for each matrix.
bool same_computation(const FormatEntry& one, const FormatEntry& other, const Kernel& kernel);
}  // namespace detail

}  // namespace protean
