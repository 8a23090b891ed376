// Block Jacobi: M has square blocks on the diagonal of A. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed.,
// SIAM 2003, section 12.2. The inverses of the blocks are stored, computed in double precision: of a symmetric positive
// definite block by Cholesky factors, else by Gauss-Jordan elimination with row pivoting. The inverse of a symmetric
// block is symmetric bit for bit.
//
// Blocks `equal` have block_size rows, the last one may be smaller. Blocks `found`: neighbouring rows with the same
// columns belong together, as the unknowns of a node of finite elements do (Saad, SIAM J. Sci. Comput. 24 (2003) 1107,
// doi:10.1137/S1064827501393393). A group of more than block_size rows is cut; neighbouring groups join one block while
// they have at most block_size rows together (Anzt et al., ICPP 2017, doi:10.1109/ICPP.2017.18).
//
// block_size 0: blocks as large as the groups that are common in the pattern, one row where there are none. A block
// that cuts through nodes is often worse than the diagonal: elasticity with 3 unknowns a node takes more iterations
// with blocks of 4 rows than with Jacobi.
//
// Host: block after block, row by row. Device: by the columns of the blocks (device_blocks.hpp). n times the rows of
// the largest block values on both; on a device 2 bytes a row more for blocks found, and 8 a block. Blocks are found on
// the host, once for a pattern; a device reads and inverts them itself, all by elimination.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "operators/rows.hpp"
#include "preconditioners/by_solving.hpp"
#include "preconditioners/device_blocks.hpp"
#include "preconditioners/entries.hpp"
#include "preconditioners/makers.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t most_rows = 64;  // of a block

// A dense m x m block, row by row, and its inverse.
class DenseBlock {
 public:
  explicit DenseBlock(std::int64_t most) : a_(most * most), inverse_(most * most) {}
  void reset(std::int64_t m) {
    m_ = m;
    std::fill(a_.begin(), a_.end(), 0.0);
  }
  double& at(std::int64_t i, std::int64_t j) noexcept { return a_[i * m_ + j]; }
  double inverse(std::int64_t i, std::int64_t j) const noexcept { return inverse_[i * m_ + j]; }

  // False for a block that is singular, or whose inverse double precision cannot hold. The entries are lost.
  bool invert() {
    const bool symmetric = is_symmetric();
    if (!(symmetric && by_cholesky()) && !by_elimination()) return false;
    if (symmetric)
      for (std::int64_t i = 0; i < m_; ++i)
        for (std::int64_t j = 0; j < i; ++j)
          inverse_[i * m_ + j] = inverse_[j * m_ + i] = (inverse_[i * m_ + j] + inverse_[j * m_ + i]) / 2;
    return std::all_of(inverse_.begin(), inverse_.begin() + m_ * m_,
                       [](double v) { return std::isfinite(v); });
  }

 private:
  bool is_symmetric() {
    for (std::int64_t i = 0; i < m_; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        if (!(at(i, j) == at(j, i))) return false;
    return true;
  }

  // inverse := L^-T L^-1
  bool by_cholesky() {
    std::vector<double> l(a_.begin(), a_.begin() + m_ * m_);
    const auto L = [&](std::int64_t i, std::int64_t j) -> double& { return l[i * m_ + j]; };
    for (std::int64_t i = 0; i < m_; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        double sum = L(i, j);
        for (std::int64_t k = 0; k < j; ++k) sum -= L(i, k) * L(j, k);
        if (j < i) {
          L(i, j) = sum / L(j, j);
        } else {
          if (!(sum > 0) || !std::isfinite(sum)) return false;
          L(i, i) = std::sqrt(sum);
        }
      }
    // L := L^-1, column after column
    for (std::int64_t j = 0; j < m_; ++j) {
      L(j, j) = 1 / L(j, j);
      for (std::int64_t i = j + 1; i < m_; ++i) {
        double sum = 0;
        for (std::int64_t k = j; k < i; ++k) sum -= L(i, k) * L(k, j);
        L(i, j) = sum / L(i, i);
      }
    }
    for (std::int64_t i = 0; i < m_; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::int64_t k = i; k < m_; ++k) sum += L(k, i) * L(k, j);
        inverse_[i * m_ + j] = inverse_[j * m_ + i] = sum;
      }
    return true;
  }

