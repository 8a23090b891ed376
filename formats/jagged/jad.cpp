// JAD, jagged diagonals: rows sorted by length over the whole matrix; then the first entries of all rows, the
// second entries of those that have one, and so on, without padding.
//
//        | 1 . 2 . |     perm    = 3 0 1 2
//    A = | . 3 . . |     jag_ptr = 0 3 5 6
//        | . . . . |     col     = 0 0 1 | 1 2 | 3
//        | 4 5 . 6 |     values  = 4 1 3 | 5 2 | 6
//
// Arrays:
//   jag_ptr  [longest + 1] int64: number of entries before each jag; longest = entries of the longest row.
//            Jag k holds entry k of the first jag_ptr[k + 1] - jag_ptr[k] positions. The lengths of the jags
//            never increase.
//   perm     [rows] int32: the row at each position; stable, longest first.
//   col      [nonzeros] int32: entry k of position p at jag_ptr[k] + p; ascending with k.
//   values   [nonzeros].
// Bytes: (v + 4) nonzeros + 4 rows + 8 (longest + 1), with v bytes a value.
// Parameters: none.
// Wins: on rows of very different lengths, because nothing is padded. Where lengths alternate, sorting
//   separates neighbouring rows, which then no longer share x in the cache; sell-c-sigma sorts within windows
//   to avoid this.
// Refuses: never.
// Source: Y. Saad, Krylov subspace methods on supercomputers, SIAM J. Sci. Stat. Comput. 10(6), 1989,
//   doi:10.1137/0910073; R. Li, Y. Saad, GPU-accelerated preconditioned iterative linear solvers, J.
//   Supercomput. 63, 2013, doi:10.1007/s11227-012-0825-3.
//
// The product goes over strips of rows, four SIMD registers at a time, and not over whole jags, so that y is
// written once. A NaN in x reaches only rows that use it.
#include <algorithm>

#include "formats/engines/slot_product.hpp"

namespace protean::formats {
namespace {

template <class T>
class Jad final : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  explicit Jad(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), perm_(request.context, request.csr.rows()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    longest_ = row_lengths(*context, pattern).longest;
    jag_ptr_ = Buffer<std::int64_t>(context, longest_ + 1);
    col_ = Buffer<std::int32_t>(context, pattern.nonzeros);
    values_ = Buffer<T>(context, pattern.nonzeros);
    sort_rows(pattern);
    // Parts with nearly the same number of entries. Positions are sorted by decreasing length.
    const int parts = useful_parts(*context, pattern.nonzeros + pattern.rows);
    const std::int64_t total = pattern.nonzeros + pattern.rows;
    borders_.assign(static_cast<std::size_t>(parts) + 1, pattern.rows);
    std::int64_t before = 0;
    for (std::int64_t p = 0, part = 0; p < pattern.rows; ++p) {
      while (part < parts && before >= total / parts * part) borders_[part++] = p;
      before += pattern.row_length(perm_[p]) + 1;
    }
    borders_.front() = 0, borders_.back() = pattern.rows;
    write(request.csr, true);
  }

  std::size_t bytes() const noexcept override {
    return jag_ptr_.bytes() + perm_.bytes() + col_.bytes() + values_.bytes();
  }

  CsrMatrix<T> to_csr() const override {
    std::vector<std::int32_t> position(static_cast<std::size_t>(this->rows()));
    for (std::int64_t p = 0; p < this->rows(); ++p) position[perm_[p]] = static_cast<std::int32_t>(p);
    return csr_from_rows<T>(
        this->context(), this->rows(), this->cols(), this->nonzeros(),
        [&](std::int64_t r) { return length(position[r]); },
        [&](std::int64_t r, std::int64_t first, CsrBuilder<T>& builder) {
          const std::int64_t p = position[r], count = builder.row_ptr(r + 1) - first;
          for (std::int64_t k = 0; k < count; ++k) {
            builder.col()[first + k] = col_[jag_ptr_[k] + p];
            builder.values()[first + k] = values_[jag_ptr_[k] + p];
          }
        });
  }

