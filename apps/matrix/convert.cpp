#include "apps/matrix/convert.hpp"
#include "apps/report/output.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/command/files.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/progress.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/statistics.hpp"

namespace protean::apps {
namespace {

bool is_binary(const std::string& path) { return path.ends_with(".pbin"); }

Symmetry symmetry_of(const Context& context, const CsrMatrix<double>& matrix) {
  const bool symmetric = matrix.rows() == matrix.cols() && matrix.rows() > 0 &&
                         !first_asymmetry(context, matrix.pattern, matrix.values);
  return symmetric ? Symmetry::symmetric : Symmetry::general;
}

}  // namespace

void require_matrix_name(const std::string& path) {
  if (path == AtomicFile::standard_output) return;
  if (!is_binary(path) && !path.ends_with(".mtx") && !path.ends_with(".mtx.gz") && !path.ends_with(".mtx.xz"))
    throw BadArgument(fmt::format(
        "'{}': the name must end in .mtx, .mtx.gz, .mtx.xz or .pbin, which says what to write", path));
}

void write_matrix(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                  const std::string& comment) {
  if (is_binary(path))
    write_pbin(context, path, matrix);
  else
    write_matrix_market(context, path, matrix, comment, symmetry_of(context, matrix));
}

void convert(const std::string& from, const std::string& to, double scale, int threads, bool quiet) {
  const Place scale_place{std::make_shared<const std::string>("--scale"), 0, 0};
  if (!(std::isfinite(scale) && scale != 0))
    fail(scale_place, fmt::format("{:g} is no factor; give a finite number other than 0", scale));
  require_matrix_name(to);
  CommandFiles files;
  files.reads("the matrix", from);
  files.writes("the new file", to);
  files.require_inputs();
  files.require_outputs();

  Progress progress(!quiet);
  const auto begin = std::chrono::steady_clock::now();
  const ContextPtr context = Context::host(threads);
  progress.stage("reading " + from);
  const CsrMatrix<double> matrix = scaled(context, read_matrix(context, from), scale, scale_place);
  const auto middle = std::chrono::steady_clock::now();
  progress.stage("writing " + to);
  write_matrix(*context, to, matrix);
  progress.clear();
  if (quiet) return;
  const auto end = std::chrono::steady_clock::now();
  const auto size_of = [](const std::string& path) {
    std::error_code code;
    const auto size = std::filesystem::file_size(path, code);
    return code ? std::string("a pipe") : human_bytes(static_cast<std::size_t>(size));
  };
  const auto took = [](auto a, auto b) { return duration(std::chrono::duration<double>(b - a).count()); };
  print_beside(to == AtomicFile::standard_output,
               fmt::format("{} ({}) -> {} ({})\n{} x {}, {} nonzeros; read {}, written {}\n", from,
                           size_of(from), to, size_of(to), matrix.rows(), matrix.cols(), matrix.nonzeros(),
                           took(begin, middle), took(middle, end)));
}

}  // namespace protean::apps
