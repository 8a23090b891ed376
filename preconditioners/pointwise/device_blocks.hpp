// Block Jacobi on a device: z := M^-1 r by one kernel, a thread for each row; the blocks of a pattern; and their
// inverses, some lanes of a warp for each. What a kernel does with a row or a block also serves the host. Private to
// preconditioners/.
#pragma once
#include <cstdint>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/vector.hpp"

namespace protean::detail {

constexpr int most_rows = 64;  // of a block

// All rows, in blocks: block b has the rows begin(b) to end(b) - 1, `size` at most.
struct RowBlocks {
  std::int64_t n = 0, count = 0;
  int size = 0;  // 0: not known yet
  // The first row of each block, and n. Null: all blocks have `size` rows, but the last one may have fewer.
  const std::int64_t* starts = nullptr;

  PROTEAN_HOST_DEVICE std::int64_t begin(std::int64_t b) const { return starts ? starts[b] : b * size; }
  PROTEAN_HOST_DEVICE std::int64_t end(std::int64_t b) const {
    if (starts) return starts[b + 1];
    return n - b * size < size ? n : (b + 1) * size;
  }
};
inline RowBlocks equal_blocks(std::int64_t n, std::int64_t size) {
  return {n, (n + size - 1) / size, static_cast<int>(size), nullptr};
}

// Whether a row has the columns of the row before, as far as this lane compares them. `ascending` becomes false if
// it finds that the columns of the row do not ascend.
template <class Pointer>
PROTEAN_HOST_DEVICE bool is_as_before(const Pointer* ptr, const std::int32_t* col, std::int64_t row, int lane,
                                      int lanes, bool& ascending) {
  const std::int64_t begin = ptr[row], count = ptr[row + 1] - begin, before = row > 0 ? ptr[row - 1] : 0;
  bool same = row > 0 && begin - before == count;
  for (std::int64_t k = lane; k < count; k += lanes) {
    const std::int32_t column = col[begin + k];
    if (k > 0 && col[begin + k - 1] >= column) ascending = false;
    same = same && col[before + k] == column;
  }
  return same;
}

// Groups of neighbouring rows with the same columns, as the unknowns of a node.
struct RowGroups {
  std::int64_t n;
  const std::uint8_t* as_before;  // of a row: whether it has the columns of the row before

  // The rows of the group that begins with this row, or most_rows if it has more. 0 if none begins.
  PROTEAN_HOST_DEVICE int rows_of(std::int64_t row) const {
    if (row > 0 && as_before[row]) return 0;
    int rows = 1;
    while (rows < most_rows && row + rows < n && as_before[row + rows]) ++rows;
    return rows;
  }

  // The end of the block that begins with row `first`: it has as many whole groups as fit into `size` rows, or `size`
  // rows of a group that does not fit. What is left of a group that was cut is as a group.
  PROTEAN_HOST_DEVICE std::int64_t end_of_block(std::int64_t first, int size) const {
    if (n - first <= size) return n;
    for (std::int64_t end = first + size; end > first; --end)
      if (!as_before[end]) return end;
    return first + size;
  }
};

// Steps of a device, each for numbers 0, 1 ... of something, in any order.

// Sets *cut if the groups do not allow that block b is as in equal_blocks().
struct CheckBlocks {
  RowGroups groups;
  RowBlocks blocks;
  unsigned* cut;

  PROTEAN_HOST_DEVICE void operator()(std::int64_t b) const {
    if (groups.end_of_block(blocks.begin(b), blocks.size) != blocks.end(b)) *cut = 1;
  }
};

// Each block begins where the one before ends. So that many threads can find blocks, rows are in parts, and each part
// is divided once for each possible place of the first block that begins in it. The host puts these together. Parts are
// so large that their results are few, and no block reaches beyond the next part.
struct RowParts {
  RowGroups groups;
  int size;  // of a block

  PROTEAN_HOST_DEVICE std::int64_t rows() const { return size < 16 ? 1024 : 64 * size; }
  PROTEAN_HOST_DEVICE std::int64_t count() const { return (groups.n + rows() - 1) / rows(); }
  PROTEAN_HOST_DEVICE std::int64_t end(std::int64_t part) const {
    return groups.n - part * rows() < rows() ? groups.n : (part + 1) * rows();
  }
};
struct PartOfBlocks {
  std::uint16_t blocks;  // that begin in the part
  std::uint16_t beyond;  // rows of the last one in the next part
};
// ends[p * size + k] := the result for part p if k of its rows belong to a block that begins before it.
struct WalkParts {
  RowParts parts;
  PartOfBlocks* ends;

  PROTEAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t part = i / parts.size, end = parts.end(part);
    std::int64_t first = part * parts.rows() + i % parts.size, blocks = 0;
    for (; first < end; ++blocks) first = parts.groups.end_of_block(first, parts.size);
    ends[i] = {static_cast<std::uint16_t>(blocks), static_cast<std::uint16_t>(first - end)};
  }
};
// The first block that begins in a part.
struct PartBegin {
  std::int64_t block, row;
};
// RowBlocks::starts of the blocks that begin in a part, and n behind the starts of the last part.
struct StartsOfPart {
  RowParts parts;
  const PartBegin* begins;
  std::int64_t* starts;

  PROTEAN_HOST_DEVICE void operator()(std::int64_t part) const {
    const std::int64_t end = parts.end(part);
    std::int64_t row = begins[part].row, *start = starts + begins[part].block;
    for (; row < end; row = parts.groups.end_of_block(row, parts.size)) *start++ = row;
    if (end == parts.groups.n) *start = end;
  }
};
// BlockInverses::shape of the rows of a block.
struct ShapeOfBlock {
  RowBlocks blocks;
  std::uint16_t* shape;

