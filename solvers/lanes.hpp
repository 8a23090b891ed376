// What a method computes with. A method is written once, as a template over one of two classes:
//   OneLane    one system A x = b. Vectors are VectorView, and the operations are in core/blas1.hpp.
//   ManyLanes  several systems with the same A side by side. Vectors are interleaved MultiVectorView, operations are
//              in core/multi_blas1.hpp, and one number of the method is as many numbers side by side.
// Both have the same functions, and the numbers of a method lie in the space of the context. forms.hpp makes a Method
// and a MultiMethod of such a template. Private to solvers/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/blas1.hpp"
#include "core/multi_blas1.hpp"
#include "core/vector.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/gmres_scalars.hpp"
#include "solvers/method.hpp"

namespace protean::detail {

// A vector as one of several.
template <class T>
MultiVectorView<T> as_column(const VectorView<T>& v) noexcept {
  return {v.data, v.size, 1, v.size, VectorLayout::columns, v.space};
}
// to := vector number j of V
template <class T>
void copy_column(const Context& context, const MultiVectorView<const T>& V, std::int32_t j,
                 VectorView<T> to) {
  const ColumnPair pair{j, 0};
  copy_columns<T>(context, V, as_column(to), {&pair, 1});
}

// `count` vectors of n entries in each lane, `stride` entries from one to the next. Without memory they are not used.
template <class T>
struct LaneVectors {
  Vector<T> memory;
  std::int64_t count = 0, stride = 0;
};

template <class T>
class OneLane {
 public:
  using Number = T;
  using View = VectorView<T>;
  using Input = VectorView<const T>;  // of an operation
  using Start = VectorView<const T>;  // the residual that begin() gets
  using System = detail::System<T>;
  static constexpr bool single = true;

  explicit OneLane(const WorkspaceLayout& layout) : layout_(layout) {}
  OneLane(const OneLane&) = delete;
  OneLane& operator=(const OneLane&) = delete;

  const Context& context() const noexcept { return *layout_.context; }
  const WorkspaceLayout& layout() const noexcept { return layout_; }
  std::int64_t rows() const noexcept { return layout_.n; }
  bool preconditioned() const noexcept {
    return layout_.preconditioning != WorkspaceLayout::Preconditioning::none;
  }
  bool general_preconditioner() const noexcept {
    return layout_.preconditioning == WorkspaceLayout::Preconditioning::general;
  }

  // Memory. Each vector of a block begins at a cache line.
  void add(LaneVectors<T>& v) {
    v.count = 1, v.stride = rows();
    v.memory = make_vector<T>(layout_.context, rows());
  }
  void add_block(LaneVectors<T>& v, std::int64_t count, bool = true) {
    v.count = count, v.stride = (rows() + 15) / 16 * 16;
    v.memory = make_vector<T>(layout_.context, count * v.stride);
  }
  void add_numbers(std::int64_t count) {
    numbers_ = Vector<T>(layout_.context, count);
    fill<T>(context(), T(0), numbers_);
  }

  View vector(LaneVectors<T>& v, std::int64_t i = 0) const noexcept {
    return {v.memory.data() + i * v.stride, v.memory.size() > 0 ? rows() : 0, v.memory.space()};
  }
  VectorBlock<T> part(LaneVectors<T>& v, std::int64_t first, std::int64_t count) const noexcept {
    return {v.memory.data() + first * v.stride, rows(), v.stride, count, v.memory.space()};
  }
  // Number `place` of the method, and some that follow each other as a vector.
  T* at(std::int64_t place) noexcept { return numbers_.data() + place; }
  const T* at(std::int64_t place) const noexcept { return numbers_.data() + place; }
  View numbers(std::int64_t place, std::int64_t count) noexcept {
    return {at(place), count, numbers_.space()};
  }
  GmresScalars<T> gmres_scalars(std::int64_t place, std::int64_t m) noexcept { return {at(place), m}; }
  GmresLanes<T> gmres_lanes() const noexcept { return {}; }
  static View x(const System& s) noexcept { return s.x; }

  void take(Start r, View y) const { copy<T>(context(), r, y); }
  void zero(LaneVectors<T>& v) const { fill<T>(context(), T(0), v.memory); }
  void zero_numbers() { fill<T>(context(), T(0), numbers_); }

