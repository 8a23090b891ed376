#include "apps/matrix/convert.hpp"
#include "apps/report/output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/progress.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/locality.hpp"
#include "core/permutation.hpp"
#include "core/statistics.hpp"
#include "core/words.hpp"
#include "formats/choose.hpp"

namespace protean::apps {
namespace {

// A column of numbers from 1: row k of the new matrix is this row of the old one.
void write_permutation(const ContextPtr& context, const std::string& path, const Permutation& p,
                       const std::string& order) {
  Vector<double> rows(context, p.size());
  for (std::int64_t k = 0; k < p.size(); ++k) rows[k] = p.order()[k] + 1;
  write_vector_market(path, rows, fmt::format("order {}: line k is the old number of row k, from 1", order));
}

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

void convert(const ConvertArguments& arguments) {
  const auto& [from, to, order, permutation, scale, threads, quiet] = arguments;
  const Place scale_place{std::make_shared<const std::string>("--scale"), 0, 0};
  if (!(std::isfinite(scale) && scale != 0))
    fail(scale_place, fmt::format("{:g} is not a factor; give a finite number other than 0", scale));
  require_matrix_name(to);
  CommandFiles files;
  files.reads("the matrix", from);
  files.writes("the new file", to);
  files.writes("the permutation", permutation);
  if (order.empty() != permutation.empty())
    throw BadArgument(
        "--order and --permutation belong together: the rows of the new matrix are the rows of the old one "
        "in the order that the file of the permutation gives");
  if (order == "none")
    throw BadArgument("--order none keeps the rows where they are; leave out --order and --permutation");
  if (!order.empty()) require_order(order, false);
  files.require_inputs();
  files.require_outputs();

  Progress progress(!quiet);
  const auto begin = std::chrono::steady_clock::now();
  const ContextPtr context = Context::host(threads);
  progress.stage("reading " + from);
  CsrMatrix<double> matrix = scaled(context, read_matrix(context, from), scale, scale_place);
  const auto middle = std::chrono::steady_clock::now();
  std::string ordered;
  if (!order.empty()) {
    progress.stage("ordering");
    const Clock clock;
    const OrderedMatrix<double> found = put_in_order(order, matrix, context);
    const double seconds = clock.total();
    const PermutedMatrix<double>& permuted = *found.ordered;
    const Locality before = locality(*context, matrix.pattern),
                   after = locality(*context, permuted.matrix().pattern);
    ordered = fmt::format("; put into order {} {}, bandwidth {} -> {}, lines of x {} -> {}", order,
                          duration(seconds), before.bandwidth, after.bandwidth, before.lines, after.lines);
    matrix = permuted.matrix();
    write_permutation(context, permutation, permuted.permutation(), order);
  }
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
               fmt::format("{} ({}) -> {} ({})\n{} x {}, {} nonzeros; read {}{}, written {}\n", from,
                           size_of(from), to, size_of(to), matrix.rows(), matrix.cols(), matrix.nonzeros(),
                           took(begin, middle), ordered, took(middle, end)));
}

}  // namespace protean::apps
