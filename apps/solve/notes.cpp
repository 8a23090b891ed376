#include "apps/solve/notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "apps/report/json.hpp"
#include "core/row_sizes.hpp"
#include "core/statistics.hpp"

namespace protean::apps {

std::string note_on_threads(int threads, int processors) {
  if (threads <= processors) return {};
  return fmt::format(
      "{} threads share {} {}, so that they wait for each other and the solve may take many times as long. "
      "Take operator.threads: {} (--threads {}), or 0 for what there is.",
      threads, processors, processors == 1 ? "processor" : "processors", processors, processors);
}

std::string note_on_unseen_rows(const Context& context, const CsrMatrix<double>& csr,
                                VectorView<const double> b, VectorView<const double> x,
                                const SolverOptions& options, const SolveReport& result) {
  if (csr.pattern.row_ptr.p32 == nullptr && csr.pattern.row_ptr.p64 == nullptr) return {};
  if (!result.converged() || result.rhs_norm == 0) return {};
  const StoppingRule& rule = options.stopping;
  const bool weighted = options.residual_norm == "diagonal";
  const double baseline = rule.baseline == Baseline::rhs ? result.rhs_norm : result.initial_residual;
  const double tolerance = std::max(rule.relative_tolerance * baseline, rule.absolute_tolerance);
  const auto unseen = [&](double limit, bool by_diagonal) {
    return detail::unseen_rows(context, csr, b.data, x.data, limit, by_diagonal);
  };
  const detail::UnseenRows rows = unseen(tolerance, weighted);
  if (rows.count == 0) return {};
  // The same relative tolerance in the norm that counts each row in units of its diagonal.
  const bool diagonal_helps =
      !weighted &&
      2 * unseen(rule.relative_tolerance * detail::weighted_norm(context, csr, b.data), true).count <
          rows.count;
  return fmt::format(
      "The stopping test does not see {} of {} rows, the first of them row {} (from 0), and x does not meet "
      "their equations: {}|b_i| + sum |a_ij x_j|{} is at most {:.1e} there, and the test allows a residual "
      "of {:.1e}. Their unknowns may be wrong altogether. {}",
      grouped(rows.count), grouped(csr.rows()), rows.first, weighted ? "(" : "", weighted ? ") / |a_ii|" : "",
      rows.largest, tolerance,
      diagonal_helps
          ? "Take solver.residual_norm: diagonal, which measures each row in units of its diagonal entry."
          : "Take a smaller solver.relative_tolerance, or scale the unknowns to similar sizes.");
}

void add_note(std::string& text, const std::string& note) {
  if (!note.empty()) text += (text.empty() ? "" : " ") + note;
}

std::string advice_for(const Context& context, const CsrMatrix<double>& csr, std::string_view method,
                       const SolveReport& result) {
  if (result.converged()) return {};
  std::string text = result.advice;
  if (csr.pattern.row_ptr.p32 == nullptr && csr.pattern.row_ptr.p64 == nullptr)
    return text;  // element matrices
  // The solve itself sees entries only that are not small compared with the norm.
  if (find_solver(method).symmetric && result.reason != StopReason::interrupted &&
      !text.starts_with("The matrix is not symmetric")) {
    const double difference = asymmetry(context, csr);
    // All else that the method says of its failure follows from that.
    if (difference > symmetry_tolerance<double>)
      text = fmt::format(
          "The matrix is not symmetric (mirrored entries differ by up to {:.1e} of the largest of their "
          "rows); {} needs a symmetric one: take method gmres, bicgstab or idr, with preconditioner ilu0.",
          difference, method);
  }
  return text;
}

namespace {

// |v . b| / (||v|| ||b||) for v = 1 at the unknowns of null_vectors().
double share_of_rhs(const Context& context, const CsrMatrix<double>& csr, const NullVectors& vectors,
                    VectorView<const double> b) {
  std::vector<double> diagonal(static_cast<std::size_t>(b.size));
  if (!vectors.all) extract_diagonal(context, csr, diagonal.data());
  double sum = 0, ones = 0, squares = 0;
  for (std::int64_t i = 0; i < b.size; ++i) {
    squares += b.data[i] * b.data[i];
    if (vectors.all || !(diagonal[static_cast<std::size_t>(i)] > 0)) sum += b.data[i], ++ones;
  }
  return squares > 0 ? std::abs(sum) / std::sqrt(ones * squares) : 0;
}

}  // namespace

std::string note_on_null_space(const Context& context, const CsrMatrix<double>& csr, bool given,
                               std::optional<bool> symmetric, VectorView<const double> b, double tolerance) {
  if (csr.pattern.row_ptr.p32 == nullptr && csr.pattern.row_ptr.p64 == nullptr)
    return {};  // element matrices
  NullVectors vectors = null_vectors(context, csr);
  const bool constant = vectors.all && !given;
  if (given) vectors.all = false;
  if (!vectors.any()) return {};
  if ((vectors.all || vectors.without_positive_diagonal) && b.size == csr.rows() &&
      (symmetric ? *symmetric : asymmetry<double>(context, csr) <= symmetry_tolerance<double>)) {
    const double share = share_of_rhs(context, csr, vectors, b);
    if (share > tolerance)
      return fmt::format(
          "No x solves the system: the matrix is symmetric and A v = 0 for v = 1 at {}, and 0 elsewhere, but "
          "v . b is not zero. No residual is below {:.2e} ||b||. Check b, or take the part out of it: b := b "
          "- (v . b / v . v) v.",
          in_words(vectors).front(), share);
  }
  return fmt::format(
      "The matrix is singular: A v = 0 for v = 1 at {}, and 0 elsewhere. x is one of many solutions: any "
      "multiple of v may be added. {}",
      fmt::join(in_words(vectors), ", or at "),
      constant ? "The one of smallest norm: solver.null_space: constant, with method cg, fcg or minres."
               : "A program gets the one of smallest norm by Solver::set_null_space(), with method cg, fcg "
                 "or minres.");
}

}  // namespace protean::apps
