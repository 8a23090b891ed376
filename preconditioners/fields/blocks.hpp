// The blocks of a matrix by fields, and a Schur complement of two of them. The patterns are made once, the values as
// often as they change. On the host. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "preconditioners/fields/field_list.hpp"

namespace protean::detail {

// The rows of one field and the columns of another one: block_ab has a_ij at (local(i), local(j)) if i is in field a
// and j in field b. local(i) is the number of rows of the same field before row i.
class BlockPattern {
 public:
  BlockPattern() = default;
  // rows: the rows of the field; local: of each row of A.
  BlockPattern(const ContextPtr& host, const SparsityPattern& A, const FieldList& fields,
               const std::vector<std::int32_t>& rows, std::int64_t column_field, std::int64_t columns,
               const std::vector<std::int32_t>& local);

  const SparsityPattern& pattern() const noexcept { return pattern_; }
  // The block of a matrix of A's pattern.
  template <class T>
  CsrMatrix<T> of(const ContextPtr& host, const CsrMatrix<T>& A) const;
  // Without pattern().
  std::size_t bytes() const noexcept { return entry_.size() * sizeof(std::int64_t); }

 private:
  SparsityPattern pattern_;
  std::vector<std::int64_t> entry_;  // the number of each entry in A
};

// [left0 left1] [D^-1 below; I]: with left0 = A_10, left1 = -A_11 and below = A_01 this is -S.
class SchurPattern {
 public:
  SchurPattern() = default;
  // left1 is null for none: A_10 D^-1 A_01.
  SchurPattern(const ContextPtr& host, const SparsityPattern& left0, const SparsityPattern* left1,
               const SparsityPattern& below);

  // sign (A_10 D^-1 A_01 - A_11), with the sign that makes its trace not negative. inverse: D^-1.
  template <class T>
  CsrMatrix<T> of(const ContextPtr& host, const CsrMatrix<T>& A10, const CsrMatrix<T>* A11,
                  const CsrMatrix<T>& A01, const std::vector<T>& inverse, T& sign) const;
  const SparsityPattern& pattern() const noexcept;  // of what of() makes
  // Without pattern().
  std::size_t bytes() const noexcept;

 private:
  struct Patterns;
  std::shared_ptr<const Patterns> patterns_;
};

// The sign of the trace of A_10 D^-1 A_01 - A_11, without that matrix.
template <class T>
T sign_of_schur(const ContextPtr& host, const CsrMatrix<T>& A10, const CsrMatrix<T>& A11,
                const CsrMatrix<T>& A01, const std::vector<T>& inverse);

}  // namespace protean::detail
