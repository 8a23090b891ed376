// The preconditioner `fields`: of a system of several fields, such as velocity and pressure, made of preconditioners of
// its blocks. Private to preconditioners/ and systems/.
//
// The options name the rows of field i, or they were found (found.hpp). A_ij are the blocks, r_i and z_i the parts of
// vectors, M_i what option `inner` makes of A_ii. z := M^-1 r is by recipe
//   additive         z_i = M_i^-1 r_i
//   lower            z_i = M_i^-1 (r_i - sum_{j < i} A_ij z_j),  i = 0, 1 ..
//   upper            z_i = M_i^-1 (r_i - sum_{j > i} A_ij z_j),  i = k - 1, k - 2 ..
//   symmetric        y as z of lower, then z_i = y_i - M_i^-1 sum_{j > i} A_ij z_j,  i = k - 1, k - 2 ..
// and for two fields, with K = M_0 and S^-1 as below,
//   schur-diagonal   z_0 = K^-1 r_0,  z_1 = |S|^-1 r_1
//   schur-lower      z_0 = K^-1 r_0,  z_1 = S^-1 (r_1 - A_10 z_0)
//   schur-upper      z_1 = S^-1 r_1,  z_0 = K^-1 (r_0 - A_01 z_1)
//   schur-full       z_1 = S^-1 (r_1 - A_10 K^-1 r_0),  z_0 = K^-1 (r_0 - A_01 z_1)
// For fields of one size, of which field 0 is the pressure, with W_i and the matrix of M_0 as in cpr.hpp,
//   cpr-...          y_0 = M_0^-1 (r_0 - sum_{i > 0} W_i r_i),  y_i = 0;  z = y + M_w^-1 (r - A y)
// with M_w of the whole matrix, which option inner calls `whole`.
//
// D is the diagonal of A_00, s = 1 or -1 the sign of the trace of A_10 D^-1 A_01 - A_11, and M_1 is of another matrix:
//   schur: diagonal    M_1 of s (A_10 D^-1 A_01 - A_11);        |S|^-1 = M_1^-1
//   schur: commutator  M_1 of L = s A_10 D^-1 A_01, A_11 = 0;   |S|^-1 = s M_1^-1 A_10 D^-1 A_00 D^-1 A_01 M_1^-1
// and S^-1 = -s |S|^-1. If A (0, 1) = 0, a part of constants in field 1 changes nothing: |S|^-1 then is P |S|^-1 P with
// P = I - 1 1^T / n_1.
//
// For schur: diagonal and inner auto products show whether another matrix is to take the place of the assembled one, C
// (ComplementProbe of schur.hpp), as in a flow, in which C is like a Laplacian and the complement like a mass matrix: E
// (mass_like() of schur.hpp) with chebyshev, or the diagonal of C by jacobi. The matrix is multiplied by a factor, so
// that the largest eigenvalue of the complement relative to M_1 is about one, as the one of A_00 relative to K is.
//
// recipe auto depends on whether field 1 of two is a constraint: it has a zero block or, for a symmetric A, no positive
// diagonal entry.
//   a constraint        schur-diagonal if A is symmetric and M must be, too; else schur-upper
//   none, symmetric A   symmetric
//   none, another A     cpr-quasi-impes if a field is like a pressure (cells.hpp), which becomes the first; else lower
// It is additive for one field.
//
// With symmetric A and M_i the recipes additive, symmetric and schur-diagonal are symmetric, and positive definite if K
// and M_1 are, as minres needs it. schur-full is symmetric and, for a saddle point, indefinite.
//
// Sources: Benzi, Golub and Liesen, Acta Numerica 14 (2005) 1, sections 8 and 10; Patankar and Spalding, Int. J. Heat
// Mass Transfer 15 (1972) 1787 (SIMPLE); Elman, Howle, Shadid, Shuttleworth and Tuminaro, SIAM J. Sci. Comput. 27
// (2006) 1651 (least-squares commutator); Wallis, SPE 12265 (1983), and Lacroix, Vassilevski, Wheeler and Wheeler, SIAM
// J. Sci. Comput. 25 (2003) 905 (cpr). Memory: blocks in csr and in their format, the matrices and memory
// of M_i, 8 bytes an entry of the blocks for new values, 3 vectors (symmetric, commutator: more).
#pragma once
#include <string_view>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// Whether such an M is symmetric and made for methods that need a definite one, if A is symmetric.
bool is_symmetric_of_fields(const PreconditionerOptions& options);
// Whether a Krylov method solves with a block.
bool is_variable_of_fields(const PreconditionerOptions& options);

// Of a preconditioner `fields`; does nothing for another one. may: recipe auto may take an M that is not symmetric
// although A is, since the method does not need a symmetric one. It may not until this is called.
template <class T>
void let_be_unsymmetric(Preconditioner<T>& M, bool may);

// What preconditioner `fields` with recipe auto, or `auto` in its place, makes of this matrix.
enum class FieldsUse : unsigned char {
  other,    // also of another preconditioner or recipe, and of an operator without entries
  schur,    // a Schur complement: its second field is a constraint
  pressure  // it takes the pressure of cells first
};
// What is known of the matrix: whether it is symmetric, and that all its diagonal entries are positive.
struct SignsOfMatrix {
  bool symmetric = false, positive_diagonal = false;
};
// On a device `auto` does not look for cells. Throws what rows_on_host() throws, and
// BadArgument for fields that do not fit.
template <class T>
FieldsUse auto_use_of_fields(const LinearOperator<T>& A, const SignsOfMatrix& signs, std::string_view id,
                             const PreconditionerOptions& options);
// csr lies in host memory and has sorted rows.
template <class T>
FieldsUse auto_use_of_fields(const Context& host, const CsrMatrix<T>& csr, const SignsOfMatrix& signs,
                             std::string_view id, const PreconditionerOptions& options);

}  // namespace protean::detail
