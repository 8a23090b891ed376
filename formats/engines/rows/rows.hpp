// Products with rows of CSR arrays on the host: one SIMD kernel for csr and for every format that differs from it in
// which rows a thread computes, in which order, or in padding. Private to formats/.
//
// A share is what one thread computes:
//
//   position     row_begin                row_end
//   row        | the rest | whole | ... | the first |     a row may be cut; its pieces are added in order
//   entries    k_begin                         k_end
//
// Position p is row p, or row list[p] if a format lists its rows in its own order.
#pragma once
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/product_parts.hpp"
#include "formats/engines/rows/csr.hpp"
#include "formats/engines/rows/row_tables.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {

// The rows at positions [row_begin, row_end) end in this share. Entries from k_begin on belong to the first of them.
// Without a list the entries up to k_end that follow the last row are the beginning of row row_end. With a list,
// k_end is whole_rows, or the end of the piece of row list[row_end].
struct RowShare {
  static constexpr std::int64_t whole_rows = -1;  // as k_end, in a list
  std::int64_t row_begin, row_end, k_begin, k_end;
  bool operator==(const RowShare&) const = default;
};

// V: the type of the values, which become numbers of type T before anything is computed with them.
template <class T, class P, class V = T>
struct RowsWork {
  const P* row_ptr;
  const std::int32_t* col;
  const V* values;
  T alpha;
  const T* x;
  T beta;
  T* y;
  bool ordered;           // add as in deterministic mode; shares have whole rows then
  bool prefetch = false;  // the arrays do not fit the caches
  bool alike = false;     // rows are short, and most are as long as the one before
  const std::int32_t* list = nullptr;
  const std::int32_t* target =
      nullptr;  // position p is row p of the arrays, and row target[p] of y; not with a list
  std::int64_t uneven_entries = 0;  // if rows_uneven(): the entries that the arrays have; else 0
};

// What a share adds to the row that it begins, and to x . y.
template <class T>
struct ShareCarry {
  T row = 0, dot = 0;
};

// y := alpha A x + beta y for the rows that end in the share. With the dot product, x . A x, alpha is 1 and beta 0 or
// 1; it has no dot product in deterministic mode.
ShareCarry<double> rows_product(const RowsWork<double, std::int32_t>& work, const RowShare& share,
                                bool with_dot);
ShareCarry<double> rows_product(const RowsWork<double, std::int64_t>& work, const RowShare& share,
                                bool with_dot);
ShareCarry<float> rows_product(const RowsWork<float, std::int32_t>& work, const RowShare& share,
                               bool with_dot);
ShareCarry<float> rows_product(const RowsWork<float, std::int64_t>& work, const RowShare& share,
                               bool with_dot);

ShareCarry<double> rows_product(const RowsWork<double, std::int32_t, float>& work, const RowShare& share,
                                bool with_dot);
ShareCarry<double> rows_product(const RowsWork<double, std::int64_t, float>& work, const RowShare& share,
                                bool with_dot);

// All shares, in parallel. Returns x . y when `with_dot`.
template <class T, class P, class V>
T run_shares(const RowsWork<T, P, V>& work, std::int64_t rows, const std::vector<RowShare>& shares,
             bool with_dot) {
  const int parts = static_cast<int>(shares.size());
  PartialSums<ShareCarry<T>> carries(parts);
  parallel(parts, [&](int part, int) { carries[part] = rows_product(work, shares[part], with_dot); });
  T dot = 0;
  for (int part = 0; part < parts; ++part) {
    const RowShare& share = shares[part];
    if (work.list) {
      if (share.k_end != RowShare::whole_rows)
        work.y[work.list[share.row_end]] += work.alpha * carries[part].row;
    } else if (share.row_end < rows && work.row_ptr[share.row_end] < share.k_end) {
      work.y[work.target ? work.target[share.row_end] : share.row_end] += work.alpha * carries[part].row;
    }
    dot += carries[part].dot;
  }
  return dot;
}

