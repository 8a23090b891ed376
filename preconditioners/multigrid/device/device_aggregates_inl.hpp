// Couplings, aggregates and tentative prolongators of device_levels.hpp, and the patterns that follow from them.
// Private to preconditioners/.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/multigrid/host/aggregates.hpp"
#include "preconditioners/sparse/device_sparse_inl.hpp"

namespace protean::detail::levels {

// ---- Couplings.

template <class T>
struct Couplings {
  NodesView nodes;
  MatrixView<T> A;
  const std::int32_t *ptr, *col;  // the nodes of the columns of each node
  double unit, square_of_strength;
  double* own;      // norms of diagonal blocks
  double* squares;  // of the norm of the block of each of these nodes; null if each row is a node

  PROTEAN_HOST_DEVICE double square(std::int32_t p) const {
    const double a = static_cast<double>(A.values[p]) / unit;
    return a * a;
  }
  PROTEAN_HOST_DEVICE double square_of_block(std::int32_t e) const {
    return squares ? squares[e] : square(e);
  }
  // Lanes share the blocks.
  template <class Own>
  PROTEAN_HOST_DEVICE void find_squares(std::int64_t node, const Own& lane) const {
    for (std::int32_t e = ptr[node] + lane.id; e < ptr[node + 1]; e += Own::count) {
      const auto begin = static_cast<std::int32_t>(nodes.begin(col[e])),
                 end = static_cast<std::int32_t>(nodes.begin(col[e] + 1));
      double sum = 0;
      for (std::int64_t i = nodes.begin(node); i < nodes.begin(node + 1); ++i)
        for (std::int32_t p = lower_bound(A.col, A.ptr[i], A.ptr[i + 1], begin);
             p < A.ptr[i + 1] && A.col[p] < end; ++p)
          sum += square(p);
      squares[e] = sum;
    }
  }
  PROTEAN_HOST_DEVICE void find_own(std::int64_t node) const {
    const std::int32_t end = ptr[node + 1],
                       e = lower_bound(col, ptr[node], end, static_cast<std::int32_t>(node));
    own[node] = e < end && col[e] == node ? std::sqrt(square_of_block(e)) : 0;
  }
  PROTEAN_HOST_DEVICE bool strong(std::int64_t node, std::int32_t e) const {
    const std::int32_t other = col[e];
    return other != node && square_of_block(e) > square_of_strength * own[node] * own[other];
  }
};

template <class T>
struct FindSquares {
  Couplings<T> couplings;
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t node, const Own& own) const {
    couplings.find_squares(node, own);
  }
};

template <class Work>
bool is_symmetric(const Work& work, const SparsityPattern& pattern) {
  if (pattern.nonzeros == 0) return true;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const one_sided = flag.data();
  const std::int32_t *const ptr = pattern.row_ptr.p32, *const col = pattern.col;
  work.each(pattern.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) {
      const std::int32_t j = col[p], end = ptr[j + 1];
      const std::int32_t at = lower_bound(col, ptr[j], end, static_cast<std::int32_t>(i));
      if (at == end || col[at] != i) raise(one_sided, 1);
    }
  });
  return read(work, one_sided) == 0;
}

template <class T, class Work>
SparsityPattern one_sided_couplings(const Work& work, const Couplings<T>& c, std::int64_t nodes) {
  Buffer<std::int64_t> lengths(work.context, nodes + 1);
  std::int64_t* const length = lengths.data();
  work.each(nodes, [=] PROTEAN_ON_DEVICE(std::int64_t node) {
    std::int64_t count = 0;
    for (std::int32_t e = c.ptr[node]; e < c.ptr[node + 1]; ++e) count += c.strong(node, e);
    length[node] = count;
  });
  auto [ptr, entries] = pointers(work, lengths);
  Buffer<std::int32_t> col(work.context, entries);
  const std::int32_t* const begin = ptr.data();
  std::int32_t* const to = col.data();
  work.each(nodes, [=] PROTEAN_ON_DEVICE(std::int64_t node) {
    std::int32_t at = begin[node];
    for (std::int32_t e = c.ptr[node]; e < c.ptr[node + 1]; ++e)
      if (c.strong(node, e)) to[at++] = c.col[e];
  });
  return pattern_of(nodes, nodes, std::move(ptr), std::move(col));
}

