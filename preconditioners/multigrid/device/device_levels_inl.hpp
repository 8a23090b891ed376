// The steps of device_levels.hpp, over a Work (device_work_inl.hpp) that runs them. Private to preconditioners/.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "preconditioners/multigrid/device/device_aggregates_inl.hpp"
#include "preconditioners/multigrid/device/spectral_radius_inl.hpp"
#include "preconditioners/multigrid/host/prolongator.hpp"

namespace protean::detail::levels {

// ---- Values of the prolongator.

// Lanes share the entries of row i of P; each adds up its own in the order of the columns of A.
template <class T>
struct ProlongatorRow {
  NodesView nodes, coarse;
  MatrixView<T> A;
  const double* divisors;
  double omega;
  const std::int32_t *strong_ptr, *strong_col, *aggregate;
  const double* tentative;
  std::int64_t vectors;
  const std::int32_t *ptr, *col;
  T* values;

  PROTEAN_HOST_DEVICE bool joined(std::int32_t node, std::int32_t other) const {
    const std::int32_t end = strong_ptr[node + 1], at = lower_bound(strong_col, strong_ptr[node], end, other);
    return other == node || (at < end && strong_col[at] == other);
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own) const {
    const std::int32_t node = nodes.node(i), end = ptr[i + 1], end_of_A = A.ptr[i + 1];
    const double factor = -omega / divisors[i];
    for (std::int32_t begin = ptr[i]; begin < end; begin += Own::count) {
      const std::int32_t e = begin + own.id;
      const bool mine = e < end;
      const std::int32_t a = mine ? coarse.node(col[e]) : -1;
      const std::int64_t k = mine ? col[e] - coarse.begin(a) : 0;
      double sum = mine && aggregate[node] == a ? tentative[i * vectors + k] : 0;
      for (std::int32_t first = A.ptr[i]; first < end_of_A; first += Own::count) {
        // Each lane looks at one entry of A: its aggregate, and the row and the factor of the tentative prolongator.
        std::int32_t to = -1, from = 0;
        double term = 0;
        if (const std::int32_t p = first + own.id; p < end_of_A) {
          std::int64_t row = A.col[p];
          std::int32_t other = nodes.node(row);
          if (!joined(node, other)) {
            const std::int64_t same = nodes.begin(node) + row - nodes.begin(other);
            row = same < nodes.begin(node + 1) ? same : i, other = node;
          }
          to = aggregate[other], from = static_cast<std::int32_t>(row);
          term = factor * static_cast<double>(A.values[p]);
        }
        const int count = end_of_A - first < Own::count ? end_of_A - first : Own::count;
        for (int s = 0; s < count; ++s) {
          const std::int32_t aggregate_of = own.of(to, s), row = own.of(from, s);
          const double one = own.of(term, s);
          if (mine && aggregate_of == a) sum += one * tentative[row * vectors + k];
        }
      }
      if (mine) values[e] = static_cast<T>(sum);
    }
  }
};

// divisors() of prolongator.hpp
template <class T, class Work>
Buffer<double> divisors(const Work& work, const DeviceLevel<T>& level) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  Buffer<double> made(work.context, level.csr.rows());
  const T* const diagonal = level.diagonal.data();
  const double* const scale = level.scale.data();
  double* const to = made.data();
  work.each(level.csr.rows(), [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const double d = diagonal[i], least = rounding_terms * eps * scale[i];
    to[i] = size_of(d) > least ? d : least > 0 ? least : 1;
  });
  return made;
}

template <class T, class Work>
CsrMatrix<T> prolongator(const Work& work, const DeviceLevel<T>& level, const DeviceNodes& nodes,
                         const DeviceStructure& structure) {
  const Buffer<double> D = divisors(work, level);
  const double omega = 4.0 / 3 / spectral_radius(work, level, D.data());
  const SparsityPattern& P = structure.P;
  Buffer<T> values(work.context, P.nonzeros);
  work.rows(
      P.rows, lanes_for(2 * P.nonzeros, std::max<std::int64_t>(P.rows, 1)),
      ProlongatorRow<T>{view_of(nodes), view_of(structure.coarse), view_of(level.csr), D.data(), omega,
                        structure.strong.row_ptr.p32, structure.strong.col, structure.aggregate.data(),
                        structure.tentative.data(), nodes.vectors, P.row_ptr.p32, P.col, values.data()});
  return matrix_in(P, std::move(values));
}

