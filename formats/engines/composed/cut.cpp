// Cuts on the host. cut.hpp describes them.
#include "formats/engines/composed/cut.hpp"

#include <algorithm>

#include "formats/engines/composed/tally.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {
namespace {

class HostCut final : public Cut {
 public:
  std::vector<std::uint8_t> owner;

  void with_pattern(const Context& context, const SparsityPattern& whole, int part,
                    const std::function<void(const SparsityPattern&)>& use) const override {
    const std::int64_t size = entries[static_cast<std::size_t>(part)];
    std::vector<std::int32_t> col(static_cast<std::size_t>(size)), narrow;
    std::vector<std::int64_t> wide;
    SparsityPattern pattern;
    pattern.rows = whole.rows, pattern.cols = whole.cols, pattern.nonzeros = size, pattern.col = col.data();
    const auto write = [&](auto& row_ptr) {
      row_ptr.resize(static_cast<std::size_t>(whole.rows) + 1);
      fill<double>(context, whole, part, row_ptr.data(), col.data(), nullptr, nullptr);
    };
    if (size < std::int64_t{1} << 31)
      write(narrow), pattern.row_ptr.p32 = narrow.data();
    else
      write(wide), pattern.row_ptr.p64 = wide.data();
    use(pattern);
  }
  CsrMatrix<double> part_of(const ContextPtr& context, const CsrMatrix<double>& whole,
                            int part) const override {
    return make(context, whole, part);
  }
  CsrMatrix<float> part_of(const ContextPtr& context, const CsrMatrix<float>& whole,
                           int part) const override {
    return make(context, whole, part);
  }

 private:
  template <class T>
  CsrMatrix<T> make(const ContextPtr& context, const CsrMatrix<T>& whole, int part) const {
    CsrBuilder<T> builder(context, whole.rows(), whole.cols(), entries[static_cast<std::size_t>(part)]);
    if (builder.row_ptr32())
      fill(*context, whole.pattern, part, builder.row_ptr32(), builder.col(), whole.values, builder.values());
    else
      fill(*context, whole.pattern, part, builder.row_ptr64(), builder.col(), whole.values, builder.values());
    return builder.freeze();
  }

  // from and to may be null.
  template <class T, class P>
  void fill(const Context& context, const SparsityPattern& whole, int part, P* row_ptr, std::int32_t* col,
            const T* from, T* to) const {
    const auto mine = static_cast<std::uint8_t>(part);
    const int parts = useful_parts(context, whole.nonzeros + whole.rows);
    const auto borders = balanced_row_borders(whole, parts);
    const auto for_rows = [&](auto body) {
      parallel(parts, [&](int share, int) {
        const auto s = static_cast<std::size_t>(share);
        for (std::int64_t r = borders[s]; r < borders[s + 1]; ++r)
          body(r, whole.row_ptr[r], whole.row_ptr[r + 1]);
      });
    };
    row_ptr[0] = 0;
    for_rows([&](std::int64_t r, std::int64_t begin, std::int64_t end) {
      row_ptr[r + 1] = static_cast<P>(std::count(owner.begin() + begin, owner.begin() + end, mine));
    });
    for (std::int64_t r = 0; r < whole.rows; ++r) row_ptr[r + 1] += row_ptr[r];
    for_rows([&](std::int64_t r, std::int64_t begin, std::int64_t end) {
      P at = row_ptr[r];
      for (std::int64_t k = begin; k < end; ++k) {
        if (owner[static_cast<std::size_t>(k)] != mine) continue;
        col[at] = whole.col[k];
        if (to) to[at] = from[k];
        ++at;
      }
    });
  }
};

// Gives entries to the parts, rule by rule.
class Cutter {
 public:
  Cutter(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes,
         std::vector<std::uint8_t>& owner)
      : context_(context), pattern_(pattern), value_bytes_(value_bytes), owner_(owner) {}

  // Returns how many entries the part has got.
  std::int64_t apply(const CutRule& rule, std::uint8_t part) {
    // Whole rows of blocks, so that no two threads look at one block.
    const std::int64_t height = rule.by == CutBy::blocks ? rule.block_rows : by_slices(rule) ? rule.slice : 1;
    const int parts = useful_parts(context_, pattern_.rows + pattern_.nonzeros);
    std::vector<char> dense;
    if (rule.by == CutBy::diagonals) dense = dense_diagonals(rule, parts);
    const std::vector<std::int64_t> borders = balanced_row_borders(pattern_, parts, height);
    std::vector<std::int64_t> taken(static_cast<std::size_t>(parts));
    parallel(parts, [&](int share, int) {
      const auto s = static_cast<std::size_t>(share);
      std::int64_t count = 0;
      CutRule mine = rule;
      for (std::int64_t r = borders[s]; r < borders[s + 1]; ++r) {
        if (by_slices(rule) && r % rule.slice == 0)
          mine.entries = slice_width(rule, r, std::min(r + rule.slice, pattern_.rows),
                                     [&](std::int64_t row) { return left_in_row(row); });
        count += take_of_row(mine, part, r, dense);
      }
      taken[s] = count;
    });
    std::int64_t all = 0;
    for (const std::int64_t count : taken) all += count;
    if (rule.by == CutBy::rest || !too_small(rule, all, pattern_.nonzeros)) return all;
    std::replace(owner_.begin(), owner_.end(), part, no_owner);
    return 0;
  }

 private:
  CutView view() const {
    return {pattern_.rows,
            pattern_.cols,
            {pattern_.row_ptr.p32, pattern_.row_ptr.p64},
            pattern_.col,
            owner_.data()};
  }

  std::int64_t left_in_row(std::int64_t r) const {
    return std::count(owner_.begin() + pattern_.row_ptr[r], owner_.begin() + pattern_.row_ptr[r + 1],
                      no_owner);
  }

