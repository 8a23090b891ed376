// Private: entries parsed from pieces of text, and the matrix that is assembled from them.
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

// An array in separate memory pages. They are returned to the system at once: memory that only the parser needs must
// not stay with the process after the matrix has been made.
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
  // Makes the array larger; its content is lost.
  void at_least(std::int64_t size) {
    if (size > size_) *this = PageArray(size);
  }

 private:
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

// Rows are divided into at most 256 buckets of 2^shift rows. Threads can then build the buckets
// independently, and each thread writes to a small part of the matrix at a time.
struct Buckets {
  int shift = 0;
  std::int64_t count = 1;
  explicit Buckets(std::int64_t rows) {
    while ((rows - 1) >> shift >= 256) ++shift;
    count = std::max<std::int64_t>(1, ((rows - 1) >> shift) + 1);
  }
};

// One piece of a coordinate file: its items, sorted by bucket, and within a bucket in the order of the file.
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

// Sorts the parsed items of a piece into its buckets.
template <class Item>
void store(ItemPiece<Item>& piece, const Buckets& buckets, const Item* parsed);

// Row and column of an entry of the matrix, 0-based.
struct EntryPlace {
  std::int32_t row = 0, col = 0;
};

struct Assembled {
  CsrMatrix<double> matrix;
  // The first entry (by row, then column) that was given more than once; the first one whose values are
  // finite but add up to infinity.
  std::optional<EntryPlace> repeated, overflow;
};
// Consumes the pieces. Repeated entries are added in the order of the file, unless they are to be refused;
// then the matrix returned is not valid.
template <class Item>
Assembled assemble(const ContextPtr& context, const Header& header, const Buckets& buckets,
                   std::vector<ItemPiece<Item>> pieces, Duplicates duplicates);
CsrMatrix<double> assemble_array(const ContextPtr& context, const Header& header,
                                 std::vector<ValuePiece> pieces);

}  // namespace protean::io_detail
