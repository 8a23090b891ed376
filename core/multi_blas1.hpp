// Vector operations on several vectors at once, each with its own scalars. As in blas1.hpp, scalars live where the
// vectors live: a reduction leaves one result for each vector there, and an update reads them there. Sums are added
// over parts of the rows whose borders depend on the number of rows only, in a fixed order: the same bits for any
// number of threads. On a GPU the borders depend on the number of vectors, too.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <protean/core/blas1.hpp>
#include <protean/core/context.hpp>
#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>

namespace PROTEAN_EXPORT protean {

// Throws ShapeMismatch, WrongSpace or BadArgument, with the name `what`, unless the view has this shape and space, and
// a stride that keeps its vectors apart and its last entry within the address space.
template <class T>
PROTEAN_EXPORT void require(const MultiVectorView<const T>& view, std::int64_t rows, std::int64_t columns,
                            Space space, std::string_view what);
namespace PROTEAN_HIDDEN detail {
// Throws BadArgument if the memory between the first and the last entry of both overlaps.
template <class T>
void require_apart(const MultiVectorView<const T>& a, const MultiVectorView<const T>& b,
                   std::string_view names);
}  // namespace detail

// to(:, to) := from(:, from); 0 if from is negative.
struct ColumnPair {
  std::int32_t from, to;
};
// For all pairs, of vectors of the same length in the context's space, in any layouts. The two do not overlap.
template <class T>
PROTEAN_EXPORT void copy_columns(const Context& context, MultiVectorView<const T> from, MultiVectorView<T> to,
                                 std::span<const ColumnPair> pairs);

// V := a V, of any layout. With a == 0 V is not read.
template <class T>
PROTEAN_EXPORT void multi_scale(const Context& context, std::type_identity_t<T> a, MultiVectorView<T> V);

// What follows is for layout interleaved without gaps (stride == columns): the vectors of a solver. All have the same
// shape.

// R(:, p.to) := B(:, p.from) - R(:, p.to), result[p.to] := its square, for all pairs; B in any layout. Other columns of
// R and other results stay.
template <class T>
PROTEAN_EXPORT void multi_residual(const Context& context, MultiVectorView<const T> B, MultiVectorView<T> R,
                                   std::span<const ColumnPair> pairs, T* result);

// In the following functions `running` has one number for each vector: if it is 0, the vector and its results stay as
// they are. Coefficients are as in blas1.hpp, with one value for each vector: their pointers are to the numbers of
// vector 0, which the numbers of the other vectors follow.

// result[j] := a_j b_j for that many vectors; a and b may read result.
template <class T>
PROTEAN_EXPORT void multi_scalar_product(const Context& context, std::int64_t vectors, Coefficient<T> a,
                                         Coefficient<T> b, const T* running, T* result);
// y_j := a_j x_j + b_j y_j and, unless result is null, result[j] := y_j . y_j. A coefficient of exactly Coefficient(0)
// does not read its vectors. X may be Y.
template <class T>
PROTEAN_EXPORT void multi_axpby(const Context& context, Coefficient<T> a, MultiVectorView<const T> X,
                                Coefficient<T> b, MultiVectorView<T> Y, const T* running,
                                T* result = nullptr);
// result[j] := x_j . y_j
template <class T>
PROTEAN_EXPORT void multi_dot(const Context& context, MultiVectorView<const T> X, MultiVectorView<const T> Y,
                              const T* running, T* result);
// xy[j] := x_j . y_j, xx[j] := x_j . x_j in one pass
template <class T>
PROTEAN_EXPORT void multi_dot_pair(const Context& context, MultiVectorView<const T> X,
                                   MultiVectorView<const T> Y, const T* running, T* xy, T* xx);
// y_j := d .* x_j; an empty d stands for ones.
template <class T>
PROTEAN_EXPORT void multi_multiply(const Context& context, VectorView<const T> d, MultiVectorView<const T> X,
                                   MultiVectorView<T> Y, const T* running);
// CG: r_j := r_j - a_j q_j; rr[j] := r_j . r_j and, unless next is null, next[j] := r_j . (d .* r_j). An empty d stands
// for ones.
template <class T>
PROTEAN_EXPORT void multi_cg_residual(const Context& context, Coefficient<T> a, MultiVectorView<const T> Q,
                                      VectorView<const T> d, MultiVectorView<T> R, const T* running, T* rr,
                                      T* next);
// CG: x_j := x_j + a_j p_j, then p_j := d .* z_j + b_j p_j. An empty d stands for ones.
template <class T>
PROTEAN_EXPORT void multi_cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d,
                                       MultiVectorView<const T> Z, Coefficient<T> b, MultiVectorView<T> X,
                                       MultiVectorView<T> P, const T* running);

