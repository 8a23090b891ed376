// Private: a file of one vector that is written part by part, so that the vector need not be in memory as a whole.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace protean::io_detail {

// The bytes of a .npy file before its numbers, of type <f8. `shape`: "(3,)".
std::string npy_header(const std::string& shape, bool fortran_order);

// The ending of the name says what is written, as write_vector() has it. Without commit() there is no file.
class VectorWriter {
 public:
  VectorWriter(const std::string& path, std::int64_t size, const std::string& comment);
  ~VectorWriter();
  VectorWriter(const VectorWriter&) = delete;
  VectorWriter& operator=(const VectorWriter&) = delete;

  // Writes the entries that follow the entries of earlier calls. Throws BadArgument for more than `size` in all.
  void add(std::span<const double> entries);
  // Throws BadArgument while entries are missing.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace protean::io_detail
