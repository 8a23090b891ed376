// Matrices made from a formula, so that a problem can be solved without any file.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/row_stretch.hpp>

namespace PROTEAN_EXPORT protean {

// One parameter of a generator: a number with its default and range, or one word of a list. The value of a
// word is its position in the list.
struct GeneratorParam {
  std::string_view name, doc;
  double default_value = 0, smallest = 0, largest = 0;
  bool integer = false;
  std::string_view choices = {};  // "a|b|c": 0 is a, 1 is b, 2 is c
};

using GeneratorParams = std::map<std::string, double, std::less<>>;

// Where the rows of a generator go: into a matrix in memory, or to `rows` in blocks of about `entries`
// entries.
struct RowTarget {
  const ContextPtr& context;
  RowReceiver* rows = nullptr;
  std::int64_t entries = 0;
};

struct GeneratorEntry {
  std::string_view kind, title;  // "poisson-3d"
  std::string_view formula;      // what the matrix is, and its size
  std::span<const GeneratorParam> params;
  bool symmetric_positive_definite = false;
  // Returns the matrix; an empty one if the rows went to target.rows.
  CsrMatrix<double> (*make)(const RowTarget& target, const GeneratorParams& complete);
};

// poisson-2d, poisson-3d, convection-diffusion-3d, anisotropic-2d, anisotropic-3d, elasticity-3d,
// graph-laplacian, random-spd, banded, artificial, stokes-2d, darcy-2d, reservoir-2d, taylor-hood-2d, taylor-hood-3d,
// pressure-mass-2d, pressure-mass-3d.
std::span<const GeneratorEntry> generators() noexcept;

// Throws BadArgument for an unknown kind; the message has the nearest known one.
const GeneratorEntry& find_generator(std::string_view kind);

// The matrix depends on its parameters (the seed is one) alone, not on the number of threads. Throws
// BadArgument for an unknown kind or parameter (with the nearest name) and for a value out of range,
// OutOfMemory if the matrix cannot fit.
CsrMatrix<double> generate(const ContextPtr& context, std::string_view kind,
                           const GeneratorParams& params = {});

// Makes the same matrix, bit for bit, without having it in memory: calls receiver.begin(), then hands over its rows in
// blocks of about `stretch` entries. A block has more entries if a single row has more, or, in `artificial`, some rows
// that depend on each other. All threads make each block. Next to a block, the memory holds 4 bytes a row and 8 bytes a
// column and thread for artificial, and the graph for graph-laplacian and random-spd. Throws what generate() and the
// receiver throw.
void generate_rows(const ContextPtr& context, std::string_view kind, const GeneratorParams& params,
                   RowReceiver& receiver, std::int64_t stretch = std::int64_t{1} << 22);

}  // namespace protean
