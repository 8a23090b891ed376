// What preconditioner fields is made of, and how it computes M^-1 r with that: the formulas are in fields.hpp. Private
// to preconditioners/.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/vector.hpp"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/fields/layout.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// In the context of the solve. One thread at a time may compute with it.
template <class T>
struct FieldParts {
  // What solves with a block, with the Schur complement, or for the recipes cpr-.. with the equation of the pressure
  // and with the whole matrix.
  struct Inner {
    std::string called, type, method;
    std::unique_ptr<Preconditioner<T>> M;  // null for none
  };

  ContextPtr context;
  std::shared_ptr<const FieldLayout> layout;
  std::string text;  // for a person
  std::string why;   // recipe auto took this one
  std::vector<std::unique_ptr<Matrix<T>>> blocks;
  std::unique_ptr<Matrix<T>> S;         // of M_1
  bool mass_like = false;               // it is like a mass matrix (recipes/schur.hpp)
  T sign = 1, factor = 1;               // of the assembled complement
  std::unique_ptr<Matrix<T>> pressure;  // of cpr-.., and -W_1, -W_2 ..
  Vector<T> weights;
  std::vector<Inner> inner;
  mutable Vector<T> r, z, t;  // in the order of the fields; t: 2 n
  Vector<T> inverse, ones;    // D^-1 of the commutator, and of P if there is a constant
  mutable Vector<T> sum;

  const LinearOperator<T>& block(std::int64_t i, std::int64_t j) const noexcept {
    return *blocks[layout->at(i, j)];
  }
  VectorView<T> part(Vector<T>& v, std::int64_t i) const noexcept {
    const VectorView<T> all = v.view();
    return {all.data + layout->begin[static_cast<std::size_t>(i)], layout->rows_of(i), all.space};
  }

  // y := M^-1 x; the two have the order of the matrix.
  void apply(VectorView<const T> x, VectorView<T> y) const;
  // y := M_i^-1 x
  void solve(std::int64_t i, VectorView<const T> x, VectorView<T> y) const;
  // y := |S|^-1 x; x is changed.
  void solve_schur(VectorView<T> x, VectorView<T> y) const;
  // x := P x
  void project(VectorView<T> x) const;

 private:
  void combine() const;           // z := M^-1 r in the order of the fields; r is changed
  void solve_complement() const;  // z_1 := S^-1 r_1
  void subtract(std::int64_t i, std::int64_t j) const;  // r_i := r_i - A_ij z_j
  void solve_field(std::int64_t i) const { solve(i, part(r, i), part(z, i)); }
  void solve_pressure_first() const;
  void sweep_back() const;
};

}  // namespace protean::detail
