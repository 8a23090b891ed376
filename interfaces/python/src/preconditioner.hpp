// Preconditioners of Python: one by name, a matrix that approximates the inverse, or a function of the caller.
#pragma once
#include "common.hpp"
#include "matrix.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::python {

// Where the preconditioner of a solve comes from. A SystemSolver makes it for its operator.
template <class T>
class PreconditionerSource {
 public:
  virtual ~PreconditionerSource() = default;
  virtual std::unique_ptr<Preconditioner<T>> make(const LinearOperator<T>& A) const = 0;
};

// M with the matrix that it was set up for.
template <class T>
class OwnState {
 public:
  OwnState(std::shared_ptr<Matrix<T>> matrix, const std::string& id, const PreconditionerOptions& options);
  const Preconditioner<T>& M() const { return *M_; }
  const Matrix<T>& matrix() const { return *matrix_; }
  // Called with the mutex of the matrix.
  void ensure();
  // Some preconditioners compute products with the operator that they were set up for. If the matrix has another one
  // now, since its format was changed, M is set up again. Without the GIL.
  void follow();
  bool stale() const { return matrix_->A().serial() != serial_; }

 private:
  std::shared_ptr<Matrix<T>> matrix_;
  std::shared_ptr<Preconditioner<T>> M_;
  std::uint64_t serial_ = 0;  // of the operator that M_ was set up for
};

// M that was set up for its own matrix, and may be applied alone. Solves with other matrices use it as it is.
template <class T>
class OwnPreconditioner final : public PreconditionerSource<T> {
 public:
  // Throws as make_preconditioner() and Preconditioner::ensure().
  OwnPreconditioner(std::shared_ptr<Matrix<T>> matrix, const std::string& id,
                    const PreconditionerOptions& options);
  std::unique_ptr<Preconditioner<T>> make(const LinearOperator<T>& A) const override;
  // z := M^-1 r
  void apply(VectorView<const T> r, VectorView<T> z) const;
  void apply(const DeviceArray& r, const DeviceArray& z) const;
  // After new values of the matrix.
  void update();
  const Preconditioner<T>& M() const { return own_->M(); }

 private:
  std::shared_ptr<OwnState<T>> own_;
};

}  // namespace protean::python
