// Matrices made from formulas, at the size of a GPU's work or smaller, and matrices of a folder.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/csr.hpp"

namespace protean::bench {

enum class Group : unsigned char { regular, skewed, gather };

struct NamedMatrix {
  std::string name, what;
  Group group;
  std::function<CsrMatrix<double>(const ContextPtr&)> make;
};

// The matrices from formulas, with `share` times as many rows as at a GPU's size; their names have the edges of the
// grids, so they depend on it. Throws BadArgument when share is not within 0.01 and 1: smaller ones have no room for
// the rows' patterns.
std::vector<NamedMatrix> formula_matrices(double share = 1);

// The matrices of a folder (.mtx, .mtx.xz, .mtx.gz, .pbin), each repeated along the diagonal until it has about
// `entries` entries: its local structure stays, its size becomes a GPU's work; it stays as it is when `entries` is not
// above its own. A matrix is called skewed when the standard deviation of its row lengths is above half their mean,
// else regular.
std::vector<NamedMatrix> repeated_matrices(const ContextPtr& context, const std::string& folder,
                                           std::int64_t entries);

}  // namespace protean::bench
