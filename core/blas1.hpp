// Vector operations. All vectors of one call have the same length and lie in the context's space, else ShapeMismatch or
// WrongSpace is thrown; outputs must not overlap other arguments unless a function says so. Scalars live where the
// vectors live: a reduction leaves its result there and an update reads it there, so that a solver's loop never waits
// for the host. Reductions add fixed parts in a fixed order: the same bits for the same number of threads, and in
// deterministic mode (HostOptions) for any number of threads and in any fused operation.
#pragma once
#include <cstdint>
#include <type_traits>

#include <protean/core/context.hpp>
#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>

namespace PROTEAN_EXPORT protean {

// What a Coefficient requires of its denominator. If the requirement fails, the coefficient is 0: an update with it
// changes nothing, and a solver that finds the trouble afterwards still has its last good iterate.
enum class Demand : unsigned char { nothing, nonzero, positive };

// factor * (*numerator) / (*denominator), evaluated where it is used; a null pointer stands for 1.
// The pointers are into the context's space and are read when the operation runs.
template <class T>
struct Coefficient {
  T factor = 1;
  const T* numerator = nullptr;
  const T* denominator = nullptr;
  Demand demand = Demand::nothing;

  Coefficient() = default;
  Coefficient(T value) : factor(value) {}
  Coefficient(T value, const T* top, const T* bottom = nullptr, Demand of_bottom = Demand::nothing)
      : factor(value), numerator(top), denominator(bottom), demand(of_bottom) {}

  // The space in which the pointers can be read.
  T value() const noexcept {
    const T top = numerator ? *numerator : T(1), bottom = denominator ? *denominator : T(1);
    if (demand == Demand::positive && !(bottom > T(0))) return T(0);
    if (demand == Demand::nonzero && (bottom == T(0) || bottom != bottom)) return T(0);
    return factor * top / bottom;
  }
};

// Copies within the context's space and, for a device context, between host and device, by name only. On return host
// memory that took part may be read and written again. to and from do not overlap.
template <class T>
PROTEAN_EXPORT void copy(const Context& context, VectorView<const T> from, VectorView<T> to);
template <class T>
PROTEAN_EXPORT void fill(const Context& context, T value, VectorView<T> x);
// x := a x. A coefficient of exactly Coefficient(0) does not read x.
template <class T>
PROTEAN_EXPORT void scale(const Context& context, Coefficient<T> a, VectorView<T> x);
// y := a x + y
template <class T>
PROTEAN_EXPORT void axpy(const Context& context, Coefficient<T> a, VectorView<const T> x, VectorView<T> y);
// y := a x + b y. A coefficient b of exactly Coefficient(0) does not read y.
template <class T>
PROTEAN_EXPORT void axpby(const Context& context, Coefficient<T> a, VectorView<const T> x, Coefficient<T> b,
                          VectorView<T> y);
// z := x .* y; z may be x or y.
template <class T>
PROTEAN_EXPORT void multiply(const Context& context, VectorView<const T> x, VectorView<const T> y,
                             VectorView<T> z);

// d := 1 ./ d, with 1 if an entry or its inverse is zero or not finite; result[0] := the number of such entries.
template <class T>
PROTEAN_EXPORT void reciprocal(const Context& context, VectorView<T> d, T* result);

// result[0] := the largest |x_i|, 0 for an empty x, NaN if an entry is NaN
template <class T>
PROTEAN_EXPORT void max_abs(const Context& context, VectorView<const T> x, T* result);
// result[0] := a * b, for scalars that are quotients of several other scalars
template <class T>
PROTEAN_EXPORT void scalar_product(const Context& context, Coefficient<T> a, Coefficient<T> b, T* result);

// result[0] := x . y
template <class T>
PROTEAN_EXPORT void dot(const Context& context, VectorView<const T> x, VectorView<const T> y, T* result);
// result[0] := x . y, result[1] := x . z in one pass
template <class T>
PROTEAN_EXPORT void dot_pair(const Context& context, VectorView<const T> x, VectorView<const T> y,
                             VectorView<const T> z, T* result);
// y := a x + y, result[0] := y . y
template <class T>
PROTEAN_EXPORT void axpy_dot(const Context& context, Coefficient<T> a, VectorView<const T> x, VectorView<T> y,
                             T* result);

// y := d .* x + b y; an empty d stands for ones. b of exactly Coefficient(0) does not read y.
template <class T>
PROTEAN_EXPORT void multiply_add(const Context& context, VectorView<const T> d, VectorView<const T> x,
                                 Coefficient<T> b, VectorView<T> y);

// CG: r := r - a q, result[0] := r . r, result[1] := r . (d .* r); with an empty d, result[1] = result[0].
template <class T>
PROTEAN_EXPORT void cg_residual(const Context& context, Coefficient<T> a, VectorView<const T> q,
                                VectorView<const T> d, VectorView<T> r, T* result);
// CG: x := x + a p, then p := d .* z + b p; an empty d stands for ones. One pass, so that p is read once for
// both.
template <class T>
PROTEAN_EXPORT void cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d,
                                 VectorView<const T> z, Coefficient<T> b, VectorView<T> x, VectorView<T> p);

