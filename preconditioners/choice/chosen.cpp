#include "preconditioners/choice/chosen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/extremes.hpp"
#include "core/statistics.hpp"
#include "operators/known_symmetry.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/fields/cells.hpp"
#include "preconditioners/fields/fields.hpp"
#include "preconditioners/fields/found.hpp"
#include "preconditioners/options.hpp"

namespace protean::detail {

template <class T>
Chosen<T>::Chosen(const LinearOperator<T>& A, const PreconditionerOptions& options, bool definite)
    : Preconditioner<T>(A.context(), A.shape()), options_(options), definite_(definite) {
  // What a later candidate would refuse is refused now: which one is taken, and when, depends on measured times.
  require_nodes(A.rows(), options);
  take("jacobi", A);
}

template <class T>
void Chosen<T>::take(std::string_view id, const LinearOperator<T>& A) {
  inner_ = make_preconditioner<T>(id, A, preconditioner_options_read_by(id, options_));
  id_ = id, refused_.clear(), fields_.reset();
  changes_nothing_ = false;
  ++taken_;
  this->forget();
}

template <class T>
std::unique_ptr<Preconditioner<T>> Chosen<T>::exchange(std::string_view id,
                                                       std::unique_ptr<Preconditioner<T>> inner) {
  id_ = id, refused_.clear(), fields_.reset();
  changes_nothing_ = false;
  ++taken_;
  return std::exchange(inner_, std::move(inner));
}

template <class T>
Recording Chosen<T>::recording() const noexcept {
  Recording inner = refused_.empty() ? used().recording() : Recording{true, 1, 0, true};
  // Versions of two preconditioners must not be taken for each other.
  constexpr std::uint64_t versions_of_one = std::uint64_t{1} << 32;
  if (inner.version != 0) inner.version += taken_ * versions_of_one;
  return inner;
}

template <class T>
void Chosen<T>::setup(const LinearOperator<T>& A, bool) {
  const std::string_view before = taken();
  const bool changed_nothing = std::exchange(changes_nothing_, false);
  refused_.clear(), note_.clear(), negative_ = false;
  if (id_ != "jacobi") return inner_->ensure(A);
  try {
    inner_->ensure(A);
    look_at_diagonal();
  } catch (const BadMatrix& error) { refused_ = error.what(); } catch (const BadArgument& error) {
    refused_ = error.what();
  }
  try_fields(A);
  if (fields_) changes_nothing_ = false;
  if (before != taken() || changed_nothing != changes_nothing_) ++taken_;
}

// Whether fields take the place of jacobi: of a saddle point, which has a zero or a negative entry on its diagonal, or
// of cells. On a device cells are not looked for, since the matrix would be copied.
template <class T>
bool Chosen<T>::takes_fields(const LinearOperator<T>& A) const {
  const bool refused = !refused_.empty(), on_host = this->context()->space() == Space::host;
  const bool may_be_saddle = refused || (unsymmetric_ && negative_), may_have_cells = unsymmetric_ && on_host;
  if (!A.abilities().rows || (!may_be_saddle && !may_have_cells)) return false;
  const ContextPtr host = on_host ? this->context() : Context::host();
  const CsrMatrix<T> csr = rows_on_host(A, host, "auto");
  const bool symmetric = is_symmetric_matrix(A, *host, csr);
  if (may_be_saddle) return is_saddle_point(find_fields(csr, symmetric));
  return !symmetric && find_cells(csr).size > 0;
}

template <class T>
void Chosen<T>::try_fields(const LinearOperator<T>& A) {
  const auto say = [&](const char* what) {
    if (refused_.empty())
      note_ = fmt::format("fields were not taken: {}", what);
    else
      refused_ += fmt::format("; {}", what);
  };
  try {
    if (!takes_fields(A)) return fields_.reset();
    if (!fields_) fields_ = make_fields<T>(A, {});
    detail::let_be_unsymmetric<T>(*fields_, unsymmetric_);
    fields_->ensure(A);
    return refused_.clear();
  } catch (const BadMatrix& error) { say(error.what()); } catch (const BadArgument& error) {
    say(error.what());
  } catch (const OutOfMemory& error) { say(error.what()); }
  fields_.reset();
}

// If M must be definite, throws BadMatrix for a diagonal with a negative entry, with which jacobi is not positive
// definite, and for one whose largest entry is more than sqrt(the largest number) times the smallest.
template <class T>
void Chosen<T>::look_at_diagonal() {
  const VectorView<const T> inverse = inner_->inverse_diagonal();
  const Extremes<T> seen = extremes<T>(*this->context(), inverse);
  changes_nothing_ = seen.least >= seen.most, negative_ = seen.least < T(0);
  const bool overflows = seen.most > std::sqrt(std::numeric_limits<T>::max()) * seen.least;
  if (!definite_ || inverse.size == 0 || (seen.least >= T(0) && !overflows)) return;
  // Only the message needs the rows.
  std::vector<T> d(static_cast<std::size_t>(inverse.size));
  copy<T>(*this->context(), inverse, {d.data(), inverse.size});
  const auto negative = std::find_if(d.begin(), d.end(), [](T value) { return value < T(0); });
  if (negative != d.end())
    throw BadMatrix(fmt::format(
        "the diagonal entry of row {} (counted from 0) is negative, so jacobi would not be positive definite",
        negative - d.begin()));
  const auto [least, most] = std::minmax_element(d.begin(), d.end());
  throw BadMatrix(fmt::format(
      "the diagonal entries of rows {} and {} (counted from 0) are {:.1e} and {:.1e}, so that "
      "jacobi would overflow",
      least - d.begin(), most - d.begin(), 1 / static_cast<double>(*least), 1 / static_cast<double>(*most)));
}

template <class T>
void Chosen<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (refused_.empty()) return used().apply(alpha, x, beta, y);
  axpby<T>(*this->context(), alpha, x, beta, y);
}

template <class T>
MadePreconditioner<T> make_auto(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Chosen<T>>(A, options);
}

#define PROTEAN_INSTANTIATE(T) \
  template class Chosen<T>;    \
  template MadePreconditioner<T> make_auto<T>(const LinearOperator<T>&, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