// The nodes of the columns of each node, in which its couplings are looked for.
template <class T, class Work>
SparsityPattern node_pattern(const Work& work, const DeviceLevel<T>& level, const DeviceNodes& nodes) {
  const SparsityPattern& A = level.csr.pattern;
  if (view_of(nodes).single()) return A;
  const double count =
      static_cast<double>(A.rows) / static_cast<double>(std::max<std::int64_t>(nodes.count, 1));
  const double mean =
      static_cast<double>(A.nonzeros) / static_cast<double>(std::max<std::int64_t>(A.rows, 1));
  return unite(work, nodes.count, nodes.count, NodeTerms{view_of(nodes), A.row_ptr.p32, A.col}, mean, count);
}

// What does not depend on the strength: a view, and the memory that it needs.
template <class T>
struct PreparedCouplings {
  Buffer<double> own, squares;
  Couplings<T> view;
};
template <class T, class Work>
PreparedCouplings<T> couplings_of(const Work& work, const DeviceLevel<T>& level, const DeviceNodes& nodes,
                                  const SparsityPattern& near) {
  PreparedCouplings<T> made{Buffer<double>(work.context, nodes.count), {}, {}};
  if (!view_of(nodes).single()) made.squares = Buffer<double>(work.context, near.nonzeros);
  made.view = {
      view_of(nodes),  view_of(level.csr), near.row_ptr.p32, near.col, std::max(level.largest, 1e-300), 0,
      made.own.data(), made.squares.data()};
  const Couplings<T> view = made.view;
  if (view.squares)
    work.rows(nodes.count, lanes_for(near.nonzeros, std::max<std::int64_t>(nodes.count, 1)),
              FindSquares<T>{view});
  work.each(nodes.count, [=] PROTEAN_ON_DEVICE(std::int64_t node) { view.find_own(node); });
  return made;
}

template <class T, class Work>
SparsityPattern strong_couplings(const Work& work, Couplings<T> c, std::int64_t nodes, double strength) {
  c.square_of_strength = strength * strength;
  SparsityPattern one = one_sided_couplings(work, c, nodes);
  if (is_symmetric(work, one)) return one;
  Buffer<std::int32_t> unused;
  const SparsityPattern other = transpose(work, one, unused);
  return unite(work, nodes, nodes,
               UnionTerms{one.row_ptr.p32, one.col, other.row_ptr.p32, other.col, one.nonzeros},
               2 * static_cast<double>(one.nonzeros) / static_cast<double>(nodes), 2);
}

template <class Work>
bool mostly_alone(const Work& work, const SparsityPattern& couplings) {
  if (couplings.rows == 0) return false;
  Buffer<double> alone(work.context, 1);
  const std::int32_t* const ptr = couplings.row_ptr.p32;
  work.sum(couplings.rows, alone.data(),
           [=] PROTEAN_ON_DEVICE(std::int64_t i) { return ptr[i] == ptr[i + 1] ? 1.0 : 0.0; });
  return 2 * read(work, alone.data()) > static_cast<double>(couplings.rows);
}

// Whether the couplings are these, which are symmetric, without making them.
template <class T, class Work>
bool are_couplings(const Work& work, Couplings<T> c, double strength, const SparsityPattern& strong) {
  c.square_of_strength = strength * strength;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const differs = flag.data();
  const std::int32_t *const ptr = strong.row_ptr.p32, *const col = strong.col;
  work.each(strong.rows, [=] PROTEAN_ON_DEVICE(std::int64_t node) {
    std::int32_t at = ptr[node];
    const std::int32_t end = ptr[node + 1];
    bool same = true;
    for (std::int32_t e = c.ptr[node]; e < c.ptr[node + 1]; ++e) {
      const bool expected = at < end && col[at] == c.col[e];
      same = same && c.strong(node, e) == expected;
      at += expected;
    }
    if (!same || at < end) raise(differs, 1);
  });
  return read(work, differs) == 0;
}

template <class Work>
bool same_pattern(const Work& work, const SparsityPattern& a, const SparsityPattern& b) {
  if (a.rows != b.rows || a.nonzeros != b.nonzeros) return false;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const differs = flag.data();
  const std::int32_t *const ptr = a.row_ptr.p32, *const other_ptr = b.row_ptr.p32, *const col = a.col,
                            *const other_col = b.col;
  work.each(a.rows + 1, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    if (ptr[i] != other_ptr[i]) raise(differs, 1);
  });
  work.each(a.nonzeros, [=] PROTEAN_ON_DEVICE(std::int64_t p) {
    if (col[p] != other_col[p]) raise(differs, 1);
  });
  return read(work, differs) == 0;
}
// ---- Aggregates.