  void scale(Coefficient<T> a, View x) const { protean::scale<T>(context(), a, x); }
  void axpy(Coefficient<T> a, Input x, View y) const { protean::axpy<T>(context(), a, x, y); }
  void axpby(Coefficient<T> a, Input x, Coefficient<T> b, View y) const {
    protean::axpby<T>(context(), a, x, b, y);
  }
  void axpy_dot(Coefficient<T> a, Input x, View y, T* result) const {
    protean::axpy_dot<T>(context(), a, x, y, result);
  }
  // v := v / by, or 0 if by is 0
  void divide(const T* by, View v) const { scale({1, nullptr, by, Demand::nonzero}, v); }
  void dot(Input x, Input y, T* result) const { protean::dot<T>(context(), x, y, result); }
  // x . y, and x . z as the number of the method after it
  void dot_pair(Input x, Input y, Input z, T* result) const {
    protean::dot_pair<T>(context(), x, y, z, result);
  }
  // Numbers one after another.
  void block_dot(VectorBlock<const T> V, Input w, T* result) const {
    protean::block_dot<T>(context(), V, w, result);
  }
  void block_axpy(T factor, VectorBlock<const T> V, const T* h, View w, T* result = nullptr) const {
    protean::block_axpy<T>(context(), factor, V, h, w, result);
  }
  void cg_residual(Coefficient<T> a, Input q, VectorView<const T> d, View r, T* result, bool) const {
    protean::cg_residual<T>(context(), a, q, d, r, result);
  }
  void cg_direction(Coefficient<T> a, VectorView<const T> d, Input z, Coefficient<T> b, View x,
                    View p) const {
    protean::cg_direction<T>(context(), a, d, z, b, x, p);
  }
  void bicgstab_direction(Input r, Coefficient<T> b, Coefficient<T> w, Input v, VectorView<const T> d, View p,
                          View z) const {
    protean::bicgstab_direction<T>(context(), r, b, w, v, d, p, z);
  }
  void bicgstab_half(Coefficient<T> a, Input v, VectorView<const T> d, View r, View z, T* result) const {
    protean::bicgstab_half<T>(context(), a, v, d, r, z, result);
  }
  void bicgstab_update(Coefficient<T> a, Input p, Coefficient<T> w, Input s, Input t, Input r0, View x,
                       View r, T* result) const {
    protean::bicgstab_update<T>(context(), a, p, w, s, t, r0, x, r, result);
  }
  // result := a b
  void set(T* result, Coefficient<T> a, Coefficient<T> b = T(1)) const {
    scalar_product<T>(context(), a, b, result);
  }
  // result := result + a * x
  void add(T* result, Coefficient<T> a, const T* x) const { axpy(a, entry(x), entry(result)); }
  // result := 1 if the number is positive, else 0; NaN if it is infinite. result is a different place.
  void is_positive(T* result, const T* number) const { set(result, {1, number, number, Demand::positive}); }

  void product(const System& s, Input v, View w) const { s.product(v, w); }
  void product_dot(const System& s, Input v, View w, T* result) const { s.product_dot(v, w, result); }
  // w := A v - beta w
  void product_minus(const System& s, Input v, const T* beta, View w) const {
    scale({1, beta}, w);
    s.product(T(1), v, T(-1), w);
  }
  void precondition(const System& s, Input r, View z) const { s.precondition(r, z); }
  // z := M^-1 r, r . z, for an M that is not a diagonal
  void precondition_dot(const System& s, Input r, View z, T* result) const {
    s.precondition_dot(r, z, result);
  }

 private:
  template <class Value>
  VectorView<Value> entry(Value* number) const noexcept {
    return {number, 1, context().space()};
  }

  const WorkspaceLayout layout_;
  Vector<T> numbers_;
};

template <class T>
using MultiSystem = SystemOf<T, MultiVectorView>;

// The pairs (lane, lane) of pairs[i].to.
inline std::vector<ColumnPair> own_lanes(std::span<const ColumnPair> pairs) {
  std::vector<ColumnPair> own;
  for (const ColumnPair pair : pairs) own.push_back({pair.to, pair.to});
  return own;
}

// Vectors lie in lanes 0 .. width - 1. An operation changes the lanes that act() names; numbers of other lanes, and all
// vectors except results of products, stay as they are. A lane alone on a host has the operations of a solve of its
// own.
template <class T>
class ManyLanes {
 public:
  using Number = T;
  using View = MultiVectorView<T>;
  using Input = MultiVectorView<const T>;
  struct Start {
    MultiVectorView<const T> from;
    std::span<const ColumnPair> pairs;
  };
  using System = MultiSystem<T>;
  static constexpr bool single = false;

