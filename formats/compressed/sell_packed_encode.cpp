// The encoder: it chooses the order of the rows, the slots of a slice (sell_packed_slots.cpp makes them) and the
// shortest code for each. See sell_packed.cpp.
#include <bit>
#include <numeric>

#include "formats/compressed/sell_packed_layout.hpp"

namespace protean::formats::packed {
namespace {

// The cost of a slot beyond its bytes, as the number of bytes that could be read in that time. Roughly
// measured. It decides between codes and orders with similar bytes.
constexpr std::array<std::int32_t, kinds> work = {0, 4, 8, 24, 24, 24};

// The least cost of a slot in sorted order, in the same unit. There, rows are hardly ever neighbours.
constexpr double least_cost_of_sorted_slot = 64 + 12 + 4;

// Sorting must reduce the slots to this part, because it separates neighbouring rows.
constexpr double least_gain = 0.97;

// One slice in this many rows is encoded in both orders, to choose between them.
constexpr int sample_step = 64;

// A slice with more entries is not remembered as a shape.
constexpr std::int64_t longest_shape = 4096;

}  // namespace

void Encoder::encode(std::int64_t first) {
  const int rows = static_cast<int>(std::min<std::int64_t>(window, pattern_.rows - first));
  if (order_ == Order::natural) {
    encode_rows(first, rows, nullptr, natural_);
    best_ = &natural_;
    return;
  }
  std::array<std::int64_t, window> length{};
  for (int r = 0; r < rows; ++r) length[r] = pattern_.row_length(first + r);
  const std::int64_t longest = rows ? *std::max_element(length.begin(), length.begin() + rows) : 0;
  if (order_ == Order::automatic && !sorting_saves_slots(rows, length, longest)) {
    encode_rows(first, rows, nullptr, natural_);
    best_ = &natural_;
    return;
  }
  // The longest rows come first. Rows of equal length keep their order.
  std::array<unsigned char, window> order{};
  if (longest < 8 * window) {
    place_.assign(static_cast<std::size_t>(longest) + 2, 0);
    for (int r = 0; r < rows; ++r) ++place_[static_cast<std::size_t>(longest - length[r]) + 1];
    std::partial_sum(place_.begin(), place_.end(), place_.begin());
    for (int r = 0; r < rows; ++r)
      order[place_[static_cast<std::size_t>(longest - length[r])]++] = static_cast<unsigned char>(r);
  } else {
    std::iota(order.begin(), order.begin() + rows, static_cast<unsigned char>(0));
    std::stable_sort(order.begin(), order.begin() + rows,
                     [&](unsigned char a, unsigned char b) { return length[a] > length[b]; });
  }
  const bool sort = order_ == Order::sorted || sorting_pays(first, rows, length, order);
  Result& result = sort ? sorted_ : natural_;
  encode_rows(first, rows, sort ? order.data() : nullptr, result);
  best_ = &result;
}

// Whether the order by length needs clearly fewer slots.
bool Encoder::sorting_saves_slots(int rows, const std::array<std::int64_t, window>& length,
                                  std::int64_t longest) {
  if (longest >= 8 * window) return true;  // counting would take too long
  std::int64_t slots = 0, sorted_slots = 0;
  place_.assign(static_cast<std::size_t>(longest) + 1, 0);
  for (int r = 0; r < rows; r += height) {
    std::int64_t most = 0;
    for (int l = r; l < std::min(r + height, rows); ++l) {
      most = std::max(most, length[l]);
      ++place_[static_cast<std::size_t>(length[l])];
    }
    slots += most;
  }
  // In that order the longest row of each slice is every eighth row.
  int before = 0;
  for (std::int64_t n = longest; n > 0; --n) {
    const int count = place_[static_cast<std::size_t>(n)];
    sorted_slots += n * ((before + count + height - 1) / height - (before + height - 1) / height);
    before += count;
  }
  return static_cast<double>(sorted_slots) <= least_gain * static_cast<double>(slots);
}

// Decides by the number of slots; if that is not enough, by the cost of a few slices in each order.
// Encoding all slices twice would take twice the time.
bool Encoder::sorting_pays(std::int64_t first, int rows, const std::array<std::int64_t, window>& length,
                           const std::array<unsigned char, window>& order) {
  std::int64_t slots = 0, sorted_slots = 0;
  for (int r = 0; r < rows; r += height) {
    slots += *std::max_element(length.begin() + r, length.begin() + std::min(r + height, rows));
    sorted_slots += length[order[r]];
  }
  if (static_cast<double>(sorted_slots) > least_gain * static_cast<double>(slots)) return false;
  const double a_slot = sampled_cost(first, rows, nullptr);
  if (static_cast<double>(sorted_slots) * least_cost_of_sorted_slot >= static_cast<double>(slots) * a_slot)
    return false;
  return static_cast<double>(sorted_slots) * sampled_cost(first, rows, order.data()) <
         static_cast<double>(slots) * a_slot;
}

// The mean cost of a slot, from a sample of the slices.
double Encoder::sampled_cost(std::int64_t first, int rows, const unsigned char* order) {
  sample_.code.clear(), sample_.places.clear();
  sample_.slots = 0, sample_.cost = 0;
  const int step = rows < window ? height : sample_step;
  for (int s = rows < window ? 0 : sample_step / 2; s < rows; s += step)
    encode_rows_of_slice(first, rows, s, order, sample_);
  return sample_.slots > 0 ? sample_.cost / static_cast<double>(sample_.slots) : 0;
}

void Encoder::encode_rows(std::int64_t first, int rows, const unsigned char* order, Result& result) {
  result.code.clear(), result.places.clear();
  result.slots = 0, result.cost = 0;
  result.code.push_back(order != nullptr);
  if (order) {
    result.code.resize(1 + order_words);
    std::memcpy(&result.code[1], order, window);
  }
  for (int s = 0; s < rows; s += height) encode_rows_of_slice(first, rows, s, order, result);
}

void Encoder::encode_rows_of_slice(std::int64_t first, int rows, int s, const unsigned char* order,
                                   Result& result) {
  if (!order && s + height <= rows) {
    encode_natural_slice(first + s, result);
    return;
  }
  std::array<std::int64_t, height> lanes;
  for (int l = 0; l < height; ++l) lanes[l] = s + l >= rows ? -1 : first + (order ? order[s + l] : s + l);
  result.cost += encode_slice(lanes, order == nullptr, result);
}

void Encoder::encode_natural_slice(std::int64_t row, Result& result) {
  const std::int64_t begin = pattern_.row_ptr[row], entries = pattern_.row_ptr[row + height] - begin;
  const std::int32_t* col = pattern_.col + begin;
  const auto base = static_cast<std::int32_t>(row);
  if (entries == 0 || entries > longest_shape) {
    std::array<std::int64_t, height> rows;
    for (int l = 0; l < height; ++l) rows[l] = row + l;
    result.cost += encode_slice(rows, true, result);
    return;
  }
  std::array<std::uint32_t, height> ends;
  std::uint32_t hash = static_cast<std::uint32_t>(col[0] - base) * 0x9e3779b1u;
  for (int l = 0; l < height; ++l) {
    ends[l] = static_cast<std::uint32_t>(pattern_.row_ptr[row + l + 1] - begin);
    hash = (hash ^ ends[l]) * 0x85ebca6bu;
  }
  hash ^= static_cast<std::uint32_t>(col[entries - 1] - base) * 0xc2b2ae35u;
  hash ^= static_cast<std::uint32_t>(col[entries / 2] - base) * 0x27d4eb2fu;
  Shape& shape = known_[(hash ^ hash >> 15) % shapes];
  std::uint32_t other_ends = 0;  // one by one: a wide load would wait for the stores above
  for (int l = 0; l < height; ++l) other_ends |= shape.ends[l] ^ ends[l];
  bool same = other_ends == 0 && row + shape.reach <= pattern_.cols;
  if (same) {
    std::int32_t differ = 0;
    const std::int32_t* known = shape.columns.data();
    for (std::int64_t k = 0; k < entries; ++k) differ |= (col[k] - base) ^ known[k];
    same = differ == 0;
  }
  const std::size_t code_begin = result.code.size(), places_begin = result.places.size();
  const std::int64_t slots_before = result.slots;
  hits_ += same;
  if (same) {
    result.code.resize(code_begin + shape.code.size());
    std::uint32_t* code = &result.code[code_begin];
    std::copy(shape.code.begin(), shape.code.end(), code);
    for (std::uint32_t word : shape.bases) code[word] += static_cast<std::uint32_t>(row);
    result.places.insert(result.places.end(), shape.places.begin(), shape.places.end());
    result.slots += shape.slots;
    result.cost += shape.cost;
    return;
  }
  std::array<std::int64_t, height> rows;
  for (int l = 0; l < height; ++l) rows[l] = row + l;
  const double cost = encode_slice(rows, true, result);
  result.cost += cost;
  // In a matrix without regularity shapes do not occur again; then most are not remembered.
  if (at_the_end_ || (++misses_ > 256 + 2 * hits_ && misses_ % 16 != 0)) return;
  shape.ends = ends;
  shape.columns.resize(static_cast<std::size_t>(entries));
  for (std::int64_t k = 0; k < entries; ++k) shape.columns[k] = col[k] - base;
  shape.cost = cost;
  shape.slots = result.slots - slots_before;
  shape.code.assign(result.code.begin() + static_cast<std::ptrdiff_t>(code_begin), result.code.end());
  shape.places.assign(result.places.begin() + static_cast<std::ptrdiff_t>(places_begin), result.places.end());
  learn_shape(shape, row);
}

// Makes the code of a shape relative to the first row of the slice.
void Encoder::learn_shape(Shape& shape, std::int64_t row) {
  shape.bases.clear();
  std::int64_t reach = 0;
  for (std::uint32_t at = 0; at < shape.code.size();) {
    const ChunkHeader header = read_header(&shape.code[at]);
    at += header_words;
    for (int kind = 0; kind < kinds; ++kind)
      for (int g = 0; g < header.groups[kind]; ++g, at += static_cast<std::uint32_t>(group_words[kind])) {
        const Decoded group = read_group(static_cast<Kind>(kind), &shape.code[at]);
        std::int64_t last = shape.code[at];
        if (kind == pair) last += shape.code[at + 2] & 0xffff;
        if (kind == quad) last += shape.code[at + 3] & 0xffff;
        reach = std::max(reach, last + (kind == pair || kind == quad ? group.run - 1 + height : 0) - row);
        for (int word = 0; word < (kind == wide ? height : 1); ++word)
          shape.bases.push_back(at + static_cast<std::uint32_t>(word));
      }
  }
  for (std::uint32_t word : shape.bases) shape.code[word] -= static_cast<std::uint32_t>(row);
  shape.reach = reach;
}

// Returns the cost.
double Encoder::encode_slice(const std::array<std::int64_t, height>& rows, bool natural, Result& result) {
  unsigned live = 0;
  at_the_end_ = false;
  for (int l = 0; l < height; ++l) {
    length_[l] = 0;
    if (rows[l] >= 0) {
      columns_[l] = pattern_.col + pattern_.row_ptr[rows[l]];
      length_[l] = pattern_.row_length(rows[l]);
    }
    if (length_[l] > 0) live |= 1u << l;
  }
  double cost = 0;
  Rule rule = by_rank;
  slots_.clear();
  if (natural && live == 255 && take_full_diagonals()) {
    rule = by_diagonal;
    if (!add_slots_by_diagonal()) {
      if (ordered_)
        add_all_by_rank(), rule = by_rank;
      else
        add_slots_by_rank(), rule = full_then_rank;
    }
    cost = group_slots();
    // Without the full diagonals, dense blocks on the main diagonal are no longer dense, and their code is
    // longer.
    if (groups_.back().kind != contiguous && least_cost_by_rank() < least_gain * cost) {
      std::swap(slots_, other_slots_), std::swap(groups_, other_groups_);
      add_all_by_rank();
      const double cost_by_rank = group_slots();
      if (cost_by_rank >= cost)
        std::swap(slots_, other_slots_), std::swap(groups_, other_groups_);
      else
        cost = cost_by_rank, rule = by_rank;
    }
  } else {
    full_.clear();
    if (natural && live != 255) {
      keep_all_rows();
      if (add_slots_by_diagonal()) rule = by_diagonal;
    }
    if (rule == by_rank) add_all_by_rank();
    cost = group_slots();
  }
  emit(live, rule, result);
  return cost;
}

// The least cost of the whole slice by rank, found after the full diagonals were taken. By the longest row: a
// slot that is not a full diagonal and does not continue the slot before it is at best the beginning of a pair.
double Encoder::least_cost_by_rank() const {
  const auto lane =
      static_cast<std::size_t>(std::max_element(length_.begin(), length_.end()) - length_.begin());
  const std::int32_t* col = columns_[lane];
  std::int64_t beginnings = 0;
  for (const std::int32_t k : rest_[lane]) beginnings += k == 0 || col[k] != col[k - 1] + 1;
  return static_cast<double>((8 * height + work[pair]) * length_[lane] + 4 * group_words[pair] * beginnings);
}

// Padding multiplies 0 by an x. It takes one that the row uses anyway, near the other columns of the slot.
void Encoder::fill_padding(Slot& slot) const {
  std::int32_t near_to = no_column;
  for (int l = 0; l < height; ++l)
    if (slot.mask >> l & 1) near_to = std::min(near_to, slot.col[l]);
  for (int l = 0; l < height; ++l) {
    if (slot.mask >> l & 1) continue;
    if (length_[l] == 0) {
      slot.col[l] = near_to;  // the sum of an empty row is not used
      continue;
    }
    const std::int32_t* end = columns_[l] + length_[l];
    const std::int32_t* at = std::lower_bound(columns_[l], end, near_to);
    slot.col[l] = at == end ? end[-1] : *at;
  }
}

// Writes to `group` in its final place: a copy would wait for the stores of its words.
void Encoder::classify(int number, Group& group) {
  Slot& slot = slots_[number];
  group.kind = contiguous, group.first = number, group.run = 1, group.words = {};
  const auto unsign = [](std::int32_t i) { return static_cast<std::uint32_t>(i); };
  if (pattern_.cols >= height) {
    const std::int32_t after = stretches_[number].after;
    const Stretches& found = stretches_[number - after];
    std::array<std::int32_t, 4> start = found.start;
    for (std::int32_t& column : start) column += after;
    if (found.contiguous) {
      group.words[0] = unsign(slot.col[0]);
      return;
    }
    at_the_end_ |= found.at_the_end;
    if (found.covered && start[3] - start[0] < 65536) {
      group.words[0] = unsign(start[0]), group.words[1] = found.index;
      if (found.count <= 2) {
        group.kind = pair;
        group.words[2] = unsign(start[1] - start[0]) | slot.mask << 16;
      } else {
        group.kind = quad;
        group.words[2] = unsign(start[1] - start[0]) | unsign(start[2] - start[0]) << 16;
        group.words[3] =
            unsign(start[3] - start[0]) | (slot.mask & ~found.second_pair) << 16 | found.second_pair << 24;
      }
      return;
    }
  }
  fill_padding(slot);
  const auto [low, high] = std::minmax_element(slot.col.begin(), slot.col.end());
  const std::int32_t base = *low, spread = *high - *low;
  group.words[0] = unsign(base);
  if (spread < 256) {
    group.kind = near;
    std::array<std::uint8_t, height> offsets;
    for (int l = 0; l < height; ++l) offsets[l] = static_cast<std::uint8_t>(slot.col[l] - base);
    std::memcpy(&group.words[1], offsets.data(), sizeof offsets);
  } else if (spread < 65536) {
    group.kind = far;
    std::array<std::uint16_t, height> offsets;
    for (int l = 0; l < height; ++l) offsets[l] = static_cast<std::uint16_t>(slot.col[l] - base);
    std::memcpy(&group.words[1], offsets.data(), sizeof offsets);
  } else {
    group.kind = wide;
    for (int l = 0; l < height; ++l) group.words[l] = unsign(slot.col[l]);
  }
}

// True when the slot has the columns of the group's last slot plus 1, and its stretches stay inside x.
bool Encoder::extends(const Group& group, int number) {
  if ((group.kind != pair && group.kind != quad) || group.run == most_run) return false;
  if (!stretches_[number].follows) return false;
  const std::int64_t highest = static_cast<std::int64_t>(group.words[0]) +
                               (group.kind == pair ? group.words[2] & 0xffff : group.words[3] & 0xffff);
  if (highest + group.run + height <= pattern_.cols) return true;
  at_the_end_ = true;
  return false;
}

double Encoder::group_slots() {
  std::int64_t cost = 8 * height * static_cast<std::int64_t>(slots_.size());
  groups_.clear();
  if (pattern_.cols >= height) {
    stretches_.resize(std::max(stretches_.size(), slots_.size()));
    find_stretches(slots_.data(), slots_.size(), pattern_.cols, stretches_.data());
  }
  for (int s = 0; s < static_cast<int>(slots_.size()); ++s) {
    if (!groups_.empty() && extends(groups_.back(), s)) {
      ++groups_.back().run;
    } else {
      classify(s, groups_.emplace_back());
      cost += 4 * group_words[groups_.back().kind];
    }
    cost += work[groups_.back().kind];
  }
  return static_cast<double>(cost);
}

// Numbers the slots by ascending diagonal, full diagonals and the others together.
void Encoder::number_by_diagonal() {
  number_.resize(slots_.size());
  std::size_t full = 0, other = full_.size();
  const auto diagonal = [&](std::size_t s) {
    const int lane = std::countr_zero(slots_[s].mask);
    return slots_[s].col[lane] - lane;
  };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const bool take_full = other == slots_.size() || (full < full_.size() && full_[full] < diagonal(other));
    number_[take_full ? full++ : other++] = static_cast<std::uint32_t>(i);
  }
}

