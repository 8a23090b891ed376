// The engine of jagged diagonals: rows sorted by descending length, and entry k of all rows that have one side by side.
// This is the host side and what host and device share; jags.cuh is the device side.
//
//   jags (jad and its presets)                        strips in groups (biell, bijad), W = 4
//
//     position   0 1 2 3                                position   0 1 2 3
//     jag 0      a d g i    jag_ptr[0] = 0              group 0    a d g i    h = 4 rows, 1 thread each
//     jag 1      b e h      jag_ptr[1] = 4                         b e h .
//     jag 2      c f        jag_ptr[2] = 7              group 1    c f        h = 2 rows, 2 threads each
//                                                       group 2    (empty)    h = 1 row,  4 threads
//
//   Entry k of position p lies at jag_ptr[k] + p.      Slot k of row r of a group lies at gptr + k h + r. Lane l of the
//   A row ends where the jags no longer reach it:      W lanes of a strip takes slots l, l + W, ... of each group; its
//   by the rows of a jag, or by lengths of rows.       row is l mod h. Half of the rows end with each group.
//
// Both views are views of rows in the sense of row_view.hpp. A device gives a row of jags one thread or `split`
// threads, and a strip W lanes of a warp. A host gives rows SIMD lanes. Private to formats/.
#pragma once
#include <bit>
#include <cstdint>
#include <string>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"
#if !defined(__CUDACC__)
#include <algorithm>
#include <memory>
#include <vector>

#include "formats/engines/view/row_view.hpp"
#endif

namespace protean::formats {

// *p, which no kernel that is running changes.
template <class N>
PROTEAN_HOST_DEVICE inline N fixed_at(const N* p) {
#if defined(__CUDA_ARCH__)
  return __ldg(p);
#else
  return *p;
#endif
}

// What says where a row ends.
enum class JagEnds : unsigned char { jags, rows };

struct JagRule {
  std::int64_t round = 1;  // the slots of each jag are a multiple of it
  JagEnds ends = JagEnds::jags;
  // An array with the rows of each jag is needed if they do not follow from jag_ptr.
  bool keeps_jag_rows() const noexcept { return round > 1 && ends == JagEnds::jags; }
};
JagRule jag_rule(const FormatParams& params);

// Padding between a jag and the next is stored but never read. It has the value 0 and column 0.
template <class T>
struct JagView {
  const T* values;
  const std::int32_t* col;
  const std::int64_t* jag_ptr;
  const std::int32_t* jag_rows;  // null if jag_ptr says it
  const std::int32_t* lengths;   // of positions; null with JagEnds::jags
  const std::int32_t* perm;      // position -> row
  std::int64_t rows, jags;

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return perm[p]; }
  // Whether the row at position p has more than k entries; k < jags.
  PROTEAN_HOST_DEVICE bool reaches(std::int64_t p, std::int64_t k) const {
    if (lengths) return k < fixed_at(lengths + p);
    return p < (jag_rows ? fixed_at(jag_rows + k) : fixed_at(jag_ptr + k + 1) - fixed_at(jag_ptr + k));
  }
  // No jag has more rows than the one before, so the jags that reach position p come first.
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    if (lengths) return fixed_at(lengths + p);
    return first_where<std::int64_t>(0, jags, [&](std::int64_t i) { return !reaches(p, i); });
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    for (std::int64_t k = 0; k < jags && reaches(p, k); ++k) f(col[jag_ptr[k] + p], jag_ptr[k] + p);
  }
};

// The bytes of all arrays.
inline std::size_t jag_bytes(const JagRule& rule, std::int64_t rows, std::int64_t jags, std::int64_t slots,
                             std::size_t value_bytes) {
  return static_cast<std::size_t>(slots) * (value_bytes + 4) +
         static_cast<std::size_t>(8 * (jags + 1) + (rule.keeps_jag_rows() ? 4 * jags : 0) +
                                  (rule.ends == JagEnds::rows ? 8 : 4) * rows);
}
// Refuses when more than max_fill (of the parameters) values an entry would be stored.
Admission admit_slots_of(std::size_t bytes, std::int64_t slots, const SparsityPattern& pattern,
                         const FormatParams& params);

constexpr ParamDoc jagged_fill_param = {.name = "max_fill",
                                        .doc = "the format refuses more stored values per entry than this",
                                        .default_value = "4",
                                        .smallest = 1,
                                        .largest = 1'000'000};

// Strips of W positions in bisected groups. Lengths descend within a strip. Group g has the first h = W / 2^g rows of
// the strip and the entries from the end of the group before up to the length of position W / 2^(g + 1) of the strip,
// the last group up to the length of the first position. Padding has the value 0 and repeats the last column of its row
// (0 in a row without entries).
struct BisectedRule {
  int W = 32;
  bool sort_all = false;
  PROTEAN_HOST_DEVICE int groups() const noexcept {
    int count = 1;
    for (int h = W; h > 1; h /= 2) ++count;
    return count;
  }
  std::int64_t strips(std::int64_t rows) const noexcept { return (rows + W - 1) / W; }
};
BisectedRule bisected_rule(const FormatParams& params);

