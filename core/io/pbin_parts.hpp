// Private: the checksums of a .pbin file that no process reads as a whole.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace protean::io_detail {

// The checksums of the blocks of 1 MiB of the file's three sections, of which this is share `part` of `parts`: equally
// many neighbouring blocks of each section. The file has been read by read_pbin() with verify false, which has checked
// its header. Reads these blocks.
std::vector<std::uint64_t> pbin_block_sums(const std::string& path, int part, int parts);

// The block sums of all parts, in their order. Throws BadFile, as read_pbin() does, unless they give the checksums in
// the header.
void require_pbin_checksums(const std::string& path, const std::vector<std::vector<std::uint64_t>>& parts);

}  // namespace protean::io_detail
