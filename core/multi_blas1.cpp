// Checks arguments and splits the rows into fixed chunks; the loops are in multi_blas1_simd.cpp.
#include "core/multi_blas1.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/blas1.hpp"
#include "core/blas1_instances.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_loops.hpp"
#include "core/multi_sums.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/multi_blas1.hpp"
#endif

namespace protean {
namespace {

using detail::is_plain_zero;
using detail::multi_loops;
using detail::run_of;
using detail::Scalars;
using detail::Size;
using detail::sum_chunks;
using detail::values;

// Leaves the function if the operation is one of a GPU. A macro, since builds without CUDA have no such functions.
#if defined(PROTEAN_HAVE_CUDA)
#define PROTEAN_ON_DEVICE(call, ...)                            \
  const detail::DeviceWork device_work(context, {__VA_ARGS__}); \
  const detail::DeviceScope device_scope(context);              \
  if (context.space() == Space::device && !context.simulated()) return device::call
#else
#define PROTEAN_ON_DEVICE(call, ...) const detail::DeviceWork device_work(context, {__VA_ARGS__})
#endif

template <class T>
void check_dense(const MultiVectorView<const T>& V, Size rows, Size columns) {
  if (V.rows != rows || V.columns != columns)
    throw ShapeMismatch(fmt::format("vectors of one operation are {} x {} and {} x {}; they must agree", rows,
                                    columns, V.rows, V.columns));
  if (V.layout != VectorLayout::interleaved || V.stride != V.columns)
    throw BadArgument("the vectors of this operation must be interleaved, without gaps");
}
template <class T>
void check_like(const MultiVectorView<T>& shape, std::initializer_list<MultiVectorView<const T>> others) {
  for (const MultiVectorView<const T>& V : others) check_dense<T>(V, shape.rows, shape.columns);
}

template <class T>
void check_diagonal(const VectorView<const T>& d, const MultiVectorView<T>& like) {
  if (d.size > 0 && d.size != like.rows)
    throw ShapeMismatch(fmt::format("a diagonal has {} entries, the vectors {}", d.size, like.rows));
}

}  // namespace

template <class T>
void copy_columns(const Context& context, MultiVectorView<const T> from, MultiVectorView<T> to,
                  std::span<const ColumnPair> pairs) {
  if (from.rows != to.rows)
    throw ShapeMismatch(
        fmt::format("vectors of one operation have {} and {} entries; they must agree", from.rows, to.rows));
  if (pairs.empty() || to.rows == 0) return;
  PROTEAN_ON_DEVICE(copy_columns<T>(context, from, to, pairs), from.data, to.data);
  const Size fi = from.row_step(), fj = from.column_step(), ti = to.row_step(), tj = to.column_step();
  parallel(useful_parts(context, to.rows * std::ssize(pairs)), [&](int part, int parts) {
    const Range range = even_range(to.rows, part, parts, 64);
    // Rows in strips, so that the lines of interleaved vectors are in the cache when the next vector needs them.
    constexpr Size strip = 512;
    for (Size begin = range.begin; begin < range.end; begin += strip) {
      const Size end = std::min(begin + strip, range.end);
      for (const ColumnPair pair : pairs) {
        T* const out = to.data + pair.to * tj;
        if (pair.from < 0) {
          for (Size i = begin; i < end; ++i) out[i * ti] = T(0);
        } else {
          const T* const in = from.data + pair.from * fj;
          for (Size i = begin; i < end; ++i) out[i * ti] = in[i * fi];
        }
      }
    }
  });
}

template <class T>
void multi_scale(const Context& context, std::type_identity_t<T> a, MultiVectorView<T> V) {
  if (V.extent() == 0 || a == T(1)) return;
  PROTEAN_ON_DEVICE(multi_scale<T>(context, a, V), V.data);
  // Lines: what lies side by side.
  const bool by_columns = V.layout == VectorLayout::columns;
  const Size lines = by_columns ? V.columns : V.rows, length = by_columns ? V.rows : V.columns;
  parallel(useful_parts(context, V.rows * V.columns), [&](int part, int parts) {
    const Range range = even_range(lines * length, part, parts);
    Size line = length > 0 ? range.begin / length : 0, at = range.begin - line * length;
    for (Size left = range.size(); left > 0; ++line, at = 0) {
      const Size count = std::min(left, length - at);
      T* const v = V.data + line * V.stride + at;
      for (Size i = 0; i < count; ++i) v[i] = a == T(0) ? T(0) : a * v[i];
      left -= count;
    }
  });
}

template <class T>
void multi_residual(const Context& context, MultiVectorView<const T> B, MultiVectorView<T> R,
                    std::span<const ColumnPair> pairs, T* result) {
  check_like<T>(R, {});
  if (B.rows != R.rows)
    throw ShapeMismatch(
        fmt::format("vectors of one operation have {} and {} entries; they must agree", B.rows, R.rows));
  if (pairs.empty()) return;
  PROTEAN_ON_DEVICE(multi_residual<T>(context, B, R, pairs, result), B.data, R.data, result);
  const Size w = R.columns, bi = B.row_step(), bj = B.column_step(), count = std::ssize(pairs);
  sum_chunks<T>(
      context, R.rows, count, 1,
      [&](Size begin, Size end, T* sums) {
        std::fill_n(sums, count, T(0));
        constexpr Size strip = 512;
        for (Size first = begin; first < end; first += strip)
          for (Size k = 0; k < count; ++k) {
            T* const r = R.data + pairs[static_cast<std::size_t>(k)].to;
            const T* const b = B.data + pairs[static_cast<std::size_t>(k)].from * bj;
            T sum = 0;
            for (Size i = first; i < std::min(first + strip, end); ++i) {
              const T ri = b[i * bi] - r[i * w];
              r[i * w] = ri, sum += ri * ri;
            }
            sums[k] += sum;
          }
      },
      [&](int, Size k, T total) { result[pairs[static_cast<std::size_t>(k)].to] = total; });
}

template <class T>
void multi_dot(const Context& context, MultiVectorView<const T> X, MultiVectorView<const T> Y,
               const T* running, T* result) {
  check_dense<T>(X, Y.rows, Y.columns), check_dense<T>(Y, Y.rows, Y.columns);
  if (Y.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_dot<T>(context, X, Y, running, result), X.data, Y.data, running, result);
  const auto& loops = multi_loops<T>();
  sum_chunks<T>(
      context, X.rows, X.columns, 1,
      [&](Size begin, Size end, T* sums) { loops.dot(begin, end, X.columns, X.data, Y.data, sums); },
      [&](int, Size j, T total) {
        if (running[j] != T(0)) result[j] = total;
      });
}

template <class T>
void multi_dot_pair(const Context& context, MultiVectorView<const T> X, MultiVectorView<const T> Y,
                    const T* running, T* xy, T* xx) {
  check_dense<T>(X, Y.rows, Y.columns), check_dense<T>(Y, Y.rows, Y.columns);
  if (Y.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_dot_pair<T>(context, X, Y, running, xy, xx), X.data, Y.data, running, xy, xx);
  const auto& loops = multi_loops<T>();
  sum_chunks<T>(
      context, X.rows, X.columns, 2,
      [&](Size begin, Size end, T* sums) { loops.dot_pair(begin, end, X.columns, X.data, Y.data, sums); },
      [&](int k, Size j, T total) {
        if (running[j] != T(0)) (k == 0 ? xy : xx)[j] = total;
      });
}

template <class T>
void multi_multiply(const Context& context, VectorView<const T> d, MultiVectorView<const T> X,
                    MultiVectorView<T> Y, const T* running) {
  check_like<T>(Y, {X, Y});
  check_diagonal<T>(d, Y);
  if (Y.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_multiply<T>(context, d, X, Y, running), d.data, X.data, Y.data, running);
  const Size w = Y.columns;
  parallel(useful_parts(context, Y.rows * w), [&](int part, int parts) {
    const Range range = even_range(Y.rows, part, parts, 64);
    for (Size i = range.begin; i < range.end; ++i) {
      const T di = d.size > 0 ? d.data[i] : T(1);
      for (Size j = 0; j < w; ++j)
        if (running[j] != T(0)) Y.data[i * w + j] = di * X.data[i * w + j];
    }
  });
}

template <class T>
void multi_scalar_product(const Context& context, std::int64_t vectors, Coefficient<T> a, Coefficient<T> b,
                          const T* running, T* result) {
  if (vectors == 0) return;
  PROTEAN_ON_DEVICE(multi_scalar_product<T>(context, vectors, a, b, running, result), a.numerator,
                    a.denominator, b.numerator, b.denominator, running, result);
  Scalars<T> av = values(a, vectors), bv = values(b, vectors);
  for (Size j = 0; j < vectors; ++j)
    if (running[j] != T(0)) result[j] = av[j] * bv[j];
}

template <class T>
void multi_axpby(const Context& context, Coefficient<T> a, MultiVectorView<const T> X, Coefficient<T> b,
                 MultiVectorView<T> Y, const T* running, T* result) {
  const bool read_x = !is_plain_zero(a), read_y = !is_plain_zero(b);
  check_like<T>(Y, {Y});
  if (read_x) check_like<T>(Y, {X});
  const Size w = Y.columns;
  if (w == 0) return;
  PROTEAN_ON_DEVICE(multi_axpby<T>(context, a, read_x, X, b, read_y, Y, running, result), a.numerator,
                    a.denominator, b.numerator, b.denominator, read_x ? X.data : nullptr, Y.data, running,
                    result);
  Scalars<T> av = values(a, w), bv = values(b, w);
  const T* const run = run_of(running, w);
  const auto& loops = multi_loops<T>();
  const auto update = [&](Size begin, Size end, T* sums) {
    loops.axpby(begin, end, w, run, read_x ? av.data() : nullptr, X.data, read_y ? bv.data() : nullptr,
                Y.data, sums);
  };
  if (!result)
    return parallel(useful_parts(context, Y.rows * w), [&](int part, int parts) {
      const Range range = even_range(Y.rows, part, parts, 64);
      update(range.begin, range.end, nullptr);
    });
  sum_chunks<T>(context, Y.rows, w, 1, update, [&](int, Size j, T total) {
    if (running[j] != T(0)) result[j] = total;
  });
}

template <class T>
void multi_cg_residual(const Context& context, Coefficient<T> a, MultiVectorView<const T> Q,
                       VectorView<const T> d, MultiVectorView<T> R, const T* running, T* rr, T* next) {
  check_like<T>(R, {Q, R});
  check_diagonal<T>(d, R);
  if (R.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_cg_residual<T>(context, a, Q, d, R, running, rr, next), a.numerator, a.denominator,
                    Q.data, d.data, R.data, running, rr, next);
  const Size w = R.columns;
  Scalars<T> av = values(a, w);
  const T* const run = run_of(running, w);
  const auto& loops = multi_loops<T>();
  const T* const diagonal = d.size > 0 ? d.data : nullptr;
  sum_chunks<T>(
      context, R.rows, w, diagonal && next ? 2 : 1,
      [&](Size begin, Size end, T* sums) {
        loops.cg_residual(begin, end, w, run, av.data(), Q.data, next ? diagonal : nullptr, R.data, sums);
      },
      [&](int k, Size j, T total) {
        if (running[j] == T(0)) return;
        if (k == 0) rr[j] = total;
        if (next && (k == 1 || !diagonal)) next[j] = total;
      });
}

template <class T>
void multi_cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d,
                        MultiVectorView<const T> Z, Coefficient<T> b, MultiVectorView<T> X,
                        MultiVectorView<T> P, const T* running) {
  check_like<T>(P, {Z, X, P});
  check_diagonal<T>(d, P);
  if (P.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_cg_direction<T>(context, a, d, Z, b, X, P, running), a.numerator, a.denominator,
                    b.numerator, b.denominator, d.data, Z.data, X.data, P.data, running);
  const Size w = P.columns;
  Scalars<T> av = values(a, w), bv = values(b, w);
  const auto& loops = multi_loops<T>();
  const T* const diagonal = d.size > 0 ? d.data : nullptr;
  const T* const run = run_of(running, w);
  parallel(useful_parts(context, P.rows * w), [&](int part, int parts) {
    const Range range = even_range(P.rows, part, parts, 64);
    loops.cg_direction(range.begin, range.end, w, run, av.data(), bv.data(), diagonal, Z.data, X.data,
                       P.data);
  });
}

