// Matrix Market text files (.mtx, .mtx.gz, .mtx.xz), and Harwell-Boeing files (.rua, .rsa, .rb ...).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/core/row_stretch.hpp>
#include <protean/core/vector.hpp>

namespace PROTEAN_EXPORT protean {

struct ReadOptions {
  Duplicates duplicates = Duplicates::sum;  // sum: in the order of the file
  bool allow_not_finite = false;            // false: NaN and Inf throw BadFile with the line
  std::size_t memory_limit = 0;  // most bytes that reading may take; 0: all memory that the machine has
};

// Reads coordinate or array files, real, integer or pattern (all values 1), general, symmetric or
// skew-symmetric. The other half of a symmetric matrix is filled in. A symmetric file may hold the lower
// triangle, as the format demands, or the upper one, but not both. Explicit zeros are kept, also on the diagonal
// of a skew-symmetric matrix; a zero of an array file is an explicit zero. Integers beyond 2^53 are rounded.
// Complex and hermitian files are refused. Lines may end in CR LF, be empty or be comments. Numbers may have a
// '+' or a Fortran exponent (1.5D3). The last line need not end in a newline, and the text may begin with the mark
// of UTF-8. The first bytes of the file decide whether it is compressed, not its name.
//
// A text whose third line has a type such as RUA or rsa is a Harwell-Boeing or Rutherford-Boeing file. Assembled
// matrices are read (types R, I or P, then U, R, S or Z, then A) by the rules of their formats, with the same treatment
// of symmetry, repeated entries and limits; elemental and complex ones are refused. One thread parses such a file, and
// peak memory is at most 4.5 times the matrix.
//
// The threads of the context parse other files in parallel; the result does not depend on their number. Peak memory is
// at most 2.5 times the matrix before repeated entries are added (3 times for an array). Throws BadFile with line and
// column, also if finite repeated values add up to infinity. A header is refused if it states more than 2^24 rows or
// columns and fewer than one entry for 16 of them (vectors may be that sparse). Throws OutOfMemory, before anything is
// allocated, if a matrix of the stated sizes cannot fit.
CsrMatrix<double> read_matrix_market(const ContextPtr& context, const std::string& path,
                                     const ReadOptions& options = {});

// Reads the bytes of a file in memory, compressed or not. Messages show `name` instead of a path.
CsrMatrix<double> read_matrix_market_text(const ContextPtr& context, const std::string& name,
                                          std::string_view text, const ReadOptions& options = {});

// Reads a vector: an array file of one column or one row, or a coordinate file of such a shape. Entries that a
// coordinate file does not have are 0. A Harwell-Boeing file gives its right-hand sides.
Vector<double> read_vector_market(const ContextPtr& context, const std::string& path,
                                  const ReadOptions& options = {});
// The same for a file of several columns: all vectors, one after another. A file of one row is one vector.
struct VectorColumns {
  Vector<double> entries;
  std::int64_t columns = 1;
};
VectorColumns read_vectors_market(const ContextPtr& context, const std::string& path,
                                  const ReadOptions& options = {});

// Writes an AtomicFile: it is complete or absent. Values have the fewest digits from which the same bits are read
// again. The file is compressed if its name ends in .gz or .xz. Symmetry::symmetric writes the lower triangle, and
// `symmetric` in the header. The matrix must then be symmetric in pattern and values (first_asymmetry()): entries above
// the diagonal are not looked at.
enum class Symmetry : unsigned char { general, symmetric };
void write_matrix_market(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                         const std::string& comment = {}, Symmetry symmetry = Symmetry::general);
void write_vector_market(const std::string& path, VectorView<const double> vector,
                         const std::string& comment = {});
// An array of several columns.
void write_vectors_market(const std::string& path, MultiVectorView<const double> vectors,
                          const std::string& comment = {});

// Writes the same file from blocks of rows ("stretches"), none of which is kept in memory. Call commit()
// after the last stretch; without it no file remains.
class MatrixMarketWriter final : public RowReceiver {
 public:
  MatrixMarketWriter(ContextPtr context, const std::string& path, std::string comment = {});
  ~MatrixMarketWriter() override;
  void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) override;
  void take(const RowStretch& stretch) override;
  // Throws BadArgument while rows are missing.
  void commit();

 private:
  struct PROTEAN_HIDDEN State;
  std::unique_ptr<State> state_;
};

// Reads what read_matrix_market() reads, or .pbin; the first bytes of the file decide which it is. duplicates and
// memory_limit have no meaning for .pbin.
CsrMatrix<double> read_matrix(const ContextPtr& context, const std::string& path,
                              const ReadOptions& options = {});

}  // namespace protean