template <class T, class Work>
CsrMatrix<T> restriction(const Work& work, const CsrMatrix<T>& P, const DeviceStructure& structure) {
  Buffer<T> values(work.context, P.nonzeros());
  T* const to = values.data();
  const T* const from = P.values;
  const std::int32_t* const entry = structure.transposition.data();
  work.each(P.nonzeros(), [=] PROTEAN_ON_DEVICE(std::int64_t p) { to[p] = from[entry[p]]; });
  return matrix_in(structure.R, std::move(values));
}

// ---- Levels.

inline constexpr unsigned diagonal_refused = 1, columns_descend = 2;

// The diagonal, the largest entry, and what is wrong.
template <class T>
struct EntriesOfRow {
  MatrixView<T> A;
  T* diagonal;
  double* scale;  // null except on the finest level
  bool finest, one_for_zero;
  unsigned* refused;
  Count* first_bad;
  PROTEAN_HOST_DEVICE double operator()(std::int64_t i) const {
    T own = 0;
    double size = 0;
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const T value = A.values[p];
      const double one = size_of(static_cast<double>(value));
      if (p > A.ptr[i] && A.col[p] <= A.col[p - 1]) raise(refused, columns_descend);
      if (!is_finite(value))
        lower_to(first_bad, static_cast<Count>(p));
      else
        size = size < one ? one : size;
      if (A.col[p] == i) own = value;
    }
    if (finest && !(is_finite(own) && is_finite(T(1) / own))) {
      if (!one_for_zero) raise(refused, diagonal_refused);
      own = 1;
    }
    diagonal[i] = own;
    if (scale) scale[i] = size_of(static_cast<double>(own));
    return size;
  }
};

struct EntryFindings {
  Count largest = 0, first_bad = ~Count{0};
  unsigned refused = 0;
};

template <class T, class Work>
EntryFindings look_at_entries(const Work& work, DeviceLevel<T>& level, bool finest, bool one_for_zero) {
  EntryFindings found;
  const std::int64_t n = level.csr.rows();
  level.diagonal = Buffer<T>(work.context, n);
  if (n == 0) return found;
  Buffer<EntryFindings> there(work.context, 1);
  copy_bytes(*work.context, there.data(), Space::device, &found, Space::host, sizeof found);
  EntryFindings* const to = there.data();
  work.largest(
      n, &to->largest,
      EntriesOfRow<T>{view_of(level.csr), level.diagonal.data(), finest ? level.scale.data() : nullptr,
                      finest, one_for_zero, &to->refused, &to->first_bad});
  found = read(work, to);
  level.largest = std::bit_cast<double>(found.largest);
  return found;
}

