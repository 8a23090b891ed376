// Figures 17 and 18 of S1: I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based GPUs,
// InPar 2012, section 8. Finite elements by the degree of their polynomials: CSR, ELLPACK and element matrices (LMA).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/command/clock.hpp"
#include "apps/fem/quadrilaterals.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/elements/element_operator.hpp"
#include "research/reproduce/tools.hpp"
#include "solvers/solver.hpp"

namespace protean::research::exhibits {
namespace {

constexpr double unknowns_of_paper = 4e6;

Cell ours(std::optional<double> value, std::string word = {}) { return {{}, {}, value, std::move(word)}; }

// Iterations of CG a second: the iterations by which a long solve exceeds a short one, over the difference of the
// median times of both. So what a solve does once, at its begin and at its end, does not count: a solve that ends at
// its iteration limit looks for the cause, which takes as long as many iterations on a GPU.
template <class T>
double rate(Lab& lab, const LinearOperator<T>& A) {
  Vector<T> b(lab.context(), A.rows()), x(lab.context(), A.rows());
  fill<T>(*lab.context(), T(1), b);
  constexpr std::int64_t iterations[] = {10, 60};
  std::unique_ptr<Solver<T>> cg[2];
  for (int k : {0, 1}) {
    SolverOptions how;
    how.stopping.relative_tolerance = 0, how.stopping.max_iterations = iterations[k];
    cg[k] = make_solver<T>("cg", how);
  }
  std::vector<double> times[2];
  std::int64_t done[2] = {};
  Clock clock;
  do {
    for (int k : {0, 1}) {
      fill<T>(*lab.context(), T(0), x);
      lab.context()->synchronize();
      const SolveReport report = cg[k]->solve(A, b.view(), x.view());
      times[k].push_back(report.seconds), done[k] = report.iterations;
    }
  } while (times[0].size() < 3 || clock.total() < 4 * lab.limits().seconds);
  const double seconds = median_of(times[1]) - median_of(times[0]);
  // Not faster than the clock can resolve.
  return static_cast<double>(done[1] - done[0]) / std::max(seconds, 1e-6);
}

// Element matrices of the mesh without its boundary.
template <class T>
std::unique_ptr<ElementOperator<T>> elements_of(Lab& lab, const fem::Quadrilaterals& mesh,
                                                ElementScatter scatter) {
  const std::vector<double> one = fem::poisson_on_square(mesh.degree);
  std::vector<T> matrices(static_cast<std::size_t>(mesh.elements()) * one.size());
  for (std::size_t k = 0; k < matrices.size(); ++k) matrices[k] = static_cast<T>(one[k % one.size()]);
  const ElementGroup<T> group[] = {{mesh.elements(), mesh.nodes_of_element(), mesh.connectivity, matrices}};
  ElementOptions options;
  options.scatter = scatter;
  options.constrained = mesh.boundary, options.constrained_rows = ConstrainedRows::eliminate;
  return make_element_operator<T>(lab.context(), mesh.nodes(), group, options);
}

// The longest row: an interior vertex lies in the first lines that have one.
template <class T>
std::int64_t longest_row(const ElementOperator<T>& A, const fem::Quadrilaterals& mesh) {
  const std::int64_t rows = std::min(A.rows(), 2 * mesh.degree * mesh.nodes_of_line());
  const std::pair<std::int64_t, std::int64_t> first[] = {{0, rows}};
  const SparsityPattern pattern = A.pattern_of_rows(first);
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < pattern.rows; ++r) longest = std::max(longest, pattern.row_length(r));
  return longest;
}

// Returns the bytes of element matrices over the bytes of csr.
template <class T>
double measure_degree(Lab& lab, Exhibit& e, int degree, const ElementScatter (&ways)[2]) {
  // A row has up to 36 entries in the mean.
  const double unknowns = std::clamp(static_cast<double>(lab.most_entries()) / 36, 512.0, unknowns_of_paper);
  const int n = std::max(2, static_cast<int>(std::lround((std::sqrt(unknowns) + 1) / degree)));
  lab.show(fmt::format("quadrilaterals of degree {}", degree));
  const fem::Quadrilaterals mesh = fem::square_of_quadrilaterals(n, degree);
  auto elements = elements_of<T>(lab, mesh, ways[0]);
  const auto bytes = static_cast<double>(elements->bytes());
  ExhibitRow line{fmt::format("degree {}", degree), fmt::format("{} rows", elements->rows()), {}};
  const auto length = static_cast<double>(longest_row(*elements, mesh));
  double of_csr = 0;
  {
    const CsrMatrix<T> csr = elements->assemble();
    for (const char* format : {"csr", "ell"}) try {
        const auto A = make_matrix(find_format(format), csr, lab.context());
        if (of_csr == 0) of_csr = static_cast<double>(A->bytes());
        line.cells.push_back(ours(rate(lab, *A)));
      } catch (const FormatRefused& error) {
        line.cells.push_back(ours({}, fmt::format("refused: {}", error.what())));
      }
  }
  line.cells.push_back(ours(rate(lab, *elements)));
  elements.reset();  // so that there is room for the other one
  line.cells.push_back(ours(rate(lab, *elements_of<T>(lab, mesh, ways[1]))));
  line.cells.push_back(ours(length));
  line.cells.push_back(ours(bytes / of_csr));
  e.rows.push_back(std::move(line));
  return bytes / of_csr;
}

void judge_degrees(Exhibit& e, bool single, const std::string& other, const std::vector<double>& bytes) {
  const auto times = [&](int degree, std::string_view column,
                         std::string_view beside) -> std::optional<double> {
    const std::string row = fmt::format("degree {}", degree);
    const auto a = e.ours(row, column), b = e.ours(row, beside);
    if (!a || !b) return {};
    return *a / *b;
  };
  const auto in = [&](std::string_view statement) {
    return fmt::format("{} in {} precision", statement, single ? "single" : "double");
  };
  std::vector<double> gains, of_other;
  for (int degree = 1; degree <= 4; ++degree) {
    if (const auto gain = times(degree, "LMA", "CSR")) gains.push_back(*gain);
    if (const auto gain = times(degree, "LMA", other)) of_other.push_back(*gain);
  }
  const auto list = [](const std::vector<double>& values) {
    std::string text;
    for (const double value : values) text += fmt::format("{}{:.2f}", text.empty() ? "" : ", ", value);
    return text;
  };
  const bool whole = gains.size() == 4 && of_other.size() == 4;
  if (single)
    judge_ours(e, "With atomic operations LMA is more than 50 percent faster than CSR at some degree", "9",
               whole ? Judged{*std::max_element(gains.begin(), gains.end()) > 1.5,
                              fmt::format("{} times CSR at degree 1 to 4", list(gains))}
                     : Judged{});
  else
    judge_ours(e,
               "In double precision LMA performs worse, because its colours are computed one after the other",
               "8.3",
               whole ? Judged{*std::max_element(of_other.begin(), of_other.end()) < 1,
                              fmt::format("{} times atomic operations at degree 1 to 4", list(of_other))}
                     : Judged{});
  judge_ours(
      e, in("The speed of LMA beside CSR grows with the degree, from 1 to 4,"), "8.3",
      whole ? Judged{gains.back() > gains.front(), fmt::format("{} times CSR", list(gains))} : Judged{});
  judge_ours(e, in("The bytes of LMA beside those of CSR are fewer at degree 4 than at degree 1"), "8.3",
             bytes.size() == 4
                 ? Judged{bytes.back() < bytes.front(), fmt::format("LMA / CSR {}", list(bytes))}
                 : Judged{});
}

}  // namespace

