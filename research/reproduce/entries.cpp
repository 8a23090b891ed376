#include "research/reproduce/entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "apps/command/build_info.hpp"
#include "apps/command/clock.hpp"
#include "core/error.hpp"

namespace protean::research {
namespace {

using namespace exhibits;

constexpr PaperInfo papers[] = {
    {"S0",
     "S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo, Sparse Matrix-Vector Multiplication on "
     "GPGPUs, ACM TOMS 43(4), 2017"},
    {"S1",
     "I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based GPUs, InPar 2012"},
    {"S2", "B.-Y. Su, K. Keutzer, clSpMV: A Cross-Platform OpenCL SpMV Framework on GPUs, ICS 2012"},
    {"S3", "P. Mpakos et al., Feature-based SpMV Performance Analysis on Contemporary Devices, IPDPS 2023"},
    {"S4",
     "Y. Niu et al., TileSpMV: A Tiled Algorithm for Sparse Matrix-Vector Multiplication on GPUs, IPDPS "
     "2021"}};

constexpr std::string_view gpu = "a GPU", real = "real matrices (--matrices)", meter = "RAPL or NVML",
                           profiler = "ncu";

constexpr Entry list[] = {
    {"s0-table-3", "S0", "Sparse matrices used in the experiments and their features",
     "rows, entries, row lengths", "", survey_matrices, false},
    {"s0-table-5", "S0", "Detailed performance on platform 1: M2070", "GFLOPS of six formats", "",
     survey_products},
    {"s0-table-6", "S0", "Detailed performance on platform 2: GTX 660", "GFLOPS of six formats", "",
     survey_products},
    {"s0-table-7", "S0", "Detailed performance on platform 3: K20M", "GFLOPS of seven formats", "",
     survey_products},
    {"s0-table-8", "S0", "Detailed performance on platform 4: K40M", "GFLOPS of seven formats", "",
     survey_products},
    {"s0-table-9", "S0", "Memory footprint", "bytes an entry of csr, hdi, ell-psblas, hll", "", survey_bytes},
    {"s0-table-10", "S0", "Conversion overhead", "conversion in seconds and products, break-even", "",
     survey_conversion},
    {"s0-figure-9", "S0", "Row length histograms, matrices of discretized PDEs", "row lengths", "",
     survey_histograms, false},
    {"s0-figure-10", "S0", "Sparsity pattern of FEM_3D_thermal2", "entries in squares", "", survey_patterns,
     false},
    {"s0-figure-11", "S0", "Row length histograms, webbase-1M and wiki-Talk", "row lengths", "",
     survey_histograms, false},
    {"s0-figure-12", "S0", "Sparsity patterns of roadNet-CA and webbase-1M", "entries in squares", "",
     survey_patterns, false},
    {"s0-figure-13", "S0", "Performance profile on platform 1: M2070", "profile of six formats", "",
     survey_profile},
    {"s0-figure-14", "S0", "Performance profile on platform 4: K40M", "profile of seven formats", "",
     survey_profile},
    {"s0-figure-15", "S0", "Roofline model of platform 4: K40M", "speed and bytes beside the copy bandwidth",
     "", survey_roofline},
    {"s1-table-1", "S1", "Description of test matrices", "rows, entries, row lengths", "", csr_matrices,
     false},
    {"s1-table-2", "S1", "Cache hit rates and warp divergence", "nothing: counters of a profiler", profiler,
     csr_counters},
    {"s1-table-3", "S1", "Performance metrics on the test set", "means of speed and bandwidth", "",
     csr_means},
    {"s1-figure-4", "S1", "Performance by the number of cooperating threads",
     "GFLOPS of the kernel cooperative", gpu, csr_parameters},
    {"s1-figure-5", "S1", "Performance by the rows of a cooperating group",
     "GFLOPS of the kernel cooperative", gpu, csr_parameters},
    {"s1-figure-6", "S1", "Performance by the threads of a block", "GFLOPS of the kernel cooperative", gpu,
     csr_parameters},
    {"s1-figure-7", "S1", "Single precision throughput", "GFLOPS", "", csr_throughput},
    {"s1-figure-8", "S1", "Effective bandwidth in single precision", "bytes of formula (2) a second", "",
     csr_bandwidth},
    {"s1-figure-9", "S1", "Double precision throughput", "GFLOPS", "", csr_throughput},
    {"s1-figure-10", "S1", "Effective bandwidth in double precision", "bytes of formula (2) a second", "",
     csr_bandwidth},
    {"s1-figure-11", "S1", "Minimum, effective and caching bandwidth in single precision",
     "bytes of formulas (2), (4) and section 5.5 a second", "", csr_three_bandwidths},
    {"s1-figure-12", "S1", "Single precision throughput after run-time tuning",
     "percent of the best parameters", gpu, csr_tuned},
    {"s1-figure-13", "S1", "Relative performance during the iterations of the tuner", "products one by one",
     gpu, csr_tuning},
    {"s1-figure-14", "S1", "Speedup over CUSPARSE CSR in single precision", "GFLOPS over the vendor's", "",
     csr_speedup},
    {"s1-figure-15", "S1", "Speedup over CUSPARSE CSR in double precision", "GFLOPS over the vendor's", "",
     csr_speedup},
    {"s1-figure-16", "S1", "Iterations that are worth a conversion to ELLPACK/HYB", "break-even of hyb", "",
     csr_break_even},
    {"s1-figure-17", "S1", "CG iterations a second by polynomial degree, single precision",
     "csr, ell, element matrices", "", csr_degrees},
    {"s1-figure-18", "S1", "CG iterations a second by polynomial degree, double precision",
     "csr, ell, element matrices", "", csr_degrees},
    {"s2-table-1", "S2", "Overview of the sparse matrix benchmark", "rows, columns, entries", "",
     cocktail_matrices, false},
    {"s2-table-2", "S2", "clSpMV on 20 matrices, GTX 480", "GFLOPS of single formats and of cocktail", "",
     cocktail_products},
    {"s2-table-3", "S2", "Improvement of clSpMV", "cocktail over hyb and single formats", "",
     cocktail_improvement},
    {"s2-table-4", "S2", "clSpMV on 20 matrices, Radeon 6970", "GFLOPS of single formats and of cocktail", "",
     cocktail_products},
    {"s2-figure-10", "S2", "Performance benchmarking on the GTX 480", "GFLOPS by dimension and entries a row",
     "", cocktail_dense},
    {"s2-figure-11", "S2", "Performance benchmarking on the Radeon 6970",
     "GFLOPS by dimension and entries a row", "", cocktail_dense},
    {"s3-table-1", "S3", "Features used for artificial matrix generation",
     "features that the generator reaches", "", feature_space, false},
    {"s3-table-3", "S3", "Matrix suite used for validation", "features of the stand-ins", "",
     feature_matrices, false},
    {"s3-table-4", "S3", "Validation matrices and their friends", "difference of speeds", real,
     feature_friends},
    {"s3-figure-1", "S3", "Validation matrices and their friends", "GFLOPS of a matrix and of its friends",
     real, feature_friends},
    {"s3-figure-2", "S3", "Performance and energy efficiency", "GFLOPS, GFLOPS a watt", meter,
     feature_energy},
    {"s3-figure-3", "S3", "Impact of memory footprint", "GFLOPS by size", "", feature_impact},
    {"s3-figure-4", "S3", "Impact of row size", "GFLOPS by mean row length", "", feature_impact},
    {"s3-figure-5", "S3", "Impact of imbalance", "GFLOPS by skew", "", feature_impact},
    {"s3-figure-6", "S3", "Impact of regularity", "GFLOPS by similarity and neighbours", "", feature_impact},
    {"s3-figure-7", "S3", "Formats and their wins", "GFLOPS and wins of five formats", "", feature_formats},
    {"s3-figure-8", "S3", "Variation over three dataset sizes", "GFLOPS by regularity", "", feature_sizes},
    {"s3-figure-9", "S3", "Performance when the number of neighbours grows", "GFLOPS by neighbours", "",
     feature_neighbours},
    {"s4-table-1", "S4", "The two GPUs and four algorithms evaluated", "this machine and our formats", "",
     tile_platform, false},
    {"s4-table-2", "S4", "Information of the 16 representative matrices", "rows, columns, entries", "",
     tile_matrices, false},
    {"s4-figure-6", "S4", "TileSpMV_CSR, TileSpMV_ADPT and TileSpMV_DeferredCOO", "GFLOPS", "",
     tile_selection},
    {"s4-figure-7", "S4", "Ratio of tiles and entries in different formats", "tiles and entries by kind", "",
     tile_kinds},
    {"s4-figure-8", "S4", "TileSpMV over Merge-SpMV, CSR5 and BSR", "GFLOPS", "", tile_products},
    {"s4-figure-9", "S4", "Performance of 16 representative matrices", "GFLOPS", "", tile_products},
    {"s4-figure-10", "S4", "Space cost of CSR, TileSpMV_CSR and TileSpMV_ADPT", "bytes an entry", "",
     tile_space},
    {"s4-figure-11", "S4", "Preprocessing time and a serial product", "conversion in products", "",
     tile_preprocessing}};

double load_average() {
  double load = 0;
  return std::ifstream("/proc/loadavg") >> load ? load : 0;
}

Provenance provenance_of(Lab& lab) {
  Provenance p;
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::tm utc{};
  (void)std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  p.date = date;
  // A program does not know the commit it was built from; the shell line of a campaign does.
  if (const char* const commit = std::getenv("PROTEAN_COMMIT")) p.commit = commit;
  const BuildInfo build = build_info();
  p.version = build.version, p.compiler = build.compiler, p.simd = build.simd_chosen;
  p.cpu = machine_info().cpu;
  if (lab.device())
    p.gpu = fmt::format("{} (CUDA {})", lab.meter().gpu_name().empty() ? "a GPU" : lab.meter().gpu_name(),
                        build.cuda);
  p.threads = lab.host()->threads();
  p.load = load_average();
  return p;
}

}  // namespace

std::span<const Entry> entries() { return list; }
std::span<const PaperInfo> papers_reproduced() { return papers; }

const Entry& find_entry(std::string_view id) {
  std::vector<std::string_view> names;
  for (const Entry& entry : list) {
    if (entry.id == id) return entry;
    names.push_back(entry.id);
  }
  throw BadArgument(
      fmt::format("there is no table or figure '{:.50}'; `protean reproduce --list` lists all.{}", id,
                  detail::did_you_mean(id, names)));
}

std::vector<const Entry*> entries_named(std::string_view name) {
  std::vector<const Entry*> found;
  for (const Entry& entry : list)
    if (name == "all" || (name.size() == 2 && entry.id.starts_with(name))) found.push_back(&entry);
  if (found.empty()) found.push_back(&find_entry(name));
  return found;
}

Exhibit run_entry(const Entry& entry, Lab& lab) {
  const Clock clock;
  const Provenance provenance = provenance_of(lab);
  Exhibit exhibit = entry.make(lab, entry);
  exhibit.provenance = provenance;
  exhibit.seconds = clock.total();
  for (ExhibitRow& row : exhibit.rows) row.cells.resize(exhibit.columns.size());
  return exhibit;
}

}  // namespace protean::research
