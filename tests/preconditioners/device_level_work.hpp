// Work of multigrid on a device, brought back to the host, and matrices for it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "gtest/gtest.h"
#include "preconditioners/in_space.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/sparse/graph.hpp"

namespace protean::test {

using detail::DeviceLevel;
using detail::DeviceNodes;
using detail::DeviceStructure;
using detail::LevelWork;

class DeviceLevels : public InSpace {
 protected:
  template <class T>
  std::unique_ptr<LevelWork<T>> work() const {
    return detail::level_work<T>(context_);
  }
  SparsityPattern here(const SparsityPattern& pattern) const {
    return detail::download_pattern(test_context(), *context_, pattern);
  }
  template <class T>
  CsrMatrix<T> here(const CsrMatrix<T>& csr) const {
    return download(test_context(), *context_, csr);
  }
  template <class N>
  std::vector<N> here(const Buffer<N>& numbers) const {
    std::vector<N> copied(static_cast<std::size_t>(numbers.size()));
    detail::copy_bytes(*context_, copied.data(), Space::host, numbers.data(), Space::device, numbers.bytes());
    return copied;
  }
  template <class T>
  DeviceLevel<T> finest(const CsrMatrix<T>& csr) const {
    bool unsorted = true;
    auto level = work<T>()->finest(upload(context_, csr), false, unsorted);
    EXPECT_FALSE(unsorted);
    EXPECT_TRUE(level.has_value());
    return *std::move(level);
  }
  DeviceNodes nodes_there(std::int64_t rows, std::int32_t unknowns, const std::vector<double>& values,
                          std::int64_t vectors) const {
    DeviceNodes nodes;
    nodes.rows = rows, nodes.count = rows / unknowns, nodes.size = unknowns, nodes.vectors = vectors;
    if (!values.empty()) {
      nodes.values = Buffer<double>(context_, static_cast<std::int64_t>(values.size()));
      detail::copy_bytes(*context_, nodes.values.data(), Space::device, values.data(), Space::host,
                         nodes.values.bytes());
    }
    return nodes;
  }
};
inline CsrMatrix<double> generated(const char* kind, double n) {
  return generate(test_context(), kind, {{"n", n}});
}

// Few entries a row, but for some rows that have very many; some rows and columns have none.
inline CsrMatrix<double> uneven(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Triplet<double>> entries;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t count = i % 97 == 13  ? cols - 3
                               : i % 11 == 5 ? 0
                                             : 1 + static_cast<std::int64_t>(random() % 7);
    std::vector<std::int32_t> columns;
    if (count == cols - 3) {
      columns.resize(static_cast<std::size_t>(count));
      std::iota(columns.begin(), columns.end(), 2);
    } else {
      for (std::int64_t k = 0; k < count; ++k)
        columns.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(cols / 3)) * 3);
      std::sort(columns.begin(), columns.end());
      columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    }
    for (const std::int32_t j : columns)
      entries.push_back({static_cast<std::int32_t>(i), j, static_cast<double>(random() % 2001) / 500 - 2});
  }
  return csr_from_triplets<double>(test_context(), rows, cols, entries);
}

inline bool same(const SparsityPattern& a, const detail::Graph& b) {
  if (a.rows != b.rows() || a.nonzeros != b.size()) return false;
  for (std::int64_t i = 0; i <= a.rows; ++i)
    if (a.row_ptr[i] != b.ptr[static_cast<std::size_t>(i)]) return false;
  return std::equal(b.col.begin(), b.col.end(), a.col);
}

template <class T>
CsrMatrix<T> as(const CsrMatrix<double>& csr) {
  if constexpr (sizeof(T) == 8)
    return csr;
  else
    return convert_values<T>(test_context(), csr);
}

}  // namespace protean::test
