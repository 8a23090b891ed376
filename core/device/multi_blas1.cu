// Operations on several vectors; the kernels are in multi_kernels.cuh.
#include "core/device/multi_blas1.hpp"

#include <algorithm>

#include "core/blas1_instances.hpp"
#include "core/device/multi_kernels.cuh"

namespace protean::device {

template <class T>
void copy_columns(const Context& context, MultiVectorView<const T> from, MultiVectorView<T> to,
                  std::span<const ColumnPair> all) {
  const DeviceState& state = context.device_state();
  for_pairs(all, [&](const Pairs& pairs) {
    launch(state, copy_columns_kernel<T>, blocks_of_rows(state, to.rows, pairs.count), multi_threads, to.rows,
           Place<const T>(from), Place<T>(to), pairs, state.stop);
  });
}

template <class T>
void multi_scale(const Context& context, T a, MultiVectorView<T> v) {
  const DeviceState& state = context.device_state();
  launch(state, multi_scale_kernel<T>, blocks_for(state, v.rows * v.columns, multi_threads), multi_threads,
         v.rows, static_cast<int>(v.columns), a, Place<T>(v), v.layout == VectorLayout::columns, state.stop);
}

template <class T>
void multi_residual(const Context& context, MultiVectorView<const T> B, MultiVectorView<T> R,
                    std::span<const ColumnPair> all, T* result) {
  for_pairs(all, [&](const Pairs& pairs) {
    reduce_vectors<1>(context, R.rows, pairs.count,
                      ResidualBody<T>{Place<const T>(B), R.data, R.columns, pairs}, result);
  });
}

template <class T>
void multi_dot(const Context& context, MultiVectorView<const T> X, MultiVectorView<const T> Y,
               const T* running, T* result) {
  check_width(X.columns);
  reduce_vectors<1>(context, X.rows, X.columns,
                    DotBody<T>{{running, static_cast<int>(X.columns)}, X.data, Y.data}, result);
}

template <class T>
void multi_scalar_product(const Context& context, std::int64_t vectors, Coefficient<T> a, Coefficient<T> b,
                          const T* running, T* result) {
  check_width(vectors);
  const DeviceState& state = context.device_state();
  launch(state, scalar_product_kernel<T>, 1, multi_threads, static_cast<int>(vectors), a, b, running, result,
         state.stop);
}

template <class T>
void multi_axpby(const Context& context, Coefficient<T> a, bool read_x, MultiVectorView<const T> X,
                 Coefficient<T> b, bool read_y, MultiVectorView<T> Y, const T* running, T* result) {
  check_width(Y.columns);
  const DeviceState& state = context.device_state();
  const int w = static_cast<int>(Y.columns);
  const AxpbyBody<T> body{{running, w}, a,    b,   read_x ? X.data : nullptr, read_y ? Y.data : nullptr,
                          Y.data,       T(0), T(0)};
  if (result) return reduce_vectors<1>(context, Y.rows, Y.columns, body, result);
  launch(state, axpby_kernel<T>, blocks_of_rows(state, Y.rows, w), multi_threads, Y.rows, body, state.stop);
}

template <class T>
void multi_multiply(const Context& context, VectorView<const T> d, MultiVectorView<const T> X,
                    MultiVectorView<T> Y, const T* running) {
  check_width(Y.columns);
  const DeviceState& state = context.device_state();
  launch(state, multi_multiply_kernel<T>, blocks_of_rows(state, Y.rows, static_cast<int>(Y.columns)),
         multi_threads, Y.rows, static_cast<int>(Y.columns), d.size > 0 ? d.data : nullptr, X.data, Y.data,
         running, state.stop);
}

template <class T>
void multi_cg_residual(const Context& context, Coefficient<T> a, MultiVectorView<const T> Q,
                       VectorView<const T> d, MultiVectorView<T> R, const T* running, T* rr, T* next) {
  check_width(R.columns);
  const CgResidualBody<T> body{{running, static_cast<int>(R.columns)}, a,      Q.data,
                               d.size > 0 ? d.data : nullptr,          R.data, T(0)};
  if (next)
    reduce_vectors<2>(context, R.rows, R.columns, body, rr, next);
  else
    reduce_vectors<1>(context, R.rows, R.columns, body, rr);
}

template <class T>
void multi_cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d,
                        MultiVectorView<const T> Z, Coefficient<T> b, MultiVectorView<T> X,
                        MultiVectorView<T> P, const T* running) {
  check_width(P.columns);
  const DeviceState& state = context.device_state();
  launch(state, cg_direction_kernel<T>, blocks_of_rows(state, P.rows, static_cast<int>(P.columns)),
         multi_threads, P.rows, static_cast<int>(P.columns), a, d.size > 0 ? d.data : nullptr, Z.data, b,
         X.data, P.data, running, state.stop);
}

template <class T>
void multi_dot_pair(const Context& context, MultiVectorView<const T> X, MultiVectorView<const T> Y,
                    const T* running, T* xy, T* xx) {
  check_width(X.columns);
  const DotPairBody<T> body{{{running, static_cast<int>(X.columns)}, X.data, Y.data}};
  reduce_vectors<2>(context, X.rows, X.columns, body, xy, xx);
}

