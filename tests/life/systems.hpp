// The linear systems of these tests. A system is a pattern with a number. Its values are a function of the
// system and of a second number, the generation, so two numbers are enough to make the same matrix again.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/csr.hpp"

namespace protean::test::life {

struct SystemInfo {
  const char* name;
  std::int64_t size;
  bool symmetric;
  bool elements;  // made of element matrices, else of CSR arrays
};
std::span<const SystemInfo> systems();
std::int64_t largest_system();

// What a generation of values is like: most are good ones.
enum class Quality : unsigned char {
  dominant,    // by rows and columns, with a positive diagonal
  indefinite,  // one diagonal entry negated
  not_finite   // one diagonal entry is NaN
};
Quality quality(unsigned generation);

// The values of one generation.
template <class T>
struct Numbers {
  CsrMatrix<T> csr;                    // in host memory; of an element system the assembled matrix
  std::vector<std::int32_t> elements;  // of an element system: elements x 4 nodes,
  std::vector<T> matrices;             // and elements x 4 x 4 values
  std::vector<Triplet<T>> terms;       // all a_ij that a product adds up, not assembled
  // Dominant values: |a_ii| exceeds the sum of the others by this or more, in all rows and columns, so
  // ||A^-1|| <= 1 / margin in the 1-norm and in the maximum norm (J. M. Varah, Linear Algebra Appl. 11 (1975)
  // 3), and therefore in the 2-norm. Otherwise 0.
  double margin = 0;
};

// Safe from several threads.
template <class T>
std::shared_ptr<const Numbers<T>> numbers(int system, unsigned generation);
// Frees the numbers that numbers() keeps for the next call.
template <class T>
void forget_numbers();

// A hash of up to four numbers (splitmix64).
std::uint64_t mixed(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t d = 0);
// The same as a number in [0, 1).
double uniform(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t d = 0);

}  // namespace protean::test::life
