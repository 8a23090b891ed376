// Products with rows of CSR arrays on the host: one SIMD kernel for csr and for every format that differs from it in
// which rows a thread computes, in which order, or in padding. Private to formats/.
//
// A share is what one thread computes:
//
//   position     row_begin                row_end
//   row        | the rest | whole | ... | the first |     a row may be cut; its pieces are added in order
//   entries    k_begin                         k_end
//
// Position p is row p, or row list[p] where a format lists its rows in an order of its own.
#pragma once
#include <vector>

#include "formats/host_support.hpp"
#include "formats/private/csr.hpp"

namespace protean::formats {

// The rows at positions [row_begin, row_end) end in this share. Entries from k_begin on belong to the first of them.
// Without a list the entries up to k_end that follow the last row are the beginning of row row_end. With a list,
// k_end is whole_rows, or the end of the piece of row list[row_end].
struct RowShare {
  static constexpr std::int64_t whole_rows = -1;  // as k_end, in a list
  std::int64_t row_begin, row_end, k_begin, k_end;
  bool operator==(const RowShare&) const = default;
};

template <class T, class P>
struct RowsWork {
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
  T alpha;
  const T* x;
  T beta;
  T* y;
  bool ordered;       // add as in deterministic mode; shares have whole rows then
  bool lengths_vary;  // short rows of varying length, x in the cache
  const std::int32_t* list = nullptr;
};

// What a share adds to the row that it begins, and to x . y.
template <class T>
struct RowCarry {
  T row = 0, dot = 0;
};

// y := alpha A x + beta y for the rows that end in the share. With the dot product alpha is 1 and beta 0; it has no dot
// product in deterministic mode.
RowCarry<double> rows_product(const RowsWork<double, std::int32_t>& work, const RowShare& share,
                              bool with_dot);
RowCarry<double> rows_product(const RowsWork<double, std::int64_t>& work, const RowShare& share,
                              bool with_dot);
RowCarry<float> rows_product(const RowsWork<float, std::int32_t>& work, const RowShare& share, bool with_dot);
RowCarry<float> rows_product(const RowsWork<float, std::int64_t>& work, const RowShare& share, bool with_dot);

// All shares, in parallel. Returns x . y when `with_dot`.
template <class T, class P>
T run_shares(const RowsWork<T, P>& work, std::int64_t rows, const std::vector<RowShare>& shares,
             bool with_dot) {
  const int parts = static_cast<int>(shares.size());
  PartialSums<RowCarry<T>> carries(parts);
  parallel(parts, [&](int part, int) { carries[part] = rows_product(work, shares[part], with_dot); });
  T dot = 0;
  for (int part = 0; part < parts; ++part) {
    const RowShare& share = shares[part];
    if (work.list) {
      if (share.k_end != RowShare::whole_rows)
        work.y[work.list[share.row_end]] += work.alpha * carries[part].row;
    } else if (share.row_end < rows && work.row_ptr[share.row_end] < share.k_end) {
      work.y[share.row_end] += work.alpha * carries[part].row;
    }
    dot += carries[part].dot;
  }
  return dot;
}

// Shares of whole rows between these borders.
std::vector<RowShare> shares_between(const RowPointers& row_ptr, const std::vector<std::int64_t>& borders);
// Shares of whole rows with nearly the same rows + entries, and those with exactly the same, which cut rows.
std::vector<RowShare> shares_of_whole_rows(const SparsityPattern& pattern, int parts);
std::vector<RowShare> shares_of_equal_size(const SparsityPattern& pattern, int parts);
// Shares of a list with nearly the same rows + entries. Rows longer than `cut` may be cut.
std::vector<RowShare> shares_of_list(const SparsityPattern& pattern, const std::int32_t* list,
                                     std::int64_t count, int parts, std::int64_t cut);

// True when the rows are short and vary in length, and x fits the cache of a core. It is decided for the
// whole matrix, so that the sums do not depend on the number of threads. Where x does not fit the cache,
// waiting for it costs more than a mispredicted branch, and prefetching pays.
bool row_lengths_vary(const SparsityPattern& pattern, std::size_t value_bytes);

// Entries of the longest row of a pattern in the context's space. In device memory the host waits for it.
std::int64_t longest_row(const Context& context, const SparsityPattern& pattern);

// The caller's CSR arrays, and products over shares, which the derived class sets in its constructor.
template <class T>
class CsrInShares : public CsrHolder<T>, public HasApplyDot<T> {
 public:
  explicit CsrInShares(const BuildRequest<T>& request)
      : CsrHolder<T>(request), lengths_vary_(row_lengths_vary(csr_.pattern, sizeof(T))) {}

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

 protected:
  // `list` lives as long as the matrix.
  void set_shares(std::vector<RowShare> shares, const std::int32_t* list = nullptr) {
    shares_ = std::move(shares), list_ = list;
  }
  // The parts that are worth having for this matrix.
  int parts() const { return useful_parts(*this->context(), csr_.nonzeros() + csr_.rows()); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }
  // Calls f(RowsWork<T, P>) with the type P of the row pointers.
  template <class F>
  T with_work(T alpha, VectorView<const T> x, T beta, VectorView<T> y, F&& f) const {
    return csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      return f(RowsWork<T, std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>>{
          row_ptr, csr_.pattern.col, csr_.values, alpha, x.data, beta, y.data,
          this->context()->deterministic(), lengths_vary_, list_});
    });
  }

  using CsrHolder<T>::csr_;

 private:
  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return with_work(alpha, x, beta, y,
                     [&](const auto& work) { return run_shares(work, csr_.rows(), shares_, with_dot); });
  }

  std::vector<RowShare> shares_;
  const std::int32_t* list_ = nullptr;
  bool lengths_vary_;
};

}  // namespace protean::formats
