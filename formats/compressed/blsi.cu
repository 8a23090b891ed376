// BLSI on the device: the index of blsi.cpp, and the segments and carries of engines/runs/coo_segments.cuh. The sum of
// a row has a fixed order.
#include "formats/compressed/blsi.hpp"

#include "formats/engines/runs/coo_segments.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"

namespace protean::formats {

Admission admit_blsi(const Context&, const SparsityPattern&, const FormatParams&, std::size_t value_bytes);

namespace {

template <class T, class Word>
struct PackedIndex {
  PackedEntries<T, Word> a;
  __device__ RowCol operator[](std::int64_t k) const {
    const Word word = __ldcs(a.index + k);
    return {a.row_of(word), a.col_of(word)};
  }
};

// index[k] := row and column of entry k, expand_entries entries a thread
template <class T, class Word, class P>
__global__ void pack_entries(PackedEntries<T, Word> a, const P* row_ptr, const std::int32_t* col,
                             Word* index) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * blockDim.x * expand_entries;
  const std::int64_t end = min(a.size, begin + std::int64_t{blockDim.x} * expand_entries);
  const SliceRange range = slices_of_block(row_ptr, a.rows, begin, end);
  for (std::int64_t k = begin + threadIdx.x; k < end; k += blockDim.x)
    index[k] = a.packed(slice_of(row_ptr, range.first, range.last, k), col[k]);
}

// The arrays of csr again: a thread for each entry and for each row pointer.
template <class T, class Word, class P>
__global__ void unpack_entries(PackedEntries<T, Word> a, P* row_ptr, std::int32_t* col) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < a.size) col[i] = a.col_of(a.index[i]);
  if (i <= a.rows) row_ptr[i] = static_cast<P>(a.first_of(i));
}

template <class T, class Word>
class Blsi final : public RowViewOnDevice<T, Blsi<T, Word>> {
 public:
  explicit Blsi(const BuildRequest<T>& request)
      : RowViewOnDevice<T, Blsi<T, Word>>(request),
        index_(request.context, request.csr.nonzeros()),
        values_(request.context, index_.size()),
        carry_row_(request.context, segments_of(index_.size())),
        carry_value_(request.context, carry_row_.size()) {
    do_update_values(request.csr);
    if (index_.size() == 0) return;
    request.csr.pattern.row_ptr.visit([&](auto* row_ptr) {
      pack_entries<<<blocks_of(index_.size(), 256 * expand_entries), 256, 0,
                     device::stream(*request.context)>>>(row_view(), row_ptr, request.csr.pattern.col,
                                                         index_.data());
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::size_t bytes() const noexcept override {
    return index_.bytes() + values_.bytes() + carry_row_.bytes() + carry_value_.bytes();
  }
  PackedEntries<T, Word> row_view() const {
    return {values_.data(), index_.data(), this->rows(), values_.size(), bits_below(this->cols())};
  }
  T* mutable_values() { return values_.data(); }

  // A row may have nearly all entries, so that one thread for each row would be slow.
  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    CsrBuilder<T> builder(this->context(), this->rows(), this->cols(), values_.size());
    const auto unpack = [&](auto* row_ptr) {
      unpack_entries<<<blocks_of(std::max(this->rows() + 1, index_.size()), 256), 256, 0,
                       device::stream(*this->context())>>>(row_view(), row_ptr, builder.col());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    };
    if (builder.row_ptr32())
      unpack(builder.row_ptr32());
    else
      unpack(builder.row_ptr64());
    device::copy_within(*this->context(), builder.values(), values_.data(), values_.bytes());
    return builder.freeze();
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    device::copy_within(*this->context(), values_.data(), csr.values, values_.bytes());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (index_.size() == 0) return scale(*this->context(), this->rows(), beta, y.data);
    // A product overwrites the workspace before it reads it.
    const EntrySegments<T, PackedIndex<T, Word>> A{this->rows(),
                                                   index_.size(),
                                                   {row_view()},
                                                   values_.data(),
                                                   const_cast<std::int32_t*>(carry_row_.data()),
                                                   const_cast<T*>(carry_value_.data())};
    multiply_segments(*this->context(), A, alpha, x.data, beta, y.data);
  }

 private:
  Buffer<Word> index_;
  Buffer<T> values_;
  Buffer<std::int32_t> carry_row_;
  Buffer<T> carry_value_;
};

template <class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (index_bits(request.csr.rows(), request.csr.cols()) <= 32)
    return std::make_unique<Blsi<T, std::uint32_t>>(request);
  return std::make_unique<Blsi<T, std::uint64_t>>(request);
}

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  Admission admission = admit_blsi(context, pattern, params, value_bytes);
  admission.bytes += static_cast<std::size_t>(segments_of(pattern.nonzeros)) * (value_bytes + 4);
  return admission;
}

constexpr Kernel kernels[] = {
    {.name = "native", .device = true, .make_f64 = make<double>, .make_f32 = make<float>}};

}  // namespace

constinit const DeviceCode device_code::blsi{kernels, admit};

}  // namespace protean::formats