template <class T>
void multi_bicgstab_half(const Context& context, Coefficient<T> a, MultiVectorView<const T> V,
                         VectorView<const T> d, MultiVectorView<T> R, MultiVectorView<T> Z, const T* running,
                         T* rr) {
  check_like<T>(R, {V, R});
  check_diagonal<T>(d, R);
  if (d.size > 0) check_like<T>(R, {Z});
  if (R.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_bicgstab_half<T>(context, a, V, d, R, Z, running, rr), a.numerator, a.denominator,
                    V.data, d.data, R.data, d.size > 0 ? Z.data : nullptr, running, rr);
  const Size w = R.columns;
  Scalars<T> av = values(a, w);
  const T* const run = run_of(running, w);
  const T* const diagonal = d.size > 0 ? d.data : nullptr;
  const auto& loops = multi_loops<T>();
  sum_chunks<T>(
      context, R.rows, w, 1,
      [&](Size begin, Size end, T* sums) {
        loops.bicgstab_half(begin, end, w, run, av.data(), V.data, diagonal, R.data, Z.data, sums);
      },
      [&](int, Size j, T total) {
        if (running[j] != T(0)) rr[j] = total;
      });
}

template <class T>
void multi_bicgstab_update(const Context& context, Coefficient<T> a, MultiVectorView<const T> P,
                           Coefficient<T> o, MultiVectorView<const T> S, MultiVectorView<const T> Tv,
                           MultiVectorView<const T> R0, MultiVectorView<T> X, MultiVectorView<T> R,
                           const T* running, T* rr, T* next) {
  check_like<T>(R, {P, S, Tv, R0, X, R});
  if (R.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_bicgstab_update<T>(context, a, P, o, S, Tv, R0, X, R, running, rr, next),
                    a.numerator, a.denominator, o.numerator, o.denominator, P.data, S.data, Tv.data, R0.data,
                    X.data, R.data, running, rr, next);
  const Size w = R.columns;
  Scalars<T> av = values(a, w), ov = values(o, w);
  const T* const run = run_of(running, w);
  const auto& loops = multi_loops<T>();
  sum_chunks<T>(
      context, R.rows, w, 2,
      [&](Size begin, Size end, T* sums) {
        loops.bicgstab_update(begin, end, w, run, av.data(), ov.data(), P.data, S.data, Tv.data, R0.data,
                              X.data, R.data, sums);
      },
      [&](int k, Size j, T total) {
        if (running[j] != T(0)) (k == 0 ? rr : next)[j] = total;
      });
}

