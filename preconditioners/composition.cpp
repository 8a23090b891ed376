// Compositions of preconditioners. Smith, Bjorstad and Gropp, Domain Decomposition, Cambridge 1996, sections 1.4 and
// 1.5.
//   additive        M^-1 r = M_1^-1 r + ... + M_k^-1 r
//   multiplicative  z := M_1^-1 r;  z := z + M_i^-1 (r - A z), i = 2 .. k.
//                   I - M^-1 A = (I - M_k^-1 A) ... (I - M_1^-1 A)
//   symmetric       the same for i = 2 .. k, k - 1 .. 1. With symmetric A and M_i, and E_i = I - M_i^-1 A,
//                   A E_i = E_i^T A, so that A (I - M^-1 A) = A E_1 ... E_k ... E_1 is symmetric, and with it M^-1.
// multiplicative takes k - 1 products with A for each M^-1 r, symmetric 2 k - 2.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean {
namespace detail {
namespace {

template <class T>
class Composed final : public BySolving<T> {
 public:
  Composed(const LinearOperator<T>& A, std::vector<std::unique_ptr<Preconditioner<T>>> parts,
           Composition composition)
      : BySolving<T>(A), parts_(std::move(parts)), composition_(composition) {
    if (composition_ != Composition::additive && parts_.size() > 1)
      residual_ = Vector<T>(A.context(), A.rows());
    for (const auto& part : parts_) order_.push_back(part.get());
    if (composition_ == Composition::symmetric)
      for (std::size_t i = parts_.size() - 1; i-- > 0;) order_.push_back(parts_[i].get());
  }

  std::string_view name() const noexcept override { return "composition"; }
  bool symmetric() const noexcept override {
    for (const auto& part : parts_)
      if (!part->symmetric()) return false;
    return composition_ != Composition::multiplicative || parts_.size() == 1;
  }
  bool variable() const noexcept override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->variable(); });
  }
  std::string_view storage() const noexcept override {
    for (const auto& part : parts_)
      if (part->storage() != parts_.front()->storage()) return "float and double";
    return parts_.front()->storage();
  }
  std::string storage_reason() const override {
    std::string all;
    for (const auto& part : parts_)
      if (const std::string one = part->storage_reason(); !one.empty())
        all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", part->name(), one);
    return all;
  }
  std::vector<PreconditionerFigure> figures() const override {
    std::vector<PreconditionerFigure> all;
    for (const auto& part : parts_)
      for (const PreconditionerFigure& one : part->figures()) all.push_back(one);
    return all;
  }
  // Records the work of all parts, and products of A.
  Recording recording() const noexcept override {
    Recording all = BySolving<T>::recording();
    const auto add = [&](const Recording& one, std::size_t times) {
      all.allowed = all.allowed && one.allowed;
      all.version = all.version == 0 || one.version == 0 ? 0 : all.version + one.version;
      all.bytes += times * one.bytes;
    };
    // Products of A are written to residual_, which is not part of the result.
    const auto heeds = [](const Preconditioner<T>* part) { return part->recording().heeds_stop; };
    all.heeds_stop = std::all_of(order_.begin(), order_.end(), heeds);
    all.bytes = 0;
    for (const Preconditioner<T>* part : order_) add(part->recording(), 1);
    if (A_ && residual_.size() > 0) add(A_->recording(), order_.size() - 1);
    return all;
  }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    // Some parts may have been renewed when one of them throws. Such a mixture is not used.
    A_ = nullptr;
    this->forget();
    for (const auto& part : parts_) part->ensure(A);
    A_ = &A;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (!A_)
      throw BadArgument(
          "the composition of preconditioners is applied after an ensure(A) that failed; call it again");
    order_[0]->apply(r, z);
    if (composition_ == Composition::additive) {
      for (std::size_t i = 1; i < order_.size(); ++i) order_[i]->apply(T(1), r, T(1), z);
      return;
    }
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 1; i < order_.size(); ++i) {
      copy<T>(*this->context(), r, residual_);
      A_->apply(T(-1), z, T(1), residual_);
      order_[i]->apply(T(1), residual_.view(), T(1), z);
    }
  }
  std::size_t bytes_of_arrays() const noexcept override {
    std::size_t sum = static_cast<std::size_t>(residual_.size()) * sizeof(T);
    for (const auto& part : parts_) sum += part->bytes();
    return sum;
  }

 private:
  std::vector<std::unique_ptr<Preconditioner<T>>> parts_;
  Composition composition_;
  std::vector<const Preconditioner<T>*> order_;  // in which they are applied
  const LinearOperator<T>* A_ = nullptr;
  mutable std::mutex mutex_;
  mutable Vector<T> residual_;
};

}  // namespace
}  // namespace detail

std::string_view to_string(Composition composition) noexcept {
  switch (composition) {
    case Composition::multiplicative:
      return "multiplicative";
    case Composition::symmetric:
      return "symmetric";
    default:
      return "additive";
  }
}

bool is_symmetric(std::span<const PreconditionerPart> parts, Composition composition) noexcept {
  for (const PreconditionerPart& part : parts)
    if (!is_symmetric(part.id, part.options)) return false;
  return composition != Composition::multiplicative || parts.size() == 1;
}

template <class T>
std::unique_ptr<Preconditioner<T>> make_composition(const LinearOperator<T>& A,
                                                    std::span<const PreconditionerPart> parts,
                                                    Composition composition) {
  if (parts.empty()) throw BadArgument("a composition of preconditioners needs one part or more");
  std::vector<std::unique_ptr<Preconditioner<T>>> made;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    made.push_back(make_preconditioner<T>(parts[i].id, A, parts[i].options));
    if (!made.back())
      throw BadArgument(fmt::format("part {} (from 0) of a composition is none; leave it out", i));
  }
  return std::make_unique<detail::Composed<T>>(A, std::move(made), composition);
}
#define PROTEAN_INSTANTIATE(T)                                     \
  template std::unique_ptr<Preconditioner<T>> make_composition<T>( \
      const LinearOperator<T>&, std::span<const PreconditionerPart>, Composition);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
