// Block Jacobi on a device: z := M^-1 r by one kernel, a thread for each row, and the inverses of the blocks, some
// lanes of a warp for each. Private to preconditioners/.
#pragma once
#include <cstdint>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// The inverses of the diagonal blocks. Entry j of a row of its block's inverse lies at values[j n + row], so that
// neighbouring threads read neighbouring memory. shape: of a row its number within the block, plus 256 times the rows
// of the block; null where all blocks have `size` rows, but the last one may have fewer.
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

// The blocks of a matrix in CSR, to be inverted: block b has the rows starts[b] to starts[b + 1] - 1, `size` at most.
template <class T>
struct BlockRows {
  std::int64_t n, blocks;
  int size;
  const std::int64_t* starts;
  T* inverses;  // as BlockInverses::values

  // Gauss-Jordan elimination with row pivoting, in double precision. The inverse of a symmetric block is made symmetric
  // bit for bit. work: 2 size^2 numbers. Every lane finds the same pivots. sync() lets each see what the others have
  // written. False where an entry is not finite, or the block has no inverse that T can hold.
  template <class Pointer, class Sync>
  PROTEAN_HOST_DEVICE bool invert(const Pointer* ptr, const std::int32_t* col, const T* values,
                                  std::int64_t b, double* work, int lane, int lanes, Sync sync) const {
    const std::int64_t first = starts[b];
    const int m = static_cast<int>(starts[b + 1] - first), all = m * m;
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
      inverses[j * n + first + i] = value;
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
// BlockRows::invert() of all blocks of csr, which lies on the device. *bad := 1 where one of them is false.
template <class T>
void invert_blocks(const ContextPtr& context, const detail::BlockRows<T>& blocks, const CsrMatrix<T>& csr,
                   unsigned* bad);

}  // namespace protean::device