// Takes the groups of an ordered chunk: from number `next` of the sequence on, as long as their kinds come in
// the order in which a chunk stores them. Returns the number after the last.
std::size_t Encoder::take_in_order(std::size_t next) {
  for (auto& list : of_kind_) list.clear();
  for (int kind = 0; next < sequence_.size(); ++next) {
    const Group& group = groups_[sequence_[next]];
    if (group.kind < kind || of_kind_[group.kind].size() == most_groups) break;
    kind = group.kind;
    of_kind_[kind].push_back(sequence_[next]);
  }
  return next;
}

void Encoder::emit(unsigned live, Rule rule, Result& result) {
  if (rule == by_diagonal) number_by_diagonal();
  result.slots += static_cast<std::int64_t>(slots_.size());
  const std::size_t size = slots_.size() <= 256 ? 1 : slots_.size() <= 65536 ? 2 : 4;
  std::size_t place = result.places.size();
  result.places.resize(place + 1 + size * groups_.size());
  result.places[place++] = static_cast<unsigned char>(rule | size << 2);
  // The groups of each kind that are not yet written, in order.
  std::array<std::vector<int>, kinds>& of_kind = of_kind_;
  for (auto& list : of_kind) list.clear();
  const auto number_of = [&](int g) {
    const auto slot = static_cast<std::size_t>(groups_[g].first);
    return rule == by_diagonal ? number_[slot] : static_cast<std::uint32_t>(slot);
  };
  std::size_t next = 0;
  if (ordered_) {
    sequence_.resize(groups_.size());
    std::iota(sequence_.begin(), sequence_.end(), 0);
    std::sort(sequence_.begin(), sequence_.end(), [&](int a, int b) { return number_of(a) < number_of(b); });
  } else {
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) of_kind[groups_[g].kind].push_back(g);
  }
  std::array<std::size_t, kinds> done{};
  for (;;) {
    if (ordered_) next = take_in_order(next), done = {};
    ChunkHeader header{{}, live, !ordered_ || next == sequence_.size()};
    std::size_t words = header_words;
    for (int kind = 0; kind < kinds; ++kind) {
      const std::size_t left = of_kind[kind].size() - done[kind];
      header.groups[kind] = static_cast<int>(std::min<std::size_t>(left, most_groups));
      header.last &= left <= most_groups;
      words += static_cast<std::size_t>(header.groups[kind] * group_words[kind]);
    }
    const std::size_t begin = result.code.size();
    result.code.resize(begin + words);
    std::uint32_t* code = &result.code[begin];
    write_header(header, code);
    code += header_words;
    for (int kind = 0; kind < kinds; ++kind)
      for (int i = 0; i < header.groups[kind]; ++i) {
        const int g = of_kind[kind][done[kind]++];
        Group& group = groups_[g];
        if (kind == pair) group.words[2] |= static_cast<std::uint32_t>(group.run) << 24;
        if (kind == quad) group.words[4] = static_cast<std::uint32_t>(group.run);
        code = std::copy_n(group.words.begin(), group_words[kind], code);
        const std::uint32_t number = number_of(g);
        for (std::size_t byte = 0; byte < size; ++byte)
          result.places[place++] = static_cast<unsigned char>(number >> (8 * byte));
      }
    if (header.last) break;
  }
}

}  // namespace protean::formats::packed
