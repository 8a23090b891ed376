// Exceptions for bad input, missing resources and wrong use of the library. Numerical trouble in a solve is
// not an exception but a result (see solvers/stopping.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/core/source_location.hpp>

namespace PROTEAN_EXPORT protean {

// The constructors are not inherited: nvcc fails on an inherited default argument that is
// source_location::current().

// Base class of every exception of the library. what() is a message for the user: what is wrong, what is
// allowed, what to do. where() is the line of the library that threw it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, SourceLocation where = SourceLocation::current())
      : std::runtime_error(message), where_(where) {}
  const SourceLocation& where() const noexcept { return where_; }

 private:
  SourceLocation where_;
};

// The sizes of two arguments do not fit together.
class ShapeMismatch : public Error {
 public:
  explicit ShapeMismatch(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Data lie in a memory space other than the one that the operation needs. The library never copies between spaces
// unasked.
class WrongSpace : public Error {
 public:
  explicit WrongSpace(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Arrays of the caller, which the library uses without a copy, were freed or changed (see watched() in
// core/watch.hpp).
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

// An argument is wrong: unknown name, parameter out of range, overlapping vectors.
class BadArgument : public Error {
 public:
  explicit BadArgument(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Something that this build does not contain or this machine does not have.
class NotAvailable : public Error {
 public:
  explicit NotAvailable(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Not enough memory. If the size is known beforehand, it is thrown before anything is allocated. For a small list of
// the library std::bad_alloc is thrown instead. After either exception the object that was called can be used again,
// and the same call gives the same answer if there is memory. If a build next to a solve has no memory, only the build
// fails (FailedSwitch), and the solve goes on.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, std::size_t bytes, SourceLocation where = SourceLocation::current())
      : Error(message, where), bytes_(bytes) {}
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
};

// A call to the GPU or one of its libraries failed. The message has the call and the text of the driver.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// A file that cannot be read as the kind of file that it should be. Line and column count from 1; 0: not known.
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

// A storage format cannot store this matrix. bytes() is the predicted size if the size is the reason.
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

namespace detail {
// " Did you mean 'x'?" or an empty string.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);
}  // namespace detail

}  // namespace protean
