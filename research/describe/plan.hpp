// What the kernels of a description need to know of its loops: which of them run in parallel, where the sum of a row of
// y is complete, and how it is added.
#pragma once
#include <vector>

#include "research/describe/language.hpp"

namespace protean::research {

// One outer loop and all within it, as a path: a statement applies to all that follow it, the last one is the product.
//
//   0 for i in 0 .. block_rows parallel           parallel = 1: a thread has an i
//   1   for k in block_ptr[i] .. block_ptr[i + 1]
//   2     for r in 0 .. R
//   3       where i * R + r < rows
//   4       for c in 0 .. C
//   5         y[i * R + r] += ...                 base = 0: sums are complete at the end of an iteration of i;
//                                                 sums = {2}: there are R of them; flush = {2, 3}: what is repeated to
//                                                 write them; split = 1: the loop that lanes of a GPU share
struct Nest {
  std::vector<const Statement*> path;
  std::vector<int> loops;  // places of loops in the path
  int parallel = 1;        // that many of the first loops run in parallel
  bool shared = false;     // several threads may write a row
  int base = 0;            // place of a loop
  std::vector<int> sums;   // places of loops of constant length, behind base, on which the row of y depends
  std::vector<int> flush;  // places behind base: these loops, and the let and where that writing needs
  int split = -1;          // place of the first loop behind base that is not in `sums`; -1: there is none
  int innermost = -1;      // the last one, if no loop of `sums` lies in it; -1: there is none
  std::int64_t count = 1;  // of sums, with the sizes of the description
};

// For the sizes that variables of kind size have now. Throws BadFile if an inner parallel loop has another range in
// each iteration of the outer one.
std::vector<Nest> plan(const Description& description);

// A number that is known before the kernel is compiled.
bool is_constant(const Description& description, const Expression& e);
std::int64_t constant(const Description& description, const Expression& e);

// The same description with other sizes. Throws BadArgument for a name that is no size, with what there is.
Description with_sizes(Description description,
                       const std::vector<std::pair<std::string, std::int64_t>>& sizes);

}  // namespace protean::research