  bool by_elimination() {
    for (std::int64_t i = 0; i < m_; ++i)
      for (std::int64_t j = 0; j < m_; ++j) inverse_[i * m_ + j] = i == j;
    for (std::int64_t k = 0; k < m_; ++k) {
      std::int64_t pivot = k;
      for (std::int64_t i = k + 1; i < m_; ++i)
        if (std::abs(at(i, k)) > std::abs(at(pivot, k))) pivot = i;
      const double divisor = at(pivot, k);
      if (divisor == 0 || !std::isfinite(divisor)) return false;
      for (std::int64_t j = 0; j < m_; ++j) {
        std::swap(at(k, j), at(pivot, j)), std::swap(inverse_[k * m_ + j], inverse_[pivot * m_ + j]);
        at(k, j) /= divisor, inverse_[k * m_ + j] /= divisor;
      }
      for (std::int64_t i = 0; i < m_; ++i) {
        const double factor = at(i, k);
        if (i == k || factor == 0) continue;
        for (std::int64_t j = 0; j < m_; ++j)
          at(i, j) -= factor * at(k, j), inverse_[i * m_ + j] -= factor * inverse_[k * m_ + j];
      }
    }
    return true;
  }

  std::int64_t m_ = 0;
  std::vector<double> a_, inverse_;
};

// The first rows of blocks of `size` rows, and the number of rows.
std::vector<std::int64_t> equal_blocks(std::int64_t rows, std::int64_t size) {
  std::vector<std::int64_t> starts;
  for (std::int64_t first = 0; first < rows; first += size) starts.push_back(first);
  starts.push_back(rows);
  return starts;
}

// Which rows have the columns of the row before. Columns ascend in each row of the host.
std::vector<std::uint8_t> as_the_row_before(const Context& host, const SparsityPattern& pattern) {
  const std::int64_t n = pattern.rows;
  const auto columns = [&pattern](std::int64_t row) {
    return std::span(pattern.col + pattern.row_ptr[row], pattern.col + pattern.row_ptr[row + 1]);
  };
  std::vector<std::uint8_t> as_before(static_cast<std::size_t>(n));
  parallel(useful_parts(host, pattern.nonzeros), [&](int part, int parts) {
    const Range mine = even_range(n, part, parts);
    for (std::int64_t row = std::max<std::int64_t>(mine.begin, 1); row < mine.end; ++row)
      as_before[row] = std::ranges::equal(columns(row), columns(row - 1));
  });
  return as_before;
}

// The unknowns of a node, as the comment at preconditioners() defines them; 1 without nodes.
std::int64_t unknowns_of_nodes(const std::vector<std::uint8_t>& as_before) {
  const auto n = static_cast<std::int64_t>(as_before.size());
  std::array<std::int64_t, most_rows + 1> rows_in{};  // groups of so many rows
  for (std::int64_t first = 0, end = 0; first < n; first = end) {
    for (end = first + 1; end < n && as_before[end];) ++end;
    rows_in[std::min(end - first, most_rows)] += end - first;
  }
  if (2 * rows_in[1] >= n) return 1;
  std::int64_t size = most_rows;
  for (std::int64_t rows = rows_in[size]; size > 1 && 5 * rows < n;) rows += rows_in[--size];
  return size;
}

// The first rows of blocks of at most `most` rows, and the number of rows.
std::vector<std::int64_t> found_blocks(const std::vector<std::uint8_t>& as_before, std::int64_t most) {
  const auto n = static_cast<std::int64_t>(as_before.size());
  std::vector<std::int64_t> starts = {0};
  for (std::int64_t first = 0, end = 0; first < n; first = end) {
    for (end = first + 1; end < n && as_before[end] && end - first < most;) ++end;
    if (end - starts.back() > most) starts.push_back(first);
  }
  if (n > 0) starts.push_back(n);
  return starts;
}

