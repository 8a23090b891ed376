// The products of the storage in which a matrix computes at present. Private to operators/.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "operators/matrix/matrix.hpp"

namespace protean::detail {

// The matrix in the order of its storage, in any storage: Matrix::in_order(). Measures the products while the storage
// may change.
template <class T>
class Running final : public Wrapper<T>,
                      public HasDiagonal<T>,
                      public HasApplyDot<T>,
                      public HasMultiProduct<T>,
                      public HasTransposedProduct<T>,
                      public HasRows<T>,
                      public HasRowArrays<T>,
                      public HasGivenMatrix<T> {
 public:
  explicit Running(const Matrix<T>& A) : Wrapper<T>(A.context(), A.shape()), A_(A) {}
  const LinearOperator<T>& inner() const noexcept override { return A_; }

  // Calls product(), which computes one product with this many vectors.
  template <class Product>
  void timed(std::int64_t vectors, Product&& product) const {
    if (vectors != measured_vectors_.load(std::memory_order_relaxed) || !A_.may_change() ||
        this->context()->space() == Space::device)
      return product();
    const std::uint32_t call = calls_.fetch_add(1, std::memory_order_relaxed);
    const bool quick = seconds_[0].load(std::memory_order_relaxed) < quick_product;
    if (quick && call % 8 != 0) return product();
    const double begin = A_.now();
    product();
    const std::uint32_t slot = count_.fetch_add(1, std::memory_order_relaxed) % kept;
    seconds_[slot].store(static_cast<float>(A_.now() - begin), std::memory_order_relaxed);
  }
  // The median of the last measured products; 0 before the first.
  double seconds() const noexcept {
    std::array<float, kept> sorted;
    const auto count =
        static_cast<std::ptrdiff_t>(std::min<std::uint32_t>(count_.load(std::memory_order_relaxed), kept));
    if (count == 0) return 0;
    for (std::ptrdiff_t i = 0; i < count; ++i) sorted[i] = seconds_[i].load(std::memory_order_relaxed);
    // The lower median: what disturbs makes times longer, never shorter.
    const std::ptrdiff_t middle = (count - 1) / 2;
    std::nth_element(sorted.begin(), sorted.begin() + middle, sorted.begin() + count);
    return static_cast<double>(sorted[middle]);
  }
  void forget_times() noexcept { count_.store(0, std::memory_order_relaxed); }
  // From now on measures products with this many vectors, and no others.
  void measure(std::int64_t vectors) noexcept {
    if (measured_vectors_.exchange(vectors, std::memory_order_relaxed) != vectors) forget_times();
  }

  void diagonal(VectorView<T> diagonal) const override {
    A_.running().abilities().diagonal->diagonal(diagonal);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    A_.count_products(1);
    timed(1, [&] { apply_dot<T>(A_.multiplier(), x, y, result); });
  }
  std::string_view no_multi_product() const noexcept override { return A_.no_multi_product(); }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    A_.count_products(X.columns);
    timed(X.columns, [&] { multi_apply<T>(A_.multiplier(), alpha, X, beta, Y); });
  }
  std::string_view no_transposed_product() const noexcept override { return A_.no_transposed_product(); }
  void prepare_transposed() const override { A_.prepare_transposed(); }
  std::size_t transposed_bytes() const noexcept override { return A_.transposed_bytes(); }
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    A_.count_products(1);
    apply_transposed<T>(A_.multiplier(), alpha, x, beta, y);
  }
  CsrMatrix<T> rows_as_csr() const override { return A_.rows_in_order(); }
  RowArrays<T> row_arrays() const noexcept override { return A_.rows_of_running(); }
  void keep_rows(bool keep) const noexcept override { A_.keep_rows(keep); }
  const LinearOperator<T>* given_matrix() const override {
    return A_.given_matrix() ? A_.given_in(true) : nullptr;
  }
  void leave_rounding(std::string why) const override { A_.leave_rounding(std::move(why)); }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    set.diagonal = this, set.apply_dot = this, set.multi_product = this, set.transposed_product = this,
    set.rows = this, set.row_arrays = this, set.given_matrix = this;
    set.order = Ability<HasOrder<T>>::refused("its vectors are in the order of the matrix already");
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    A_.count_products(1);
    timed(1, [&] { A_.multiplier().apply(alpha, x, beta, y); });
  }

 private:
  static constexpr int kept = 16;
  // Only one in eight of the products that are shorter than this is measured, so that reading the clock costs little.
  static constexpr float quick_product = 20e-6f;

  const Matrix<T>& A_;
  mutable std::array<std::atomic<float>, kept> seconds_{};
  mutable std::atomic<std::uint32_t> count_{0}, calls_{0};
  std::atomic<std::int64_t> measured_vectors_{1};
};

}  // namespace protean::detail