template <class T>
void multi_bicgstab_direction(const Context& context, MultiVectorView<const T> R, Coefficient<T> b,
                              Coefficient<T> o, MultiVectorView<const T> V, VectorView<const T> d,
                              MultiVectorView<T> P, MultiVectorView<T> Z, const T* running) {
  check_like<T>(P, {R, V, P});
  check_diagonal<T>(d, P);
  if (d.size > 0) check_like<T>(P, {Z});
  if (P.columns == 0) return;
  PROTEAN_ON_DEVICE(multi_bicgstab_direction<T>(context, R, b, o, V, d, P, Z, running), b.numerator,
                    b.denominator, o.numerator, o.denominator, R.data, V.data, d.data, P.data,
                    d.size > 0 ? Z.data : nullptr, running);
  const Size w = P.columns;
  Scalars<T> bv = values(b, w), ov = values(o, w);
  const T* const run = run_of(running, w);
  const T* const diagonal = d.size > 0 ? d.data : nullptr;
  const auto& loops = multi_loops<T>();
  parallel(useful_parts(context, P.rows * w), [&](int part, int parts) {
    const Range range = even_range(P.rows, part, parts, 64);
    loops.bicgstab_direction(range.begin, range.end, w, run, bv.data(), ov.data(), R.data, V.data, diagonal,
                             P.data, Z.data);
  });
}

