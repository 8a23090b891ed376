// .pbin files: the arrays of a CSR matrix as they are in memory, so that a file can be mapped instead of
// read.
//
//   byte   0  8 bytes   "\x89PBIN\r\n\x1a"; not text; a transfer that rewrites line ends damages it
//          8  uint32    version, 1
//         12  uint32    0x0a0b0c0d in the byte order of the whole file
//         16  uint32    bytes of a row pointer: 4 or 8
//         20  uint32    type of the values: 1 = IEEE double
//         24  3 int64   rows, columns, entries
//         48  3 uint64  where row pointers, columns and values begin, multiples of 64
//         72  uint64    bytes of the file
//         80  3 uint64  checksums of row pointers, columns and values
//        104  2 uint64  0
//        120  uint64    checksum of bytes 0 .. 119
//        128  rows + 1 row pointers, columns (int32), values, each section padded with zeros to 64 bytes
//
// Checksum of a section, all arithmetic modulo 2^64, K = 0x9e3779b97f4a7c15, L = 0xbf58476d1ce4e5b9: cut it
// into blocks of 1 MiB, a block into 64-bit words w_0, w_1, ... (the last one filled up with zeros). Four
// lanes start at h_j = (j + 1) K; word i does h_j = rotl((h_j ^ w_i) K, 29) with j = i mod 4. The block's sum
// is B = its bytes, then B = rotl(B ^ h_j, 27) L for j = 0 .. 3; the section's is S = its bytes, then S =
// rotl(S ^ B, 27) L for each block, and S ^ (S >> 32) in the end. Each step is a bijection, so a change
// within one word is always noticed; blocks are independent, so threads can check them.
#pragma once
#include <memory>
#include <string>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/row_stretch.hpp>

namespace PROTEAN_EXPORT protean {

// Maps the file. The arrays are the pages of the file, shared with other processes and read on first use. The file may
// be replaced meanwhile (the writers here rename) but must not be shortened. verify: check the checksums, the
// invariants of CSR and, unless allow_not_finite is set, that every value is finite. This reads every page once.
// Without it only the header is checked. Throws BadFile if there is no such file, if it is not an ordinary file, if
// magic, version, byte order, sizes or a checksum are wrong, and if the arrays are not a valid matrix (entries in the
// message count from 0).
CsrMatrix<double> read_pbin(const ContextPtr& context, const std::string& path, bool verify = true,
                            bool allow_not_finite = false);

// Writes an AtomicFile: it is complete or not there. Throws Error.
void write_pbin(const Context& context, const std::string& path, const CsrMatrix<double>& matrix);

// Writes the same file from blocks of rows ("stretches"). It keeps 8 MiB of each of the three sections in
// memory. `path` must be an ordinary file. Call commit() after the last stretch; without it no file remains.
class PbinWriter final : public RowReceiver {
 public:
  PbinWriter(ContextPtr context, const std::string& path);
  ~PbinWriter() override;
  void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) override;
  // Throws BadArgument for rows that do not follow the rows before them, and for more entries than begin()
  // was given.
  void take(const RowStretch& stretch) override;
  // Throws BadArgument while rows are missing.
  void commit();

 private:
  struct PROTEAN_HIDDEN State;
  std::unique_ptr<State> state_;
};

// True if the file begins as a .pbin file does. Throws BadFile if it cannot be opened.
bool is_pbin(const std::string& path);

}  // namespace protean
