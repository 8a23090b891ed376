#include "preconditioners/options.hpp"

namespace protean {
namespace {

constexpr std::string_view without_storage[] = {"none", "jacobi", "spai0", "chebyshev"},
                           storage_words[] = {"auto", "float", "double"};
constexpr std::string_view without_diagonal[] = {"none", "block-jacobi"}, block_jacobi[] = {"block-jacobi"},
                           ssor[] = {"ssor"}, chebyshev[] = {"chebyshev"}, amg[] = {"amg"},
                           with_factors[] = {"ic0", "ic", "ilu0", "ilu"}, with_fill[] = {"ic", "ilu"},
                           without_fill[] = {"ic0", "ilu0"}, isai[] = {"isai", "isai-lu"},
                           subdomains[] = {"subdomain-ic0", "subdomain-ilu0"},
                           subdomain_ilu0[] = {"subdomain-ilu0"};
constexpr std::string_view automatic[] = {"auto"}, levels[] = {"amg", "auto"},
                           refresh_words[] = {"auto", "every", "when-slower", "never"};
constexpr std::string_view zero_diagonals[] = {"error", "one"}, block_words[] = {"equal", "found"},
                           solve_words[] = {"auto", "levels", "cusparse", "sweeps"},
                           ordering_words[] = {"auto", "natural", "colours"},
                           partition_words[] = {"order", "metis"},
                           smoother_words[] = {"l1-jacobi", "gauss-seidel", "chebyshev"},
                           setup_words[] = {"aggregation", "classical"},
                           level_format_words[] = {"auto", "csr"},
                           coarsening_words[] = {"hmis", "pmis", "falgout"};

using P = PreconditionerOptions;
constexpr Option<PreconditionerOptions> table[] = {
    option<&P::refresh>(
        {.name = "refresh",
         .words = refresh_words,
         .about = "When a kept system sets the preconditioner up again for new values; auto: when-slower for "
                  "type auto, every for other types"}),
    option<&P::solves>(
        {.name = "solves",
         .range = {1, 1e9},
         .zero = "auto",
         .readers = {automatic},
         .about = "Expected number of solves with one pattern; auto: as many again as there have been"}),
    option<&P::storage>(
        {.name = "storage",
         .words = storage_words,
         .readers = {.but = without_storage},
         .about = "Precision in which a solve in double precision stores the preconditioner; auto: float if "
                  "possible"}),
    option<&P::zero_diagonal>(
        {.name = "zero_diagonal",
         .words = zero_diagonals,
         .readers = {.but = without_diagonal},
         .about = "What a row without a diagonal entry means: an error, or a diagonal entry of 1"}),
    option<&P::fill>({.name = "fill",
                      .range = {0, 1000},
                      .readers = {with_fill},
                      .about = "Largest level of fill that is kept"}),
    option<&P::ordering>(
        {.name = "ordering",
         .c_name = "factor_ordering",
         .words = ordering_words,
         .readers = {without_fill},
         .about = "Order in which rows are eliminated; colours: rows that are not coupled at the same time; "
                  "auto: natural on a host, colours on a GPU"}),
    option<&P::solve>(
        {.name = "solve",
         .c_name = "triangular_solve",
         .words = solve_words,
         .readers = {with_factors},
         .about = "How triangular systems are solved; auto: levels on a host, the faster one of levels and "
                  "cusparse on a GPU"}),
    option<&P::sweeps>({.name = "sweeps",
                        .range = {1, 100},
                        .readers = {with_factors},
                        .with = "solve",
                        .with_word = "sweeps",
                        .about = "Jacobi sweeps for each triangular system"}),
    option<&P::block_size>(
        {.name = "block_size",
         .range = {1, 64},
         .zero = "auto",
         .readers = {block_jacobi},
         .about = "Rows of a block (with blocks: found, the most rows); auto: the unknowns of a node"}),
    option<&P::blocks>({.name = "blocks",
                        .c_name = "diagonal_blocks",
                        .words = block_words,
                        .readers = {block_jacobi},
                        .about = "Which rows form a block; found: neighbouring rows with the same columns"}),
    option<&P::power>({.name = "power",
                       .range = {1, 4},
                       .readers = {isai},
                       .about = "Power of the pattern of the triangles: more entries, fewer iterations"}),
    option<&P::subdomain_size>(
        {.name = "subdomain_size",
         .range = {1, 1e9},
         .zero = "auto",
         .readers = {subdomains},
         .about =
             "Rows of a subdomain; auto: on a GPU, up to 1024 that fit into the memory of a thread block"}),
    option<&P::partition>(
        {.name = "partition",
         .c_name = "subdomain_partition",
         .words = partition_words,
         .readers = {subdomains},
         .about =
             "Which rows form a subdomain; order: consecutive rows; metis: rows that METIS finds, if the "
             "build has it"}),
    option<&P::overlap>(
        {.name = "overlap",
         .range = {0, 1},
         .readers = {subdomain_ilu0},
         .about = "Layers of neighbouring rows that a subdomain includes in its computation"}),
    option<&P::omega>(
        {.name = "omega", .range = {0, 2, true, true}, .readers = {ssor}, .about = "Relaxation factor"}),
    option<&P::degree>({.name = "degree",
                        .range = {1, 100},
                        .readers = {chebyshev},
                        .about = "Products with A in each application"}),
    option<&P::eigenvalue_ratio>(
        {.name = "eigenvalue_ratio",
         .range = {1, 1e12, true},
         .readers = {chebyshev},
         .about =
             "Ratio of the largest to the smallest eigenvalue of the interval on which the polynomial is "
             "small"}),
    option<&P::setup>({.name = "setup",
                       .c_name = "amg_setup",
                       .words = setup_words,
                       .readers = {amg},
                       .about = "How coarser levels are made; classical: by hypre, if the build has it"}),
    option<&P::smoother>({.name = "smoother",
                          .words = smoother_words,
                          .readers = {amg},
                          .about = "Smoother of each level, before and after the coarser one"}),
    option<&P::coarsening>({.name = "coarsening",
                            .words = coarsening_words,
                            .readers = {amg},
                            .with = "setup",
                            .with_word = "classical",
                            .about = "How the points of the coarser levels are chosen"}),
    option<&P::strong_threshold>(
        {.name = "strong_threshold",
         .range = {0, 1, true, true},
         .readers = {amg},
         .with = "setup",
         .with_word = "classical",
         .about = "Row i depends on row j if -a_ij > this times the largest -a_ik of row i"}),
    option<&P::aggressive_levels>(
        {.name = "aggressive_levels",
         .range = {0, 100},
         .readers = {amg},
         .with = "setup",
         .with_word = "classical",
         .about = "Number of finest levels that keep far fewer points: less memory, more iterations"}),
    option<&P::strength>({.name = "strength",
                          .range = {0, 1, false, true},
                          .readers = {amg},
                          .with = "setup",
                          .with_word = "aggregation",
                          .about = "Nodes i and j are coupled if |a_ij| > this times sqrt |a_ii a_jj|"}),
    option<&P::level_format>({.name = "level_format",
                              .words = level_format_words,
                              .readers = {amg},
                              .with = "setup",
                              .with_word = "aggregation",
                              .about = "Format of the matrices of the coarser levels; auto: level by level"}),
    option<&P::max_levels>(
        {.name = "max_levels", .range = {1, 100}, .readers = {amg}, .about = "Most levels of the hierarchy"}),
    option<&P::cycles>(
        {.name = "cycles", .range = {1, 100}, .readers = {amg}, .about = "V-cycles in each application"}),
    option<&P::unknowns>(
        {.name = "unknowns",
         .range = {1, 64},
         .readers = {levels},
         .about = "Unknowns of a node, such as 3 displacements; their rows are consecutive"}),
};

// The word of an enumerator.
template <class Enum>
std::string_view word_of(std::span<const std::string_view> words, Enum one) noexcept {
  const auto i = static_cast<std::size_t>(one);
  return i < words.size() ? words[i] : "unknown";
}

}  // namespace

std::span<const Option<PreconditionerOptions>> preconditioner_options() noexcept { return table; }

bool reads_near_null_space(std::string_view id) noexcept { return id == "amg" || id == "auto"; }

PreconditionerOptions preconditioner_options_read_by(std::string_view id,
                                                     const PreconditionerOptions& options) {
  PreconditionerOptions read = only_read(preconditioner_options(), options, id);
  if (!reads_near_null_space(id)) read.near_null_space = nullptr;
  return read;
}

std::string_view to_string(Refresh refresh) noexcept { return word_of(refresh_words, refresh); }
std::string_view to_string(PreconditionerStorage storage) noexcept { return word_of(storage_words, storage); }
std::string_view to_string(DiagonalBlocks blocks) noexcept { return word_of(block_words, blocks); }
std::string_view to_string(TriangularSolve solve) noexcept { return word_of(solve_words, solve); }
std::string_view to_string(FactorOrdering ordering) noexcept { return word_of(ordering_words, ordering); }
std::string_view to_string(SubdomainPartition partition) noexcept {
  return word_of(partition_words, partition);
}
std::string_view to_string(AmgSetup setup) noexcept { return word_of(setup_words, setup); }
std::string_view to_string(LevelFormat format) noexcept { return word_of(level_format_words, format); }
std::string_view to_string(Coarsening coarsening) noexcept { return word_of(coarsening_words, coarsening); }
std::string_view to_string(Smoother smoother) noexcept { return word_of(smoother_words, smoother); }

}  // namespace protean