// BiCGStab: p := r + b (p - w v) and, unless d is empty, z := d .* p. b of exactly Coefficient(0) reads
// neither p nor v.
template <class T>
PROTEAN_EXPORT void bicgstab_direction(const Context& context, VectorView<const T> r, Coefficient<T> b,
                                       Coefficient<T> w, VectorView<const T> v, VectorView<const T> d,
                                       VectorView<T> p, VectorView<T> z);
// BiCGStab: r := r + a v, result[0] := r . r and, unless d is empty, z := d .* r.
template <class T>
PROTEAN_EXPORT void bicgstab_half(const Context& context, Coefficient<T> a, VectorView<const T> v,
                                  VectorView<const T> d, VectorView<T> r, VectorView<T> z, T* result);
// BiCGStab: x := x + a p + w s, r := r - w t, result[0] := r . r, result[1] := r0 . r; s may be r.
template <class T>
PROTEAN_EXPORT void bicgstab_update(const Context& context, Coefficient<T> a, VectorView<const T> p,
                                    Coefficient<T> w, VectorView<const T> s, VectorView<const T> t,
                                    VectorView<const T> r0, VectorView<T> x, VectorView<T> r, T* result);

// A block of k vectors of length n, column j at data + j * stride: the basis of GMRES.
template <class T>
struct VectorBlock {
  T* data = nullptr;
  std::int64_t size = 0, stride = 0, count = 0;
  Space space = Space::host;

  VectorView<T> column(std::int64_t j) const noexcept { return {data + j * stride, size, space}; }
  VectorBlock first(std::int64_t columns) const noexcept { return {data, size, stride, columns, space}; }
  operator VectorBlock<const T>() const noexcept requires(!std::is_const_v<T>) {
    return {data, size, stride, count, space};
  }
};
namespace detail {
inline constexpr std::int64_t most_heeding_dots = 8;
}
// result[j] := V_j . w for all j, reading w once for every few columns. On a device more than most_heeding_dots columns
// are computed by cuBLAS, also in steps that run after the end of a solve (DeviceState::stop): a method must not read
// such a result then.
template <class T>
PROTEAN_EXPORT void block_dot(const Context& context, VectorBlock<const T> V, VectorView<const T> w,
                              T* result);
// w := w + factor * sum_j h[j] V_j and, unless result is null, result[0] := w . w; h in the context's space
template <class T>
PROTEAN_EXPORT void block_axpy(const Context& context, T factor, VectorBlock<const T> V, const T* h,
                               VectorView<T> w, T* result = nullptr);

}  // namespace protean
