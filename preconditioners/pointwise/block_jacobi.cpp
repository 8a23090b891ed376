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
// block_size 0: blocks as large as the groups that are common in the pattern, one row if there are none. A block
// that cuts through nodes is often worse than the diagonal: elasticity with 3 unknowns a node takes more iterations
// with blocks of 4 rows than with Jacobi.
//
// Host: block after block, row by row. Device: by the columns of the blocks (device_blocks.hpp). n times the rows of
// the largest block values on both. If the found blocks are not the blocks of `equal`, 8 more bytes per block, and on a
// device 2 more per row.
//
// A device finds the blocks in its own pattern, once for each pattern, and inverts them, all by elimination. No entries
// come to the host; if the found blocks are not the blocks of `equal`, a few numbers for each 1024 rows or more do. The
// host finds the blocks if the columns of a row do not ascend, and inverts them if the device finds no inverse: it has
// other ways, and the message.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/pointwise/device_blocks.hpp"

namespace protean::detail {
namespace {

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

// Blocks and their arrays.
struct OwnBlocks {
  RowBlocks rows;
  Buffer<std::int64_t> starts;  // if `rows` needs them
  Buffer<std::uint16_t> shape;  // on a device, if there are starts: as BlockInverses::shape

  void take(Buffer<std::int64_t> first_rows) {
    starts = std::move(first_rows);
    rows.starts = starts.data(), rows.count = starts.size() - 1;
  }
};

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

// [k]: the rows in groups of k rows, for k > 0.
using RowsInGroups = std::array<unsigned, most_rows>;
RowsInGroups rows_in_groups(const RowGroups& groups) {
  RowsInGroups rows_in{};
  for (std::int64_t row = 0; row < groups.n; ++row)
    if (const int rows = groups.rows_of(row); rows > 0 && rows < most_rows)
      rows_in[rows] += static_cast<unsigned>(rows);
  return rows_in;
}

// The unknowns of a node, as the comment at preconditioners() defines them; 1 without nodes.
std::int64_t unknowns_of_nodes(std::int64_t n, const RowsInGroups& rows_in) {
  if (2 * std::int64_t{rows_in[1]} >= n) return 1;
  std::int64_t size = most_rows, rows = n;  // in groups of `size` rows or more
  for (int k = 1; k < most_rows; ++k) rows -= rows_in[k];
  while (size > 1 && 5 * rows < n) rows += rows_in[--size];
  return size;
}

OwnBlocks find_blocks(const ContextPtr& host, const SparsityPattern& pattern, std::int64_t asked,
                      DiagonalBlocks how) {
  const std::int64_t n = pattern.rows;
  std::vector<std::uint8_t> as_before;
  if (asked == 0 || (how == DiagonalBlocks::found && asked > 1))
    as_before = as_the_row_before(*host, pattern);
  const RowGroups groups{n, as_before.data()};
  OwnBlocks made;
  made.rows = equal_blocks(n, asked > 0 ? asked : unknowns_of_nodes(n, rows_in_groups(groups)));
  const int size = made.rows.size;
  if (how == DiagonalBlocks::equal || size == 1) return made;
  unsigned cut = 0;
  const CheckBlocks check{groups, made.rows, &cut};
  for (std::int64_t b = 0; b < made.rows.count && cut == 0; ++b) check(b);
  if (cut == 0) return made;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < n; row = groups.end_of_block(row, size)) ++count;
  Buffer<std::int64_t> starts(host, count + 1);
  std::int64_t* start = starts.data();
  for (std::int64_t row = 0; row < n; row = groups.end_of_block(row, size)) *start++ = row;
  *start = n;
  made.take(std::move(starts));
  return made;
}

// step(i) for i = 0 .. count - 1 on the device.
template <class Step>
void run_step(const Context& context, std::int64_t count, const Step& step) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context.simulated()) return device::run_step(context, count, step);
#endif
  const DeviceWork open(context);
  for (std::int64_t i = 0; i < count; ++i) step(i);
}

// Some numbers in device memory.
template <class Number>
Buffer<Number> placed(const ContextPtr& device, std::span<const Number> numbers) {
  Buffer<Number> there(device, static_cast<std::int64_t>(numbers.size()));
  copy_bytes(*device, there.data(), Space::device, numbers.data(), Space::host, there.bytes());
  return there;
}
template <class Number>
std::vector<Number> fetched(const Context& device, const Buffer<Number>& numbers) {
  std::vector<Number> here(static_cast<std::size_t>(numbers.size()));
  copy_bytes(device, here.data(), Space::host, numbers.data(), Space::device, numbers.bytes());
  return here;
}

void add_shape(const ContextPtr& device, OwnBlocks& blocks) {
  if (!blocks.rows.starts) return;
  blocks.shape = Buffer<std::uint16_t>(device, blocks.rows.n);
  run_step(*device, blocks.rows.count, ShapeOfBlock{blocks.rows, blocks.shape.data()});
}

