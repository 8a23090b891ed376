#include "benchmarks/peers/cusparse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/device/copy.hpp"
#include "core/parallel.hpp"
#include "formats/cusparse_support.hpp"

namespace protean::bench {
namespace {

using formats::CusparseProduct;
using Apply = std::function<void(const double*, double*)>;

// Arrays in device memory, and the product made of them.
struct Holder {
  Buffer<std::int32_t> index, other;
  Buffer<double> values;
  std::unique_ptr<CusparseProduct<double>> product;
};

Apply applying(std::shared_ptr<Holder> holder) {
  return [holder](const double* x, double* y) { holder->product->apply(1, x, 0, y); };
}

template <class N>
Buffer<N> on_device(const ContextPtr& context, const std::vector<N>& host) {
  Buffer<N> copy(context, static_cast<std::int64_t>(host.size()));
  if (!copy.empty()) device::copy_in(*context, copy.data(), host.data(), copy.bytes());
  return copy;
}

Apply csr_product(const ContextPtr& context, const CsrMatrix<double>& A, cusparseSpMVAlg_t algorithm) {
  cusparseSpMatDescr_t matrix = nullptr;
  device::check(
      cusparseCreateCsr(&matrix, A.rows(), A.cols(), A.nonzeros(),
                        const_cast<std::int32_t*>(A.pattern.row_ptr.p32),
                        const_cast<std::int32_t*>(A.pattern.col), const_cast<double*>(A.values),
                        CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
      "cusparseCreateCsr");
  auto holder = std::make_shared<Holder>();
  holder->product = std::make_unique<CusparseProduct<double>>(context, matrix, algorithm, true);
  return applying(holder);
}

Apply coo_product(const ContextPtr& context, const CsrMatrix<double>& host, const CsrMatrix<double>& A,
                  cusparseSpMVAlg_t algorithm) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(host.nonzeros()));
  parallel(available_threads(), [&](int part, int parts) {
    const Range range = even_range(host.rows(), part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r)
      std::fill(row.begin() + host.pattern.row_ptr[r], row.begin() + host.pattern.row_ptr[r + 1],
                static_cast<std::int32_t>(r));
  });
  auto holder = std::make_shared<Holder>();
  holder->index = on_device(context, row);
  cusparseSpMatDescr_t matrix = nullptr;
  device::check(cusparseCreateCoo(&matrix, A.rows(), A.cols(), A.nonzeros(), holder->index.data(),
                                  const_cast<std::int32_t*>(A.pattern.col), const_cast<double*>(A.values),
                                  CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
                "cusparseCreateCoo");
  holder->product = std::make_unique<CusparseProduct<double>>(context, matrix, algorithm, true);
  return applying(holder);
}

// Slices of 32 rows; not if padding would more than triple the matrix.
Apply sell_product(const ContextPtr& context, const CsrMatrix<double>& host) {
  constexpr std::int64_t height = 32;
  const std::int64_t rows = host.rows(), slices = (rows + height - 1) / height;
  std::vector<std::int64_t> begin(static_cast<std::size_t>(slices) + 1, 0);
  for (std::int64_t s = 0; s < slices; ++s) {
    std::int64_t longest = 0;
    for (std::int64_t r = s * height; r < std::min(rows, (s + 1) * height); ++r)
      longest = std::max(longest, host.pattern.row_length(r));
    begin[s + 1] = begin[s] + longest * height;
  }
  const std::int64_t size = begin[slices];
  if (size > 3 * host.nonzeros() || size > 2147483647) return {};
  std::vector<std::int32_t> offsets(begin.begin(), begin.end()), col(static_cast<std::size_t>(size));
  std::vector<double> values(static_cast<std::size_t>(size));
  parallel(available_threads(), [&](int part, int parts) {
    const Range range = even_range(slices, part, parts);
    for (std::int64_t s = range.begin; s < range.end; ++s)
      for (std::int64_t i = 0; i < height; ++i) {
        const std::int64_t r = s * height + i;
        const std::int64_t length = r < rows ? host.pattern.row_length(r) : 0;
        for (std::int64_t slot = 0; begin[s] + slot * height < begin[s + 1]; ++slot) {
          const std::int64_t at = begin[s] + slot * height + i,
                             k = slot < length ? host.pattern.row_ptr[r] + slot : -1;
          col[at] = k < 0 ? -1 : host.pattern.col[k], values[at] = k < 0 ? 0 : host.values[k];
        }
      }
  });
  auto holder = std::make_shared<Holder>();
  holder->index = on_device(context, offsets), holder->other = on_device(context, col);
  holder->values = on_device(context, values);
  cusparseSpMatDescr_t matrix = nullptr;
  device::check(
      cusparseCreateSlicedEll(&matrix, rows, host.cols(), host.nonzeros(), size, height, holder->index.data(),
                              holder->other.data(), holder->values.data(), CUSPARSE_INDEX_32I,
                              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
      "cusparseCreateSlicedEll");
  holder->product = std::make_unique<CusparseProduct<double>>(context, matrix, CUSPARSE_SPMV_SELL_ALG1, true);
  return applying(holder);
}

// Blocks of b x b, column by column; not if more than half as much again would be stored.
Apply bsr_product(const ContextPtr& context, const CsrMatrix<double>& host, std::int64_t b) {
  const std::int64_t rows = host.rows(), block_rows = rows / b;
  if (rows % b != 0 || host.cols() % b != 0) return {};
  std::vector<std::int32_t> pointers(static_cast<std::size_t>(block_rows) + 1, 0), col;
  std::vector<double> values;
  const auto blocks_of = [&](std::int64_t block_row, std::vector<std::int32_t>& list) {
    list.clear();
    for (std::int64_t r = block_row * b; r < (block_row + 1) * b; ++r)
      for (const std::int32_t c : host.pattern.row(r))
        if (list.empty() || list.back() != c / b) list.push_back(static_cast<std::int32_t>(c / b));
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  const auto each_row = [&](auto body) {
    parallel(available_threads(), [&](int part, int parts) {
      const Range range = even_range(block_rows, part, parts);
      std::vector<std::int32_t> list;
      for (std::int64_t r = range.begin; r < range.end; ++r) blocks_of(r, list), body(r, list);
    });
  };
  each_row(
      [&](std::int64_t r, const auto& list) { pointers[r + 1] = static_cast<std::int32_t>(list.size()); });
  for (std::int64_t r = 0; r < block_rows; ++r) pointers[r + 1] += pointers[r];
  const std::int64_t blocks = pointers[block_rows];
  if (2 * blocks * b * b > 3 * host.nonzeros()) return {};
  col.resize(static_cast<std::size_t>(blocks)), values.assign(static_cast<std::size_t>(blocks * b * b), 0.0);
  each_row([&](std::int64_t block_row, const auto& list) {
    std::copy(list.begin(), list.end(), col.begin() + pointers[block_row]);
    for (std::int64_t i = 0; i < b; ++i) {
      const std::int64_t r = block_row * b + i;
      for (std::int64_t k = host.pattern.row_ptr[r]; k < host.pattern.row_ptr[r + 1]; ++k) {
        const std::int32_t c = host.pattern.col[k];
        const std::int64_t block =
            pointers[block_row] +
            (std::lower_bound(list.begin(), list.end(), static_cast<std::int32_t>(c / b)) - list.begin());
        values[block * b * b + c % b * b + i] = host.values[k];
      }
    }
  });
  auto holder = std::make_shared<Holder>();
  holder->index = on_device(context, pointers), holder->other = on_device(context, col);
  holder->values = on_device(context, values);
  cusparseSpMatDescr_t matrix = nullptr;
  device::check(
      cusparseCreateBsr(&matrix, block_rows, host.cols() / b, blocks, b, b, holder->index.data(),
                        holder->other.data(), holder->values.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F, CUSPARSE_ORDER_COL),
      "cusparseCreateBsr");
  holder->product = std::make_unique<CusparseProduct<double>>(context, matrix, CUSPARSE_SPMV_BSR_ALG1, true);
  return applying(holder);
}

}  // namespace

std::vector<GpuPeer> cusparse_peers(const ContextPtr& context, const CsrMatrix<double>& host,
                                    const CsrMatrix<double>& device) {
  return {
      {"cusparse csr 1", true, [&] { return csr_product(context, device, CUSPARSE_SPMV_CSR_ALG1); }},
      {"cusparse csr 2", true, [&] { return csr_product(context, device, CUSPARSE_SPMV_CSR_ALG2); }},
      {"cusparse coo 1", true, [&] { return coo_product(context, host, device, CUSPARSE_SPMV_COO_ALG1); }},
      {"cusparse coo 2", true, [&] { return coo_product(context, host, device, CUSPARSE_SPMV_COO_ALG2); }},
      {"cusparse sell 32", false, [&] { return sell_product(context, host); }},
      {"cusparse bsr 3", false, [&] { return bsr_product(context, host, 3); }},
      {"cusparse bsr 4", false, [&] { return bsr_product(context, host, 4); }},
  };
}

std::string cusparse_version(const ContextPtr& context) {
  int version = 0;
  device::check(cusparseGetVersion(context->device_state().cusparse, &version), "cusparseGetVersion");
  return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
}

}  // namespace protean::bench
