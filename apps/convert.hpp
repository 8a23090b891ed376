// `protean convert`.
#pragma once
#include <string>

namespace protean::apps {

// Reads a matrix (.mtx, .mtx.gz, .mtx.xz, .pbin, told by its first bytes) and writes it in the form the name
// `to` ends in. Throws BadArgument for another ending or when both are the same file.
void convert(const std::string& from, const std::string& to, int threads, bool quiet);

}  // namespace protean::apps