// BiCGStab: p_j := r_j + b_j (p_j - w_j v_j) and, unless d is empty, z_j := d .* p_j.
template <class T>
PROTEAN_EXPORT void multi_bicgstab_direction(const Context& context, MultiVectorView<const T> R,
                                             Coefficient<T> b, Coefficient<T> w, MultiVectorView<const T> V,
                                             VectorView<const T> d, MultiVectorView<T> P,
                                             MultiVectorView<T> Z, const T* running);
// BiCGStab: r_j := r_j + a_j v_j, rr[j] := r_j . r_j and, unless d is empty, z_j := d .* r_j.
template <class T>
PROTEAN_EXPORT void multi_bicgstab_half(const Context& context, Coefficient<T> a, MultiVectorView<const T> V,
                                        VectorView<const T> d, MultiVectorView<T> R, MultiVectorView<T> Z,
                                        const T* running, T* rr);
// BiCGStab: x_j := x_j + a_j p_j + w_j s_j, r_j := r_j - w_j t_j, rr[j] := r_j . r_j, next[j] := r0_j . r_j. s may
// be r.
template <class T>
PROTEAN_EXPORT void multi_bicgstab_update(const Context& context, Coefficient<T> a,
                                          MultiVectorView<const T> P, Coefficient<T> w,
                                          MultiVectorView<const T> S, MultiVectorView<const T> Tv,
                                          MultiVectorView<const T> R0, MultiVectorView<T> X,
                                          MultiVectorView<T> R, const T* running, T* rr, T* next);

// GMRES: `count` groups of vectors, one group after another at distances of `stride`; each has the layout of the
// operations above. Vector j of group i is v_ij.
template <class T>
struct MultiVectorBlock {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0, count = 0;
  Space space = Space::host;

  MultiVectorView<T> group(std::int64_t i) const noexcept {
    return {data + i * stride, rows, columns, columns, VectorLayout::interleaved, space};
  }
  MultiVectorBlock part(std::int64_t first, std::int64_t groups) const noexcept {
    return {data + first * stride, rows, columns, stride, groups, space};
  }
  operator MultiVectorBlock<const T>() const noexcept requires(!std::is_const_v<T>) {
    return {data, rows, columns, stride, count, space};
  }
};
// result[i columns + j] := v_ij . w_j for all groups i. W is read once for every few groups.
template <class T>
PROTEAN_EXPORT void multi_block_dot(const Context& context, MultiVectorBlock<const T> V,
                                    MultiVectorView<const T> W, const T* running, T* result);
// w_j := w_j + factor * sum_i h[i columns + j] v_ij and, unless result is null, result[j] := w_j . w_j
template <class T>
PROTEAN_EXPORT void multi_block_axpy(const Context& context, std::type_identity_t<T> factor,
                                     MultiVectorBlock<const T> V, const T* h, MultiVectorView<T> W,
                                     const T* running, T* result = nullptr);
// v_j := v_j / s[j], or 0 if s[j] is 0. Unlike above, a vector that does not run becomes 0: later products with it are
// 0, and its numbers neither grow nor shrink.
template <class T>
PROTEAN_EXPORT void multi_divide(const Context& context, const T* s, MultiVectorView<T> V, const T* running);

}  // namespace protean
