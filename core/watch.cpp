#include "core/watch.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void* __asan_region_is_poisoned(void* begin, std::size_t size);
#endif

namespace protean {
namespace {

constexpr std::size_t block_bytes = 4096;

// Reads memory that may have been unmapped: the system copies it through a pipe, and returns an error if a plain read
// would end the process. It calls the system directly, since AddressSanitizer intercepts write() of the C library.
class CarefulReader {
 public:
  CarefulReader() {
    if (pipe(ends_) != 0)
      throw Error(fmt::format("no pipe to read watched arrays: {}", std::strerror(errno)));
  }
  ~CarefulReader() {
    close(ends_[0]);
    close(ends_[1]);
  }
  CarefulReader(const CarefulReader&) = delete;
  CarefulReader& operator=(const CarefulReader&) = delete;

  // bytes: at most block_bytes, which fits into a pipe. Returns false when a part cannot be read.
  bool operator()(const void* from, std::size_t bytes, void* to) {
#if defined(__SANITIZE_ADDRESS__)
    if (__asan_region_is_poisoned(const_cast<void*>(from), bytes)) return false;
#endif
    std::size_t in = 0, out = 0;
    while (in < bytes) {
      const long n = syscall(SYS_write, ends_[1], static_cast<const char*>(from) + in, bytes - in);
      if (n > 0)
        in += static_cast<std::size_t>(n);
      else if (errno != EINTR)
        break;
    }
    while (out < in) {
      const long n = syscall(SYS_read, ends_[0], static_cast<char*>(to) + out, in - out);
      if (n > 0)
        out += static_cast<std::size_t>(n);
      else if (n == 0 || errno != EINTR)
        return false;
    }
    return in == bytes;
  }

 private:
  int ends_[2];
};

// A hash of at most block_bytes, which depends on every bit.
std::uint64_t hash_of(const unsigned char* data, std::size_t bytes) {
  std::uint64_t h = 0x9e3779b97f4a7c15ULL ^ bytes;
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, std::min<std::size_t>(8, bytes - i));
    h = (h ^ word) * 0xbf58476d1ce4e5b9ULL;
    h ^= h >> 29;
  }
  return h;
}

// An array and the hashes of its blocks.
struct WatchedArray {
  std::string name;
  const void* data = nullptr;
  std::size_t item = 1, items = 0;
  std::vector<std::uint64_t> hashes;

  std::size_t blocks() const { return (item * items + block_bytes - 1) / block_bytes; }
  // Calls f(block, its hash, whether it could be read) for each block. `at`: the array, or a copy of it.
  template <class F>
  void for_blocks(const void* at, F f) const {
    CarefulReader read;
    std::array<unsigned char, block_bytes> here;
    for (std::size_t b = 0; b < blocks(); ++b) {
      const std::size_t bytes = std::min(block_bytes, item * items - b * block_bytes);
      const bool good = read(static_cast<const char*>(at) + b * block_bytes, bytes, here.data());
      f(b, good ? hash_of(here.data(), bytes) : 0, good);
    }
  }
  std::string entries(std::size_t block) const {
    const std::size_t first = block * block_bytes / item;
    return fmt::format("entries {} to {} of {}", first, std::min(items, first + block_bytes / item) - 1,
                       items);
  }
  [[noreturn]] void gone(std::size_t block) const {
    throw ArraysChanged(
        fmt::format("array {} of a matrix cannot be read any more ({}): it has been freed. The arrays of a "
                    "view must be kept as long as what is made of it",
                    name, entries(block)));
  }
  void look(const void* at) {
    hashes.assign(blocks(), 0);
    for_blocks(at, [&](std::size_t b, std::uint64_t hash, bool good) {
      if (!good) gone(b);
      hashes[b] = hash;
    });
  }
  void check(const void* at) const {
    for_blocks(at, [&](std::size_t b, std::uint64_t hash, bool good) {
      if (!good) gone(b);
      if (hash != hashes[b])
        throw ArraysChanged(fmt::format(
            "array {} of a matrix has changed ({}): it has been overwritten, or freed and used for something "
            "else. Do not change it. After a change of values call update_values(); another pattern needs a "
            "new matrix",
            name, entries(b)));
    });
  }
};

}  // namespace

