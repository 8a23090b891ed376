// The order of the rows of a matrix, and who follows it. Private to operators/.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/permutation.hpp"
#include "operators/in_order.hpp"
#include "operators/order.hpp"

namespace protean::detail {

// The name of the caller's order.
inline constexpr std::string_view no_order = "none";

template <class T>
class Numbering {
 public:
  // B computes in this order.
  explicit Numbering(const LinearOperator<T>& B) : B_(B) { followers_.reserve(4); }

  const std::string& id() const noexcept { return id_; }
  // A permutation of no rows: the caller's order.
  const Permutation& order() const noexcept { return order_; }
  // The source in this order, with the places of its entries, which a build may share. Null in the caller's order, and
  // for a matrix without a source.
  const std::shared_ptr<PermutedMatrix<T>>& source() const noexcept { return source_; }
  bool is_callers() const noexcept { return order_.size() == 0; }
  // P^T B P.
  const InOrder<T>& outside() const noexcept { return *outside_; }
  // The permutation of an order that was found before; of no rows if it was not.
  Permutation found(std::string_view id) const {
    for (const auto& [known, permutation] : found_)
      if (known == id) return permutation;
    return {};
  }

  void follow(OrderFollower& follower) const {
    const std::lock_guard lock(mutex_);
    followers_.push_back(&follower);
  }
  void unfollow(OrderFollower& follower) const noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(followers_, &follower);
  }
  std::optional<OrderFollower::Permuted> permuted() const {
    const std::lock_guard lock(mutex_);
    if (followers_.empty()) return OrderFollower::Permuted{0, 2};
    if (followers_.size() > 1) return {};
    return followers_.front()->permuted();
  }

  // A change to another order, with all memory that it takes. While it lives, nobody begins or ends to follow the
  // order.
  class Change {
   public:
    // The order is remembered even if the change fails: finding it costs more than keeping it. Throws OutOfMemory,
    // NotAvailable while several solves follow, and what a follower throws. Nothing has changed then.
    Change(Numbering& of, std::string id, Permutation order, std::shared_ptr<PermutedMatrix<T>> source_ = {})
        : source(std::move(source_)),
          of_(of),
          id_(std::move(id)),
          order_(std::move(order)),
          outside_(std::make_unique<InOrder<T>>(of_.B_, order_)) {
      outside_->reserve();
      if (id_ != no_order && !id_.empty() && of_.found(id_).size() == 0) of_.found_.emplace_back(id_, order_);
      lock_ = std::unique_lock(of_.mutex_);
      if (of_.followers_.size() > 1)
        throw NotAvailable(fmt::format(
            "{} solves compute with this operator; the order can change only while at most one does",
            of_.followers_.size()));
      // The last that may throw: what follows it is done as a whole.
      for (OrderFollower* follower : of_.followers_) follower->prepare_order(order_);
    }
    void adopt() noexcept {
      of_.order_ = order_, of_.id_.swap(id_);
      of_.source_ = std::move(source), of_.outside_.swap(outside_);
      for (OrderFollower* follower : of_.followers_) follower->adopt_order();
    }

    std::shared_ptr<PermutedMatrix<T>> source;  // the new source()

   private:
    Numbering& of_;
    std::string id_;
    Permutation order_;
    std::unique_ptr<InOrder<T>> outside_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  const LinearOperator<T>& B_;
  std::string id_{no_order};
  Permutation order_;
  std::shared_ptr<PermutedMatrix<T>> source_;
  std::unique_ptr<InOrder<T>> outside_ = std::make_unique<InOrder<T>>(B_, order_);
  std::vector<std::pair<std::string, Permutation>> found_;
  mutable std::mutex mutex_;  // of the next
  mutable std::vector<OrderFollower*> followers_;
};

}  // namespace protean::detail
