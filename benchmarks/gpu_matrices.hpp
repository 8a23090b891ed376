// The matrices of the GPU benchmark, all made from formulas.
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

}  // namespace protean::bench