// The nodes for which keep(i) is true, in their order, and their number: count, in device memory.
template <class Work, class Keep>
void filter(const Work& work, Buffer<std::int32_t>& nodes, std::int64_t size, std::int32_t* count,
            Keep keep) {
  Buffer<std::int32_t> places(work.context, size + 1), kept(work.context, size);
  std::int32_t *const place = places.data(), *const to = kept.data();
  const std::int32_t* const from = nodes.data();
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t k) { place[k] = keep(from[k]) ? 1 : 0; });
  work.scan(place, size + 1);
  work.each(size + 1, [=] PROTEAN_ON_DEVICE(std::int64_t k) {
    if (k == size)
      *count = place[k];
    else if (place[k] != place[k + 1])
      to[place[k]] = from[k];
  });
  nodes = std::move(kept);
}

struct IsOpen {
  const std::uint64_t* key;
  PROTEAN_HOST_DEVICE bool operator()(std::int32_t i) const {
    return (key[i] & node_states) == undecided_node;
  }
};
struct IsNearOpen {
  IsOpen open;
  const std::int32_t *ptr, *col;
  PROTEAN_HOST_DEVICE bool operator()(std::int32_t i) const {
    if (open(i)) return true;
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p)
      if (open(col[p])) return true;
    return false;
  }
};

// The keys of all nodes, of which some have become roots; the others are 0. As roots_of() of aggregates.cpp.
template <class Work>
Buffer<std::uint64_t> roots_of(const Work& work, const SparsityPattern& graph) {
  const std::int64_t n = graph.rows;
  const std::int32_t *const ptr = graph.row_ptr.p32, *const col = graph.col;
  Buffer<std::uint64_t> keys(work.context, n), nearby(work.context, n), decided(work.context, n);
  Buffer<std::int32_t> open(work.context, n), relays(work.context, n), counts(work.context, 2);
  std::uint64_t *const key = keys.data(), *const near = nearby.data(), *const next = decided.data();
  const IsOpen is_open{key};
  const IsNearOpen is_near_open{is_open, ptr, col};
  std::int32_t *const first = open.data(), *const second = relays.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    key[i] = ptr[i] == ptr[i + 1] ? 0 : node_key(undecided_node, i);
    first[i] = second[i] = static_cast<std::int32_t>(i);
  });
  std::array<std::int32_t, 2> size{static_cast<std::int32_t>(n), static_cast<std::int32_t>(n)};
  for (;;) {
    filter(work, open, size[0], counts.data(), is_open);
    filter(work, relays, size[1], counts.data() + 1, is_near_open);
    copy_bytes(*work.context, size.data(), Space::host, counts.data(), Space::device, sizeof size);
    if (size[0] == 0) return keys;
    const std::int32_t *const opens = open.data(), *const relay = relays.data();
    work.each(size[1], [=] PROTEAN_ON_DEVICE(std::int64_t k) {
      const std::int32_t i = relay[k];
      std::uint64_t best = key[i];
      for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) best = best < key[col[p]] ? key[col[p]] : best;
      near[i] = best;
    });
    work.each(size[0], [=] PROTEAN_ON_DEVICE(std::int64_t k) {
      const std::int32_t i = opens[k];
      std::uint64_t best = near[i];
      for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) best = best < near[col[p]] ? near[col[p]] : best;
      next[i] = best == key[i] ? key[i] | root_node : (best & node_states) == root_node ? 0 : key[i];
    });
    work.each(size[0], [=] PROTEAN_ON_DEVICE(std::int64_t k) { key[opens[k]] = next[opens[k]]; });
  }
}

// The aggregate that most neighbours of a node without one belong to, of several the first.
struct JoinMost {
  const std::int32_t *ptr, *col, *near;
  std::int32_t* aggregate;
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own) const {
    if (near[i] >= 0) return;
    Count best = 0;
    for (std::int32_t p = ptr[i] + own.id; p < ptr[i + 1]; p += Own::count) {
      const std::int32_t a = near[col[p]];
      if (a < 0) continue;
      Count count = 0;
      for (std::int32_t q = ptr[i]; q < ptr[i + 1]; ++q) count += near[col[q]] == a;
      const Count one = count << 32 | (0xffffffffu - static_cast<std::uint32_t>(a));
      best = best < one ? one : best;
    }
    best = own.largest(best);
    if (own.id == 0 && best > 0)
      aggregate[i] = static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(best & 0xffffffffu));
  }
};

