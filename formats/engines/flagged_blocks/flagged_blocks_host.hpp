// The host side of flagged_blocks.hpp. Private to formats/.
#pragma once
#include <mutex>
#include <vector>

#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/engines/flagged_blocks/flagged_blocks.hpp"

namespace protean::formats {

struct FlagPlan {
  FlagSizes size;
  BlockPlan found;
  std::vector<std::int64_t> start;  // [stacked_rows + 1]: the first block of each stacked block row
  FlagPlan(const Context& context, const SparsityPattern& pattern, const FlagSizes& size);
};

Admission admit_flagged_on_host(const Context& context, const SparsityPattern& pattern,
                                const FormatParams& params, std::size_t value_bytes);

template <class T>
class FlaggedMatrix final : public RowViewMatrix<T, FlaggedMatrix<T>> {
 public:
  explicit FlaggedMatrix(const BuildRequest<T>& request);

  std::size_t bytes() const noexcept override {
    return flags_.bytes() + col32_.bytes() + col16_.bytes() + values_.bytes() + first_row_.bytes() +
           entries_.bytes() + stacked_.bytes();
  }
  std::vector<LayoutArray> layout() const override;
  FlaggedBlocks<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const;

 private:
  void multiply_stacked(std::int64_t limit, T alpha, const T* x, T beta, T* y) const;

  FlagSizes size_;
  Buffer<std::uint8_t> flags_;
  Buffer<std::int32_t> col32_;
  Buffer<std::uint16_t> col16_;
  Buffer<T> values_;
  Buffer<std::int32_t> first_row_;
  Buffer<std::uint8_t> entries_;
  mutable Buffer<T> stacked_;  // slices > 1: the products of the slices
  mutable std::mutex lock_;    // of stacked_
};
extern template class FlaggedMatrix<double>;
extern template class FlaggedMatrix<float>;

}  // namespace protean::formats