  PROTEAN_HOST_DEVICE void operator()(std::int64_t b) const {
    const std::int64_t first = blocks.begin(b), rows = blocks.end(b) - first;
    for (std::int64_t i = 0; i < rows; ++i) shape[first + i] = static_cast<std::uint16_t>(i + 256 * rows);
  }
};

// The inverses of the diagonal blocks. Entry j of a row of its block's inverse lies at values[j n + row], so that
// neighbouring threads read neighbouring memory. shape: of a row its number within the block, plus 256 times the rows
// of the block; null if all blocks have `size` rows, but the last one may have fewer.
template <class T>
struct BlockInverses {
  std::int64_t n;
  int size;  // the most rows of a block
  const T* values;
  const std::uint16_t* shape;

  // z_row. The entries of a block are added in ascending order, as on a host.
  PROTEAN_HOST_DEVICE T solve(std::int64_t row, const T* r) const {
    std::int64_t first = row - static_cast<std::int32_t>(row) % size;
    int count = static_cast<int>(n - first < size ? n - first : size);
    if (shape) first = row - shape[row] % 256, count = shape[row] / 256;
    const T* value = values + row;
    T sum = 0;
    for (int j = 0; j < count; ++j, value += n) sum += *value * r[first + j];
    return sum;
  }
};

// The blocks of a matrix in CSR, to be inverted.
template <class T>
struct BlockRows {
  RowBlocks blocks;
  T* inverses;  // as BlockInverses::values

  // Gauss-Jordan elimination with row pivoting, in double precision. The inverse of a symmetric block is made symmetric
  // bit for bit. work: 2 size^2 numbers. Every lane finds the same pivots. sync() lets each see what the others have
  // written. False if an entry is not finite, or the block has no inverse that T can hold.
  template <class Pointer, class Sync>
  PROTEAN_HOST_DEVICE bool invert(const Pointer* ptr, const std::int32_t* col, const T* values,
                                  std::int64_t b, double* work, int lane, int lanes, Sync sync) const {
    const std::int64_t first = blocks.begin(b);
    const int m = static_cast<int>(blocks.end(b) - first), all = m * m;
    double *const a = work, *const x = work + all;
    bool good = true;
    for (int k = lane; k < all; k += lanes) a[k] = 0, x[k] = k / m == k % m ? 1 : 0;
    sync();
    for (int i = 0; i < m; ++i)
      for (std::int64_t p = ptr[first + i] + lane; p < static_cast<std::int64_t>(ptr[first + i + 1]);
           p += lanes) {
        const T value = values[p];
        good = good && value - value == T(0);
        const std::int64_t j = col[p] - first;
        if (j >= 0 && j < m) a[i * m + j] = static_cast<double>(value);
      }
    sync();
    bool symmetric = true;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < i; ++j) symmetric = symmetric && a[i * m + j] == a[j * m + i];
    for (int k = 0; k < m; ++k) {
      int pivot = k;
      for (int i = k + 1; i < m; ++i)
        if (size_of(a[i * m + k]) > size_of(a[pivot * m + k])) pivot = i;
      const double divisor = a[pivot * m + k];
      if (!(size_of(divisor) > 0) || divisor - divisor != 0) return false;
      sync();
      for (int j = lane; j < m; j += lanes) {
        const double of_a = a[pivot * m + j], of_x = x[pivot * m + j];
        a[pivot * m + j] = a[k * m + j], x[pivot * m + j] = x[k * m + j];
        a[k * m + j] = of_a / divisor, x[k * m + j] = of_x / divisor;
      }
      sync();
      // Column k is read as the factors and not written; nobody reads it later.
      for (int e = lane; e < all; e += lanes) {
        const int i = e / m, j = e % m;
        if (i == k) continue;
        const double factor = a[i * m + k];
        if (j > k) a[e] -= factor * a[k * m + j];
        x[e] -= factor * x[k * m + j];
      }
      sync();
    }
    for (int e = lane; e < all; e += lanes) {
      const int i = e / m, j = e % m;
      const auto value = static_cast<T>(symmetric ? 0.5 * (x[e] + x[j * m + i]) : x[e]);
      good = good && value - value == T(0);
      inverses[j * blocks.n + first + i] = value;
    }
    sync();  // before the next block overwrites `work`
    return good;
  }

  PROTEAN_HOST_DEVICE static double size_of(double a) { return a < 0 ? -a : a; }
};

}  // namespace protean::detail

namespace protean::device {

// In device_blocks.cu. r and z do not overlap.
template <class T>
void solve_blocks(const Context& context, const detail::BlockInverses<T>& blocks, VectorView<const T> r,
                  VectorView<T> z);
// BlockRows::invert() of all blocks of csr, which lies on the device. *bad := 1 if one of them is false.
template <class T>
void invert_blocks(const ContextPtr& context, const detail::BlockRows<T>& rows, const CsrMatrix<T>& csr,
                   unsigned* bad);

// RowGroups::as_before of all rows of a pattern on the device. *not_sorted := 1 if columns do not ascend.
void compare_rows(const Context& context, const SparsityPattern& pattern, std::uint8_t* as_before,
                  unsigned* not_sorted);
// rows_in[k] += the rows in groups of k rows, for k = 1 .. most_rows - 1.
void count_groups(const Context& context, const detail::RowGroups& groups, unsigned* rows_in);
// step(i) for i = 0 .. count - 1: one of the steps above, a thread for each.
template <class Step>
void run_step(const Context& context, std::int64_t count, const Step& step);

}  // namespace protean::device