namespace {

template <class T>
void check_block(const MultiVectorBlock<const T>& V, Size rows, Size columns) {
  if (V.rows != rows || V.columns != columns)
    throw ShapeMismatch(fmt::format("vectors of one operation are {} x {} and {} x {}; they must agree", rows,
                                    columns, V.rows, V.columns));
  if (V.count > 1 && V.stride < rows * columns)
    throw BadArgument(
        fmt::format("groups of {} x {} vectors at distances of {} overlap", rows, columns, V.stride));
}

}  // namespace

template <class T>
void multi_block_dot(const Context& context, MultiVectorBlock<const T> V, MultiVectorView<const T> W,
                     const T* running, T* result) {
  check_dense<T>(W, W.rows, W.columns), check_block<T>(V, W.rows, W.columns);
  const Size w = W.columns;
  if (w == 0 || V.count == 0) return;
  PROTEAN_ON_DEVICE(multi_block_dot<T>(context, V, W, running, result), V.data, W.data, running, result);
  const auto& loops = multi_loops<T>();
  sum_chunks<T>(
      context, W.rows, w, static_cast<int>(V.count),
      [&](Size begin, Size end, T* sums) {
        loops.block_dot(begin, end, w, V.data, V.stride, V.count, W.data, sums);
      },
      [&](int i, Size j, T total) {
        if (running[j] != T(0)) result[i * w + j] = total;
      });
}

