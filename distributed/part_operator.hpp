// The rows of one part of a distributed matrix, as an operator of its thread: x and y are the entries of the part.
//
//     send entries of x to the neighbours            HaloExchange::begin()
//     y := alpha A_p x + beta y                      interior block, meanwhile
//     ghosts := what the neighbours have sent        HaloExchange::end()
//     t := alpha B_p ghosts                          boundary block
//     y_i += t_k, i = boundary row k
//
// The two blocks may have any formats. All parts compute a product together: each calls apply() in its own thread, and
// one thread at a time may use an operator. Private.
#pragma once
#include <memory>
#include <vector>

#include "distributed/halo.hpp"
#include "distributed/halo_exchange.hpp"
#include "operators/assembled_matrix.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

template <class T>
class PartOperator final : public LinearOperator<T>, public HasDiagonal<T> {
 public:
  // boundary: null if the part has no boundary rows. The matrices lie in the space of the context.
  PartOperator(const ContextPtr& context, std::unique_ptr<AssembledMatrix<T>> interior,
               std::unique_ptr<AssembledMatrix<T>> boundary, const PartHalo& halo,
               std::unique_ptr<HaloExchange<T>> exchange);

  std::string_view name() const noexcept override { return "distributed"; }
  Revision revision() const noexcept override { return interior_->revision(); }
  Recording recording() const noexcept override;
  void diagonal(VectorView<T> diagonal) const override;

  AssembledMatrix<T>& interior() noexcept { return *interior_; }
  const AssembledMatrix<T>& interior() const noexcept { return *interior_; }
  AssembledMatrix<T>* boundary() noexcept { return boundary_.get(); }
  const AssembledMatrix<T>* boundary() const noexcept { return boundary_.get(); }
  // On a host: in products of the two blocks, without waiting for other parts.
  double product_seconds() const noexcept { return seconds_; }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  const std::unique_ptr<AssembledMatrix<T>> interior_, boundary_;
  const std::unique_ptr<HaloExchange<T>> exchange_;
  mutable Vector<T> ghosts_, of_boundary_;
  mutable double seconds_ = 0;
  Buffer<std::int32_t> boundary_rows_;
};

// y[rows[k]] += t[k] for different rows. rows lies in the space of the context.
template <class T>
void add_at(const Context& context, const Buffer<std::int32_t>& rows, VectorView<const T> t, VectorView<T> y);

// A preconditioner that was set up for the interior block of a part, for a solve of all parts.
template <class T>
class PartPreconditioner final : public Preconditioner<T> {
 public:
  explicit PartPreconditioner(std::unique_ptr<Preconditioner<T>> local);
  // Brings it up to date.
  void ensure_for(const AssembledMatrix<T>& interior);

  std::string_view name() const noexcept override { return local_->name(); }
  Recording recording() const noexcept override { return local_->recording(); }
  VectorView<const T> inverse_diagonal() const noexcept override { return local_->inverse_diagonal(); }
  bool symmetric() const noexcept override { return local_->symmetric(); }
  bool variable() const noexcept override { return local_->variable(); }
  std::string description() const override { return local_->description(); }
  std::size_t bytes() const noexcept override { return local_->bytes(); }
  std::string_view storage() const noexcept override { return local_->storage(); }
  std::string storage_reason() const override { return local_->storage_reason(); }
  std::vector<PreconditionerFigure> figures() const override { return local_->figures(); }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  const std::unique_ptr<Preconditioner<T>> local_;
};

}  // namespace protean::detail
