// Files of vectors, by the ending of their name: Matrix Market (.mtx, .mtx.gz, .mtx.xz), or NumPy's .npy.
#pragma once
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/core/io/matrix_market.hpp>
#include <protean/core/vector.hpp>

namespace PROTEAN_EXPORT protean {

namespace PROTEAN_HIDDEN detail {
// "'.mtx', '.mtx.gz', ...": the endings that write_vector() takes, for messages.
std::string_view vector_file_endings() noexcept;
bool is_vector_file_name(const std::string& path) noexcept;
}  // namespace detail

// Writes an AtomicFile: it is complete or not there. A .npy file has version 1.0, type `<f8` (IEEE double, little
// endian) and shape (size,), and no comment. Any other name is written as Matrix Market array, compressed for .gz and
// .xz. The vector lies in host memory (WrongSpace). Throws Error.
void write_vector(const std::string& path, VectorView<const double> vector, const std::string& comment = {});

// Reads a file of either kind, or the right-hand side in a Harwell-Boeing file; its first bytes decide which it is. A
// pipe cannot be a .npy file, which has numbers of type <f8, <f4, <i8 or <i4 in one row or one column. Throws BadFile
// for other types and shapes, for a damaged file and, unless allow_not_finite is set, for NaN and Inf.
// Source: NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays".
Vector<double> read_vector(const ContextPtr& context, const std::string& path,
                           const ReadOptions& options = {});

// Files of several vectors, all of one length: a Matrix Market array (or coordinate file) with one column for each
// vector, or a .npy file of shape (size, columns), in either order of its entries. read_vectors() returns them one
// after another; a file of one row is one vector. write_vectors() writes .npy files in column-major order
// (fortran_order). Otherwise like the functions above.
VectorColumns read_vectors(const ContextPtr& context, const std::string& path,
                           const ReadOptions& options = {});
void write_vectors(const std::string& path, MultiVectorView<const double> vectors,
                   const std::string& comment = {});

}  // namespace protean
