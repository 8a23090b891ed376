// The slots of a slice: by full diagonals, by diagonals of what is left, or entry k of each row. sell_packed_encode.cpp
// chooses among them.
#include <algorithm>
#include <array>
#include <numeric>

#include "formats/compressed/sell_packed_layout.hpp"

namespace protean::formats::packed {

void Encoder::keep_all_rows() {
  for (int l = 0; l < height; ++l) {
    rest_[l].resize(static_cast<std::size_t>(length_[l]));
    std::iota(rest_[l].begin(), rest_[l].end(), 0);
  }
}

// Entries with the same column - lane in all eight lanes become a slot of their own. It reads eight
// neighbours of x, and needs no padding, since it takes one entry from every row. Returns false, with nothing
// done, when the diagonals are so few that the rows are probably not neighbours on a grid.
bool Encoder::take_full_diagonals() {
  std::array<std::int64_t, height> at{};
  full_.clear();
  const std::int32_t *front = columns_[0], *back = columns_[height - 1];
  while (at[0] < length_[0] && at[height - 1] < length_[height - 1]) {
    const std::int32_t diagonal = front[at[0]], other = back[at[height - 1]] - (height - 1);
    if (diagonal == other) full_.push_back(diagonal);
    at[0] += diagonal <= other, at[height - 1] += other <= diagonal;
  }
  const std::int64_t longest = *std::max_element(length_.begin(), length_.end());
  const auto too_few = [&] { return static_cast<std::int64_t>(full_.size()) * 3 < longest; };
  for (int l = 1; l < height - 1 && !too_few(); ++l) {
    const std::int32_t *col = columns_[l], *end = columns_[l] + length_[l];
    std::size_t kept = 0;
    for (const std::int32_t diagonal : full_) {
      while (col < end && *col - l < diagonal) ++col;
      if (col < end && *col - l == diagonal) full_[kept++] = diagonal;
    }
    full_.resize(kept);
  }
  if (too_few()) return false;
  slots_.resize(full_.size());
  for (Slot& slot : slots_) slot.mask = 255;
  for (int l = 0; l < height; ++l) {
    rest_[l].clear();
    std::size_t next = 0;
    for (std::int64_t k = 0; k < length_[l]; ++k) {
      if (next == full_.size() || columns_[l][k] - l != full_[next]) {
        rest_[l].push_back(static_cast<std::int32_t>(k));
        continue;
      }
      slots_[next++].col[l] = columns_[l][k];
    }
  }
  return true;
}

// Makes one slot for each diagonal of the remaining entries. Returns false, with nothing done, when that
// needs more slots than the longest remaining row has entries.
bool Encoder::add_slots_by_diagonal() {
  std::size_t longest = 0;
  for (const auto& rest : rest_) longest = std::max(longest, rest.size());
  const std::size_t before = slots_.size();
  std::array<std::size_t, height> at{};
  for (;;) {
    std::int32_t diagonal = no_column;
    for (int l = 0; l < height; ++l)
      if (at[l] < rest_[l].size()) diagonal = std::min(diagonal, columns_[l][rest_[l][at[l]]] - l);
    if (diagonal == no_column) return true;
    if (slots_.size() - before == longest) {
      slots_.resize(before);
      return false;
    }
    Slot& slot = slots_.emplace_back();
    slot.mask = 0;
    for (int l = 0; l < height; ++l) {
      if (at[l] == rest_[l].size() || columns_[l][rest_[l][at[l]]] - l != diagonal) continue;
      slot.mask |= 1u << l;
      slot.col[l] = columns_[l][rest_[l][at[l]++]];
    }
  }
}

// Slot k gets entry k of each row, for whole rows.
void Encoder::add_all_by_rank() {
  const std::int64_t longest = *std::max_element(length_.begin(), length_.end());
  std::array<std::int32_t, height> length;
  std::array<const std::int32_t*, height> columns;
  static constexpr std::int32_t nothing = 0;
  for (int l = 0; l < height; ++l) {
    length[l] = static_cast<std::int32_t>(length_[l]);
    columns[l] = length_[l] > 0 ? columns_[l] : &nothing + 1;  // entry -1 is read, but not used
  }
  slots_.resize(static_cast<std::size_t>(longest));
  slots_by_rank(columns.data(), length.data(), static_cast<std::int32_t>(longest), slots_.data());
}

// Slot k gets entry k of the remaining entries of each row.
void Encoder::add_slots_by_rank() {
  std::size_t longest = 0;
  for (const auto& rest : rest_) longest = std::max(longest, rest.size());
  for (std::size_t k = 0; k < longest; ++k) {
    Slot& slot = slots_.emplace_back();
    slot.mask = 0;
    for (int l = 0; l < height; ++l) {
      if (k >= rest_[l].size()) continue;
      slot.mask |= 1u << l;
      slot.col[l] = columns_[l][rest_[l][k]];
    }
  }
}

}  // namespace protean::formats::packed