  // Room for vectors of n entries in up to `most` lanes.
  ManyLanes(const WorkspaceLayout& layout, std::int64_t most)
      : layout_(layout), most_(most), flags_(layout.context, 2 * most) {
    fill<T>(context(), T(0), flags_);
    add(x_);
  }
  ManyLanes(const ManyLanes&) = delete;
  ManyLanes& operator=(const ManyLanes&) = delete;

  const Context& context() const noexcept { return *layout_.context; }
  const WorkspaceLayout& layout() const noexcept { return layout_; }
  std::int64_t rows() const noexcept { return layout_.n; }
  std::int64_t most() const noexcept { return most_; }
  std::int64_t width() const noexcept { return width_; }
  bool preconditioned() const noexcept {
    return layout_.preconditioning != WorkspaceLayout::Preconditioning::none;
  }
  bool general_preconditioner() const noexcept {
    return layout_.preconditioning == WorkspaceLayout::Preconditioning::general;
  }

  // Memory, which allocate() gets for all vectors. The vectors must not move. zeroed: reset() makes the block 0.
  void add(LaneVectors<T>& v) {
    v.count = 1, v.stride = rows() * most_;
    vectors_.push_back({&v, true});
  }
  void add_block(LaneVectors<T>& v, std::int64_t count, bool zeroed = true) {
    v.count = count, v.stride = (rows() * most_ + 15) / 16 * 16;
    vectors_.push_back({&v, zeroed});
  }
  void add_numbers(std::int64_t count) { number_count_ = count; }
  // Throws OutOfMemory, with the name `what`, before it takes more than the host has.
  void allocate(const std::string& what);

  View view(Vector<T>& v, std::int64_t width) const noexcept {
    return {v.data(), rows(), width, width, VectorLayout::interleaved, v.space()};
  }
  View vector(LaneVectors<T>& v, std::int64_t i = 0) const noexcept {
    return {v.memory.data() + i * v.stride,
            v.memory.size() > 0 ? rows() : 0,
            width_,
            width_,
            VectorLayout::interleaved,
            v.memory.space()};
  }
  MultiVectorBlock<T> part(LaneVectors<T>& v, std::int64_t first, std::int64_t count) const noexcept {
    return {v.memory.data() + first * v.stride, rows(), width_, v.stride, count, v.memory.space()};
  }
  T* at(std::int64_t place) noexcept { return numbers_.data() + place * width_; }
  const T* at(std::int64_t place) const noexcept { return numbers_.data() + place * width_; }
  View numbers(std::int64_t place, std::int64_t count) noexcept {
    return {at(place), count, width_, width_, VectorLayout::interleaved, numbers_.space()};
  }
  GmresScalars<T> gmres_scalars(std::int64_t place, std::int64_t m) noexcept {
    return {at(place), m, width_};
  }
  GmresLanes<T> gmres_lanes() const noexcept { return {width_, active_}; }
  View x() noexcept { return vector(x_); }
  View x(const System&) noexcept { return x(); }

  // All lanes are 0 in all vectors and numbers, and none runs.
  void reset(std::int64_t width);
  // Keeps the lanes keep[i].from as lanes keep[i].to of `width` lanes, in these vectors, x and the numbers. `free`:
  // rows of `most` lanes that are not among them.
  void pack(std::int64_t width, std::span<const ColumnPair> keep, std::vector<View> kept, T* free);
  // 1 for the lanes that run, else 0; and the same for the lanes of a call of begin() or finish().
  T* running() noexcept { return flags_.data(); }
  T* chosen() noexcept { return flags_.data() + most_; }
  // Makes them so: where[pairs[i].to] := 1, and 0 for other lanes.
  void mark(T* where, std::span<const ColumnPair> pairs);
  // The lanes of the operations that follow: the lanes with 1 in active, which are of[i].to. beginning: other lanes are
  // in the middle of their steps.
  void act(const T* active, std::span<const ColumnPair> of, T* free, bool beginning = false) {
    active_ = active, of_ = of, free_ = free, beginning_ = beginning;
  }
  // Y := A X in these lanes; others may be computed, too.
  void multiply(const LinearOperator<T>& A, Input X, View Y, std::span<const ColumnPair> of) {
    if (X.columns == 1 || column_by_column(A).empty()) return multi_apply<T>(A, T(1), X, T(0), Y, &scratch_);
    for (const ColumnPair lane : of)
      multi_apply<T>(A, T(1), X.part(lane.to, 1), T(0), Y.part(lane.to, 1), &scratch_);
  }
  // The vector in all lanes.
  void spread(VectorView<const T> from, View to) const {
    std::vector<ColumnPair> all;
    for (std::int32_t lane = 0; lane < width_; ++lane) all.push_back({0, lane});
    copy_columns<T>(context(), as_column(from), to, all);
  }