// The first rows of blocks, and n, in device memory.
Buffer<std::int64_t> starts_there(const ContextPtr& device, const RowGroups& groups, int size) {
  const RowParts parts{groups, size};
  Buffer<PartOfBlocks> ends(device, parts.count() * size);
  run_step(*device, ends.size(), WalkParts{parts, ends.data()});
  std::vector<PartBegin> begins;
  PartBegin next{0, 0};
  const std::vector<PartOfBlocks> known = fetched(*device, ends);
  for (std::int64_t part = 0; part < parts.count(); ++part) {
    begins.push_back(next);
    const PartOfBlocks& own = known[part * size + next.row - part * parts.rows()];
    next = {next.block + own.blocks, parts.end(part) + own.beyond};
  }
  const Buffer<PartBegin> begins_there = placed<PartBegin>(device, begins);
  Buffer<std::int64_t> starts(device, next.block + 1);
  run_step(*device, parts.count(), StartsOfPart{parts, begins_there.data(), starts.data()});
  return starts;
}

// The same as find_blocks(), of a pattern in device memory. Nothing if columns of a row do not ascend.
std::optional<OwnBlocks> find_blocks_there(const ContextPtr& device, const SparsityPattern& pattern,
                                           std::int64_t asked, DiagonalBlocks how) {
  const std::int64_t n = pattern.rows;
  Buffer<std::uint8_t> as_before(device, n);
  const RowGroups groups{n, as_before.data()};
  RowsInGroups rows_in{};  // [0]: 1 if rows are not sorted
  if (device->simulated()) {
    const DeviceWork open(*device);
    pattern.row_ptr.visit([&](const auto* ptr) {
      for (std::int64_t row = 0; row < n; ++row) {
        bool ascending = true;
        as_before.data()[row] = is_as_before(ptr, pattern.col, row, 0, 1, ascending);
        if (!ascending) rows_in[0] = 1;
      }
    });
    if (asked == 0 && rows_in[0] == 0) rows_in = rows_in_groups(groups);
  } else {
#if defined(PROTEAN_HAVE_CUDA)
    Buffer<unsigned> counts = placed<unsigned>(device, rows_in);
    device::compare_rows(*device, pattern, as_before.data(), counts.data());
    if (asked == 0) device::count_groups(*device, groups, counts.data());
    copy_bytes(*device, rows_in.data(), Space::host, counts.data(), Space::device, counts.bytes());
#endif
  }
  if (rows_in[0] != 0) return std::nullopt;
  OwnBlocks made;
  made.rows = equal_blocks(n, asked > 0 ? asked : unknowns_of_nodes(n, rows_in));
  if (how == DiagonalBlocks::equal || made.rows.size == 1) return made;
  constexpr unsigned none[] = {0};
  Buffer<unsigned> cut = placed<unsigned>(device, none);
  run_step(*device, made.rows.count, CheckBlocks{groups, made.rows, cut.data()});
  if (fetched(*device, cut)[0] != 0) made.take(starts_there(device, groups, made.rows.size));
  add_shape(device, made);
  return made;
}

