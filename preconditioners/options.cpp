#include "preconditioners/options.hpp"

#include "core/option_checks.hpp"
#include "core/option_readers.hpp"
#include "preconditioners/type_list.hpp"

namespace protean {
namespace {

constexpr std::string_view refresh_words[] = {"auto", "every", "when-slower", "never"},
                           storage_words[] = {"auto", "float", "double"}, zero_diagonals[] = {"error", "one"},
                           block_words[] = {"equal", "found"},
                           solve_words[] = {"auto", "levels", "cusparse", "sweeps"},
                           ordering_words[] = {"auto", "natural", "colours"},
                           partition_words[] = {"order", "metis"},
                           smoother_words[] = {"l1-jacobi", "gauss-seidel", "chebyshev"},
                           setup_words[] = {"aggregation", "classical"},
                           level_format_words[] = {"auto", "csr"},
                           coarsening_words[] = {"hmis", "pmis", "falgout"},
                           recipe_words[] = {"auto",           "additive",       "lower",
                                             "upper",          "symmetric",      "cpr-quasi-impes",
                                             "cpr-true-impes", "schur-diagonal", "schur-lower",
                                             "schur-upper",    "schur-full"},
                           schur_words[] = {"diagonal", "commutator"};

#define PROTEAN_READ(option) #option ","
#define PROTEAN_TYPE(Type, name, reads) {name, "," reads},
constexpr detail::TypeReads types[] = {PROTEAN_PRECONDITIONER_TYPES(PROTEAN_TYPE, PROTEAN_READ)};
#undef PROTEAN_TYPE
#undef PROTEAN_READ
// The option of this name and member, which the types of the list read.
template <detail::OptionName name, auto member>
constexpr auto of_types(OptionInfo info) {
  return detail::option_of_types<types, name, member>(info);
}

using P = PreconditionerOptions;
constexpr Option<PreconditionerOptions> table[] = {
    of_types<"refresh", &P::refresh>(
        {.words = refresh_words,
         .about = "When a kept system sets the preconditioner up again for new values; auto: when-slower "
                  "for type auto, every for other types"}),
    of_types<"solves", &P::solves>(
        {.range = {1, 1e9},
         .zero = "auto",
         .about = "Expected number of solves with one pattern; auto: as many again as there have been"}),
    of_types<"storage", &P::storage>(
        {.words = storage_words,
         .about = "Precision in which a solve in double precision stores the preconditioner; auto: float "
                  "if possible"}),
    of_types<"zero_diagonal", &P::zero_diagonal>(
        {.words = zero_diagonals,
         .about = "What a row without a diagonal entry means: an error, or a diagonal entry of 1"}),
    of_types<"fill", &P::fill>({.range = {0, 1000}, .about = "Largest level of fill that is kept"}),
    of_types<"ordering", &P::ordering>(
        {.c_name = "factor_ordering",
         .words = ordering_words,
         .about = "Order in which rows are eliminated; colours: rows that are not coupled at the same "
                  "time; auto: natural on a host, colours on a GPU"}),
    of_types<"solve", &P::solve>(
        {.c_name = "triangular_solve",
         .words = solve_words,
         .about = "How triangular systems are solved; auto: levels on a host, the faster one of levels and "
                  "cusparse on a GPU"}),
    of_types<"sweeps", &P::sweeps>({.range = {1, 100},
                                    .with = "solve",
                                    .with_word = "sweeps",
                                    .about = "Jacobi sweeps for each triangular system"}),
    of_types<"block_size", &P::block_size>(
        {.range = {1, 64},
         .zero = "auto",
         .about = "Rows of a block (with blocks: found, the most rows); auto: the unknowns of a node"}),
    of_types<"blocks", &P::blocks>(
        {.c_name = "diagonal_blocks",
         .words = block_words,
         .about = "Which rows form a block; found: neighbouring rows with the same columns"}),
    of_types<"power", &P::power>(
        {.range = {1, 4}, .about = "Power of the pattern of the triangles: more entries, fewer iterations"}),
    of_types<"subdomain_size", &P::subdomain_size>(
        {.range = {1, 1e9},
         .zero = "auto",
         .about = "Rows of a subdomain; auto: on a GPU, up to 1024 that fit into the memory of a thread "
                  "block"}),
    of_types<"partition", &P::partition>(
        {.c_name = "subdomain_partition",
         .words = partition_words,
         .about = "Which rows form a subdomain; order: consecutive rows; metis: rows that METIS finds, if "
                  "the build has it"}),
    of_types<"overlap", &P::overlap>(
        {.range = {0, 1},
         .about = "Layers of neighbouring rows that a subdomain includes in its computation"}),
    of_types<"omega", &P::omega>({.range = {0, 2, true, true}, .about = "Relaxation factor"}),
    of_types<"degree", &P::degree>({.range = {1, 100}, .about = "Products with A in each application"}),
    of_types<"eigenvalue_ratio", &P::eigenvalue_ratio>(
        {.range = {1, 1e12, true},
         .about = "Ratio of the largest to the smallest eigenvalue of the interval on which the polynomial "
                  "is small"}),
    of_types<"setup", &P::setup>(
        {.c_name = "amg_setup",
         .words = setup_words,
         .about = "How coarser levels are made; classical: by hypre, if the build has it"}),
    of_types<"smoother", &P::smoother>(
        {.words = smoother_words, .about = "Smoother of each level, before and after the coarser one"}),
    of_types<"coarsening", &P::coarsening>({.words = coarsening_words,
                                            .with = "setup",
                                            .with_word = "classical",
                                            .about = "How the points of the coarser levels are chosen"}),
    of_types<"strong_threshold", &P::strong_threshold>(
        {.range = {0, 1, true, true},
         .with = "setup",
         .with_word = "classical",
         .about = "Row i depends on row j if -a_ij > this times the largest -a_ik of row i"}),
    of_types<"aggressive_levels", &P::aggressive_levels>(
        {.range = {0, 100},
         .with = "setup",
         .with_word = "classical",
         .about = "Number of finest levels that keep far fewer points: less memory, more iterations"}),
    of_types<"strength", &P::strength>(
        {.range = {0, 1, false, true},
         .with = "setup",
         .with_word = "aggregation",
         .about = "Nodes i and j are coupled if |a_ij| > this times sqrt |a_ii a_jj|"}),
    of_types<"level_format", &P::level_format>(
        {.words = level_format_words,
         .with = "setup",
         .with_word = "aggregation",
         .about = "Format of the matrices of the coarser levels; auto: level by level"}),
    of_types<"max_levels", &P::max_levels>({.range = {1, 100}, .about = "Most levels of the hierarchy"}),
    of_types<"cycles", &P::cycles>({.range = {1, 100}, .about = "V-cycles in each application"}),
    of_types<"unknowns", &P::unknowns>(
        {.range = {1, 64},
         .about = "Unknowns of a node, such as 3 displacements; their rows are consecutive"}),
    of_types<"fields", &P::fields>(
        {.allowed = "auto, or a text such as 'u 0-31, p 32-'",
         .about = "The rows of each field; auto: rows without a diagonal entry are a field, which is found"}),
    of_types<"interleaved", &P::interleaved>(
        {.range = {1, 64},
         .zero = "none",
         .about = "Number of fields if the unknowns of a node are consecutive, one of each field"}),
    of_types<"recipe", &P::recipe>(
        {.words = recipe_words,
         .about =
             "How the blocks of the fields are combined; auto: by symmetry, a zero block, and a pressure"}),
    of_types<"schur", &P::schur>(
        {.words = schur_words,
         .about = "What takes the place of the Schur complement in the recipes that begin with schur"}),
    of_types<"inner", &P::inner>(
        {.allowed = "auto, or a text such as 'u amg cycles=2, p jacobi'",
         .about =
             "The preconditioner of each field, or with method=.. its solver; auto: amg, ic0 or ilu0, by "
             "the block"}),
};

// The word of an enumerator.
template <class Enum>
std::string_view word_of(std::span<const std::string_view> words, Enum one) noexcept {
  const auto i = static_cast<std::size_t>(one);
  return i < words.size() ? words[i] : "unknown";
}

}  // namespace

std::span<const Option<PreconditionerOptions>> preconditioner_options() noexcept { return table; }

bool reads_near_null_space(std::string_view id) noexcept {
  return detail::ReadersOf<types, "near_null_space">::value.has(id);
}

PreconditionerOptions preconditioner_options_read_by(std::string_view id,
                                                     const PreconditionerOptions& options) {
  PreconditionerOptions read = only_read(preconditioner_options(), options, id);
  if (!reads_near_null_space(id)) read.near_null_space = nullptr;
  if (id != "fields") read.schur_operator = nullptr;
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
std::string_view to_string(FieldRecipe recipe) noexcept { return word_of(recipe_words, recipe); }
std::string_view to_string(SchurComplement schur) noexcept { return word_of(schur_words, schur); }
std::string_view to_string(Smoother smoother) noexcept { return word_of(smoother_words, smoother); }

}  // namespace protean