template <class T>
class BlockJacobi final : public BySolving<T> {
 public:
  BlockJacobi(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : BySolving<T>(A), asked_(options.block_size), how_(options.blocks), size_(asked_) {}

  std::string_view name() const noexcept override { return "block-jacobi"; }
  std::vector<PreconditionerFigure> figures() const override {
    if (this->setups() == 0) return {};
    return {{"blocks", static_cast<double>(starts_.size() - 1)}, {"block_size", static_cast<double>(size_)}};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const ContextPtr& context = A.context();
    const bool on_device = context->space() == Space::device, analyse = pattern_changed || starts_.empty();
    const ContextPtr host = on_device ? Context::host() : context;
    std::optional<CsrMatrix<T>> csr;
    if (analyse || !on_device) csr = finite_rows(A, host, name());
    std::vector<std::int64_t> starts = starts_;
    std::int64_t size = size_;
    if (analyse) std::tie(starts, size) = find_blocks(*host, csr->pattern);
    if (!on_device) {
      Vector<T> inverses = invert_blocks(host, *csr, starts, size, false);
      std::swap(inverses_, inverses);
    } else {
      Buffer<std::uint16_t> shape;
      Buffer<std::int64_t> starts_there;
      if (analyse) {
        if (how_ == DiagonalBlocks::found) shape = shape_of_rows(context, host, starts);
        starts_there = Buffer<std::int64_t>(context, static_cast<std::int64_t>(starts.size()));
        copy_bytes(*context, starts_there.data(), Space::device, starts.data(), Space::host,
                   starts_there.bytes());
      }
      Vector<T> inverses = inverted_there(A, analyse ? starts_there : starts_there_, size);
      // What the device cannot invert the host tries, which has other ways and the message.
      if (inverses.size() == 0 && A.rows() > 0) {
        if (!csr) csr = finite_rows(A, host, name());
        inverses = invert_blocks(host, *csr, starts, size, true);
      }
      if (inverses_.size() != inverses.size() || inverses_.context() != context)
        inverses_ = Vector<T>(context, inverses.size());
      copy<T>(*context, inverses, inverses_);
      if (analyse) std::swap(shape_, shape), std::swap(starts_there_, starts_there);
    }
    std::swap(starts_, starts), size_ = size;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const Context& context = *this->context();
    if (context.space() == Space::device) return solve_on_device(r, z);
    const T* const inverses = inverses_.data();
    parallel(useful_parts(context, r.size * size_), [&](int part, int parts) {
      const Range mine = even_range(static_cast<std::int64_t>(starts_.size()) - 1, part, parts);
      for (std::int64_t b = mine.begin; b < mine.end; ++b) {
        const std::int64_t first = starts_[b], m = starts_[b + 1] - first;
        const T* const block = inverses + first * size_;
        for (std::int64_t i = 0; i < m; ++i) {
          T sum = 0;
          for (std::int64_t j = 0; j < m; ++j) sum += block[i * size_ + j] * r.data[first + j];
          z.data[first + i] = sum;
        }
      }
    });
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return static_cast<std::size_t>(inverses_.size()) * sizeof(T) + shape_.bytes() + starts_there_.bytes();
  }

 private:
  // The inverses by columns, where the device finds them of its own entries; else empty.
  Vector<T> inverted_there(const LinearOperator<T>& A, const Buffer<std::int64_t>& starts,
                           std::int64_t size) const {
    const ContextPtr& context = A.context();
    const std::optional<CsrMatrix<T>> csr = csr_of(A);
    if (!csr || csr->pattern.space != Space::device) return {};
    Vector<T> inverses(context, A.rows() * size);
    const BlockRows<T> blocks{A.rows(), std::max<std::int64_t>(starts.size() - 1, 0), static_cast<int>(size),
                              starts.data(), inverses.data()};
    unsigned bad = 0;
    if (context->simulated()) {
      std::vector<double> work(static_cast<std::size_t>(2 * size * size));
      const DeviceWork open(*context);
      std::fill_n(inverses.data(), inverses.size(), T(0));
      csr->pattern.row_ptr.visit([&](const auto* ptr) {
        for (std::int64_t b = 0; b < blocks.blocks; ++b)
          if (!blocks.invert(ptr, csr->pattern.col, csr->values, b, work.data(), 0, 1, [] {})) bad = 1;
      });
    } else {
#if defined(PROTEAN_HAVE_CUDA)
      Buffer<unsigned> flag(context, 1);
      copy_bytes(*context, flag.data(), Space::device, &bad, Space::host, sizeof bad);
      device::invert_blocks<T>(context, blocks, *csr, flag.data());
      copy_bytes(*context, &bad, Space::host, flag.data(), Space::device, sizeof bad);
#endif
    }
    return bad == 0 ? std::move(inverses) : Vector<T>();
  }

  // The first rows of the blocks and the number of rows; the most rows of a block.
  std::pair<std::vector<std::int64_t>, std::int64_t> find_blocks(const Context& host,
                                                                 const SparsityPattern& pattern) const {
    std::vector<std::uint8_t> as_before;
    if (asked_ == 0 || how_ == DiagonalBlocks::found) as_before = as_the_row_before(host, pattern);
    const std::int64_t size = asked_ > 0 ? asked_ : unknowns_of_nodes(as_before);
    return {how_ == DiagonalBlocks::found ? found_blocks(as_before, size) : equal_blocks(pattern.rows, size),
            size};
  }

  static void read_block(const CsrMatrix<T>& csr, std::int64_t first, std::int64_t m, DenseBlock& block) {
    block.reset(m);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t p = csr.pattern.row_ptr[first + i]; p < csr.pattern.row_ptr[first + i + 1]; ++p)
        if (const std::int64_t j = csr.pattern.col[p] - first; j >= 0 && j < m)
          block.at(i, j) = csr.values[p];
  }

