// The preconditioner `auto`: one of others, which may change between two solves, and between two parts of one. Private;
// systems/ uses it.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// Is jacobi until take() names another one. In a kept system PreconditionerChoice calls it (choice.hpp). If jacobi is
// refused, as for a diagonal with a zero or an operator that does not know its diagonal, it is `fields` if the matrix
// has a saddle point (is_saddle_point() of fields/found.hpp), and none otherwise, until the next setup. If M may be
// unsymmetric, it is `fields`, too, in place of a jacobi that is not refused: for a saddle point with negative diagonal
// entries and, on a host, for cells of several unknowns with a pressure (fields/cells.hpp).
template <class T>
class Chosen final : public Preconditioner<T> {
 public:
  // definite: for a method that needs a positive definite one, so that jacobi is refused for a negative entry, too,
  // and for entries of sizes so different that r . M^-1 r would overflow.
  // Throws as amg does of `unknowns` and `near_null_space`.
  Chosen(const LinearOperator<T>& A, const PreconditionerOptions& options, bool definite = false);

  // Takes the preconditioner of this name, with the options that it reads, instead of the present one. The next
  // ensure() sets it up. If that throws, take() another one.
  void take(std::string_view id, const LinearOperator<T>& A);
  // The same for one that is set up for A already. Returns the one in use until now. Between two parts of a solve.
  std::unique_ptr<Preconditioner<T>> exchange(std::string_view id, std::unique_ptr<Preconditioner<T>> inner);
  // The name that take() was given, and the one in use: none if jacobi is refused.
  std::string_view asked() const noexcept { return id_; }
  std::string_view taken() const noexcept {
    return fields_ ? "fields" : refused_.empty() ? std::string_view(id_) : "none";
  }
  // Why it is none instead of jacobi; else empty.
  const std::string& refused() const noexcept { return refused_; }
  // Whether it is jacobi of a diagonal whose entries are all the same, which changes no iterate of any method; then a
  // solve does without M and its vector operations.
  bool changes_nothing() const noexcept { return changes_nothing_; }
  void require_definite(bool definite) noexcept { definite_ = definite; }
  // Whether M may be unsymmetric although A is symmetric. It may not until this is called.
  void let_be_unsymmetric(bool may) noexcept { unsymmetric_ = may; }
  // Why jacobi, and not the fields that were found; else empty.
  const std::string& note() const noexcept { return note_; }

  std::string_view name() const noexcept override { return "auto"; }
  VectorView<const T> inverse_diagonal() const noexcept override {
    return refused_.empty() ? used().inverse_diagonal() : VectorView<const T>();
  }
  bool symmetric() const noexcept override { return !refused_.empty() || used().symmetric(); }
  std::string description() const override { return refused_.empty() ? used().description() : std::string(); }
  std::size_t bytes() const noexcept override { return used().bytes(); }
  std::string_view storage() const noexcept override { return used().storage(); }
  std::string storage_reason() const override { return used().storage_reason(); }
  std::vector<PreconditionerFigure> figures() const override { return used().figures(); }
  std::vector<std::int32_t> labels() const override { return used().labels(); }
  Recording recording() const noexcept override;

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  void look_at_diagonal();
  bool takes_fields(const LinearOperator<T>& A) const;
  void try_fields(const LinearOperator<T>& A);
  const Preconditioner<T>& used() const noexcept { return fields_ ? *fields_ : *inner_; }

  PreconditionerOptions options_;
  bool definite_, unsymmetric_ = false;
  std::string id_, refused_, note_;
  bool changes_nothing_ = false, negative_ = false;  // of jacobi's diagonal
  std::unique_ptr<Preconditioner<T>> inner_, fields_;
  std::uint64_t taken_ = 0;  // how often take() was called
};

}  // namespace protean::detail
