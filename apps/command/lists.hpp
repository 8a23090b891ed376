// Options of the command that are lists: "csr,ell".
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "formats/choose.hpp"

namespace protean::apps {

// The words between the commas, without empty ones.
std::vector<std::string> words(const std::string& list);

// The value of --spaces: host and device, each at most once, in the order given. Throws BadArgument for other
// words.
std::vector<Space> spaces(const std::string& list);

// The value of --formats: `all`, or ids. In the order of the catalogue, each once. Throws BadArgument for other
// words, and for a list without an id.
std::vector<const FormatEntry*> formats_named(const std::string& list);

// What is compared or shown if --formats is not given: at most `most` of the formats that `format: auto` considers for
// a matrix (rank_formats()), the best ones; in the order of the catalogue. csr and the formats of `always` come in any
// case, other ones only if they are `wanted`.
std::vector<const FormatEntry*> shortlist(
    std::span<const RankedFormat> ranked, std::span<const FormatEntry* const> always = {},
    const std::function<bool(const FormatEntry&)>& wanted = [](const FormatEntry&) { return true; },
    std::size_t most = 12);

}  // namespace protean::apps