  // weighted := W r, squared := its square. r may have fewer lanes than these vectors; active: one number for each.
  void weigh(VectorView<const T> W, Input r, View weighted, const T* active, T* squared) const {
    if (r.columns == 1 && context().space() == Space::host) {
      protean::multiply<T>(context(), W, one(r), one(weighted));
      return protean::dot<T>(context(), one(weighted), one(weighted), squared);
    }
    multi_multiply<T>(context(), W, r, weighted, active);
    multi_dot<T>(context(), weighted, weighted, active, squared);
  }

  void take(const Start& r, View y) const { copy_columns<T>(context(), r.from, y, r.pairs); }
  void zero(LaneVectors<T>& v) const {
    for (std::int64_t i = 0; i < v.count; ++i) zero(vector(v, i));
  }
  void zero_numbers() { zero(numbers(0, number_count_)); }

  void scale(Coefficient<T> a, View x) const {
    if (alone()) return protean::scale<T>(context(), a, one(x));
    multi_axpby<T>(context(), T(0), x, a, x, active_);
  }
  void axpy(Coefficient<T> a, Input x, View y) const {
    if (alone()) return protean::axpy<T>(context(), a, one(x), one(y));
    multi_axpby<T>(context(), a, x, T(1), y, active_);
  }
  void axpby(Coefficient<T> a, Input x, Coefficient<T> b, View y) const {
    if (alone()) return protean::axpby<T>(context(), a, one(x), b, one(y));
    multi_axpby<T>(context(), a, x, b, y, active_);
  }
  void axpy_dot(Coefficient<T> a, Input x, View y, T* result) const {
    if (alone()) return protean::axpy_dot<T>(context(), a, one(x), one(y), result);
    multi_axpby<T>(context(), a, x, T(1), y, active_, result);
  }
  // 0 in lanes that do not run: the results of later products in them neither grow nor shrink.
  void divide(const T* by, View v) const {
    if (alone()) return protean::scale<T>(context(), {1, nullptr, by, Demand::nonzero}, one(v));
    multi_divide<T>(context(), by, v, active_);
  }
  void dot(Input x, Input y, T* result) const {
    if (alone()) return protean::dot<T>(context(), one(x), one(y), result);
    multi_dot<T>(context(), x, y, active_, result);
  }
  void dot_pair(Input x, Input y, Input z, T* result) const {
    if (alone()) return protean::dot_pair<T>(context(), one(x), one(y), one(z), result);
    T* const second = result + width_;
    if (y.data == x.data) return multi_dot_pair<T>(context(), x, z, active_, second, result);
    if (z.data == x.data) return multi_dot_pair<T>(context(), x, y, active_, result, second);
    multi_dot<T>(context(), x, y, active_, result);
    multi_dot<T>(context(), x, z, active_, second);
  }
  void block_dot(MultiVectorBlock<const T> V, Input w, T* result) const {
    if (alone()) return protean::block_dot<T>(context(), one(V), one(w), result);
    multi_block_dot<T>(context(), V, w, active_, result);
  }
  void block_axpy(T factor, MultiVectorBlock<const T> V, const T* h, View w, T* result = nullptr) const {
    if (alone()) return protean::block_axpy<T>(context(), factor, one(V), h, one(w), result);
    multi_block_axpy<T>(context(), factor, V, h, w, active_, result);
  }
  // second: whether r . (d .* r) is of use.
  void cg_residual(Coefficient<T> a, Input q, VectorView<const T> d, View r, T* result, bool second) const {
    if (alone()) return protean::cg_residual<T>(context(), a, one(q), d, one(r), result);
    multi_cg_residual<T>(context(), a, q, d, r, active_, result, second ? result + width_ : nullptr);
  }
  void cg_direction(Coefficient<T> a, VectorView<const T> d, Input z, Coefficient<T> b, View x,
                    View p) const {
    if (alone()) return protean::cg_direction<T>(context(), a, d, one(z), b, one(x), one(p));
    multi_cg_direction<T>(context(), a, d, z, b, x, p, active_);
  }
  void bicgstab_direction(Input r, Coefficient<T> b, Coefficient<T> w, Input v, VectorView<const T> d, View p,
                          View z) const {
    if (alone()) return protean::bicgstab_direction<T>(context(), one(r), b, w, one(v), d, one(p), one(z));
    multi_bicgstab_direction<T>(context(), r, b, w, v, d, p, z, active_);
  }
  void bicgstab_half(Coefficient<T> a, Input v, VectorView<const T> d, View r, View z, T* result) const {
    if (alone()) return protean::bicgstab_half<T>(context(), a, one(v), d, one(r), one(z), result);
    multi_bicgstab_half<T>(context(), a, v, d, r, z, active_, result);
  }
  void bicgstab_update(Coefficient<T> a, Input p, Coefficient<T> w, Input s, Input t, Input r0, View x,
                       View r, T* result) const {
    if (alone())
      return protean::bicgstab_update<T>(context(), a, one(p), w, one(s), one(t), one(r0), one(x), one(r),
                                         result);
    multi_bicgstab_update<T>(context(), a, p, w, s, t, r0, x, r, active_, result, result + width_);
  }
  void set(T* result, Coefficient<T> a, Coefficient<T> b = T(1)) const {
    multi_scalar_product<T>(context(), width_, a, b, active_, result);
  }
  void add(T* result, Coefficient<T> a, const T* x) const { axpy(a, entry(x), entry(result)); }
  void is_positive(T* result, const T* number) const { set(result, {1, number, number, Demand::positive}); }

