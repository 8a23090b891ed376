// The arrays of some formats as kernels of other libraries see them, the same for host and device memory. The
// headers of the formats say what they hold. Not owning: a view is valid until update_values() or the end of
// the matrix. Private to formats/.
#pragma once
#include <cstdint>

namespace protean::formats {

// coo
template <class T>
struct CooView {
  std::int64_t size = 0;
  const std::int32_t* row = nullptr;
  const std::int32_t* col = nullptr;
  const T* values = nullptr;
};

// ell and sell-c-sigma. Slot k of position p is at p + k * stride (ell; slice_ptr is null and a row has `width` slots),
// or at slice_ptr[p / stride] + k * stride + p % stride.
template <class T>
struct SlotView {
  std::int64_t rows = 0, positions = 0, slots = 0;
  std::int64_t stride = 1, width = 0;
  const std::int64_t* slice_ptr = nullptr;
  const std::int32_t* col = nullptr;
  const T* values = nullptr;
  const std::int32_t* perm = nullptr;   // the row at each position; null when they are the same
  const std::int32_t* empty = nullptr;  // positions of rows without entries, ascending
  std::int64_t empty_count = 0;
};

// bcsr
template <class T>
struct BlockView {
  std::int64_t rows = 0, cols = 0, block_rows = 0, blocks = 0;
  std::int64_t R = 1, C = 1;
  const std::int64_t* block_ptr = nullptr;
  const std::int32_t* block_col = nullptr;
  const T* values = nullptr;
};

// dia
template <class T>
struct DiaView {
  std::int64_t rows = 0, cols = 0, diagonals = 0;
  const std::int32_t* off = nullptr;
  const T* values = nullptr;
};

// Ability of an assembled matrix: shows its arrays.
template <class View>
class HasArrayView {
 public:
  virtual ~HasArrayView() = default;
  virtual View array_view() const noexcept = 0;
};

}  // namespace protean::formats