class ArrayWatch {
 public:
  template <class T>
  ArrayWatch(const ContextPtr& context, const CsrMatrix<T>& matrix) : context_(context) {
    const SparsityPattern& p = matrix.pattern;
    const auto items = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    p.row_ptr.visit([&](auto* ptr) { arrays_[0] = {"row_ptr", ptr, sizeof(*ptr), items(p.rows + 1), {}}; });
    arrays_[1] = {"col", p.col, sizeof(std::int32_t), items(p.nonzeros), {}};
    arrays_[2] = {"values", matrix.values, sizeof(T), items(p.nonzeros), {}};
    const Here<T> now = here(matrix);
    for (std::size_t a = 0; a < arrays_.size(); ++a) arrays_[a].look(now.at[a]);
  }
  // For the same pattern with other values.
  ArrayWatch(const ArrayWatch& pattern, const void* values)
      : context_(pattern.context_), arrays_(pattern.arrays_) {
    arrays_[2].data = values, arrays_[2].hashes.clear();
  }

  template <class T>
  void check(const CsrMatrix<T>& matrix, bool with_values) {
    const Here<T> now = here(matrix);
    for (std::size_t a = 0; a < 2; ++a) arrays_[a].check(now.at[a]);
    if (with_values && !arrays_[2].hashes.empty())
      arrays_[2].check(now.at[2]);
    else
      arrays_[2].look(now.at[2]);  // new values, which have no hashes yet
  }

 private:
  // The arrays in host memory: themselves, or copies of the arrays of a device.
  template <class T>
  struct Here {
    std::array<const void*, 3> at;
    CsrMatrix<T> copy;
  };
  template <class T>
  Here<T> here(const CsrMatrix<T>& matrix) const {
    if (matrix.pattern.space == Space::host) return {{arrays_[0].data, arrays_[1].data, arrays_[2].data}, {}};
    for (const WatchedArray& array : arrays_) {
      try {
        detail::require_device_memory(*context_, array.data, array.name);
      } catch (const Error&) { array.gone(0); }
    }
    CsrMatrix<T> copy = download(Context::host(1), *context_, matrix);
    const void* row_ptr = copy.pattern.row_ptr.visit([](auto* ptr) { return static_cast<const void*>(ptr); });
    return {{row_ptr, copy.pattern.col, copy.values}, copy};
  }

  ContextPtr context_;
  std::array<WatchedArray, 3> arrays_;
};

template <class T>
CsrMatrix<T> watched(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  if (matrix.pattern.space != context->space())
    throw WrongSpace(fmt::format("the matrix lies in {} memory, the context is of {} memory",
                                 to_string(matrix.pattern.space), to_string(context->space())));
  CsrMatrix<T> result = matrix;
  result.watch = std::make_shared<ArrayWatch>(context, matrix);
  return result;
}

template <class T>
void check_arrays(const CsrMatrix<T>& matrix) {
  if (matrix.watch) matrix.watch->check(matrix, true);
}
template <class T>
void detail::accept_values(const CsrMatrix<T>& matrix) {
  if (matrix.watch) matrix.watch->check(matrix, false);
}

namespace detail {
template <class T>
std::shared_ptr<ArrayWatch> watch_of_values(const std::shared_ptr<ArrayWatch>& watch, const T* values) {
  return watch ? std::make_shared<ArrayWatch>(*watch, static_cast<const void*>(values)) : nullptr;
}
}  // namespace detail

#define PROTEAN_INSTANTIATE(T)                                                                        \
  template CsrMatrix<T> watched<T>(const ContextPtr&, const CsrMatrix<T>&);                           \
  template void check_arrays<T>(const CsrMatrix<T>&);                                                 \
  template void detail::accept_values<T>(const CsrMatrix<T>&);                                        \
  template std::shared_ptr<ArrayWatch> detail::watch_of_values<T>(const std::shared_ptr<ArrayWatch>&, \
                                                                  const T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