  // The inverses of the blocks. Entry (i, j) of that of a block that begins at row `first` lies at (first + i) size +
  // j, or by columns at j n + first + i.
  Vector<T> invert_blocks(const ContextPtr& host, const CsrMatrix<T>& csr,
                          const std::vector<std::int64_t>& starts, std::int64_t size, bool by_columns) const {
    const std::int64_t n = csr.rows(), blocks = static_cast<std::int64_t>(starts.size()) - 1;
    Vector<T> inverses(host, n * size);
    fill<T>(*host, T(0), inverses);
    std::atomic<std::int64_t> bad{blocks};
    parallel(useful_parts(*host, n * size), [&](int part, int parts) {
      const Range mine = even_range(blocks, part, parts);
      DenseBlock block(size);
      for (std::int64_t b = mine.begin; b < mine.end; ++b) {
        const std::int64_t first = starts[b], m = starts[b + 1] - first;
        read_block(csr, first, m, block);
        bool good = block.invert();
        for (std::int64_t i = 0; good && i < m; ++i)
          for (std::int64_t j = 0; j < m; ++j) {
            const auto value = static_cast<T>(block.inverse(i, j));
            good = good && std::isfinite(value);
            inverses[by_columns ? j * n + first + i : (first + i) * size + j] = value;
          }
        if (!good)
          for (std::int64_t seen = bad.load(); b < seen && !bad.compare_exchange_weak(seen, b);) {}
      }
    });
    if (const std::int64_t b = bad.load(); b < blocks) refuse_block(csr, starts[b], starts[b + 1], size);
    return inverses;
  }

  [[noreturn]] void refuse_block(const CsrMatrix<T>& csr, std::int64_t first, std::int64_t end,
                                 std::int64_t size) const {
    DenseBlock block(size);
    read_block(csr, first, end - first, block);
    const bool in_double = block.invert();
    throw BadMatrix(fmt::format(
        "block-jacobi inverts blocks of {}{} rows, but the block of rows {} to {} (from 0) {}; {}use another "
        "block_size, or jacobi with zero_diagonal: one",
        how_ == DiagonalBlocks::found ? "at most " : "", size, first, end - 1,
        in_double ? "has an inverse too large for single precision"
                  : "is singular, or its inverse is too large for double precision",
        in_double ? "scale the matrix, solve in double precision, " : ""));
  }

  // As BlockInverses::shape.
  static Buffer<std::uint16_t> shape_of_rows(const ContextPtr& device, const ContextPtr& host,
                                             const std::vector<std::int64_t>& starts) {
    const std::int64_t n = starts.back();
    Buffer<std::uint16_t> there(device, n), shape(host, n);
    for (std::size_t b = 0; b + 1 < starts.size(); ++b)
      for (std::int64_t row = starts[b]; row < starts[b + 1]; ++row)
        shape[row] = static_cast<std::uint16_t>(row - starts[b] + 256 * (starts[b + 1] - starts[b]));
    copy_bytes(*device, there.data(), Space::device, shape.data(), Space::host, there.bytes());
    return there;
  }

  void solve_on_device(VectorView<const T> r, VectorView<T> z) const {
    const Context& context = *this->context();
    const BlockInverses<T> blocks{z.size, static_cast<int>(size_), inverses_.data(), shape_.data()};
#if defined(PROTEAN_HAVE_CUDA)
    if (!context.simulated()) return device::solve_blocks<T>(context, blocks, r, z);
#endif
    const DeviceWork work(context, {r.data, z.data});
    if (work.ended()) return;
    for (std::int64_t row = 0; row < blocks.n; ++row) z.data[row] = blocks.solve(row, r.data);
  }

  const std::int64_t asked_;  // for the rows of a block; 0: find them
  const DiagonalBlocks how_;
  std::int64_t size_;                 // the most rows of a block
  std::vector<std::int64_t> starts_;  // the first row of each block, and the number of rows
  Vector<T> inverses_;
  Buffer<std::uint16_t> shape_;        // of rows, on a device with blocks found
  Buffer<std::int64_t> starts_there_;  // starts_ on a device
};

}  // namespace

template <class T>
MadePreconditioner<T> make_block_jacobi(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<BlockJacobi<T>>(A, options);
}
template MadePreconditioner<float> make_block_jacobi<float>(const LinearOperator<float>&,
                                                            const PreconditionerOptions&);
template MadePreconditioner<double> make_block_jacobi<double>(const LinearOperator<double>&,
                                                              const PreconditionerOptions&);

}  // namespace protean::detail
