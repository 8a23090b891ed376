// A method with its options, of which the tests of the contract of all methods make solvers.
#pragma once
#include <memory>

#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"

namespace protean::test {

struct Case {
  const char* label;
  const char* method;
  const char* orthogonalization = "cgs2";
};
class Methods : public testing::TestWithParam<Case> {
 protected:
  template <class T = double>
  std::unique_ptr<Solver<T>> make(StoppingRule rule = {}, std::int64_t restart = 30) const {
    return make_solver<T>(
        GetParam().method,
        options_read_by(
            GetParam().method,
            {.stopping = rule, .restart = restart, .orthogonalization = GetParam().orthogonalization}));
  }
  bool is(std::string_view id) const { return id == GetParam().method; }
  bool symmetric() const { return find_solver(GetParam().method).symmetric; }
  // A matrix for which the method works.
  Dense matrix() const { return symmetric() ? convection_2d(9, 0) : convection_2d(9, 3); }
};

}  // namespace protean::test