template <class T, class Work>
std::optional<DeviceLevel<T>> finest(const Work& work, const CsrMatrix<T>& csr, bool one_for_zero,
                                     bool& unsorted) {
  DeviceLevel<T> level;
  level.csr = csr;
  if (const std::int64_t* const wide = csr.pattern.row_ptr.p64) {
    struct Narrow {
      Buffer<std::int32_t> ptr;
      std::shared_ptr<const void> columns;
    };
    const auto narrow = std::make_shared<Narrow>(
        Narrow{Buffer<std::int32_t>(work.context, csr.rows() + 1), csr.pattern.owner});
    std::int32_t* const to = narrow->ptr.data();
    work.each(csr.rows() + 1,
              [=] PROTEAN_ON_DEVICE(std::int64_t i) { to[i] = static_cast<std::int32_t>(wide[i]); });
    level.csr.pattern.row_ptr = {narrow->ptr.data(), nullptr}, level.csr.pattern.owner = narrow;
  }
  level.scale = Buffer<double>(work.context, csr.rows());
  const EntryFindings found = look_at_entries(work, level, true, one_for_zero);
  unsorted = (found.refused & columns_descend) != 0;
  if (found.refused != 0 || found.first_bad != ~Count{0}) return std::nullopt;
  return level;
}
template <class T, class Work>
DeviceLevel<T> coarser(const Work& work, const CsrMatrix<T>& csr, const DeviceLevel<T>& level,
                       const DeviceNodes& nodes, const DeviceStructure& structure, std::int64_t& bad) {
  DeviceLevel<T> made;
  made.csr = csr;
  made.scale = Buffer<double>(work.context, csr.rows());
  // coarse_scale() of prolongator.hpp
  Buffer<Count> largest = zeros<Count>(work, structure.aggregates);
  Count* const of_aggregate = largest.data();
  const NodesView fine = view_of(nodes), coarse = view_of(structure.coarse);
  const double* const from = level.scale.data();
  const std::int32_t* const aggregate = structure.aggregate.data();
  double* const to = made.scale.data();
  work.each(nodes.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const std::int32_t a = aggregate[fine.node(i)];
    if (a >= 0) raise_to(of_aggregate + a, bits_of(from[i]));
  });
  work.each(csr.rows(), [=] PROTEAN_ON_DEVICE(std::int64_t c) {
    to[c] = std::bit_cast<double>(of_aggregate[coarse.node(c)]);
  });
  const EntryFindings found = look_at_entries(work, made, false, false);
  bad = found.first_bad == ~Count{0} ? -1 : static_cast<std::int64_t>(found.first_bad);
  return made;
}

// As make_smoother() of aggregation.cpp has it.
template <class T, class Work>
bool l1(const Work& work, const DeviceLevel<T>& level, VectorView<T> inverse) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  if (level.csr.rows() == 0) return true;
  const MatrixView<T> A = view_of(level.csr);
  const T* const diagonal = level.diagonal.data();
  const double* const scale = level.scale.data();
  T* const to = inverse.data;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const overflow = flag.data();
  work.each(level.csr.rows(), [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const double own = size_of(static_cast<double>(diagonal[i]));
    double sum = own;
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (A.col[p] != i) sum += size_of(static_cast<double>(A.values[p]));
    const double from_row = longest_sweep / sum, from_diagonal = 1 / own;
    const double size = from_diagonal < from_row ? from_diagonal : from_row;
    T value = 0;
    // A row of nothing but rounding belongs to a null space of its own.
    if (sum > rounding_terms * eps * scale[i]) value = static_cast<T>(diagonal[i] < T(0) ? -size : size);
    if (!is_finite(value)) raise(overflow, 1);
    to[i] = value;
  });
  return read(work, overflow) == 0;
}

// ---- The inverse of a small matrix.

// The best pivot so far: the largest, entries off the diagonal counting half; of equal ones one on the diagonal, then
// the first.
struct Pivot {
  double size;
  std::int64_t rank;  // i for entry (i, i), n + i n + j for (i, j)
  PROTEAN_HOST_DEVICE static Pivot none() { return {-1, 0}; }
  PROTEAN_HOST_DEVICE void take(const Pivot& other) {
    if (other.size > size || (other.size == size && other.rank < rank)) *this = other;
  }
};

// invert_dense(), a step for each pivot, from one array into another: step k + 1 exchanges row and column of the pivot
// with row and column k, and eliminates; step 0 only copies. f(step, e, pivot) is called for each entry e with the best
// pivot of the step before, and returns its own candidate for the next.
struct EliminateEntry {
  std::int64_t n;
  double smallest;
  double *even, *odd;  // what steps of even numbers read, and what they write
  // The row, and n later the column, of the matrix that each one is.
  std::int32_t *even_order, *odd_order, *rank;

