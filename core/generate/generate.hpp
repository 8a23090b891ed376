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

struct GeneratorEntry {
  std::string_view kind, title;  // "poisson-3d"
  std::string_view formula;      // what the matrix is, and its size
  std::span<const GeneratorParam> params;
  bool symmetric_positive_definite = false;
  CsrMatrix<double> (*make)(const ContextPtr&, const GeneratorParams& complete);
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

}  // namespace protean