// Shares of whole rows between these borders.
std::vector<RowShare> shares_between(const RowPointers& row_ptr, const std::vector<std::int64_t>& borders);
// Shares of whole rows with nearly the same rows + entries, and shares with exactly the same number, which cut rows.
std::vector<RowShare> shares_of_whole_rows(const SparsityPattern& pattern, int parts);
std::vector<RowShare> shares_of_equal_size(const SparsityPattern& pattern, int parts);
// Shares of a list with nearly the same rows + entries. Rows longer than `cut` may be cut.
std::vector<RowShare> shares_of_list(const SparsityPattern& pattern, const std::int32_t* list,
                                     std::int64_t count, int parts, std::int64_t cut);

// Row blocks of csr-stream and csr-adaptive: as many rows as have at most `most_entries` entries together, or one row
// with more. A block has at most block_rows_most rows and does not go past a multiple of block_section rows, so that
// sections can be divided at the same time. first[b] is the first row of block b; the last number is the number of
// rows.
struct RowBlocks {
  std::vector<std::int32_t> first;
};
RowBlocks row_blocks(const SparsityPattern& pattern, std::int64_t most_entries);
Admission admit_blocks(const SparsityPattern& pattern, RowBlocks blocks, std::size_t value_bytes);
// Shares with nearly the same rows + entries that end where a block ends, or within a row longer than `cut`.
std::vector<RowShare> shares_of_blocks(const SparsityPattern& pattern, const RowBlocks& blocks, int parts,
                                       std::int64_t cut);

// The row that begins nearest to entry i nnz / parts, for i = 0 .. parts; 0 and the number of rows at the ends.
std::vector<std::int64_t> borders_of_equal_entries(const SparsityPattern& pattern, int parts);
// On the host.
int ranges_asked_for(const Context& context, const SparsityPattern& pattern, const FormatParams& params);
Admission admit_ranges(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                       std::size_t value_bytes);

// The rows in the order of key(row) < keys, stable; ptr[key] is the first position of a key, ptr[keys] = rows.
template <class Key>
std::vector<std::int64_t> list_rows(std::int64_t rows, std::int64_t keys, Key key, std::int32_t* list) {
  std::vector<std::int64_t> ptr(static_cast<std::size_t>(keys) + 1), next;
  for (std::int64_t r = 0; r < rows; ++r) ++ptr[static_cast<std::size_t>(key(r)) + 1];
  for (std::size_t i = 1; i < ptr.size(); ++i) ptr[i] += ptr[i - 1];
  next = ptr;
  for (std::int64_t r = 0; r < rows; ++r)
    list[next[static_cast<std::size_t>(key(r))]++] = static_cast<std::int32_t>(r);
  return ptr;
}

// True when the arrays of csr do not fit the caches: then prefetching pays, else it costs a tenth of the time.
inline bool worth_prefetching(const SparsityPattern& pattern, std::size_t value_bytes) {
  constexpr std::size_t cache = std::size_t{16} << 20;
  return csr_bytes(pattern, value_bytes) > cache;
}

// True when rows are short and most of them are as long as the row before. It is decided for the whole matrix, so that
// the sums do not depend on the number of threads.
bool rows_alike(const SparsityPattern& pattern);
// True when there are more rows than a processor remembers the lengths of, and most differ from the row before.
bool rows_uneven(const SparsityPattern& pattern);

// Entries of the longest row of a pattern in the context's space. In device memory the host waits for it.
std::int64_t longest_row(const Context& context, const SparsityPattern& pattern);

// The first row with that many entries, which a pattern in the context's space has. In device memory the host waits for
// it.
std::int64_t row_of_length(const Context& context, const SparsityPattern& pattern, std::int64_t entries);

// The caller's CSR arrays, and products over shares, which the derived class sets in its constructor.
template <class T>
class CsrInShares : public CsrHolder<T>, public HasApplyDot<T> {
 public:
  explicit CsrInShares(const BuildRequest<T>& request)
      : CsrHolder<T>(request),
        prefetch_(worth_prefetching(csr_.pattern, sizeof(T))),
        alike_(rows_alike(csr_.pattern)),
        uneven_(rows_uneven(csr_.pattern)) {}

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

