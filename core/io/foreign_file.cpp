#include "core/io/foreign_file.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace protean::io_detail {
namespace {

// A statement of Python that makes a sparse matrix of the file {0}.
struct Foreign {
  std::string_view begin, what, imports, matrix, more;
};

constexpr Foreign foreign[] = {
    {"PK\x03\x04", "a zip archive, such as scipy.sparse.save_npz writes, which is not read here",
     ", scipy.sparse", "scipy.sparse.load_npz('{0}')", ""},
    {"\x93NUMPY", "an array of NumPy, which may hold a vector here, not a matrix", ", scipy.sparse, numpy",
     "scipy.sparse.coo_matrix(numpy.load('{0}'))", ""},
    {"MATLAB", "a file of MATLAB, which is not read here", "", "scipy.io.loadmat('{0}')['A']",
     " (['Problem']['A'][0, 0] instead of ['A'] for a file of the SuiteSparse collection)"},
};

// The file beside it that the conversion writes.
std::string converted(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".mtx").string();
}

std::string by_python(const std::string& path, std::string_view what, std::string_view imports,
                      std::string_view matrix, std::string_view more) {
  return fmt::format(
      "this is {}. Convert it: python3 -c \"import scipy.io{}; scipy.io.mmwrite('{}', "
      "{})\"{}",
      what, imports, converted(path), fmt::format(fmt::runtime(matrix), path), more);
}

}  // namespace

std::string foreign_file(std::string_view first_bytes, const std::string& path) {
  for (const Foreign& one : foreign)
    if (first_bytes.starts_with(one.begin))
      return by_python(path, one.what, one.imports, one.matrix, one.more);
  if (first_bytes.starts_with("\x89HDF"))
    return "this is an HDF5 file, such as MATLAB writes with -v7.3, which is not read here. In MATLAB, "
           "save('A.mat', 'A', '-v7') writes a file that SciPy can convert";
  if (first_bytes.starts_with(std::string_view("\0\x12\x7b\x50", 4)))
    return "this is a binary matrix of PETSc, which is not read here. Write it as Matrix Market: a viewer "
           "with "
           "the "
           "format PETSC_VIEWER_ASCII_MATRIXMARKET";
  return {};
}

std::string foreign_name(const std::string& path) {
  for (const char* ending : {".rb", ".hb", ".rua", ".rsa", ".rza", ".psa", ".pua", ".rse"})
    if (path.ends_with(ending))
      return by_python(path, "a Rutherford-Boeing or Harwell-Boeing file by its name, which is not read here",
                       "", "scipy.io.hb_read('{0}')", "");
  return {};
}

}  // namespace protean::io_detail
