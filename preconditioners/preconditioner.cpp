#include "preconditioners/preconditioner.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "preconditioners/jacobi.hpp"

namespace protean {

template <class T>
void Preconditioner<T>::ensure(const LinearOperator<T>& A) {
  if (A.shape() != this->shape())
    throw ShapeMismatch(
        fmt::format("the preconditioner is {} x {}, the operator {} x {}; make a new preconditioner for it",
                    this->rows(), this->cols(), A.rows(), A.cols()));
  const Revision revision = A.revision();
  if (built_for_ == A.serial() && built_from_ == revision) return;
  const detail::DeviceScope scope(*A.context());
  setup(A, built_for_ != A.serial() || built_from_.pattern != revision.pattern);
  built_for_ = A.serial();
  built_from_ = revision;
}

std::span<const PreconditionerEntry> preconditioners() noexcept {
  static constexpr PreconditionerEntry entries[] = {
      {"none", "No preconditioner"},
      {"jacobi", "Inverse of the diagonal; Saad 2003, section 10.2"},
  };
  return entries;
}

template <class T>
std::unique_ptr<Preconditioner<T>> make_preconditioner(std::string_view id, const LinearOperator<T>& A,
                                                       const PreconditionerOptions& options) {
  std::vector<std::string_view> ids;
  for (const PreconditionerEntry& entry : preconditioners()) ids.push_back(entry.id);
  if (id == "none") return nullptr;
  if (id != "jacobi")
    throw BadArgument(fmt::format("there is no preconditioner '{}'; there are {}.{}", id,
                                  fmt::join(ids, ", "), did_you_mean(id, ids)));
  if (A.rows() != A.cols())
    throw ShapeMismatch(
        fmt::format("the operator is {} x {}; a preconditioner needs a square one", A.rows(), A.cols()));
  return detail::make_jacobi<T>(A, options);
}

template class Preconditioner<float>;
template class Preconditioner<double>;
template std::unique_ptr<Preconditioner<float>> make_preconditioner<float>(std::string_view,
                                                                           const LinearOperator<float>&,
                                                                           const PreconditionerOptions&);
template std::unique_ptr<Preconditioner<double>> make_preconditioner<double>(std::string_view,
                                                                             const LinearOperator<double>&,
                                                                             const PreconditionerOptions&);

}  // namespace protean