 protected:
  // `list` lives as long as the matrix.
  void set_shares(std::vector<RowShare> shares, const std::int32_t* list = nullptr) {
    shares_ = std::move(shares), list_ = list;
  }
  // The parts that are worth having for this matrix.
  int parts() const { return product_parts(*this->context(), csr_.rows(), csr_.nonzeros()); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }
  // Calls f(RowsWork<T, P>) with the type P of the row pointers.
  template <class F>
  T with_work(T alpha, VectorView<const T> x, T beta, VectorView<T> y, F&& f) const {
    return with_work_on(csr_.values, alpha, x, beta, y, std::forward<F>(f));
  }
  // The same for other values of the entries.
  template <class V, class F>
  T with_work_on(const V* values, T alpha, VectorView<const T> x, T beta, VectorView<T> y, F&& f) const {
    return csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      return f(RowsWork<T, std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>, V>{
          row_ptr, csr_.pattern.col, values, alpha, x.data, beta, y.data, this->context()->deterministic(),
          prefetch_, alike_, list_, nullptr, uneven_ ? csr_.nonzeros() : 0});
    });
  }

  template <class V>
  T run_on(const V* values, T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return with_work_on(values, alpha, x, beta, y,
                        [&](const auto& work) { return run_shares(work, csr_.rows(), shares_, with_dot); });
  }

  // What a layout shows: the arrays of csr and the arrays of the format.
  std::vector<LayoutArray> layout_with(std::vector<LayoutArray> own) const {
    std::vector<LayoutArray> all = CsrHolder<T>::layout();
    for (LayoutArray& array : own) all.push_back(std::move(array));
    return all;
  }

  using CsrHolder<T>::csr_;

 private:
  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return run_on(csr_.values, alpha, x, beta, y, with_dot);
  }

  std::vector<RowShare> shares_;
  const std::int32_t* list_ = nullptr;
  bool prefetch_, alike_, uneven_;
};

// The caller's CSR arrays with row blocks, which admit() has found.
template <class T>
class CsrInBlocks : public CsrInShares<T> {
 public:
  CsrInBlocks(const BuildRequest<T>& request, std::int64_t cut) : CsrInShares<T>(request) {
    const RowBlocks& blocks = plan_of<RowBlocks>(request.admission);
    block_ptr_ = Buffer<std::int32_t>(request.context, static_cast<std::int64_t>(blocks.first.size()));
    std::copy(blocks.first.begin(), blocks.first.end(), block_ptr_.begin());
    if (request.context->deterministic()) cut = std::numeric_limits<std::int64_t>::max();
    this->set_shares(shares_of_blocks(request.csr.pattern, blocks, this->parts(), cut));
  }
  std::size_t bytes() const noexcept override { return CsrInShares<T>::bytes() + block_ptr_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return this->layout_with({layout_array("block_ptr", block_ptr_)});
  }

 private:
  Buffer<std::int32_t> block_ptr_;
};

// The caller's CSR arrays with ranges of rows that have about the same number of entries.
template <class T>
class CsrInRanges : public CsrInShares<T> {
 public:
  explicit CsrInRanges(const BuildRequest<T>& request) : CsrInShares<T>(request) {
    const SparsityPattern& pattern = request.csr.pattern;
    const auto borders =
        borders_of_equal_entries(pattern, ranges_asked_for(*request.context, pattern, request.params));
    border_ = Buffer<std::int32_t>(request.context, static_cast<std::int64_t>(borders.size()));
    for (std::size_t i = 0; i < borders.size(); ++i)
      border_[static_cast<std::int64_t>(i)] = static_cast<std::int32_t>(borders[i]);
    this->set_shares(shares_between(pattern.row_ptr, borders));
  }
  std::size_t bytes() const noexcept override { return CsrInShares<T>::bytes() + border_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return this->layout_with({layout_array("border", border_)});
  }

 protected:
  int ranges() const { return static_cast<int>(border_.size()) - 1; }
  std::int64_t border(int i) const { return border_[i]; }

 private:
  Buffer<std::int32_t> border_;
};

}  // namespace protean::formats