  PROTEAN_HOST_DEVICE Pivot operator()(std::int64_t step, std::int64_t e, const Pivot& pivot) const {
    const std::int64_t k = step - 1;
    const bool is_even = step % 2 == 0;
    const double* const from = is_even ? even : odd;
    const std::int32_t* const order = is_even ? even_order : odd_order;
    std::int32_t* const next_order = is_even ? odd_order : even_order;
    const std::int64_t i = e / n, j = e % n;
    const bool taken = k >= 0 && pivot.size > smallest;
    double value = from[e];
    if (taken) {
      const std::int64_t off = pivot.rank - n, row = off < 0 ? pivot.rank : off / n,
                         column = off < 0 ? pivot.rank : off % n;
      const auto exchanged = [&](std::int64_t at, std::int64_t with) {
        return at == k ? with : at == with ? k : at;
      };
      const std::int64_t si = exchanged(i, row), sj = exchanged(j, column);
      const double inverse = 1 / from[row * n + column];
      if (i == k) {
        value = j == k ? inverse : from[row * n + sj] * inverse;
      } else {
        const double factor = from[si * n + column], above = j == k ? inverse : from[row * n + sj] * inverse;
        value = (j == k ? 0.0 : from[si * n + sj]) - factor * above;
      }
      if (i == 0) next_order[j] = order[exchanged(j, row)], next_order[n + j] = order[n + sj];
      if (e == 0) *rank = static_cast<std::int32_t>(k + 1);
    } else if (i == 0) {
      next_order[j] = order[j], next_order[n + j] = order[n + j];
    }
    (is_even ? odd : even)[e] = value;
    Pivot own = Pivot::none();
    if (i > k && j > k)
      own.size = i == j ? size_of(value) : 0.5 * size_of(value), own.rank = i == j ? i : n + e;
    if (k >= 0 && !taken) own = Pivot::none();
    return own;
  }
};

template <class T, class Work>
bool dense(const Work& work, const DeviceLevel<T>& level, VectorView<T> inverse) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  const std::int64_t n = level.csr.rows();
  if (n == 0) return true;
  const MatrixView<T> A = view_of(level.csr);
  const T* const diagonal = level.diagonal.data();
  const double* const scale = level.scale.data();
  // Of D A D with ones or less on the diagonal, so that the units of the unknowns do not matter.
  Buffer<double> one = zeros<double>(work, n * n), other(work.context, n * n), factors(work.context, n);
  double *a = one.data(), *b = other.data(), *const d = factors.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      a[i * n + A.col[p]] = static_cast<double>(A.values[p]);
    a[i * n + i] = static_cast<double>(diagonal[i]);
    d[i] = scale[i] > 0 ? 1 / std::sqrt(scale[i]) : 1;
  });
  Buffer<EntryFindings> findings = zeros<EntryFindings>(work, 1);
  EntryFindings* const found = findings.data();
  work.largest(n * n, &found->largest, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    a[e] *= d[e / n] * d[e % n];
    return size_of(a[e]);
  });
  Buffer<unsigned> signs = zeros<unsigned>(work, 2);
  unsigned* const flags = signs.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    if (a[i * n + i] < 0) raise(flags, 1);
    if (a[i * n + i] > 0) raise(flags + 1, 1);
  });
  const double largest = std::max(1.0, std::bit_cast<double>(read(work, &found->largest)));
  const double rounding = 1e-2 * std::sqrt(eps) * largest;
  work.each(n * n, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    if (!(size_of(a[e] - a[e % n * n + e / n]) <= rounding)) raise(&found->refused, 1);
  });
  // Rows and columns are exchanged; place k has row and column order[k] and order[n + k].
  Buffer<std::int32_t> orders(work.context, 4 * n), ranks = zeros<std::int32_t>(work, 1);
  std::int32_t *order = orders.data(), *next_order = orders.data() + 2 * n, *const rank = ranks.data();
  work.each(
      n, [=] PROTEAN_ON_DEVICE(std::int64_t i) { order[i] = order[n + i] = static_cast<std::int32_t>(i); });
  work.fold(n * n, n + 1, EliminateEntry{n, rounding_terms * eps * largest, a, b, order, next_order, rank});
  if ((n + 1) % 2 == 1) std::swap(a, b), std::swap(order, next_order);
  // The leading block is the leading block of the inverse. What is left has `instead` on its diagonal: see
  // invert_dense().
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t k) {
    if (k >= *rank && order[k] != order[n + k]) raise(flags, 1), raise(flags + 1, 1);
  });
  work.each(n * n, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    const std::int64_t i = e / n, j = e % n, taken = *rank;
    double value = i < taken && j < taken ? a[e] : 0.0;
    if (flags[0] == 0 || flags[1] == 0) {
      double sum = 0;
      for (std::int64_t q = taken; q < n; ++q) {
        const double left = i < taken ? -a[i * n + q] : static_cast<double>(i == q);
        sum += left * (j < taken ? a[q * n + j] : static_cast<double>(j == q));
      }
      value += sum / (flags[0] == 0 ? largest : -largest);
    }
    b[order[n + i] * n + order[j]] = value;
  });
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const overflow = flag.data();
  T* const to = inverse.data;
  work.each(n * n, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    const std::int64_t i = e / n, j = e % n;
    const double value = found->refused == 0 ? 0.5 * (b[e] + b[j * n + i]) : b[e];
    to[e] = static_cast<T>(value * (d[i] * d[j]));
    if (!is_finite(to[e])) raise(overflow, 1);
  });
  return read(work, overflow) == 0;
}