template <class T>
class BlockJacobi final : public BySolving<T> {
 public:
  BlockJacobi(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : BySolving<T>(A), asked_(options.block_size), how_(options.blocks) {}

  std::string_view name() const noexcept override { return "block-jacobi"; }
  std::vector<PreconditionerFigure> figures() const override {
    if (this->setups() == 0) return {};
    return {{"blocks", static_cast<double>(blocks_.rows.count)},
            {"block_size", static_cast<double>(blocks_.rows.size)}};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const bool analyse = pattern_changed || blocks_.rows.size == 0;
    if (A.context()->space() == Space::device) return setup_on_device(A, analyse);
    const ContextPtr& host = A.context();
    const CsrMatrix<T> csr = finite_rows(A, host, name());
    OwnBlocks found;
    if (analyse) found = find_blocks(host, csr.pattern, asked_, how_);
    inverses_ = invert_blocks(host, csr, analyse ? found.rows : blocks_.rows, false);
    if (analyse) std::swap(blocks_, found);
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const Context& context = *this->context();
    if (context.space() == Space::device) return solve_on_device(r, z);
    const T* const inverses = inverses_.data();
    const RowBlocks& blocks = blocks_.rows;
    parallel(useful_parts(context, r.size * blocks.size), [&](int part, int parts) {
      const Range mine = even_range(blocks.count, part, parts);
      for (std::int64_t b = mine.begin; b < mine.end; ++b) {
        const std::int64_t first = blocks.begin(b), m = blocks.end(b) - first;
        const T* const block = inverses + first * blocks.size;
        for (std::int64_t i = 0; i < m; ++i) {
          T sum = 0;
          for (std::int64_t j = 0; j < m; ++j) sum += block[i * blocks.size + j] * r.data[first + j];
          z.data[first + i] = sum;
        }
      }
    });
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return static_cast<std::size_t>(inverses_.size()) * sizeof(T) + blocks_.shape.bytes() +
           blocks_.starts.bytes();
  }

 private:
  void setup_on_device(const LinearOperator<T>& A, bool analyse) {
    const ContextPtr& context = A.context();
    std::optional<CsrMatrix<T>> there = csr_of(A), here;
    if (there && there->pattern.space != Space::device) there.reset();
    std::optional<OwnBlocks> found;
    if (analyse && there) found = find_blocks_there(context, there->pattern, asked_, how_);
    if (analyse && !found) {
      const ContextPtr host = Context::host();
      here = finite_rows(A, host, name());
      found = find_blocks(host, here->pattern, asked_, how_);
      if (found->rows.starts)
        found->take(placed<std::int64_t>(context, {found->starts.begin(), found->starts.end()}));
      add_shape(context, *found);
    }
    const OwnBlocks& blocks = found ? *found : blocks_;
    Vector<T> inverses;
    if (there) inverses = inverted_there(context, *there, blocks.rows);
    if (inverses.size() == 0 && A.rows() > 0) {
      there.reset();
      const ContextPtr host = Context::host();
      if (!here) here = finite_rows(A, host, name());
      RowBlocks rows = blocks.rows;
      std::vector<std::int64_t> starts;
      if (rows.starts) starts = fetched(*context, blocks.starts), rows.starts = starts.data();
      inverses = invert_blocks(host, *here, rows, true);
    }
    // New values go to the same addresses, since a solver may have recorded steps that use them.
    const bool fits = inverses_.size() == inverses.size() && inverses_.context() == context;
    if (!fits && inverses.context() == context) {
      std::swap(inverses_, inverses);
    } else {
      if (!fits) inverses_ = Vector<T>(context, inverses.size());
      copy<T>(*context, inverses, inverses_);
    }
    if (found) std::swap(blocks_, *found);
  }

  // The inverses by columns, of entries in device memory; empty if the device finds none.
  static Vector<T> inverted_there(const ContextPtr& context, const CsrMatrix<T>& csr, const RowBlocks& rows) {
    Vector<T> inverses(context, rows.n * rows.size);
    const BlockRows<T> blocks{rows, inverses.data()};
    unsigned bad = 0;
    if (context->simulated()) {
      std::vector<double> work(static_cast<std::size_t>(2 * rows.size * rows.size));
      const DeviceWork open(*context);
      std::fill_n(inverses.data(), inverses.size(), T(0));
      csr.pattern.row_ptr.visit([&](const auto* ptr) {
        for (std::int64_t b = 0; b < rows.count; ++b)
          if (!blocks.invert(ptr, csr.pattern.col, csr.values, b, work.data(), 0, 1, [] {})) bad = 1;
      });
    } else {
#if defined(PROTEAN_HAVE_CUDA)
      Buffer<unsigned> flag(context, 1);
      copy_bytes(*context, flag.data(), Space::device, &bad, Space::host, sizeof bad);
      device::invert_blocks<T>(context, blocks, csr, flag.data());
      copy_bytes(*context, &bad, Space::host, flag.data(), Space::device, sizeof bad);
#endif
    }
    return bad == 0 ? std::move(inverses) : Vector<T>();
  }

  static void read_block(const CsrMatrix<T>& csr, std::int64_t first, std::int64_t m, DenseBlock& block) {
    block.reset(m);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t p = csr.pattern.row_ptr[first + i]; p < csr.pattern.row_ptr[first + i + 1]; ++p)
        if (const std::int64_t j = csr.pattern.col[p] - first; j >= 0 && j < m)
          block.at(i, j) = csr.values[p];
  }

  // The inverses of the blocks. Entry (i, j) of the inverse of a block that begins at row `first` lies at (first + i)
  // size + j, or by columns at j n + first + i.
  Vector<T> invert_blocks(const ContextPtr& host, const CsrMatrix<T>& csr, const RowBlocks& blocks,
                          bool by_columns) const {
    const std::int64_t n = blocks.n, size = blocks.size;
    Vector<T> inverses(host, n * size);
    fill<T>(*host, T(0), inverses);
    std::atomic<std::int64_t> bad{blocks.count};
    parallel(useful_parts(*host, n * size), [&](int part, int parts) {
      const Range mine = even_range(blocks.count, part, parts);
      DenseBlock block(size);
      for (std::int64_t b = mine.begin; b < mine.end; ++b) {
        const std::int64_t first = blocks.begin(b), m = blocks.end(b) - first;
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
    if (const std::int64_t b = bad.load(); b < blocks.count)
      refuse_block(csr, blocks.begin(b), blocks.end(b), size);
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

  void solve_on_device(VectorView<const T> r, VectorView<T> z) const {
    const Context& context = *this->context();
    const BlockInverses<T> blocks{z.size, blocks_.rows.size, inverses_.data(), blocks_.shape.data()};
#if defined(PROTEAN_HAVE_CUDA)
    if (!context.simulated()) return device::solve_blocks<T>(context, blocks, r, z);
#endif
    const DeviceWork work(context, {r.data, z.data});
    if (work.ended()) return;
    for (std::int64_t row = 0; row < blocks.n; ++row) z.data[row] = blocks.solve(row, r.data);
  }

  const std::int64_t asked_;  // for the rows of a block; 0: find them
  const DiagonalBlocks how_;
  OwnBlocks blocks_;
  Vector<T> inverses_;
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
