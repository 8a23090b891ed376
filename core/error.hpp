// Errors: broken input, missing resources and misuse. Numerical events of a solve are not errors but results
// (see solvers/stopping.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <protean/core/source_location.hpp>

namespace protean {

// Constructors are written out, not inherited: nvcc's front end fails on an inherited default argument that
// is source_location::current().

// Base of every exception the library throws. what() is one message for a person: what is wrong, what is
// allowed, what to do. where() is the place in the library that noticed it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, SourceLocation where = SourceLocation::current())
      : std::runtime_error(message), where_(where) {}
  const SourceLocation& where() const noexcept { return where_; }

 private:
  SourceLocation where_;
};

// Sizes that do not fit together.
class ShapeMismatch : public Error {
 public:
  explicit ShapeMismatch(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Data in another memory space than the operation's; the library never copies between spaces unasked.
class WrongSpace : public Error {
 public:
  explicit WrongSpace(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Arrays of a caller that are used where they lie were freed or changed (see watched() in core/watch.hpp).
class ArraysChanged : public Error {
 public:
  explicit ArraysChanged(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// A matrix that breaks an invariant (index out of range, unsorted row, duplicate, row pointers decreasing).
class BadMatrix : public Error {
 public:
  explicit BadMatrix(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// A call that is wrong in itself: unknown name, parameter out of range, overlapping vectors.
class BadArgument : public Error {
 public:
  explicit BadArgument(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Something not compiled into this build, or not available on this machine.
class NotAvailable : public Error {
 public:
  explicit NotAvailable(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Not enough memory; thrown before allocating where the need is known beforehand.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, std::size_t bytes, SourceLocation where = SourceLocation::current())
      : Error(message, where), bytes_(bytes) {}
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
};

// The GPU or one of its libraries failed: what was called, and the text the driver gives.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// A text file that cannot be understood. Line and column count from 1; 0 means not known.
class BadFile : public Error {
 public:
  BadFile(const std::string& file, std::int64_t line, std::int64_t column, const std::string& message,
          SourceLocation where = SourceLocation::current());
  const std::string& file() const noexcept { return file_; }
  std::int64_t line() const noexcept { return line_; }
  std::int64_t column() const noexcept { return column_; }

 private:
  std::string file_;
  std::int64_t line_, column_;
};

// A storage format that will not hold this matrix. bytes() is the predicted size where that was the reason.
class FormatRefused : public Error {
 public:
  FormatRefused(std::string_view format, std::string_view reason, std::size_t bytes = 0,
                SourceLocation where = SourceLocation::current());
  const std::string& format() const noexcept { return format_; }
  const std::string& reason() const noexcept { return reason_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::string format_, reason_;
  std::size_t bytes_;
};

// value as Target; throws BadArgument naming `what` when it does not fit.
template <class Target, class Source>
Target narrow(Source value, std::string_view what, SourceLocation where = SourceLocation::current()) {
  const auto result = static_cast<Target>(value);
  if (static_cast<Source>(result) != value || ((result < Target{}) != (value < Source{})))
    throw BadArgument(std::string(what) + " = " + std::to_string(value) + " does not fit its integer type",
                      where);
  return result;
}

// The candidate nearest to `word` in edit distance, or an empty view when none is near.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates);

// " Did you mean 'x'?" or an empty string.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

// "1.5 GiB" for a person.
std::string human_bytes(std::size_t bytes);

}  // namespace protean
