// The method of a SystemSolver: the one of the settings, or the one that `auto` takes.
#include <fmt/format.h>

#include <utility>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "operators/known_symmetry.hpp"
#include "preconditioners/fields/fields.hpp"
#include "solvers/options.hpp"
#include "systems/method_choice.hpp"
#include "systems/sequence.hpp"
#include "systems/system_matrix.hpp"

namespace protean {

// Until auto has seen a matrix, it is cg.
template <class T>
void SystemSolver<T>::name_method() noexcept {
  const bool automatic = settings_.method == detail::automatic_method;
  method_ = automatic ? "cg" : settings_.method;
  method_reason_.clear();
}

// Entries are looked at once for each set of values.
template <class T>
void SystemSolver<T>::look_at_matrix(const SystemMatrix<T>& matrix) {
  Sequence& now = *sequence_;
  const LinearOperator<T>& A = matrix.A();
  if (now.traits && now.seen_serial == A.serial() && now.seen == A.revision()) return;
  const CsrMatrix<T>& csr = matrix.given();
  const bool entries = !matrix.of_elements() && !matrix.of_operator();
  // Arrays in host memory are looked at there.
  const ContextPtr near = csr.pattern.space == matrix.context()->space() ? matrix.context() : Context::host();
  if (entries && is_sorted(*near, csr.pattern)) {
    now.traits = detail::method_traits<T>(*near, csr);
    detail::remember_symmetry(A, now.traits->symmetric);
  } else {
    now.traits = detail::method_traits<T>(A, matrix.known_symmetric());
  }
  // A null space is for methods that need a symmetric M.
  const bool cells = entries && !now.traits->symmetric && A.context()->space() == Space::host;
  if ((now.traits->not_positive > 0 || cells) && settings_.parts.empty() && !maker_ && !has_null_space()) {
    const detail::MethodTraits seen = *now.traits;
    now.traits.reset();  // nothing is known if this throws
    const detail::FieldsUse use =
        detail::auto_use_of_fields(A, {seen.symmetric, seen.not_positive == 0},
                                   settings_.preconditioner.name(), settings_.preconditioning);
    now.traits = seen, now.traits->constraint = use == detail::FieldsUse::schur;
    now.traits->cells = use == detail::FieldsUse::pressure;
  }
  now.seen_serial = A.serial(), now.seen = A.revision();
  now.learned.reset();
}

// Of method auto.
template <class T>
void SystemSolver<T>::choose_method(const SystemMatrix<T>& matrix) {
  if (settings_.method != detail::automatic_method) return;
  if (matrix.A().rows() != matrix.A().cols()) return;  // the solve refuses it
  look_at_matrix(matrix);
  Sequence& now = *sequence_;
  if (now.learned) return take_method(*now.learned);
  now.restart = 0;
  take_method(detail::choose_method(*now.traits, preconditioner_traits(),
                                    detail::basis_of(*matrix.context(), matrix.A().rows(), sizeof(T),
                                                     settings_.solver.restart, now.columns)));
}

template <class T>
void SystemSolver<T>::take_method(detail::MethodChoice choice) {
  method_reason_ = std::move(choice.reason);
  if (method_ == choice.method) return;
  method_ = choice.method;
  solver_.reset(), multi_solver_.reset();
  sequence_->serial = 0;  // what a preconditioner may be depends on the method
}

template <class T>
detail::PreconditionerTraits SystemSolver<T>::preconditioner_traits() const {
  if (maker_)
    return {.unsymmetric = M_ && !M_->symmetric() ? M_->name() : std::string_view(),
            .variable = M_ && M_->variable() ? M_->name() : std::string_view()};
  return detail::preconditioner_traits(settings_.preconditioner, settings_.preconditioning, settings_.parts,
                                       settings_.combine);
}

// Those that it reads. Of method auto, an option may be for a method that was not taken.
template <class T>
SolverOptions SystemSolver<T>::options_of_method() const {
  if (settings_.method != detail::automatic_method) return settings_.solver;
  SolverOptions options = options_read_by(method_, settings_.solver);
  if (options.null_space != settings_.solver.null_space ||
      (null_space_.count > 0 && !find_solver(method_).symmetric))
    throw BadArgument(fmt::format(
        "a null space is for methods cg, fcg and minres, and auto takes {}; leave it out, or name one "
        "of them",
        method_reason_));
  if (method_ == "gmres" && sequence_->restart > 0) options.restart = sequence_->restart;
  return options;
}

#define PROTEAN_INSTANTIATE(T)                                                          \
  template void SystemSolver<T>::name_method() noexcept;                                \
  template void SystemSolver<T>::look_at_matrix(const SystemMatrix<T>&);                \
  template void SystemSolver<T>::choose_method(const SystemMatrix<T>&);                 \
  template void SystemSolver<T>::take_method(detail::MethodChoice);                     \
  template detail::PreconditionerTraits SystemSolver<T>::preconditioner_traits() const; \
  template SolverOptions SystemSolver<T>::options_of_method() const;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
