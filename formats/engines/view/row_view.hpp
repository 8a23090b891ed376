// Four operations that every format needs, written once on a view of its rows: conversion to CSR, the diagonal, new
// values, and the product of deterministic mode. This is the host side; row_view.cuh is the device side. A format
// overrides one of them only to be faster.
//
//   stored   | rows as the format keeps them |    view    position p   0  1  2 ...    one for each row
//            | padded, sorted, cut, coded    |  ------->  row(p)       3  0  1        its number
//                                                         entries of p  (col, place), (col, place), ...
//
// A view is a small struct of pointers and numbers. The same struct serves host and device memory, because its members
// are marked PROTEAN_HOST_DEVICE:
//   const T* values                                 what place counts in
//   std::int64_t positions() const
//   std::int64_t row(std::int64_t p) const          -1: no row lies there. Every row has one position.
//   std::int64_t length(std::int64_t p) const       entries of that row, without padding
//   void for_entries(std::int64_t p, F&& f) const   calls f(std::int32_t col, std::int64_t place) for the entries of
//                                                   that row; columns ascend. values[place] is the value.
// Private to formats/.
#pragma once
#include <cmath>
#include <cstdint>

#include "core/host_device.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {

// Calls body(position, row) for all rows, in parallel.
template <class View, class Body>
void for_rows_of_view(const Context& context, const View& view, std::int64_t work, Body body) {
  parallel(useful_parts(context, work + view.positions()), [&](int part, int parts) {
    const Range range = even_range(view.positions(), part, parts);
    for (std::int64_t p = range.begin; p < range.end; ++p)
      if (const std::int64_t row = view.row(p); row >= 0) body(p, row);
  });
}

template <class T, class View>
CsrMatrix<T> csr_from_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                           std::int64_t nonzeros, const View& view) {
  CsrBuilder<T> builder(context, rows, cols, nonzeros);
  for_rows_of_view(*context, view, rows,
                   [&](std::int64_t p, std::int64_t row) { builder.set_row_ptr(row + 1, view.length(p)); });
  for (std::int64_t r = 0; r < rows; ++r)
    builder.set_row_ptr(r + 1, builder.row_ptr(r) + builder.row_ptr(r + 1));
  for_rows_of_view(*context, view, nonzeros, [&](std::int64_t p, std::int64_t row) {
    std::int64_t k = builder.row_ptr(row);
    view.for_entries(p, [&](std::int32_t col, std::int64_t place) {
      builder.col()[k] = col, builder.values()[k++] = view.values[place];
    });
  });
  return builder.freeze();
}

template <class T, class View>
void diagonal_from_view(const Context& context, const View& view, std::int64_t nonzeros, VectorView<T> d) {
  for_rows_of_view(context, view, nonzeros, [&](std::int64_t p, std::int64_t row) {
    if (row >= d.size) return;
    T found = 0;
    view.for_entries(p, [&](std::int32_t col, std::int64_t place) {
      if (col == row) found = view.values[place];
    });
    d.data[row] = found;
  });
}

// values[place] := the value of the entry in csr, which has the same pattern. Padding keeps its value.
template <class T, class View>
void update_from_view(const Context& context, const View& view, const CsrMatrix<T>& csr, T* values) {
  for_rows_of_view(context, view, csr.nonzeros(), [&](std::int64_t p, std::int64_t row) {
    std::int64_t k = csr.pattern.row_ptr[row];
    view.for_entries(p, [&](std::int32_t, std::int64_t place) { values[place] = csr.values[k++]; });
  });
}

// y := alpha A x + beta y with the arithmetic of deterministic mode (engines/view/ordered-inl.hpp).
template <class T, class View>
void ordered_product_of_view(const Context& context, const View& view, std::int64_t nonzeros, T alpha,
                             const T* x, T beta, T* y) {
  for_rows_of_view(context, view, nonzeros, [&](std::int64_t p, std::int64_t row) {
    T sum = 0;
    view.for_entries(
        p, [&](std::int32_t col, std::int64_t place) { sum = std::fma(T{view.values[place]}, x[col], sum); });
    const T scaled = alpha * sum;
    y[row] = beta == T(0) ? scaled : std::fma(beta, y[row], scaled);
  });
}

// A matrix with a view of its rows. Derived has
//   View row_view() const     whose values are the values of mutable_values()
//   T* mutable_values()
//   void multiply(T alpha, const T* x, T beta, T* y) const    outside of deterministic mode
template <class T, class Derived>
class RowViewMatrix : public AssembledMatrix<T>, public HasLayout {
 public:
  using AssembledMatrix<T>::AssembledMatrix;
  CsrMatrix<T> to_csr() const override {
    return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), self().row_view());
  }
  void diagonal(VectorView<T> d) const override {
    diagonal_from_view(*this->context(), self().row_view(), this->nonzeros(), d);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    update_from_view(*this->context(), self().row_view(), csr, static_cast<Derived&>(*this).mutable_values());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->context()->deterministic())
      ordered_product_of_view(*this->context(), self().row_view(), this->nonzeros(), alpha, x.data, beta,
                              y.data);
    else
      self().multiply(alpha, x.data, beta, y.data);
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

}  // namespace protean::formats
