#include "preconditioners/multigrid/host/prolongator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "preconditioners/common/entries.hpp"

namespace protean::detail {
namespace {

// y := A x. Four rows at a time, each added up in its order: the sum of one alone would wait for each of its additions.
template <class T>
void product(const Context& context, const CsrMatrix<T>& csr, const std::vector<double>& x,
             std::vector<double>& y) {
  const T* const values = csr.values;
  const std::int32_t* const col = csr.pattern.col;
  const auto& begin = csr.pattern.row_ptr;
  const auto term = [&](std::int64_t p) { return static_cast<double>(values[p]) * x[at(col[p])]; };
  parallel(useful_parts(context, csr.nonzeros()), [&](int part, int parts) {
    constexpr std::int64_t several = 4;
    const Range rows = even_range(csr.rows(), part, parts, several);
    for (std::int64_t i = rows.begin; i < rows.end; i += several) {
      const std::int64_t count = std::min(several, rows.end - i);
      double sum[several] = {};
      std::int64_t done = 0;  // entries of each row
      if (count == several) {
        std::int64_t p[several];
        for (int r = 0; r < several; ++r) p[r] = begin[i + r];
        std::int64_t common = begin[i + several] - p[3];
        for (int r = 0; r < 3; ++r) common = std::min(common, p[r + 1] - p[r]);
        double first = 0, second = 0, third = 0, fourth = 0;
        for (; done < common; ++done)
          first += term(p[0] + done), second += term(p[1] + done), third += term(p[2] + done),
              fourth += term(p[3] + done);
        sum[0] = first, sum[1] = second, sum[2] = third, sum[3] = fourth;
      }
      for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t p = begin[i + r] + done; p < begin[i + r + 1]; ++p) sum[r] += term(p);
        y[at(i + r)] = sum[r];
      }
    }
  });
}

}  // namespace

template <class T>
double prolongator_omega(const Context& context, const CsrMatrix<T>& csr, const std::vector<double>& diagonal,
                         const OtherParts& others) {
  const std::int64_t n = csr.rows();
  std::vector<double> x(at(csr.cols())), y(at(csr.cols())), weight(at(n)), bound(at(n));
  std::uint64_t state = spectral_seed;
  for (std::int64_t i = 0; i < n; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    x[at(i)] = static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
  for_rows(context, n, csr.nonzeros(), [&](std::int64_t i) {
    weight[at(i)] = std::abs(diagonal[at(i)]);
    double sum = 0;
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      sum += std::abs(static_cast<double>(csr.values[p]));
    bound[at(i)] = sum / weight[at(i)];
  });
  const double here = n > 0 ? *std::max_element(bound.begin(), bound.end()) : others.largest ? 0 : 1;
  const double gershgorin = others.largest ? others.largest(here) : here;
  const auto square = [&](const std::vector<double>& v) {
    const double sum =
        fixed_sum(context, n, [&](std::int64_t i) { return weight[at(i)] * v[at(i)] * v[at(i)]; });
    return others.sum ? others.sum(sum) : sum;
  };
  std::array<double, spectral_steps + 1> squares{};
  squares[0] = square(x);
  for (std::size_t k = 0; k < spectral_steps; ++k) {
    const double factor = 1 / std::sqrt(squares[k]);
    if (others.fill) others.fill(x);
    product(context, csr, x, y);
    for_rows(context, n, n, [&](std::int64_t i) { y[at(i)] = factor * y[at(i)] / weight[at(i)]; });
    squares[k + 1] = square(y);
    std::swap(x, y);
  }
  return 4.0 / 3 / spectral_bound(squares, gershgorin);
}

double spectral_bound(std::span<const double, spectral_steps + 1> squares, double gershgorin) {
  double estimate = 0, before = std::sqrt(squares[0]);
  for (std::size_t k = 1; k < squares.size() && before > 0 && std::isfinite(before); ++k)
    estimate = before = std::sqrt(squares[k]);
  constexpr double safety = 1.1;
  const double found = std::isfinite(estimate) && estimate > 0 ? safety * estimate : gershgorin;
  return std::max(std::min(found, gershgorin), 1e-300);
}

template <class T>
std::vector<double> divisors(const Vector<T>& diagonal, const std::vector<double>& scale) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  std::vector<double> result(scale.size());
  for (std::size_t i = 0; i < scale.size(); ++i) {
    const double d = diagonal[static_cast<std::int64_t>(i)], least = rounding_terms * eps * scale[i];
    result[i] = std::abs(d) > least ? d : least > 0 ? least : 1;
  }
  return result;
}

