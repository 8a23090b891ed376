// What takes the place of the Schur complement of two fields. Private to preconditioners/.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "operators/assembled_matrix.hpp"
#include "preconditioners/fields/blocks.hpp"
#include "preconditioners/preconditioner_options.hpp"

namespace protean::detail {

// A copy of options.schur_operator in host memory. Throws ShapeMismatch for one that is not square, BadMatrix for an
// entry that is not finite, and BadArgument for options that do not go with it.
template <class T>
CsrMatrix<T> given_complement(const PreconditionerOptions& options);

// 1 / sum_j |c_ij|, 0 for a row of zeros.
template <class T>
std::vector<T> inverse_row_sums(const CsrMatrix<T>& C);
// 1 / c_ii, 0 where c_ii is not positive. C lies in host memory.
template <class T>
std::vector<T> inverse_diagonal(const Context& host, const CsrMatrix<T>& C);
template <class T>
CsrMatrix<T> times(const ContextPtr& host, T factor, const CsrMatrix<T>& C);

// E = |A_10| |D^-1| |A_01| + diag(C), absolute values of entries, in the pattern of C = sign (A_10 D^-1 A_01 - A_11),
// which `pattern` has made. All entries are positive, as in the mass matrix of linear elements. E is positive definite
// if A_10 is A_01^T up to signs. inverse: D^-1. All lie in host memory.
template <class T>
CsrMatrix<T> mass_like(const ContextPtr& host, const SchurPattern& pattern, const CsrMatrix<T>& A10,
                       const CsrMatrix<T>& A11, const CsrMatrix<T>& A01, const std::vector<T>& inverse,
                       const CsrMatrix<T>& C);

// Compares the complement S = sign (A_10 K^-1 A_01 - A_11), by products, with C = sign (A_10 D^-1 A_01 - A_11), which
// is assembled. All lie in one context; A11 is null for none. It does so by forms <x, X x> = x . W X x. With W =
// diag(C)^-1 each row has the same weight, where the viscosity is small and where it is large.
template <class T>
class ComplementProbe {
 public:
  using Solve = std::function<void(VectorView<T> r, VectorView<T> z)>;  // which may change r
  // K^-1 r; v := P v, which takes what changes nothing out of a vector of field 1; W.
  ComplementProbe(const LinearOperator<T>& A01, const LinearOperator<T>& A10, const LinearOperator<T>* A11,
                  T sign, Solve solve_0, std::function<void(VectorView<T>)> project, Vector<T> weights);

  // Whether S is like a mass matrix of linear elements, with positive entries off the diagonal, so that E, mass_like(),
  // resembles it better than its diagonal does. A rough x is compared with one that is averaged over neighbours, by two
  // steps x := L^-1 E x, L the sums over rows of E: then <x, S x> / <x, C x> is more than twice as large, and
  // <x, S x> / <x, diag(C) x> more than 1.2 times: 1.45 to 2 times with Taylor-Hood elements, also with jumps of the
  // viscosity every three elements and more. With velocities on the faces of cells S is like the identity, and it is
  // about as large. inverse: L^-1; diagonal: of C.
  bool is_like_mass(const LinearOperator<T>& E, VectorView<const T> inverse, const LinearOperator<T>& C,
                    VectorView<const T> diagonal);
  // Whether S is like a diagonal matrix and C like a Laplacian: for a smooth x, <x, S x> / <x, C x> is more than 1.25
  // times as large as for a rough one. x is made smooth by 30 steps x := x - L^-1 C x, L the sums of |c_ij| over rows;
  // inverse: L^-1. If A_00 is like a Laplacian, as of a flow, S is so: 12 times and more without jumps, 1.4 times with
  // viscosities of 1 and 10,000 in turn from element to element. If A_00 is like a mass matrix, D is near it and C near
  // S: 0.5 times.
  bool is_local(const LinearOperator<T>& C, VectorView<const T> inverse);
  // The power of two that is nearest to the largest eigenvalue of M_1^-1 S, by ten steps of the power method; 1 if that
  // has no result. Rounding to it hides in which order dot products were added. solve_1: M_1^-1 r.
  T factor(const Solve& solve_1);

 private:
  double start_form();                        // start(), and <x_, S x_>
  double form_of_S();                         // <x_, S x_>
  double form(const LinearOperator<T>& X);    // <x_, X x_>
  double form(VectorView<const T> diagonal);  // the same of a diagonal matrix
  double weighted();                          // x_ . W w_; changes w_
  void start();                               // x_: fixed numbers in [-1, 1) in no order, projected
  void apply();                               // w_ := S x_
  double dot_of(const Vector<T>& a, const Vector<T>& b) const;

  const LinearOperator<T>&A01_, &A10_;
  const LinearOperator<T>* A11_;
  T sign_;
  Solve solve_0_;
  std::function<void(VectorView<T>)> project_;
  Vector<T> weights_;
  std::optional<double> rough_;  // <x, S x> of start()
  mutable Vector<T> x_, w_, y_, z_, number_;
};

}  // namespace protean::detail
