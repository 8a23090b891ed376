// The matrices of the GPU benchmark: made from formulas, or read from a folder.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/csr.hpp"

namespace protean::bench {

enum class Group : unsigned char { regular, skewed, gather };

struct GpuMatrix {
  std::string name, what;
  Group group;
  std::function<CsrMatrix<double>(const ContextPtr&)> make;
};

const std::vector<GpuMatrix>& gpu_matrices();

// The matrices of a folder (.mtx, .mtx.xz, .mtx.gz, .pbin), each repeated along the diagonal until it has about `entries` entries:
// its local structure stays, its size becomes that of a GPU's work. A matrix is called skewed when the standard
// deviation of its row lengths is above half their mean, else regular.
std::vector<GpuMatrix> repeated_matrices(const ContextPtr& context, const std::string& folder,
                                         std::int64_t entries);

}  // namespace protean::bench
