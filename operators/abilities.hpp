// What an operator can do next to products: one set, which the operator declares (LinearOperator::abilities()).
#pragma once
#include <string_view>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

template <class T>
class HasDiagonal;  // operators/linear_operator.hpp
template <class T>
class HasApplyDot;  // operators/linear_operator.hpp
template <class T>
class HasMultiProduct;  // operators/multi_product.hpp
template <class T>
class HasTransposedProduct;  // operators/transposed_product.hpp
template <class T>
class HasRows;  // operators/rows.hpp
template <class T>
class HasRowArrays;  // operators/row_arrays.hpp
template <class T>
class HasOrder;  // operators/order.hpp
template <class T>
class HasGivenMatrix;  // operators/given_matrix.hpp
class HasTuning;       // operators/tuning.hpp
class HasLayout;       // operators/layout.hpp
class HasParts;        // operators/parts.hpp

// One ability: the interface of an operator, or null. The interface belongs to the operator, or to an operator inside
// of it. It may be used as long as that operator lives; a Matrix replaces the operator inside at a change
// of format.
template <class Interface>
class Ability {
 public:
  constexpr Ability() = default;
  constexpr Ability(const Interface* interface) noexcept : interface_(interface) {}
  // Null: an operator inside has the ability, but this one does not. `why` is a literal: "its rows are ...".
  static constexpr Ability refused(std::string_view why) noexcept {
    Ability none;
    none.why_ = why;
    return none;
  }

  constexpr explicit operator bool() const noexcept { return interface_ != nullptr; }
  constexpr const Interface* get() const noexcept { return interface_; }
  constexpr const Interface* operator->() const noexcept { return interface_; }
  constexpr const Interface& operator*() const noexcept { return *interface_; }
  // Why it is refused. Empty if it is there, and if no operator inside has it either.
  constexpr std::string_view why() const noexcept { return why_; }

 private:
  const Interface* interface_ = nullptr;
  std::string_view why_;
};

template <class T>
struct Abilities {
  Ability<HasDiagonal<T>> diagonal;           // a_ii
  Ability<HasApplyDot<T>> apply_dot;          // A x and x . A x in one pass: called by apply_dot()
  Ability<HasMultiProduct<T>> multi_product;  // several vectors in one pass: called by multi_apply()
  Ability<HasTransposedProduct<T>> transposed_product;  // A^T x: called by apply_transposed()
  Ability<HasRows<T>> rows;                             // its entries as CSR: called by csr_of()
  Ability<HasRowArrays<T>> row_arrays;                  // where the entries of its rows lie in device memory
  Ability<HasOrder<T>> order;                           // it computes in its own order of the rows
  Ability<HasGivenMatrix<T>> given_matrix;              // it may compute with rounded values
  Ability<HasTuning> tuning;                            // what it has chosen among its options
  Ability<HasLayout> layout;                            // copies of the arrays of its format
  Ability<HasParts> parts;                              // the matrices that it is a sum of

  // f(name, ability) for each of them.
  template <class F>
  void for_each(F&& f) {
    f(std::string_view("diagonal"), diagonal), f(std::string_view("apply_dot"), apply_dot);
    f(std::string_view("multi_product"), multi_product);
    f(std::string_view("transposed_product"), transposed_product), f(std::string_view("rows"), rows);
    f(std::string_view("row_arrays"), row_arrays), f(std::string_view("order"), order);
    f(std::string_view("given_matrix"), given_matrix);
    f(std::string_view("tuning"), tuning), f(std::string_view("layout"), layout);
    f(std::string_view("parts"), parts);
  }
  template <class F>
  void for_each(F&& f) const {
    Abilities copy = *this;
    copy.for_each([&f](std::string_view name, const auto& ability) { f(name, ability); });
  }
  // For an operator that has no ability of the operator inside.
  void refuse_all(std::string_view why) {
    for_each([why]<class Interface>(std::string_view, Ability<Interface>& ability) {
      if (ability) ability = Ability<Interface>::refused(why);
    });
  }
};

}  // namespace protean
