// Matrix Market text files: .mtx, .mtx.gz, .mtx.xz.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <protean/core/csr.hpp>
#include <protean/core/row_stretch.hpp>
#include <protean/core/vector.hpp>

namespace protean {

struct ReadOptions {
  Duplicates duplicates = Duplicates::sum;  // sum: in the file's order
  bool allow_not_finite = false;            // else NaN and Inf are BadFile with the line
  std::size_t memory_limit = 0;             // bytes reading may take; 0: what the machine has
};

// Coordinate or array, real, integer or pattern (values 1), general, symmetric or skew-symmetric; the other
// half of a symmetric file is filled in. A symmetric file may give the lower triangle, as the format demands,
// or the upper one, but not both. Explicit zeros are kept; a zero of an array file is an explicit zero.
// Integers beyond 2^53 are rounded. Complex and hermitian are refused. Lines may end in CR LF, be empty or
// comments, numbers may have a '+' or a Fortran exponent (1.5D3), the last line may lack its end. Compression
// is told by the file's first bytes, not its name.
//
// Parsed in parallel on the context's threads; the result does not depend on their number. Peak memory at
// most 2.5 times the matrix before repeated entries are added (3 for an array). Throws BadFile with line and
// column, and OutOfMemory, before anything is allocated, when the sizes stated cannot fit.
CsrMatrix<double> read_matrix_market(const ContextPtr& context, const std::string& path,
                                     const ReadOptions& options = {});

// The same of a file's bytes in memory, compressed or not; `name` stands for the path in messages.
CsrMatrix<double> read_matrix_market_text(const ContextPtr& context, const std::string& name,
                                          std::string_view text, const ReadOptions& options = {});

// A vector: an array file of one column (or one row), or a coordinate file of such a shape, zero
// where it has no entry.
Vector<double> read_vector_market(const ContextPtr& context, const std::string& path,
                                  const ReadOptions& options = {});

// Written to a temporary file beside `path` and renamed: there is a whole file or none. The fewest
// digits that give the same bits when read. Compressed when the name ends in .gz or .xz.
void write_matrix_market(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                         const std::string& comment = {});
void write_vector_market(const std::string& path, VectorView<const double> vector,
                         const std::string& comment = {});

// The same file from rows handed over in stretches, of which none is kept. Without commit(), which is to
// follow the last stretch, nothing is left.
class MatrixMarketWriter final : public RowReceiver {
 public:
  MatrixMarketWriter(ContextPtr context, const std::string& path, std::string comment = {});
  ~MatrixMarketWriter() override;
  void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) override;
  void take(const RowStretch& stretch) override;
  // Throws BadArgument while rows are missing.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// .mtx, .mtx.gz, .mtx.xz or .pbin, told by the file's first bytes.
CsrMatrix<double> read_matrix(const ContextPtr& context, const std::string& path,
                              const ReadOptions& options = {});

}  // namespace protean