  std::int64_t take_of_row(const CutRule& rule, std::uint8_t part, std::int64_t r,
                           const std::vector<char>& dense) {
    const std::int64_t begin = pattern_.row_ptr[r], end = pattern_.row_ptr[r + 1];
    const std::int64_t length = left_in_row(r);
    std::int64_t taken = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      std::uint8_t& owner = owner_[static_cast<std::size_t>(k)];
      if (owner != no_owner) continue;
      const std::int32_t c = pattern_.col[k];
      bool takes = true;
      switch (rule.by) {
        case CutBy::diagonals:
          takes = dense[static_cast<std::size_t>(c - r + pattern_.rows)] != 0;
          break;
        case CutBy::band:
          takes = in_band(rule, r, c);
          break;
        case CutBy::rows:
          takes = length > rule.longer_than && length <= rule.at_most;
          break;
        case CutBy::width:
          takes = taken < rule.entries;
          break;
        case CutBy::blocks:
          takes = is_dense_block(rule, left_in_block(view(), rule, part, r, c));
          break;
        case CutBy::rest:
          break;
      }
      if (takes) owner = part, ++taken;
    }
    return taken;
  }

  // One for each offset from -rows.
  std::vector<char> dense_diagonals(const CutRule& rule, int parts) const {
    const auto size = static_cast<std::size_t>(pattern_.rows + pattern_.cols) + 1;
    std::vector<std::vector<std::int64_t>> counts(static_cast<std::size_t>(parts));
    const std::vector<std::int64_t> borders = balanced_row_borders(pattern_, parts);
    parallel(parts, [&](int share, int) {
      const auto s = static_cast<std::size_t>(share);
      counts[s].resize(size);
      for (std::int64_t r = borders[s]; r < borders[s + 1]; ++r)
        for (std::int64_t k = pattern_.row_ptr[r]; k < pattern_.row_ptr[r + 1]; ++k)
          if (owner_[static_cast<std::size_t>(k)] == no_owner)
            ++counts[s][static_cast<std::size_t>(pattern_.col[k] - r + pattern_.rows)];
    });
    std::vector<char> dense(size);
    const DenseDiagonals wanted = diagonals_of(rule, value_bytes_);
    for (std::size_t d = 0; d < size; ++d) {
      std::int64_t count = 0;
      for (const auto& mine : counts) count += mine[d];
      dense[d] =
          is_dense(wanted, pattern_.rows, pattern_.cols, static_cast<std::int64_t>(d) - pattern_.rows, count);
    }
    if (rule.min_band == 1) return dense;
    std::vector<char> thick(size);
    for (std::int64_t d = 0; d < std::ssize(dense); ++d)
      thick[static_cast<std::size_t>(d)] = in_thick_band(rule, d, [&](std::int64_t o) {
        return o >= 0 && o < std::ssize(dense) && dense[static_cast<std::size_t>(o)] != 0;
      });
    return thick;
  }

  const Context& context_;
  const SparsityPattern& pattern_;
  const std::size_t value_bytes_;
  std::vector<std::uint8_t>& owner_;
};

template <class T>
CsrMatrix<T> join_parts(const ContextPtr& context, std::span<const CsrMatrix<T>> parts) {
  std::int64_t nonzeros = 0;
  for (const auto& part : parts) nonzeros += part.nonzeros();
  const std::int64_t rows = parts[0].rows();
  return csr_from_rows<T>(
      context, rows, parts[0].cols(), nonzeros,
      [&](std::int64_t r) {
        std::int64_t length = 0;
        for (const auto& part : parts) length += part.pattern.row_length(r);
        return length;
      },
      [&](std::int64_t r, std::int64_t to, CsrBuilder<T>& builder) {
        std::int64_t next[most_parts] = {};
        for (std::size_t i = 0; i < parts.size(); ++i) next[i] = parts[i].pattern.row_ptr[r];
        for (const std::int64_t end = builder.row_ptr(r + 1); to < end; ++to) {
          std::size_t first = parts.size();
          for (std::size_t i = 0; i < parts.size(); ++i)
            if (next[i] < parts[i].pattern.row_ptr[r + 1] &&
                (first == parts.size() ||
                 parts[i].pattern.col[next[i]] < parts[first].pattern.col[next[first]]))
              first = i;
          builder.col()[to] = parts[first].pattern.col[next[first]];
          builder.values()[to] = parts[first].values[next[first]++];
        }
      });
}

class HostTools final : public CutTools {
 public:
  std::shared_ptr<const Cut> cut(const Context& context, const SparsityPattern& pattern,
                                 std::span<const CutRule> rules, std::size_t value_bytes) const override {
    auto cut = std::make_shared<HostCut>();
    cut->owner.assign(static_cast<std::size_t>(pattern.nonzeros), no_owner);
    Cutter cutter(context, pattern, value_bytes, cut->owner);
    for (const CutRule& rule : rules)
      cut->entries.push_back(cutter.apply(rule, static_cast<std::uint8_t>(cut->entries.size())));
    return cut;
  }
  std::unique_ptr<Tally> tally(const Context& context, const SparsityPattern& pattern) const override {
    return host_tally(context, pattern);
  }
  CsrMatrix<double> join(const ContextPtr& context, std::span<const CsrMatrix<double>> parts) const override {
    return join_parts(context, parts);
  }
  CsrMatrix<float> join(const ContextPtr& context, std::span<const CsrMatrix<float>> parts) const override {
    return join_parts(context, parts);
  }
};

}  // namespace

const CutTools& cuts_on_host() {
  static const HostTools tools;
  return tools;
}

}  // namespace protean::formats
