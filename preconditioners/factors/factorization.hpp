// Incomplete factors in a given pattern: M = (I + L) D^-1 (I + U), L strictly lower, U strictly upper in the order of
// the elimination, D^-1 the pivots. Of a symmetric matrix (ic0, ic, isai) U = L^T bit for bit, so M is symmetric; L L^T
// of the literature is ((I + L) D^-1/2) (D^-1/2 (I + L^T)). Private to preconditioners/.
//
// Breakdown: a pivot of ic that is not positive, or of ilu that is zero, both up to 64 eps |a_ii|, or one that is not
// finite or has an inverse that is not. Then A + alpha diag(A) is factored, alpha = 0.001, doubled until it works
// (Manteuffel, Math. Comp. 34 (1980) 473; Lin and More, SIAM J. Sci. Comput. 21 (1999) 24).
#pragma once
#include <cstdint>
#include <string_view>

#include "core/csr.hpp"
#include "core/statistics.hpp"
#include "core/vector.hpp"
#include "preconditioners/factors/device/device_factors.hpp"
#include "preconditioners/factors/factor_pattern.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {

// Who factors, and what.
struct FactorTask {
  std::string_view name;
  bool symmetric;
  ZeroDiagonal zero_diagonal;
};

// Factors csr on the host; returns alpha. diagonal: usable_diagonal(). plan: plan_factors() of the pattern.
// with_fill: the pattern has more than the entries of csr. Throws BadMatrix.
template <class T>
double factor(const FactorTask& task, const ContextPtr& host, const CsrMatrix<T>& csr,
              const Vector<T>& diagonal, const SweepPattern& pattern, const FactorPlan& plan, bool with_fill,
              SweepValues<T>& values);
// Factors csr, which lies on the device, there; returns alpha. What the device refuses is copied to the host, which
// finds the message. Throws BadMatrix as the host does, also if a symmetric matrix is needed and csr is not symmetric.
// Entries that the factors have no place for are left out: for a symmetric matrix the pattern of the factors is
// symmetric.
template <class T>
double factor_on_device(const FactorTask& task, const ContextPtr& host, DeviceFactors<T>& factors,
                        const CsrMatrix<T>& csr);

// Throws the BadMatrix of entries that a device has refused: copies them to the host, which finds the message.
template <class T>
[[noreturn]] void refuse_entries(const FactorTask& task, const ContextPtr& host, const Context& device,
                                 const CsrMatrix<T>& there);

// Throws BadMatrix if asymmetry() of a matrix is more than symmetry_tolerance; with_fill: for the advice.
template <class T>
void refuse_asymmetry(std::string_view name, bool with_fill, double asymmetry);

// The same for entries of which only this is known: the largest difference of two mirrored ones, and the least of the
// sizes max_k |a_ik| of the rows. If these two do not show that the matrix is symmetric, rows() gives its entries in
// host memory, which are looked at one by one.
template <class T, class Rows>
void refuse_asymmetry(std::string_view name, bool with_fill, double difference, double least_row,
                      const Context& host, Rows rows) {
  if (difference <= symmetry_tolerance<T> * least_row) return;
  refuse_asymmetry<T>(name, with_fill, asymmetry<T>(host, rows()));
}

// A matrix with a symmetric pattern: csr, without the entries that have no mirrored one. Throws as refuse_asymmetry(),
// so what is left out is rounding.
template <class T>
CsrMatrix<T> mirrored_entries(std::string_view name, bool with_fill, const ContextPtr& host,
                              const CsrMatrix<T>& csr);
// Entries in device memory, sorted in host memory.
template <class T>
CsrMatrix<T> sorted_on_host(const ContextPtr& host, const Context& device, const CsrMatrix<T>& there);

}  // namespace protean::detail
