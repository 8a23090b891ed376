#include "core/io/foreign_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

namespace protean::io_detail {
namespace {

// What the user calls the file: a pipe has no name that a command could use.
std::string named(const std::string& path) {
  return path.starts_with("/dev/") || path.starts_with("/proc/") ? "FILE" : path;
}

// A new file next to it.
std::string with_ending(const std::string& path, const std::string& ending) {
  const std::string other = std::filesystem::path(path).replace_extension(ending).string();
  return other == path ? path + ending : other;
}

// Path and new file are arguments, so that no character in them means anything to Python.
std::string python(const std::string& path, const char* ending, std::string_view imports,
                   std::string_view statement) {
  const std::string from = named(path);
  return fmt::format("python3 -c \"import sys{}; {}\" {} {}", imports, statement, shell_quoted(from),
                     shell_quoted(with_ending(from, ending)));
}

std::string by_python(const std::string& path, std::string_view what, std::string_view imports,
                      std::string_view matrix, std::string_view more = {}) {
  return fmt::format("this is {}. Convert it: {}{}", what,
                     python(path, ".mtx", fmt::format(", scipy.io{}", imports),
                            fmt::format("scipy.io.mmwrite(sys.argv[2], {})", matrix)),
                     more);
}

unsigned byte_at(std::string_view bytes, std::size_t k) noexcept {
  return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u;
}

// The name of the first file in a zip archive; empty if it is cut off.
std::string_view first_in_zip(std::string_view bytes) noexcept {
  constexpr std::size_t header = 30;
  const std::size_t length = byte_at(bytes, 26) + (byte_at(bytes, 27) << 8);
  return bytes.size() >= header + length ? bytes.substr(header, length) : std::string_view();
}

std::string zip_archive(std::string_view bytes, const std::string& path) {
  const std::string_view first = first_in_zip(bytes);
  if (first.empty() || first.ends_with(".npy"))
    return by_python(path, "an archive such as scipy.sparse.save_npz writes, which is not read here",
                     ", scipy.sparse", "scipy.sparse.load_npz(sys.argv[1])");
  std::string name;
  for (const char c : first.substr(0, 60)) name += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return fmt::format(
      "this is a zip archive, which is not read here. Unpack it, and give the matrix that is in it (its "
      "first file is '{}{}'): unzip {}",
      name, first.size() > 60 ? "..." : "", shell_quoted(named(path)));
}

// The text of the type in the header of a .npy file: '<f8'.
std::string_view npy_type(std::string_view bytes) noexcept {
  const std::size_t key = bytes.find("'descr': '");
  if (key == std::string_view::npos) return {};
  const std::size_t begin = key + 9, end = bytes.find('\'', begin + 1);
  return end == std::string_view::npos ? std::string_view() : bytes.substr(begin, end + 1 - begin);
}

bool is_vector(std::string_view bytes) noexcept {
  const std::size_t shape = bytes.find("'shape': ("), end = bytes.find(')', shape);
  return end != std::string_view::npos && end > 0 && bytes[end - 1] == ',';
}

std::string numpy_array(std::string_view bytes, const std::string& path) {
  const std::string_view type = npy_type(bytes);
  if (is_vector(bytes))
    return "this is an array of NumPy with one dimension, hence a vector and no matrix; it may be a "
           "right-hand side (--rhs, or rhs.file)";
  if (is_complex(type))
    return by_python(
        path,
        "an array of NumPy with complex numbers, and only real matrices are read. A command makes the real "
        "matrix of twice as many unknowns, first the real parts and then the imaginary ones; b is needed in "
        "the same form",
        ", scipy.sparse, numpy",
        "scipy.sparse.bmat((lambda A: [[A.real, -A.imag], [A.imag, A.real]])"
        "(scipy.sparse.csr_matrix(numpy.load(sys.argv[1]))))");
  if (type == "'|O'")
    return by_python(
        path, "an object that NumPy has pickled, perhaps a sparse matrix, which is not read here",
        ", scipy.sparse, numpy", "scipy.sparse.coo_matrix(numpy.load(sys.argv[1], allow_pickle=True).item())",
        " (unpickling may run code: only if you trust the file)");
  return by_python(path, "an array of NumPy, which may hold a vector here, not a matrix",
                   ", scipy.sparse, numpy", "scipy.sparse.coo_matrix(numpy.load(sys.argv[1]))");
}

}  // namespace

std::string foreign_file(std::string_view first_bytes, const std::string& path) {
  if (first_bytes.starts_with("PK\x03\x04")) return zip_archive(first_bytes, path);
  if (first_bytes.starts_with("\x93NUMPY")) return numpy_array(first_bytes, path);
  if (first_bytes.starts_with("MATLAB"))
    return by_python(path, "a file of MATLAB, which is not read here", "",
                     "scipy.io.loadmat(sys.argv[1])['A']",
                     " (['Problem']['A'][0, 0] instead of ['A'] for a file of the SuiteSparse collection)");
  if (first_bytes.starts_with("\x89HDF"))
    return "this is an HDF5 file, such as MATLAB writes with -v7.3, which is not read here. In MATLAB, "
           "save('A.mat', 'A', '-v7') writes a file that SciPy can convert";
  if (first_bytes.starts_with(std::string_view("\0\x12\x7b\x50", 4)))
    return "this is a binary matrix of PETSc, which is not read here. Write it as Matrix Market: a viewer "
           "with the format PETSC_VIEWER_ASCII_MATRIXMARKET";
  return {};
}

bool is_complex(std::string_view type) noexcept { return type.size() > 2 && type[2] == 'c'; }

std::string complex_vector(std::string_view type, const std::string& path) {
  return fmt::format(
      "has numbers of type {}, which are complex, and only real systems are solved. For a system whose "
      "matrix was made real (real parts of the unknowns first, then imaginary ones), this makes b: {}",
      type.substr(0, 20),
      python(path, ".real.npy", ", numpy",
             "b = numpy.load(sys.argv[1]); numpy.save(sys.argv[2], numpy.concatenate([b.real, b.imag]))"));
}

std::string wide_text(std::string_view first_bytes, const std::string& path) {
  // Without a mark it is known by its ASCII characters, each of which has a zero next to it.
  const auto zeros_at = [&](std::size_t parity) {
    bool all = first_bytes.size() >= 8;
    for (std::size_t k = 0; k < 8 && all; ++k) {
      const auto c = static_cast<unsigned char>(first_bytes[k]);
      all = k % 2 == parity ? c == 0 : std::isprint(c) != 0 || std::isspace(c) != 0;
    }
    return all;
  };
  const bool marked = first_bytes.starts_with("\xff\xfe") || first_bytes.starts_with("\xfe\xff");
  const char* const code = marked ? "UTF-16" : zeros_at(1) ? "UTF-16LE" : zeros_at(0) ? "UTF-16BE" : nullptr;
  if (!code) return {};
  std::string from = named(path), to = from;
  const char* reader = "";
  for (const auto& [ending, program] : {std::pair(".gz", "gzip -dc"), std::pair(".xz", "xz -dc")})
    if (to.ends_with(ending)) to.resize(to.size() - 3), reader = program;
  to = with_ending(to, ".utf8" + std::filesystem::path(to).extension().string());
  const std::string convert = fmt::format("iconv -f {} -t UTF-8", code);
  return fmt::format(
      "this is text in UTF-16, as some programs on Windows write it; UTF-8 is read. Convert it: {} > {}",
      *reader ? fmt::format("{} {} | {}", reader, shell_quoted(from), convert)
              : fmt::format("{} {}", convert, shell_quoted(from)),
      shell_quoted(to));
}

std::string shell_quoted(const std::string& path) {
  const std::string word = path.starts_with('-') ? "./" + path : path;
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace protean::io_detail