template <class T>
Buffer<T> prolongator_values(const ContextPtr& host, const CsrMatrix<T>& csr,
                             const std::vector<double>& diagonal, double omega, const Nodes& nodes,
                             const Structure& structure) {
  Buffer<T> values(host, structure.P->size());
  parallel(useful_parts(*host, csr.nonzeros()), [&](int part, int parts) {
    const Range rows = even_range(csr.rows(), part, parts);
    std::vector<double> sum(at(structure.coarse.rows()), 0);
    std::vector<std::int32_t> joined(at(nodes.count()), -1);  // the last node that is coupled with it
    // The coarse columns of the aggregate of a node; none if it belongs to no aggregate.
    struct Place {
      std::int32_t node = -1, first = 0, size = 0;  // first: of the coarse columns
      bool strong = false;
    };
    const auto place_of = [&](std::int32_t node) -> Place {
      const std::int32_t a = structure.aggregates.of[at(node)];
      if (a < 0) return {node};
      const std::int32_t first = structure.coarse.first[at(a)];
      return {node, first, structure.coarse.first[at(a + 1)] - first};
    };
    // sum += factor * row i of T
    const auto add = [&](double factor, std::int64_t i, const Place& place) {
      const double* const t = structure.tentative.data() + structure.tentative_ptr[at(i)];
      for (std::int32_t c = 0; c < place.size; ++c) sum[at(place.first + c)] += factor * t[c];
    };
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const std::int32_t node = nodes.of[at(i)];
      if (structure.aggregates.of[at(node)] < 0) continue;
      joined[at(node)] = node;
      for (const std::int32_t other : structure.strong.row(node)) joined[at(other)] = node;
      const double factor = -omega / diagonal[at(i)];
      const Place own = place_of(node);
      add(1, i, own);
      Place last;
      for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p) {
        const std::int64_t j = csr.pattern.col[p];
        const auto a = static_cast<double>(csr.values[p]);
        const std::int32_t other = nodes.of[at(j)];
        if (other != last.node) last = place_of(other), last.strong = joined[at(other)] == node;
        if (last.strong) {
          add(factor * a, j, last);
          continue;
        }
        const std::int64_t same = nodes.first[at(node)] + j - nodes.first[at(other)];
        add(factor * a, same < nodes.first[at(node + 1)] ? same : i, own);
      }
      T* to = values.data() + structure.P->ptr[at(i)];
      for (const std::int32_t c : structure.P->row(i)) *to++ = static_cast<T>(std::exchange(sum[at(c)], 0.0));
    }
  });
  return values;
}

template <class T>
Vector<T> l1_inverse(const ContextPtr& host, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                     const std::vector<double>& scale) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  Vector<T> l1(host, csr.rows());
  for_rows(*host, csr.rows(), csr.nonzeros(), [&](std::int64_t i) {
    double sum = std::abs(static_cast<double>(diagonal[i]));
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      if (csr.pattern.col[p] != i) sum += std::abs(static_cast<double>(csr.values[p]));
    // A row of nothing but rounding belongs to a separate null space.
    const double inverse = std::min(longest_sweep / sum, 1 / std::abs(static_cast<double>(diagonal[i])));
    l1[i] = sum > rounding_terms * eps * scale[at(i)] ? static_cast<T>(std::copysign(inverse, diagonal[i]))
                                                      : T(0);
  });
  require_no_overflow<T>(*host, "amg", l1.data(), l1.size());
  return l1;
}

std::vector<double> coarse_scale(const std::vector<double>& scale, const Nodes& nodes,
                                 const Structure& structure) {
  std::vector<double> of_aggregate(at(structure.aggregates.count), 0), result(at(structure.coarse.rows()));
  for (std::int64_t i = 0; i < nodes.rows(); ++i)
    if (const std::int32_t a = structure.aggregates.of[at(nodes.of[at(i)])]; a >= 0)
      of_aggregate[at(a)] = std::max(of_aggregate[at(a)], scale[at(i)]);
  for (std::int64_t c = 0; c < structure.coarse.rows(); ++c)
    result[at(c)] = of_aggregate[at(structure.coarse.of[at(c)])];
  return result;
}

#define PROTEAN_INSTANTIATE(T)                                                                          \
  template std::vector<double> divisors<T>(const Vector<T>&, const std::vector<double>&);               \
  template Buffer<T> prolongator_values<T>(const ContextPtr&, const CsrMatrix<T>&,                      \
                                           const std::vector<double>&, double, const Nodes&,            \
                                           const Structure&);                                           \
  template Vector<T> l1_inverse<T>(const ContextPtr&, const CsrMatrix<T>&, const Vector<T>&,            \
                                   const std::vector<double>&);                                         \
  template double prolongator_omega<T>(const Context&, const CsrMatrix<T>&, const std::vector<double>&, \
                                       const OtherParts&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