template <class T>
void multi_block_axpy(const Context& context, std::type_identity_t<T> factor, MultiVectorBlock<const T> V,
                      const T* h, MultiVectorView<T> W, const T* running, T* result) {
  check_like<T>(W, {W}), check_block<T>(V, W.rows, W.columns);
  const Size w = W.columns;
  if (w == 0) return;
  PROTEAN_ON_DEVICE(multi_block_axpy<T>(context, factor, V, h, W, running, result), V.data, h, W.data,
                    running, result);
  Scalars<T> a(V.count * w);
  for (Size i = 0; i < V.count * w; ++i) a[i] = factor * h[i];
  const T* const run = run_of(running, w);
  const auto& loops = multi_loops<T>();
  sum_chunks<T>(
      context, W.rows, w, 1,
      [&](Size begin, Size end, T* sums) {
        if (!result) std::fill_n(sums, w, T(0));
        loops.block_axpy(begin, end, w, run, a.data(), V.data, V.stride, V.count, W.data,
                         result ? sums : nullptr);
      },
      [&](int, Size j, T total) {
        if (result && running[j] != T(0)) result[j] = total;
      });
}

template <class T>
void multi_divide(const Context& context, const T* s, MultiVectorView<T> V, const T* running) {
  check_like<T>(V, {V});
  const Size w = V.columns;
  if (w == 0) return;
  PROTEAN_ON_DEVICE(multi_divide<T>(context, s, V, running), s, V.data, running);
  // A vector that becomes 0 does so whatever numbers it holds.
  Scalars<T> a(w), keep(w);
  for (Size j = 0; j < w; ++j) {
    a[j] = Coefficient<T>(1, nullptr, s + j, Demand::nonzero).value();
    keep[j] = running[j] != T(0) && a[j] != T(0) ? T(1) : T(0);
  }
  const T* const run = run_of<T>(keep.data(), w);
  const auto& loops = multi_loops<T>();
  parallel(useful_parts(context, V.rows * w), [&](int part, int parts) {
    const Range range = even_range(V.rows, part, parts, 64);
    loops.scale(range.begin, range.end, w, run, a.data(), V.data);
  });
}

#define PROTEAN_INSTANTIATE(T)                                                                           \
  PROTEAN_MULTI_BLAS1_INSTANCES(T);                                                                      \
  template void multi_scale<T>(const Context&, std::type_identity_t<T>, MultiVectorView<T>);             \
  template void multi_axpby<T>(const Context&, Coefficient<T>, MultiVectorView<const T>, Coefficient<T>, \
                               MultiVectorView<T>, const T*, T*);                                        \
  template void multi_block_axpy<T>(const Context&, std::type_identity_t<T>, MultiVectorBlock<const T>,  \
                                    const T*, MultiVectorView<T>, const T*, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