template <class T>
struct BisectedView {
  const T* values;
  const std::int32_t* col;
  const std::int64_t* group_ptr;  // [strips groups + 1]
  const std::int32_t* perm;       // position -> row r, or -1 - r if the row has no entries
  std::int64_t rows;
  int W, groups;

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return perm[p] < 0 ? -1 - perm[p] : perm[p]; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  // Calls f(place) for all slots of a position, in their order, until it returns false.
  template <class F>
  PROTEAN_HOST_DEVICE void for_slots(std::int64_t p, F&& f) const {
    const std::int64_t s = p / W, r = p % W;
    for (int g = 0, h = W; g < groups && r < h; ++g, h /= 2)
      for (std::int64_t at = group_ptr[s * groups + g] + r; at < group_ptr[s * groups + g + 1]; at += h)
        if (!f(at)) return;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (perm[p] < 0) return;
    std::int32_t last = -1;
    for_slots(p, [&](std::int64_t place) {
      if (col[place] <= last) return false;  // padding
      last = col[place];
      f(last, place);
      return true;
    });
  }
  // Writes all slots of a position: the entries k to end of its row, then padding.
  PROTEAN_HOST_DEVICE void fill(std::int64_t p, std::int64_t k, std::int64_t end,
                                const std::int32_t* from_col, const T* from_values, std::int32_t* to_col,
                                T* to_values) const {
    std::int32_t last = 0;
    for_slots(p, [&](std::int64_t place) {
      if (k < end) last = from_col[k];
      to_col[place] = last;
      to_values[place] = k < end ? from_values[k] : T(0);
      ++k;
      return true;
    });
  }
};

// The columns of a group, from the descending lengths of its strip: length(i) of position i of the strip.
template <class Length>
PROTEAN_HOST_DEVICE inline std::int64_t group_end(const BisectedRule& rule, int g, const Length& length) {
  return g + 1 == rule.groups() ? length(0) : length(rule.W >> (g + 1));
}

inline std::size_t bisected_bytes(const BisectedRule& rule, std::int64_t rows, std::int64_t slots,
                                  std::size_t value_bytes) {
  return static_cast<std::size_t>(slots) * (value_bytes + 4) +
         static_cast<std::size_t>(8 * (rule.strips(rows) * rule.groups() + 1) + 4 * rows);
}

#if !defined(__CUDACC__)

template <class T>
struct JagProduct {
  JagView<T> a;
  T alpha, beta;  // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;  // return the sum of x[row] * y[row], else 0
  bool ordered;   // add as in deterministic mode
};
// Over positions [begin, end).
double jag_product(const JagProduct<double>& product, std::int64_t begin, std::int64_t end);
float jag_product(const JagProduct<float>& product, std::int64_t begin, std::int64_t end);

template <class T>
struct BisectedProduct {
  BisectedView<T> a;
  T alpha, beta;
  const T* x;
  T* y;
};
// Over strips [begin, end).
void bisected_product(const BisectedProduct<double>& product, std::int64_t begin, std::int64_t end);
void bisected_product(const BisectedProduct<float>& product, std::int64_t begin, std::int64_t end);

struct JagPlanOnHost {
  JagRule rule;
  std::vector<std::int64_t> jag_ptr;
  std::vector<std::int32_t> jag_rows, perm;
};
struct BisectedPlanOnHost {
  BisectedRule rule;
  std::vector<std::int64_t> group_ptr;
  std::vector<std::int32_t> perm;
};
Admission admit_jags_on_host(const Context& context, const SparsityPattern& pattern,
                             const FormatParams& params, std::size_t value_bytes);
Admission admit_strips_on_host(const Context& context, const SparsityPattern& pattern,
                               const FormatParams& params, std::size_t value_bytes);

template <class T>
class JagMatrix final : public RowViewMatrix<T, JagMatrix<T>>, public HasApplyDot<T> {
 public:
  explicit JagMatrix(const BuildRequest<T>& request);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + jag_ptr_.bytes() + jag_rows_.bytes() + lengths_.bytes() +
           perm_.bytes();
  }
  std::vector<LayoutArray> layout() const override;
  JagView<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const { run(alpha, x, beta, y, false); }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x.data, T(0), y.data, true);
  }

 protected:
  // In deterministic mode eight rows at a time, which is faster than row by row.
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply(alpha, x.data, beta, y.data);
  }

 private:
  T run(T alpha, const T* x, T beta, T* y, bool with_dot) const;

  JagRule rule_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> jag_ptr_;
  Buffer<std::int32_t> jag_rows_, lengths_, perm_;
  std::vector<std::int64_t> borders_;  // positions of each part
};
extern template class JagMatrix<double>;
extern template class JagMatrix<float>;

template <class T>
class BisectedMatrix final : public RowViewMatrix<T, BisectedMatrix<T>> {
 public:
  explicit BisectedMatrix(const BuildRequest<T>& request);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + group_ptr_.bytes() + perm_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("group_ptr", group_ptr_), layout_array("perm", perm_), layout_array("col", col_),
            layout_array("values", values_)};
  }
  BisectedView<T> row_view() const noexcept {
    return {values_.data(), col_.data(), group_ptr_.data(), perm_.data(),
            this->rows(),   rule_.W,     rule_.groups()};
  }
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const;

 private:
  BisectedRule rule_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> group_ptr_;
  Buffer<std::int32_t> perm_;
  std::vector<std::int64_t> borders_;  // strips of each part
};
extern template class BisectedMatrix<double>;
extern template class BisectedMatrix<float>;

#endif

}  // namespace protean::formats
