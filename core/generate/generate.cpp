#include "core/generate/generate.hpp"

#include <cmath>

#include "core/generate/row_fill.hpp"

namespace protean {
namespace {

using namespace generate_detail;

constexpr double most = 2147483647.0, big = 1e300,
                 seeds = 9007199254740991.0;  // 2^53 - 1: seeds up to it are exact
constexpr GeneratorParam seed{"seed", "another number gives another matrix", 1, 0, seeds, true};
constexpr GeneratorParam nx{"nx", "points along x; 0 takes n", 0, 0, most, true};
constexpr GeneratorParam ny{"ny", "points along y; 0 takes n", 0, 0, most, true};
constexpr GeneratorParam nz{"nz", "points along z; 0 takes n", 0, 0, most, true};

constexpr GeneratorParam poisson_2d_params[] = {{"n", "points along a side", 100, 1, 46340, true}, nx, ny};
constexpr GeneratorParam poisson_3d_params[] = {
    {"n", "points along a side", 60, 1, 1290, true},
    {"points", "of the stencil: 7 (nearest neighbours) or 27 (also over edges and corners)", 7, 7, 27, true},
    nx,
    ny,
    nz};
constexpr GeneratorParam convection_params[] = {
    {"n", "points along a side", 60, 1, 1290, true},
    {"a1", "diffusion along x", 1.0 / 80, 0, big, false},
    {"a2", "diffusion along y", 1.0 / 80, 0, big, false},
    {"a3", "diffusion along z", 1.0 / 80, 0, big, false},
    {"b1", "velocity along x", 0.57735026918962576, -big, big, false},
    {"b2", "velocity along y", 0.57735026918962576, -big, big, false},
    {"b3", "velocity along z", 0.57735026918962576, -big, big, false},
    {"c", "reaction", 0, -big, big, false},
    nx,
    ny,
    nz};
constexpr GeneratorParam anisotropic_2d_params[] = {
    {"n", "points along a side", 100, 1, 46340, true},
    {"epsilon_x", "conductivity along x", 1, 1e-300, big, false},
    {"epsilon_y", "conductivity along y", 0.01, 1e-300, big, false},
    nx,
    ny};
constexpr GeneratorParam anisotropic_3d_params[] = {
    {"n", "points along a side", 60, 1, 1290, true},
    {"epsilon_x", "conductivity along x", 1, 1e-300, big, false},
    {"epsilon_y", "conductivity along y", 0.1, 1e-300, big, false},
    {"epsilon_z", "conductivity along z", 0.01, 1e-300, big, false},
    nx,
    ny,
    nz};
constexpr GeneratorParam elasticity_params[] = {
    {"n", "elements along a side of the cube", 20, 1, 893, true},
    {"young", "Young's modulus", 1, 1e-300, big, false},
    {"poisson", "Poisson's ratio, below 1/2", 0.3, -0.99, 0.4999999, false}};
constexpr GeneratorParam laplacian_params[] = {
    {"n", "nodes", 10000, 1, most, true},
    {"degree", "mean degree before repeated edges are dropped", 8, 0, 1e6, false},
    {"exponent", "of the power law of degrees; smaller means larger hubs", 2.5, 2.01, 100, false},
    {"shift", "added to the diagonal; the smallest eigenvalue", 0.01, 1e-300, big, false},
    seed};
constexpr GeneratorParam random_params[] = {
    {"n", "rows", 10000, 1, most, true},
    {"degree", "mean entries a row off the diagonal, before repeated ones are dropped", 10, 0, 1e6, false},
    {"shift", "added to the diagonal; a lower bound of the eigenvalues", 0.01, 1e-300, big, false},
    seed};
constexpr GeneratorParam banded_params[] = {{"n", "rows", 10000, 1, most, true},
                                            {"lower", "diagonals below the main one", 2, 0, most, true},
                                            {"upper", "diagonals above the main one", 2, 0, most, true},
                                            seed};

constexpr GeneratorParam artificial_params[] = {
    {"n", "rows", 10000, 1, most, true},
    {"cols", "columns, 0 for as many as rows", 0, 0, most, true},
    {"mean", "mean row length", 10, 0, most},
    {"deviation", "standard deviation of the row length", 0, 0, most},
    {"distribution", "of the row lengths", 0, 0, 1, true, "normal|gamma"},
    {"skew", "(longest - mean) / mean; 0 for what the distribution gives", 0, 0, most},
    {"bandwidth", "mean distance from the first to the last entry of a row as a part of the columns, about",
     0.3, 0, 1},
    {"placement", "where a row's entries lie: about the middle column or about the diagonal", 1, 0, 1, true,
     "middle|diagonal"},
    {"similarity", "cross-row similarity: part of a row's entries with one near by in the next row", 0.5, 0,
     1},
    {"neighbours", "entries next to an entry in its row, on average", 0.5, 0, 2},
    seed};

constexpr GeneratorParam contrast{
    "contrast", "coefficient in the disc of radius 1/4 about the middle", 1, 1e-300, big, false};
constexpr GeneratorParam stokes_params[] = {
    {"n", "cells along a side", 64, 2, 26754, true},
    contrast,
    {"convection", "speed of a rotating wind, upwind; 0 for a symmetric matrix", 0, 0, big, false}};
constexpr GeneratorParam darcy_params[] = {{"n", "cells along a side", 64, 2, 26754, true}, contrast};
constexpr GeneratorParam reservoir_params[] = {{"n", "cells along a side", 64, 2, 32767, true},
                                               contrast,
                                               {"step", "time step", 0.01, 1e-300, big, false}};
constexpr GeneratorParam viscosity{
    "contrast", "viscosity of every second block of the checkerboard; 1 in the others", 1, 1e-300, big,
    false};
constexpr GeneratorParam blocks{
    "blocks", "blocks along a side of the checkerboard; a cell lies where its middle does", 4, 1, 32767,
    true};
constexpr GeneratorParam taylor_hood_2d_params[] = {
    {"n", "cells along a side", 32, 2, 15447, true}, viscosity, blocks};
constexpr GeneratorParam taylor_hood_3d_params[] = {
    {"n", "cells along a side", 8, 2, 441, true}, viscosity, blocks};

constexpr GeneratorEntry entries[] = {
    {"poisson-2d", "Poisson's equation on a rectangle, 5 points",
     "-u_xx - u_yy times h^2, zero outside: 4 on the diagonal, -1 to the 4 neighbours; nx ny rows, "
     "5 nx ny - 2 nx - 2 ny entries",
     poisson_2d_params, true, poisson_2d},
    {"poisson-3d", "Poisson's equation on a box, 7 or 27 points",
     "-u_xx - u_yy - u_zz times h^2, zero outside: 6 on the diagonal, -1 to the 6 neighbours; nx ny nz rows, "
     "7 nx ny nz - 2 (nx ny + ny nz + nx nz) entries. With 27 points: 26 and -1 to all 26 neighbours; "
     "(3 nx - 2)(3 ny - 2)(3 nz - 2) entries",
     poisson_3d_params, true, poisson_3d},
    {"convection-diffusion-3d",
     "Convection and diffusion in the unit cube, the pde family of the SpMV survey",
     "-a1 u_xx - a2 u_yy - a3 u_zz + b1 u_x + b2 u_y + b3 u_z + c u, centred differences with h = 1 / (n + "
     "1), zero outside: 2 (a1 + a2 + a3) / h^2 + c on the diagonal, -a / h^2 -+ b / (2 h) to the neighbours "
     "before and after; nx ny nz rows, 7 nx ny nz - 2 (nx ny + ny nz + nx nz) entries (n = 60, 80, 100 have "
     "the sizes of pde60, pde80, pde100 in Filippone et al., ACM TOMS 43(4), 2017; the default "
     "coefficients are the coefficients of PSBLAS)",
     convection_params, false, convection_diffusion_3d},
    {"anisotropic-2d", "Diffusion with another conductivity along each axis of a rectangle",
     "-epsilon_x u_xx - epsilon_y u_yy times h^2: 2 (epsilon_x + epsilon_y) on the diagonal, -epsilon to the "
     "2 neighbours along each axis; nx ny rows, 5 nx ny - 2 nx - 2 ny entries",
     anisotropic_2d_params, true, anisotropic_2d},
    {"anisotropic-3d", "Diffusion with another conductivity along each axis of a box",
     "-epsilon_x u_xx - epsilon_y u_yy - epsilon_z u_zz times h^2: twice the sum of the epsilons on the "
     "diagonal, -epsilon to the 2 neighbours along each axis; nx ny nz rows, 7 nx ny nz - 2 (nx ny + ny nz + "
     "nx nz) entries",
     anisotropic_3d_params, true, anisotropic_3d},
    {"elasticity-3d", "Linear elasticity of a cube clamped at one face",
     "integral of strain' D strain over trilinear hexahedra of side 1 / n, 2 x 2 x 2 Gauss points, 3 x 3 "
     "blocks all of whose entries are stored; the nodes of the face x = 0 are clamped and taken out; 3 n (n "
     "+ 1)^2 rows, 9 (3 n - 2)(3 n + 1)^2 entries",
     elasticity_params, true, elasticity_3d},
    {"graph-laplacian", "Laplacian of a random graph whose degrees follow a power law",
     "D - A + shift I, where A has 1 for each edge and D the degrees; n degree / 2 edges are drawn whose "
     "ends are node k with probability proportional to k^(-1 / (exponent - 1)) (Chung and Lu), nodes "
     "scattered over the rows; loops and repeated edges are dropped; n rows, at most n (1 + degree) entries",
     laplacian_params, true, graph_laplacian},
    {"random-spd", "Random symmetric matrix, diagonally dominant",
     "n degree / 2 pairs of rows drawn evenly, a_ij = a_ji uniform in [-1, 1); a_ii = shift + the sum of "
     "|a_ij| over the row; n rows, at most n (1 + degree) entries",
     random_params, true, random_spd},
    {"banded", "Full band with random values, not symmetric",
     "a_ij uniform in [-1, 1) for i - lower <= j <= i + upper; a_ii = 1 + the sum of |a_ij| over the row; n "
     "rows, about n (lower + upper + 1) entries",
     banded_params, false, banded},
    {"artificial", "Random matrix with asked-for features, for comparing formats",
     "row lengths drawn with the mean and the deviation, the long rows of a skew first; columns in clusters "
     "in a window, some rows like the one before (Mpakos et al., IPDPS 2023, section III-B); values uniform "
     "in [0, 1); rows mean entries. Not every mix of features exists: a row of k entries has at most 2 (k - "
     "1) / k neighbours an entry, and rows crowded in a small window are similar by chance. `protean "
     "inspect` says what was reached",
     artificial_params, false, artificial},
    {"stokes-2d", "Flow without inertia, or with a given wind, of a fluid of two viscosities: a saddle point",
     "-div(mu grad u) + w . grad u + grad p, div u on n x n cells: velocities on the faces between two cells, those "
     "along x first, then pressures in the cells, times h; mu is contrast in a disc, w = convection (y - 1/2, 1/2 - x) "
     "upwind; no flow through the border, so that a constant pressure is a null vector; 3 n^2 - 2 n rows",
     stokes_params, false, stokes_2d},
    {"darcy-2d", "Flow in a porous medium by mixed finite elements: a saddle point",
     "u / k + grad p, div u by Raviart-Thomas elements of lowest order on n x n cells: fluxes on the faces between two "
     "cells, those along x first, then pressures in the cells; k is contrast in a disc; no flow through the border, so "
     "that a constant pressure is a null vector; 3 n^2 - 2 n rows",
     darcy_params, false, darcy_2d},
    {"reservoir-2d", "A step of two phases in a porous medium: pressure and saturation of each cell",
     "k_ij (p_i - p_j) + h^2 p_i - h k_ij s_i; 0.4 k_ij (p_i - p_j) + (h^2 / step) s_i + h k_ij (s_i - s_j), k_ij the "
     "harmonic mean of both cells, s from west and south; unknown 2 i is the pressure of cell i, 2 i + 1 its "
     "saturation; 2 n^2 rows",
     reservoir_params, false, reservoir_2d},
    {"taylor-hood-2d",
     "Flow without inertia by Taylor-Hood elements, viscosity in a checkerboard: a saddle point",
     "integral of 2 mu e(u) : e(v) - p div v - q div u, e(u) the strain of u, on n x n cells of the unit square: "
     "velocities quadratic along each axis and 0 on the border, two unknowns a node, then pressures, linear; 3 Gauss "
     "points along each axis; a constant pressure is a null vector; 2 (2 n - 1)^2 + (n + 1)^2 rows",
     taylor_hood_2d_params, false, taylor_hood<2>},
    {"taylor-hood-3d", "The same in a cube",
     "as taylor-hood-2d on n x n x n cells, three unknowns a node; 3 (2 n - 1)^3 + (n + 1)^3 rows",
     taylor_hood_3d_params, false, taylor_hood<3>},
    {"pressure-mass-2d", "Mass matrix of the pressures of taylor-hood-2d over the viscosity",
     "integral of p q / mu, a schur_operator of taylor-hood-2d with the same parameters; (n + 1)^2 rows, (3 n + 1)^2 "
     "entries",
     taylor_hood_2d_params, true, pressure_mass<2>},
    {"pressure-mass-3d", "Mass matrix of the pressures of taylor-hood-3d over the viscosity",
     "as pressure-mass-2d for taylor-hood-3d; (n + 1)^3 rows, (3 n + 1)^3 entries", taylor_hood_3d_params,
     true, pressure_mass<3>},
};

void check(const GeneratorEntry& entry, const GeneratorParam& param, double value) {
  if (param.integer && std::isfinite(value) && value != std::floor(value))
    throw BadArgument(
        fmt::format("{}: {} = {}; a whole number is needed ({})", entry.kind, param.name, value, param.doc));
  if (!(value >= param.smallest && value <= param.largest))
    throw BadArgument(fmt::format("{}: {} = {}; allowed is {} to {} ({})", entry.kind, param.name, value,
                                  param.smallest, param.largest, param.doc));
}

}  // namespace

std::span<const GeneratorEntry> generators() noexcept { return entries; }

const GeneratorEntry& find_generator(std::string_view kind) {
  std::vector<std::string_view> names;
  for (const GeneratorEntry& entry : entries) {
    if (entry.kind == kind) return entry;
    names.push_back(entry.kind);
  }
  throw BadArgument(fmt::format("no generator is called '{}'.{} There are: {}", kind,
                                detail::did_you_mean(kind, names), fmt::join(names, ", ")));
}

namespace {

// The parameters with all defaults, after every value has been checked.
GeneratorParams complete_params(const GeneratorEntry& entry, const GeneratorParams& params) {
  GeneratorParams complete;
  std::vector<std::string_view> names;
  for (const GeneratorParam& param : entry.params) {
    complete.emplace(param.name, param.default_value);
    names.push_back(param.name);
  }
  for (const auto& [name, value] : params) {
    const auto found = complete.find(name);
    if (found == complete.end())
      throw BadArgument(fmt::format("{}: no parameter is called '{}'.{} There are: {}", entry.kind, name,
                                    detail::did_you_mean(name, names), fmt::join(names, ", ")));
    found->second = value;
  }
  for (const GeneratorParam& param : entry.params) check(entry, param, complete.find(param.name)->second);
  return complete;
}

}  // namespace

CsrMatrix<double> generate(const ContextPtr& context, std::string_view kind, const GeneratorParams& params) {
  const GeneratorEntry& entry = find_generator(kind);
  return entry.make({context}, complete_params(entry, params));
}

void generate_rows(const ContextPtr& context, std::string_view kind, const GeneratorParams& params,
                   RowReceiver& receiver, std::int64_t stretch) {
  if (stretch < 1)
    throw BadArgument(fmt::format("generate_rows: {} entries in a stretch; 1 at least", stretch));
  const GeneratorEntry& entry = find_generator(kind);
  (void)entry.make({context, &receiver, stretch}, complete_params(entry, params));
}

}  // namespace protean