Exhibit csr_degrees(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const bool single = entry.id == "s1-figure-17";
  // The paper's GPU has atomic additions in single precision only; in double precision it colours.
  const ElementScatter ways[] = {single ? ElementScatter::atomic : ElementScatter::coloured,
                                 single ? ElementScatter::coloured : ElementScatter::atomic};
  const std::string other = single ? "LMA with colours" : "LMA with atomic operations";
  e.columns = {{"CSR", "CG iterations / s", "csr", 1}, {"ELLPACK", "CG iterations / s", "ell", 1},
               {"LMA", "CG iterations / s", {}, 1},    {other, "CG iterations / s", {}, 1},
               {"row length", "entries", {}, 0},       {"bytes LMA / CSR", "", {}, 3}};
  std::vector<double> bytes;
  for (int degree = 1; degree <= 4 && !lab.interrupted(); ++degree)
    bytes.push_back(single ? measure_degree<float>(lab, e, degree, ways)
                           : measure_degree<double>(lab, e, degree, ways));
  for (const auto& [row, quantity] : {std::pair{0, "row length of degree 1"}, {3, "row length of degree 4"}})
    if (static_cast<std::size_t>(row) < e.rows.size()) {
      Cell& length = e.rows[static_cast<std::size_t>(row)].cells[4];
      length = stated_cell(lab, e, quantity, length.ours);
    }
  Chart chart{"lines", e.title, {"degree", false, false}, {"CG iterations / s", true, false}, {}, {}};
  for (const std::string& column : {std::string("CSR"), std::string("ELLPACK"), std::string("LMA"), other}) {
    Series series{column, false, {}};
    for (std::size_t row = 0; row < e.rows.size(); ++row)
      if (const auto value = e.ours(e.rows[row].name, column))
        series.points.push_back({static_cast<double>(row + 1), *value});
    chart.series.push_back(std::move(series));
  }
  e.charts.push_back(std::move(chart));
  e.limits.emplace_back("The paper draws this figure and prints no numbers but those of its text.");
  note_machine(e, lab, "a Tesla C2070");
  e.limits.push_back(
      fmt::format("Quadrilaterals of the unit square, as in the paper, which has 4 million unknowns; the "
                  "rows here are those of size {}. LMA adds with {}, as the paper does in this precision.",
                  e.size, single ? "atomic operations" : "colours"));
  judge_degrees(e, single, other, bytes);
  return e;
}

}  // namespace protean::research::exhibits
