// A matrix in a described format, multiplied by generated code that is compiled when it is made.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "operators/linear_operator.hpp"
#include "research/describe/convert.hpp"
#include "research/describe/generate.hpp"

namespace protean::research {

// A shared library, made of a source text by a compiler of this machine. It is closed, and its files are removed, with
// the object.
class Library {
 public:
  // host: the C++ compiler that the variable CXX of the environment names, else the one that compiled this program.
  // cuda: nvcc of the variable NVCC, else nvcc of the build, else of the path; `architecture` as sm_90, empty:
  // all-major. Throws NotAvailable if the compiler cannot be started, and Error with what it says.
  Library(const std::string& source, Target target, const std::string& architecture = {});
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // Throws Error.
  void* function(const std::string& name) const;

 private:
  std::string folder_;
  void* handle_ = nullptr;
};
// The library of this text that is in use in this process, or a new one.
std::shared_ptr<const Library> shared_library(const std::string& source, Target target,
                                              const std::string& architecture = {});
// Empty if Library can compile for the target, else why not.
std::string why_no_compiler(Target target);

// In the memory of the context, with kernels of its space.
template <class T>
class GeneratedMatrix final : public LinearOperator<T> {
 public:
  // Throws BadFile for a description that does not hold this matrix, and what Library throws. matrix: in host memory.
  GeneratedMatrix(const Description& description, const CsrMatrix<double>& matrix, const ContextPtr& context,
                  const Strategy& strategy = {});
  ~GeneratedMatrix() override;

  std::string_view name() const noexcept override { return name_; }
  std::size_t bytes() const noexcept;
  const std::string& source() const noexcept { return source_; }
  // Of an index array, for tests.
  const Converted& converted() const noexcept { return converted_; }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  void run(std::size_t nest, T alpha, const T* x, bool once, T beta, T* y) const;

  std::string name_, source_;
  std::vector<Nest> nests_;
  Description description_;
  Converted converted_;
  std::vector<std::int64_t> numbers_;
  std::vector<Buffer<std::int32_t>> index_;
  std::vector<Buffer<T>> values_;
  std::vector<const void*> arrays_;
  std::shared_ptr<const Library> library_;
  std::vector<void*> functions_;
};

}  // namespace protean::research
