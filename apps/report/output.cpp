#include "apps/report/output.hpp"

#include <cstdio>

#include "core/io/atomic_file.hpp"

namespace protean::apps {

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !written)
    throw WriteFailed("cannot write to the standard output: no space, or it was closed");
}

void print_beside(bool output_is_taken, std::string_view text) {
  if (!output_is_taken) return print(text);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace protean::apps
