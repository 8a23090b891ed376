// Private: functions that several generators use.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/generate/generate.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"

namespace protean::generate_detail {

// 64 well mixed bits of a counter (the finaliser of splitmix64, Steele, Lea, Flood, OOPSLA 2014). Every
// random number of the generators is this function of (seed, position), so no thread depends on another.
inline std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline std::uint64_t mix(std::uint64_t seed, std::uint64_t a, std::uint64_t b) noexcept {
  return mix(mix(mix(seed) ^ a) ^ b);
}
// Uniform in [0, 1).
inline double uniform(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-53; }

inline void check_size(std::string_view kind, double rows) {
  if (rows > 2147483647.0)
    throw BadArgument(
        fmt::format("{}: {:.0f} rows; a matrix has at most 2147483647: make it smaller", kind, rows));
}

// Makes blocks of rows for target.rows. next(first, row_ptr) writes the row pointers of the block that begins
// at row `first`, and returns the row after it. fill(first, end, row_ptr, col, values) writes its entries.
template <class Next, class Fill>
void hand_over(const RowTarget& target, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
               const Next& next, const Fill& fill) {
  target.rows->begin(rows, cols, nonzeros);
  std::vector<std::int64_t> row_ptr;
  Buffer<std::int32_t> col;
  Buffer<double> values;
  std::int64_t before = 0;
  for (std::int64_t first = 0; first < rows;) {
    row_ptr.assign(1, before);
    const std::int64_t end = next(first, row_ptr);
    const std::int64_t entries = row_ptr.back() - before;
    if (static_cast<std::int64_t>(col.size()) < entries) {
      col = {}, values = {};
      col = Buffer<std::int32_t>(target.context, entries);
      values = Buffer<double>(target.context, entries);
    }
    fill(first, end, row_ptr, col.data(), values.data());
    RowStretch stretch{first, end - first, {}, col.data(), values.data()};
    stretch.row_ptr.p64 = row_ptr.data();
    target.rows->take(stretch);
    first = end, before = row_ptr.back();
  }
}

// Makes a matrix with length(row) entries in each row, at least one, which fill(row, columns, values) writes in
// ascending columns. Any thread may call both, more than once for a row. The peak of memory is the matrix itself, or a
// block of it.
template <class Length, class Fill>
CsrMatrix<double> fill_rows(const RowTarget& target, std::string_view kind, std::int64_t rows,
                            const Length& length, const Fill& fill) {
  const ContextPtr& context = target.context;
  // Counting the entries of billions of rows takes seconds.
  if (!target.rows)
    detail::require_memory(static_cast<std::size_t>(rows) * 20,
                           fmt::format("{}: a matrix of {} rows, with one entry in each,", kind, rows));
  const int workers = useful_parts(*context, rows);
  std::vector<std::int64_t> start(static_cast<std::size_t>(workers) + 1, 0);
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(rows, part, parts);
    std::int64_t sum = 0;
    for (std::int64_t r = range.begin; r < range.end; ++r) sum += length(r);
    start[static_cast<std::size_t>(part) + 1] = sum;
  });
  for (int part = 0; part < workers; ++part) start[part + 1] += start[part];
  const std::int64_t nonzeros = start[static_cast<std::size_t>(workers)];
  if (target.rows) {
    hand_over(
        target, rows, rows, nonzeros,
        [&](std::int64_t first, std::vector<std::int64_t>& row_ptr) {
          std::int64_t row = first;
          do row_ptr.push_back(row_ptr.back() + length(row++));
          while (row < rows && row_ptr.back() - row_ptr.front() + length(row) <= target.entries);
          return row;
        },
        [&](std::int64_t first, std::int64_t end, const std::vector<std::int64_t>& row_ptr, std::int32_t* col,
            double* values) {
          parallel(useful_parts(*context, end - first), [&](int part, int parts) {
            const Range range = even_range(end - first, part, parts);
            for (std::int64_t r = range.begin; r < range.end; ++r) {
              const std::int64_t at = row_ptr[static_cast<std::size_t>(r)] - row_ptr.front();
              fill(first + r, col + at, values + at);
            }
          });
        });
    return {};
  }
  detail::require_memory(static_cast<std::size_t>(nonzeros) * 12 + static_cast<std::size_t>(rows) * 8,
                         fmt::format("{}: a matrix of {} rows and {} entries", kind, rows, nonzeros));
  CsrBuilder<double> builder(context, rows, rows, nonzeros);
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(rows, part, parts);
    std::int64_t at = start[part];
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      fill(r, builder.col() + at, builder.values() + at);
      at += length(r);
      builder.set_row_ptr(r + 1, at);
    }
  });
  return builder.freeze();
}

// The generators, one function for each kind.
CsrMatrix<double> poisson_2d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> poisson_3d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> convection_diffusion_3d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> anisotropic_2d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> anisotropic_3d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> elasticity_3d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> graph_laplacian(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> random_spd(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> banded(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> artificial(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> stokes_2d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> darcy_2d(const RowTarget&, const GeneratorParams&);
CsrMatrix<double> reservoir_2d(const RowTarget&, const GeneratorParams&);
template <int d>
CsrMatrix<double> taylor_hood(const RowTarget&, const GeneratorParams&);
template <int d>
CsrMatrix<double> pressure_mass(const RowTarget&, const GeneratorParams&);

}  // namespace protean::generate_detail
