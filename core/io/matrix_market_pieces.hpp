// Private: entries parsed from pieces of text, in the file's order, and what becomes of them.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/io/matrix_market_parse.hpp"

namespace protean::io_detail {

// Memory straight from the system, given back to it at once: what the parser needs must not stay with the
// process when the matrix is made.
template <class T>
class PageArray {
 public:
  PageArray() noexcept = default;
  explicit PageArray(std::int64_t size) : size_(size) {
    if (size == 0) return;
    void* data = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw OutOfMemory("no memory to read a matrix", bytes());
    data_ = static_cast<T*>(data);
  }
  PageArray(PageArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PageArray& operator=(PageArray&& other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  ~PageArray() {
    if (data_) munmap(data_, bytes());
  }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }
  // Grows; what was in it is lost.
  void at_least(std::int64_t size) {
    if (size > size_) *this = PageArray(size);
  }

 private:
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

// Rows are dealt into at most 256 buckets of 2^shift rows, so that threads can build them apart and each
// works on a few cache pages of the matrix.
struct Buckets {
  int shift = 0;
  std::int64_t count = 1;
  explicit Buckets(std::int64_t rows) {
    while ((rows - 1) >> shift >= 256) ++shift;
    count = std::max<std::int64_t>(1, ((rows - 1) >> shift) + 1);
  }
};

// One piece of a coordinate file: its items, sorted by bucket and otherwise in the file's order.
template <class Item>
struct ItemPiece {
  std::int64_t number = 0;
  PieceResult result;
  PageArray<Item> items;
  std::vector<std::uint32_t> bucket_start;  // count + 1
};
// One piece of an array file.
struct ValuePiece {
  std::int64_t number = 0;
  PieceResult result;
  PageArray<double> items;
};

// Deals what was parsed into buckets.
template <class Item>
void store(ItemPiece<Item>& piece, const Buckets& buckets, const Item* parsed);

// Of an entry of the matrix, 0-based.
struct EntryPlace {
  std::int32_t row = 0, col = 0;
};

struct Assembled {
  CsrMatrix<double> matrix;
  // The first entries by row, then column, that were given twice, and whose values add up to infinity.
  std::optional<EntryPlace> repeated, overflow;
};
// Consumes the pieces. Repeated entries are added in the file's order, or, where they are to be refused,
// named.
template <class Item>
Assembled assemble(const ContextPtr& context, const Header& header, const Buckets& buckets,
                   std::vector<ItemPiece<Item>> pieces, Duplicates duplicates);
CsrMatrix<double> assemble_array(const ContextPtr& context, const Header& header,
                                 std::vector<ValuePiece> pieces);

}  // namespace protean::io_detail
