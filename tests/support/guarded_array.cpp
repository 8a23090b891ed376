#include "support/guarded_array.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace protean::test {
namespace {

constexpr std::size_t page = 4096, guard = 16 * page;  // a vector's length too far, or a few hundred rows
std::array<char, 512> current_case{};

char* map_pages(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

}  // namespace

void set_guarded_case(const std::string& text) {
  current_case.fill(0);
  text.copy(current_case.data(), current_case.size() - 1);
}

// An empty array has an address, but no page that may be touched.
GuardedMemory::GuardedMemory(std::string name, std::size_t bytes, Border border)
    : name_(std::move(name)),
      bytes_(bytes),
      mapped_((bytes + page - 1) / page * page),
      begin_(map_pages(mapped_ + 2 * guard)),
      data_(border == Border::begin ? begin_ + guard : begin_ + guard + mapped_ - bytes),
      message_(begin_, mapped_ + 2 * guard, explain, this) {
  if (mapped_ > 0 && mprotect(begin_ + guard, mapped_, PROT_READ | PROT_WRITE) != 0) std::abort();
}

GuardedMemory::~GuardedMemory() { munmap(begin_, mapped_ + 2 * guard); }

void GuardedMemory::forbid_writes() {
  if (mapped_ > 0 && mprotect(begin_ + guard, mapped_, PROT_READ) != 0) std::abort();
}

void GuardedMemory::explain(const void* self, const char* address, char* text, std::size_t room) {
  const auto& m = *static_cast<const GuardedMemory*>(self);
  const std::ptrdiff_t at = address - m.data_, size = static_cast<std::ptrdiff_t>(m.bytes_);
  const char* const what = at < 0       ? "read or written before its beginning"
                           : at >= size ? "read or written past its end"
                                        : "written, which the test forbids";
  // snprintf allocates nothing for these conversions.
  std::snprintf(text, room, "guarded array: '%s' of %td bytes was %s, at byte %td; %s\n", m.name_.c_str(),
                size, what, at, current_case.data());
}

}  // namespace protean::test
