// What every reader of matrices and vectors promises for any bytes.
#pragma once
#include <optional>
#include <string>

#include "core/csr.hpp"
#include "core/io/matrix_market.hpp"
#include "fuzz/target.hpp"

namespace protean::fuzz {

// One thread, so that a run does not depend on when others are woken. Made once.
inline const ContextPtr& one_thread() {
  static const ContextPtr context = Context::host(1);
  return context;
}

// So little that an input cannot take long, and enough for what a few kilobytes of text can hold.
constexpr std::size_t memory_limit = std::size_t{1} << 20;

// Returns what was read; null after an error of the library, which must have a message.
template <class Read>
auto read_or_refuse(Read&& read) -> std::optional<decltype(read())> {
  std::string message;
  try {
    return read();
  } catch (const BadFile& error) { message = error.what(); } catch (const OutOfMemory& error) {
    message = error.what();
  }
  if (message.empty()) broken("an error without a message");
  if (message.size() > 4000) broken("a message longer than any line of a file needs");
  return std::nullopt;
}

inline void require_valid(const CsrMatrix<double>& matrix, bool allow_not_finite) {
  try {
    validate_sorted(*one_thread(), matrix.pattern);
    if (!allow_not_finite) require_finite(*one_thread(), matrix);
  } catch (const BadMatrix& error) { broken(error.what()); }
}

inline ReadOptions options_of(std::uint32_t choice) {
  ReadOptions options;
  options.duplicates = (choice & 1) != 0 ? Duplicates::refuse : Duplicates::sum;
  options.allow_not_finite = (choice & 2) != 0;
  options.memory_limit = memory_limit;
  return options;
}

}  // namespace protean::fuzz
