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
#include <protean/core/row_stretch.hpp>

namespace protean {

// One parameter of a generator: a number with its default and range, or one of some words, which then stands
// for its place among them.
struct GeneratorParam {
  std::string_view name, doc;
  double default_value = 0, smallest = 0, largest = 0;
  bool integer = false;
  std::string_view choices = {};  // "a|b|c": 0 is a, 1 is b, 2 is c
};

using GeneratorParams = std::map<std::string, double, std::less<>>;

// Where a generator's rows go: into a matrix in memory, or in stretches of about `entries` entries to `rows`.
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
  // The matrix; an empty one when the rows went to target.rows.
  CsrMatrix<double> (*make)(const RowTarget& target, const GeneratorParams& complete);
};

// poisson-2d, poisson-3d, convection-diffusion-3d, anisotropic-2d, anisotropic-3d, elasticity-3d,
// graph-laplacian, random-spd, banded, artificial.
std::span<const GeneratorEntry> generators() noexcept;

// Throws BadArgument for an unknown kind, with the nearest.
const GeneratorEntry& find_generator(std::string_view kind);

// Deterministic in its parameters (seed included), whatever the number of threads. Throws BadArgument for an
// unknown kind or parameter (with the nearest name) or a value out of range, OutOfMemory when it cannot fit.
CsrMatrix<double> generate(const ContextPtr& context, std::string_view kind,
                           const GeneratorParams& params = {});

// The same matrix, bit for bit, without ever being in memory: receiver.begin(), then its rows in stretches of
// about `stretch` entries (more where a single row, or in `artificial` some rows that depend on each other,
// have more), each made by all threads. Besides a stretch there are in memory: of artificial 4 bytes a row
// and 8 bytes a column and thread, of graph-laplacian and random-spd the graph. Throws what generate() and
// the receiver throw.
void generate_rows(const ContextPtr& context, std::string_view kind, const GeneratorParams& params,
                   RowReceiver& receiver, std::int64_t stretch = std::int64_t{1} << 22);

}  // namespace protean