template <class Work>
std::int64_t aggregate(const Work& work, const SparsityPattern& graph, Buffer<std::int32_t>& of) {
  const std::int64_t n = graph.rows;
  const std::int32_t *const ptr = graph.row_ptr.p32, *const col = graph.col;
  const Buffer<std::uint64_t> keys = roots_of(work, graph);
  Buffer<std::int32_t> numbers(work.context, n + 1), joined(work.context, n);
  of = Buffer<std::int32_t>(work.context, n);
  const std::uint64_t* const key = keys.data();
  std::int32_t *const number = numbers.data(), *const to = of.data(), *const near = joined.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) { number[i] = key[i] != 0; });
  work.scan(number, n + 1);
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    std::int32_t found = key[i] != 0 ? number[i] : -1;
    // Two roots have no common neighbour.
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p)
      if (key[col[p]] != 0) found = number[col[p]];
    near[i] = to[i] = found;
  });
  work.rows(n, lanes_for(graph.nonzeros, 4 * n), JoinMost{ptr, col, near, to});
  return read(work, number + n);
}

// ---- The tentative prolongator.

// Aggregate a has the nodes members[ptr[a]] .. members[ptr[a + 1] - 1]. Q and R as orthogonalise() has them on a host;
// lanes share the nodes.
struct Orthogonalise {
  NodesView nodes;
  const std::int32_t *members, *ptr;
  const double* values;  // null: see DeviceNodes
  std::int64_t vectors;
  double *Q, *R;  // R: zeros
  std::int64_t* rank;

  template <class Own, class F>
  PROTEAN_HOST_DEVICE void each_row(std::int64_t a, const Own& own, const F& f) const {
    for (std::int32_t m = ptr[a] + own.id; m < ptr[a + 1]; m += Own::count)
      for (std::int64_t i = nodes.begin(members[m]); i < nodes.begin(members[m] + 1); ++i) f(i);
  }
  PROTEAN_HOST_DEVICE double value(std::int64_t row, std::int64_t k) const {
    return values ? values[row * vectors + k] : row % nodes.size == k ? 1.0 : 0.0;
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t a, const Own& own) const {
    double *const r = R + a * vectors * vectors, *const q_of = Q;
    const std::int64_t n = vectors;
    std::int64_t kept = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      double before = 0;
      each_row(a, own, [&](std::int64_t i) {
        const double one = value(i, k);
        q_of[i * n + kept] = one, before += one * one;
      });
      before = own.sum(before);
      for (int pass = 0; pass < 2; ++pass)
        for (std::int64_t q = 0; q < kept; ++q) {
          double dot = 0;
          each_row(a, own, [&](std::int64_t i) { dot += q_of[i * n + q] * q_of[i * n + kept]; });
          dot = own.sum(dot);
          each_row(a, own, [&](std::int64_t i) { q_of[i * n + kept] -= dot * q_of[i * n + q]; });
          if (own.id == 0) r[q * n + k] += dot;
        }
      double after = 0;
      each_row(a, own, [&](std::int64_t i) { after += q_of[i * n + kept] * q_of[i * n + kept]; });
      after = own.sum(after);
      if (!(after > 1e-20 * before)) continue;  // it depends on the columns before
      const double norm = std::sqrt(after);
      each_row(a, own, [&](std::int64_t i) { q_of[i * n + kept] /= norm; });
      if (own.id == 0) r[kept * n + k] = norm;
      ++kept;
    }
    if (own.id == 0) rank[a] = kept;
  }
};

template <class Work>
void orthogonalise(const Work& work, const DeviceNodes& nodes, DeviceStructure& made) {
  const std::int64_t n = nodes.count, count = made.aggregates, vectors = nodes.vectors;
  Buffer<std::uint32_t> keys(work.context, n);
  Buffer<std::int32_t> members(work.context, n), begins(work.context, count + 1);
  std::uint32_t* const key = keys.data();
  std::int32_t *const member = members.data(), *const begin = begins.data();
  const std::int32_t* const of = made.aggregate.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    key[i] = static_cast<std::uint32_t>(of[i] < 0 ? count : of[i]), member[i] = static_cast<std::int32_t>(i);
  });
  work.sort(key, member, n, std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count)))));
  work.each(count + 1, [=] PROTEAN_ON_DEVICE(std::int64_t a) {
    begin[a] = static_cast<std::int32_t>(lower_bound(key, std::int64_t{0}, n, static_cast<std::uint32_t>(a)));
  });
  made.tentative = zeros<double>(work, nodes.rows * vectors);
  Buffer<double> R = zeros<double>(work, count * vectors * vectors);
  Buffer<std::int64_t> ranks(work.context, count + 1);
  double* const r = R.data();
  work.rows(count, lanes_for(n, std::max<std::int64_t>(2 * count, 1)),
            Orthogonalise{view_of(nodes), member, begin, nodes.values.data(), vectors, made.tentative.data(),
                          r, ranks.data()});
  DeviceNodes& coarse = made.coarse;
  auto [first, rows] = pointers(work, ranks);
  coarse.count = count, coarse.rows = rows, coarse.vectors = vectors, coarse.size = 1;
  coarse.values = Buffer<double>(work.context, rows * vectors);
  double* const to = coarse.values.data();
  const std::int32_t* const place = first.data();
  const bool single = vectors == 1 && rows == count;
  if (!single) coarse.of = Buffer<std::int32_t>(work.context, rows);
  std::int32_t* const node = coarse.of.data();
  work.each(count, [=] PROTEAN_ON_DEVICE(std::int64_t a) {
    for (std::int64_t c = place[a]; c < place[a + 1]; ++c) {
      for (std::int64_t k = 0; k < vectors; ++k)
        to[c * vectors + k] = r[(a * vectors + c - place[a]) * vectors + k];
      if (node) node[c] = static_cast<std::int32_t>(a);
    }
  });
  if (!single) coarse.first = std::move(first);
}

