// What the host code of several formats has in common. Private to formats/.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/blas1.hpp"
#include "core/parallel.hpp"
#include "core/words.hpp"
#include "operators/assembled_matrix.hpp"
#include "operators/layout.hpp"
#include "operators/narrow_values.hpp"

namespace protean::formats {

// Whether a kernel adds in the order of deterministic mode (Kernel::ordered).
enum class Sums : bool { own_order, ordered };
// How a matrix with vectors in double may store its values: as these, or also in float (BuildRequest::float_values), or
// also as places in a table (BuildRequest::table).
enum class Values : unsigned char { of_vectors, either, either_or_table };

// A kernel compiled from a class template Format<T> with a constructor from BuildRequest<T>.
template <template <class> class Format>
constexpr Kernel native_host_kernel(Sums sums = Sums::own_order, Values values = Values::of_vectors) {
  return {"native",
          true,
          false,
          {},
          [](const BuildRequest<double>& r) -> std::unique_ptr<AssembledMatrix<double>> {
            return std::make_unique<Format<double>>(r);
          },
          [](const BuildRequest<float>& r) -> std::unique_ptr<AssembledMatrix<float>> {
            return std::make_unique<Format<float>>(r);
          },
          {},
          true,
          sums == Sums::ordered,
          values == Values::either            ? std::span<const ParamDoc>(values_params)
          : values == Values::either_or_table ? std::span<const ParamDoc>(table_params)
                                              : std::span<const ParamDoc>()};
}

// Copies an array, each thread an even part. The arrays do not overlap.
template <class From, class To>
void copy_array(const Context& context, const From* from, std::int64_t size, To* to) {
  parallel(useful_parts(context, size, 65536), [&](int part, int parts) {
    const Range range = even_range(size, part, parts);
    std::copy(from + range.begin, from + range.end, to + range.begin);
  });
}

// y := alpha * sum + beta * y without reading y when beta is 0.
template <class T>
inline void store(T alpha, T sum, T beta, T& y) {
  y = beta == T(0) ? alpha * sum : alpha * sum + beta * y;
}

// One result for each part of a parallel loop, added in the order of the parts, so the total is the same in
// every run with the same number of parts. Each has its own cache line. Up to 256 parts lie on the stack, so
// that a product allocates nothing.
template <class T>
class PartialSums {
 public:
  explicit PartialSums(int parts) : parts_(parts) {
    if (parts > on_stack) heap_.resize(static_cast<std::size_t>(parts));
    lines_ = parts > on_stack ? heap_.data() : stack_.lines;
    for (int part = 0; part < parts; ++part) lines_[part].value = T{};
  }
  PartialSums(const PartialSums&) = delete;
  PartialSums& operator=(const PartialSums&) = delete;
  T& operator[](int part) { return lines_[part].value; }
  T total() const {
    T sum = 0;
    for (int part = 0; part < parts_; ++part) sum += lines_[part].value;
    return sum;
  }

 private:
  static constexpr int on_stack = 256;
  struct alignas(64) Line {
    T value;
  };
  union Stack {  // not initialised: only the lines in use are written
    Stack() {}
    Line lines[on_stack];
  };
  int parts_;
  Line* lines_;
  Stack stack_;
  std::vector<Line> heap_;
};

// CSR from length(row), the number of entries, and write(row, first entry, builder); both run in parallel
// over rows.
template <class T, class Length, class Write>
CsrMatrix<T> csr_from_rows(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                           std::int64_t nonzeros, Length length, Write write) {
  CsrBuilder<T> builder(context, rows, cols, nonzeros);
  const int parts = useful_parts(*context, nonzeros + rows);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) builder.set_row_ptr(r + 1, length(r));
  });
  for (std::int64_t r = 0; r < rows; ++r)
    builder.set_row_ptr(r + 1, builder.row_ptr(r) + builder.row_ptr(r + 1));
  parallel(parts, [&](int part, int) {
    const Range range = even_range(rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) write(r, builder.row_ptr(r), builder);
  });
  return builder.freeze();
}

// The reason for a refusal when the slots are more than max_fill times the entries; else empty.
inline std::string too_much_fill(std::int64_t slots, std::int64_t nonzeros, std::int64_t max_fill,
                                 std::size_t bytes) {
  if (slots / max_fill < nonzeros || (slots / max_fill == nonzeros && slots % max_fill == 0)) return {};
  return fmt::format(
      "{} values would be stored for {} entries, {:.1f} times as many; max_fill allows {} ({} would be "
      "needed)",
      slots, nonzeros, static_cast<double>(slots) / static_cast<double>(std::max<std::int64_t>(1, nonzeros)),
      max_fill, human_bytes(bytes));
}

}  // namespace protean::formats
