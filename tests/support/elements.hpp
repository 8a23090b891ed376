// Element matrices for tests, and the check of their products.
#pragma once
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"

namespace protean::test {

// Groups that own their arrays.
struct ElementMesh {
  struct Group {
    int nodes = 0;
    std::vector<std::int32_t> connectivity;
    std::int64_t elements() const { return static_cast<std::int64_t>(connectivity.size()) / nodes; }
  };
  std::string name, exposes;
  std::int64_t nodes = 0;
  std::vector<Group> groups;
  int components = 1;
  bool unused = false;  // has nodes of no element
};

// Element matrices of multiples of 1/8 in [-4, 4], diagonally heavy; the same for both precisions.
template <class T>
struct ElementNumbers {
  std::vector<std::vector<T>> matrices;
  std::vector<ElementGroup<T>> groups;  // views of mesh and matrices
};
template <class T>
ElementNumbers<T> element_numbers(const ElementMesh& mesh, bool symmetric, unsigned seed = 1);

// Each with the mistake it is meant to expose.
const std::vector<ElementMesh>& element_meshes();
const ElementMesh& element_mesh(const std::string& name);

// Some of the unknowns, ascending: at least one, if there are any.
std::vector<std::int64_t> some_unknowns(const ElementMesh& mesh);

// The definition of the operator: for each row the terms of its sum. Rows are unknowns. A constrained row is
// a row of the identity, and its unknown adds to no other row.
template <class T>
struct ElementReference {
  struct Term {
    std::int32_t col;
    T value;
  };
  std::vector<std::vector<Term>> rows;
  // Entry (r, c): terms added in the order of the elements, in T.
  std::vector<Triplet<T>> triplets() const;
};
template <class T>
ElementReference<T> element_reference(const ElementMesh& mesh, const ElementNumbers<T>& numbers,
                                      const std::vector<std::int64_t>& constrained, bool symmetric);

// Wilkinson's bound row by row: |y_i - y_ref_i| <= 2 (n_i + 2) eps sum |alpha k x| + |beta y_i|, n_i terms.
template <class T>
testing::AssertionResult elements_are_right(const ElementReference<T>& reference, T alpha,
                                            const std::vector<T>& x, T beta, const std::vector<T>& y0,
                                            const std::vector<T>& y);

}  // namespace protean::test