template <class Work>
SparsityPattern prolongator_pattern(const Work& work, const DeviceNodes& nodes, const DeviceStructure& made) {
  const SparsityPattern& strong = made.strong;
  const double mean =
      static_cast<double>(strong.nonzeros) / static_cast<double>(std::max<std::int64_t>(nodes.count, 1)) + 1;
  const SparsityPattern near =
      unite(work, nodes.count, made.aggregates,
            NearTerms{strong.row_ptr.p32, strong.col, made.aggregate.data(), strong.nonzeros}, mean, mean);
  const NodesView fine = view_of(nodes), coarse = view_of(made.coarse);
  if (fine.single() && coarse.single()) return near;
  const std::int32_t *const ptr = near.row_ptr.p32, *const col = near.col;
  Buffer<std::int64_t> lengths(work.context, nodes.rows + 1);
  std::int64_t* const length = lengths.data();
  work.each(nodes.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const std::int32_t node = fine.node(i);
    std::int64_t sum = 0;
    for (std::int32_t p = ptr[node]; p < ptr[node + 1]; ++p)
      sum += coarse.begin(col[p] + 1) - coarse.begin(col[p]);
    length[i] = sum;
  });
  auto [begins, entries] = pointers(work, lengths);
  Buffer<std::int32_t> columns(work.context, entries);
  const std::int32_t* const begin = begins.data();
  std::int32_t* const to = columns.data();
  work.each(nodes.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const std::int32_t node = fine.node(i);
    std::int32_t at = begin[i];
    for (std::int32_t p = ptr[node]; p < ptr[node + 1]; ++p)
      for (std::int64_t c = coarse.begin(col[p]); c < coarse.begin(col[p] + 1); ++c)
        to[at++] = static_cast<std::int32_t>(c);
  });
  return pattern_of(nodes.rows, made.coarse.rows, std::move(begins), std::move(columns));
}

template <class T, class Work>
std::shared_ptr<DeviceStructure> structure(const Work& work, const DeviceLevel<T>& level,
                                           const DeviceNodes& nodes, const CouplingRules& rules,
                                           const std::shared_ptr<DeviceStructure>& kept) {
  auto made = std::make_shared<DeviceStructure>();
  {
    const bool single = view_of(nodes).single();
    if (!single) made->near = kept ? kept->near : node_pattern(work, level, nodes);
    const PreparedCouplings<T> prepared =
        couplings_of(work, level, nodes, single ? level.csr.pattern : made->near);
    const Couplings<T>& couplings = prepared.view;
    double strength = rules.strength;
    if (kept && !kept->halved && are_couplings(work, couplings, strength, kept->strong)) return kept;
    made->strong = strong_couplings(work, couplings, nodes.count, strength);
    for (int k = 0; k < rules.most_halvings && mostly_alone(work, made->strong); ++k) {
      made->strong = strong_couplings(work, couplings, nodes.count, strength /= 2);
      made->halved = true;
    }
  }
  if (kept && same_pattern(work, kept->strong, made->strong)) return kept;
  made->aggregates = aggregate(work, made->strong, made->aggregate);
  orthogonalise(work, nodes, *made);
  const std::int64_t rows = made->coarse.rows;
  if (rows == 0 || static_cast<double>(rows) > rules.least_coarsening * static_cast<double>(level.csr.rows()))
    return nullptr;
  made->P = prolongator_pattern(work, nodes, *made);
  made->R = transpose(work, made->P, made->transposition);
  made->AP = product_pattern(work, level.csr.pattern, made->P);
  made->coarse_pattern = product_pattern(work, made->R, made->AP);
  return made;
}

}  // namespace protean::detail::levels