template <class T>
void multi_bicgstab_half(const Context& context, Coefficient<T> a, MultiVectorView<const T> V,
                         VectorView<const T> d, MultiVectorView<T> R, MultiVectorView<T> Z, const T* running,
                         T* rr) {
  check_width(R.columns);
  const BiCgStabHalfBody<T> body{
      {running, static_cast<int>(R.columns)}, a, V.data, d.size > 0 ? d.data : nullptr, R.data, Z.data, T(0)};
  reduce_vectors<1>(context, R.rows, R.columns, body, rr);
}

template <class T>
void multi_bicgstab_update(const Context& context, Coefficient<T> a, MultiVectorView<const T> P,
                           Coefficient<T> w, MultiVectorView<const T> S, MultiVectorView<const T> Tv,
                           MultiVectorView<const T> R0, MultiVectorView<T> X, MultiVectorView<T> R,
                           const T* running, T* rr, T* next) {
  check_width(R.columns);
  const BiCgStabUpdateBody<T> body{{running, static_cast<int>(R.columns)},
                                   a,
                                   w,
                                   P.data,
                                   S.data,
                                   Tv.data,
                                   R0.data,
                                   X.data,
                                   R.data,
                                   T(0),
                                   T(0)};
  reduce_vectors<2>(context, R.rows, R.columns, body, rr, next);
}

template <class T>
void multi_bicgstab_direction(const Context& context, MultiVectorView<const T> R, Coefficient<T> b,
                              Coefficient<T> w, MultiVectorView<const T> V, VectorView<const T> d,
                              MultiVectorView<T> P, MultiVectorView<T> Z, const T* running) {
  check_width(P.columns);
  const DeviceState& state = context.device_state();
  launch(state, bicgstab_direction_kernel<T>, blocks_of_rows(state, P.rows, static_cast<int>(P.columns)),
         multi_threads, P.rows, static_cast<int>(P.columns), R.data, b, w, V.data,
         d.size > 0 ? d.data : nullptr, P.data, Z.data, running, state.stop);
}

namespace {

// The sums of groups V.part(first, N).
template <int N, class T>
void few_block_dots(const Context& context, const MultiVectorBlock<const T>& V, std::int64_t first,
                    const MultiVectorView<const T>& W, const T* running, T* result) {
  const DeviceState& state = context.device_state();
  MultiSums<N, T> out{state.partials, state.arrived, {}};
  for (int k = 0; k < N; ++k) out.result[k] = result + (first + k) * W.columns;
  const BlockDotBody<N, T> body{
      {running, static_cast<int>(W.columns)}, V.data + first * V.stride, W.data, V.stride};
  reduce_to<N>(context, W.rows, W.columns, body, out);
}

}  // namespace

template <class T>
void multi_block_dot(const Context& context, MultiVectorBlock<const T> V, MultiVectorView<const T> W,
                     const T* running, T* result) {
  check_width(W.columns);
  // Sums of 8 groups in one kernel leave room for fewer blocks, which are too few for many vectors.
  std::int64_t i = 0;
  if (W.columns <= 16)
    for (; i + 8 <= V.count; i += 8) few_block_dots<8>(context, V, i, W, running, result);
  for (; i + 4 <= V.count; i += 4) few_block_dots<4>(context, V, i, W, running, result);
  if (i + 2 <= V.count) few_block_dots<2>(context, V, i, W, running, result), i += 2;
  if (i < V.count) few_block_dots<1>(context, V, i, W, running, result);
}

template <class T>
void multi_block_axpy(const Context& context, T factor, MultiVectorBlock<const T> V, const T* h,
                      MultiVectorView<T> W, const T* running, T* result) {
  check_width(W.columns);
  const BlockAxpyBody<T> body{
      {running, static_cast<int>(W.columns)}, V.data, h, W.data, V.stride, static_cast<int>(V.count), factor};
  reduce_vectors<1>(context, W.rows, W.columns, body, result);
}

template <class T>
void multi_divide(const Context& context, const T* s, MultiVectorView<T> V, const T* running) {
  check_width(V.columns);
  const DeviceState& state = context.device_state();
  launch(state, multi_divide_kernel<T>, blocks_of_rows(state, V.rows, static_cast<int>(V.columns)),
         multi_threads, V.rows, static_cast<int>(V.columns), s, V.data, running, state.stop);
}

#define PROTEAN_INSTANTIATE(T)                                                                 \
  PROTEAN_MULTI_BLAS1_INSTANCES(T);                                                            \
  template void multi_scale<T>(const Context&, T, MultiVectorView<T>);                         \
  template void multi_axpby<T>(const Context&, Coefficient<T>, bool, MultiVectorView<const T>, \
                               Coefficient<T>, bool, MultiVectorView<T>, const T*, T*);        \
  template void multi_block_axpy<T>(const Context&, T, MultiVectorBlock<const T>, const T*,    \
                                    MultiVectorView<T>, const T*, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device