template <class T, class Work>
class LevelWorkOn final : public LevelWork<T> {
 public:
  explicit LevelWorkOn(ContextPtr context) : work_{std::move(context)} {}

  std::optional<DeviceLevel<T>> finest(const CsrMatrix<T>& csr, bool one_for_zero,
                                       bool& unsorted) const override {
    return levels::finest(work_, csr, one_for_zero, unsorted);
  }
  std::shared_ptr<DeviceStructure> structure(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                                             const CouplingRules& rules,
                                             const std::shared_ptr<DeviceStructure>& kept) const override {
    return levels::structure(work_, level, nodes, rules, kept);
  }
  CsrMatrix<T> prolongator(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                           const DeviceStructure& structure) const override {
    return levels::prolongator(work_, level, nodes, structure);
  }
  CsrMatrix<T> restriction(const CsrMatrix<T>& P, const DeviceStructure& structure) const override {
    return levels::restriction(work_, P, structure);
  }
  CsrMatrix<T> product(const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                       const SparsityPattern& pattern) const override {
    return levels::product(work_, A, B, pattern);
  }
  DeviceLevel<T> coarser(const CsrMatrix<T>& csr, const DeviceLevel<T>& level, const DeviceNodes& nodes,
                         const DeviceStructure& structure, std::int64_t& bad) const override {
    return levels::coarser(work_, csr, level, nodes, structure, bad);
  }
  bool l1(const DeviceLevel<T>& level, VectorView<T> inverse) const override {
    return levels::l1(work_, level, inverse);
  }
  bool dense(const DeviceLevel<T>& level, VectorView<T> inverse) const override {
    return levels::dense(work_, level, inverse);
  }
  SparsityPattern product_pattern(const SparsityPattern& A, const SparsityPattern& B) const override {
    return levels::product_pattern(work_, A, B);
  }
  SparsityPattern couplings(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                            double strength) const override {
    const SparsityPattern near = node_pattern(work_, level, nodes);
    return strong_couplings(work_, couplings_of(work_, level, nodes, near).view, nodes.count, strength);
  }
  std::int64_t aggregate(const SparsityPattern& couplings, Buffer<std::int32_t>& of) const override {
    return levels::aggregate(work_, couplings, of);
  }
  SparsityPattern transpose(const SparsityPattern& pattern,
                            Buffer<std::int32_t>& transposition) const override {
    return levels::transpose(work_, pattern, transposition);
  }
  SparsityPattern triangle(const SparsityPattern& A, bool lower) const override {
    return A.row_ptr.visit(
        [&](const auto* ptr) { return levels::triangle(work_, A.rows, ptr, A.col, lower); });
  }
  Buffer<std::int64_t> places(const Buffer<std::int32_t>& permutation) const override {
    return levels::places(work_, permutation);
  }
  void start_vector(std::uint64_t seed, VectorView<T> x) const override {
    levels::start_vector(work_, seed, x.size, x.data);
  }
  bool positive_divisors(VectorView<const T> d) const override {
    return levels::positive_divisors(work_, d.size, d.data);
  }

 private:
  Work work_;
};

}  // namespace protean::detail::levels
