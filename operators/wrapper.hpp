// An operator that computes with another one.
#pragma once
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/operators/abilities.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// Equals the operator inside except for its products and the functions that a derived class overrides. Abilities are
// forwarded as a whole: a derived class changes some of them, and gives a reason for each one that it lacks.
template <class T, class Base = LinearOperator<T>>
class Wrapper : public Base {
 public:
  using Base::Base;

  // The operator inside, at present. It lives until this one is changed or destroyed.
  virtual const LinearOperator<T>& inner() const noexcept = 0;

  std::string_view name() const noexcept override { return inner().name(); }
  Revision revision() const noexcept override { return inner().revision(); }
  Recording recording() const noexcept override { return inner().recording(); }
  void check_arrays() const override { inner().check_arrays(); }
  Abilities<T> abilities() const noexcept final {
    Abilities<T> set = inner().abilities();
    change(set);
    return set;
  }

 protected:
  // `set` has the abilities of inner(), and becomes the set of this operator.
  virtual void change(Abilities<T>& set) const noexcept = 0;
};

}  // namespace protean