  void diagonal(VectorView<T> d) const override {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t p = borders_[part]; p < borders_[part + 1]; ++p) {
        const std::int64_t r = perm_[p];
        if (r >= d.size) continue;
        d.data[r] = 0;
        for (std::int64_t k = 0; has(p, k); ++k)
          if (col_[jag_ptr_[k] + p] == r) {
            d.data[r] = values_[jag_ptr_[k] + p];
            break;
          }
      }
    });
  }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("jag_ptr", jag_ptr_), layout_array("perm", perm_), layout_array("col", col_),
            layout_array("values", values_)};
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { write(csr, false); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run_slot_product(product(alpha, x, beta, y, false), borders_);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run_slot_product(product(T(1), x, T(0), y, true), borders_);
  }

 private:
  bool has(std::int64_t p, std::int64_t k) const { return k < longest_ && jag_ptr_[k] + p < jag_ptr_[k + 1]; }

  // The lengths of the jags decrease, so those that reach position p come first.
  std::int64_t length(std::int64_t p) const {
    const std::int64_t* const jags = jag_ptr_.data();
    return std::partition_point(jags, jags + longest_,
                                [&](const std::int64_t& first) { return has(p, &first - jags); }) -
           jags;
  }

  // A stable counting sort by decreasing length. Its counts give the jags.
  void sort_rows(const SparsityPattern& pattern) {
    std::vector<std::int64_t> first(static_cast<std::size_t>(longest_) + 2);
    for (std::int64_t r = 0; r < pattern.rows; ++r) ++first[longest_ - pattern.row_length(r) + 1];
    for (std::int64_t i = 1; i <= longest_ + 1; ++i) first[i] += first[i - 1];
    // first[longest - k] rows are longer than k.
    jag_ptr_[0] = 0;
    for (std::int64_t k = 0; k < longest_; ++k) jag_ptr_[k + 1] = jag_ptr_[k] + first[longest_ - k];
    for (std::int64_t r = 0; r < pattern.rows; ++r)
      perm_[first[longest_ - pattern.row_length(r)]++] = static_cast<std::int32_t>(r);
  }

  void write(const CsrMatrix<T>& csr, bool with_columns) {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t p = borders_[part]; p < borders_[part + 1]; ++p) {
        const std::int64_t begin = csr.pattern.row_ptr[perm_[p]], count = csr.pattern.row_length(perm_[p]);
        for (std::int64_t k = 0; k < count; ++k) {
          values_[jag_ptr_[k] + p] = csr.values[begin + k];
          if (with_columns) col_[jag_ptr_[k] + p] = csr.pattern.col[begin + k];
        }
      }
    });
  }

  SlotProduct<T> product(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return {SlotOrder::jagged,
            values_.data(),
            col_.data(),
            jag_ptr_.data(),
            0,
            longest_,
            this->rows(),
            perm_.data(),
            {},
            alpha,
            beta,
            x.data,
            y.data,
            with_dot,
            this->context()->deterministic()};
  }

  std::int64_t longest_ = 0;
  Buffer<std::int64_t> jag_ptr_;
  Buffer<std::int32_t> perm_, col_;
  Buffer<T> values_;
  std::vector<std::int64_t> borders_;  // positions of each part
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(
      static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
          static_cast<std::size_t>(4 * pattern.rows + 8 * (row_lengths(context, pattern).longest + 1)),
      pattern.nonzeros);
}

constexpr Kernel kernels[] = {native_host_kernel<Jad>(Sums::ordered)};

}  // namespace

namespace device_code {
extern const DeviceCode jad;
}

extern const FormatEntry jad;
constinit const FormatEntry jad{
    .family = "jagged",
    .id = "jad",
    .title = "Jagged diagonals",
    .source = "Saad, SIAM J. Sci. Stat. Comput. 10(6), 1989; Li, Saad, J. Supercomput. 63, 2013",
    .traits = {},
    .params = {},
    .kernels = kernels,
    .admit = admit,
    .device = PROTEAN_DEVICE_CODE(jad)};

}  // namespace protean::formats