  void product(const System& s, Input v, View w) { multiply(s.A, v, w, of_); }
  void product_dot(const System& s, Input v, View w, T* result) {
    if (alone()) return apply_dot<T>(s.A, one(v), one(w), result);
    product(s, v, w);
    dot(v, w, result);
  }
  // Through a free vector, since a product may change lanes that do not run.
  void product_minus(const System& s, Input v, const T* beta, View w) {
    const View free{free_, rows(), width_, width_, VectorLayout::interleaved, w.space};
    product(s, v, free);
    axpby(T(1), free, {-1, beta}, w);
  }
  // When some lanes begin, z of the others stays.
  void precondition(const System& s, Input r, View z) {
    if (!s.general_preconditioner()) return multi_multiply<T>(context(), s.d, r, z, active_);
    if (!beginning_) return multiply(*s.M, r, z, of_);
    const View free{free_, rows(), width_, width_, VectorLayout::interleaved, z.space};
    multiply(*s.M, r, free, of_);
    copy_columns<T>(context(), free, z, of_);
  }
  void precondition_dot(const System& s, Input r, View z, T* result) {
    if (alone()) return apply_dot<T>(*s.M, one(r), one(z), result);
    precondition(s, r, z);
    dot(r, z, result);
  }

 private:
  template <class Value>
  MultiVectorView<Value> entry(Value* number) const noexcept {
    return {number, 1, width_, width_, VectorLayout::interleaved, context().space()};
  }
  bool alone() const noexcept { return width_ == 1 && context().space() == Space::host; }
  template <class Value>
  static VectorView<Value> one(const MultiVectorView<Value>& v) noexcept {
    return {v.data, v.rows, v.space};
  }
  static VectorBlock<const T> one(const MultiVectorBlock<const T>& V) noexcept {
    return {V.data, V.rows, V.stride, V.count, V.space};
  }
  void zero(View v) const {
    if (alone()) return fill<T>(context(), T(0), one(v));
    multi_axpby<T>(context(), T(0), v, T(0), v, active_);
  }

  const WorkspaceLayout layout_;
  const std::int64_t most_;
  std::int64_t width_ = 0, number_count_ = 0;
  struct Added {
    LaneVectors<T>* vectors;
    bool zeroed;
  };
  std::vector<Added> vectors_;
  LaneVectors<T> x_;
  Vector<T> flags_, numbers_, other_numbers_;
  bool in_other_numbers_ = false;  // since reset()
  MultiScratch<T> scratch_;
  // Of the operations now: act().
  const T* active_ = nullptr;
  std::span<const ColumnPair> of_;
  T* free_ = nullptr;
  bool beginning_ = false;
};

// L is lower triangular, n x n, column j at L + j * stride, entries i >= j. x := L^-1 x by columns; x is 0 if the pivot
// is 0.
template <class L>
void solve_lower(L& lanes, std::int64_t matrix, std::int64_t stride, std::int64_t n, std::int64_t x) {
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t column = matrix + j * stride;
    lanes.set(lanes.at(x + j), {1, lanes.at(x + j), lanes.at(column + j), Demand::nonzero});
    if (const std::int64_t below = n - j - 1; below > 0)
      lanes.axpy({-1, lanes.at(x + j)}, lanes.numbers(column + j + 1, below),
                 lanes.numbers(x + j + 1, below));
  }
}

}  // namespace protean::detail
