#include "preconditioners/preconditioner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "core/partition.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/fields/fields.hpp"
#include "preconditioners/narrow/float_storage.hpp"
#include "preconditioners/options.hpp"

namespace protean {

template <class T>
void Preconditioner<T>::ensure(const LinearOperator<T>& A) {
  if (A.shape() != this->shape())
    throw ShapeMismatch(
        fmt::format("the preconditioner is {} x {}, the operator {} x {}; make a new preconditioner for it",
                    this->rows(), this->cols(), A.rows(), A.cols()));
  const Revision revision = A.revision();
  if (built_for_ == A.serial() && built_from_ == revision) return;
  const detail::DeviceScope scope(*A.context());
  setup(A, built_for_ != A.serial() || built_from_.pattern != revision.pattern);
  built_for_ = A.serial();
  built_from_ = revision;
  ++setups_;
}

namespace {

#if defined(PROTEAN_HAVE_HYPRE)
constexpr std::string_view no_hypre = {}, hypre = PROTEAN_HYPRE_NOTE;
#else
constexpr std::string_view no_hypre =
    "this build has no hypre, which is used only where it is named, since it brings an MPI; install "
    "libhypre-dev and configure again with -DPROTEAN_HYPRE=ON, or name another hypre by -DHYPRE_ROOT=FOLDER";
constexpr std::string_view hypre = {};
#endif

// The makers of an entry.
#define PROTEAN_MAKERS(name) detail::name<double>, detail::name<float>

constexpr PreconditionerEntry entries[] = {
    {"none", "No preconditioner"},
    {"auto", "One of the others, by measured times of long solves and kept systems; jacobi at first",
     PROTEAN_MAKERS(make_auto)},
    {"jacobi", "Inverse of the diagonal; Saad 2003, section 10.2", PROTEAN_MAKERS(make_jacobi)},
    {"block-jacobi", "Inverses of dense blocks on the diagonal; Saad 2003, section 12.2",
     PROTEAN_MAKERS(make_block_jacobi)},
    {"spai0", "Diagonal approximate inverse of least Frobenius norm; Broker and Grote 2002",
     PROTEAN_MAKERS(make_spai0)},
    {"gauss-seidel", "Solve with the lower triangle, coloured; Saad 2003, section 12.4",
     PROTEAN_MAKERS(make_gauss_seidel), false, "ssor"},
    {"ssor", "Symmetric successive over-relaxation, coloured; Saad 2003, section 10.2",
     PROTEAN_MAKERS(make_ssor)},
    {"ic0", "Incomplete Cholesky factors without fill; Meijerink and van der Vorst 1977",
     PROTEAN_MAKERS(make_ic0)},
    {"ic", "Incomplete Cholesky factors with levels of fill; Saad 2003, section 10.3.3",
     PROTEAN_MAKERS(make_ic)},
    {"ilu0", "Incomplete LU factors without fill; Saad 2003, section 10.3.2", PROTEAN_MAKERS(make_ilu0),
     false, "ic0"},
    {"ilu", "Incomplete LU factors with levels of fill; Saad 2003, section 10.3.3", PROTEAN_MAKERS(make_ilu),
     false, "ic"},
    {"isai", "Sparse approximate inverses of the factors of ic0; Anzt, Huckle, Brackle and Dongarra 2018",
     PROTEAN_MAKERS(make_isai)},
    {"isai-lu", "Sparse approximate inverses of the factors of ilu0; Anzt, Huckle, Brackle and Dongarra 2018",
     PROTEAN_MAKERS(make_isai_lu), false, "isai"},
    {"subdomain-ic0", "Incomplete Cholesky factors of subdomains, block Jacobi; Saad 2003, section 12.2",
     PROTEAN_MAKERS(make_subdomain_ic0)},
    {"subdomain-ilu0",
     "Incomplete LU factors of subdomains, block Jacobi or restricted additive Schwarz; Cai and Sarkis 1999",
     PROTEAN_MAKERS(make_subdomain_ilu0), false, "subdomain-ic0"},
    {"chebyshev", "Chebyshev polynomial of the matrix scaled by its diagonal; Saad 2003, section 12.3.2",
     PROTEAN_MAKERS(make_chebyshev)},
    {"fields", "Recipes of the blocks of several fields, saddle points; Benzi, Golub and Liesen 2005",
     PROTEAN_MAKERS(make_fields), true, "fields with recipe schur-diagonal or symmetric"},
    {"amg",
     "Algebraic multigrid by smoothed aggregation; Vanek, Mandel and Brezina 1996",
     PROTEAN_MAKERS(make_amg),
     true,
     {},
     {},
     hypre},
};
#undef PROTEAN_MAKERS

constexpr bool has_makers(const PreconditionerEntry& entry) {
  const bool needed = entry.id != "none" && entry.unavailable.empty();
  return (entry.make_f64 != nullptr) == needed && (entry.make_f32 != nullptr) == needed;
}
static_assert(std::all_of(std::begin(entries), std::end(entries), has_makers),
              "each preconditioner has its makers, or says why it is not available");

}  // namespace

std::span<const PreconditionerEntry> preconditioners() noexcept { return entries; }
bool is_symmetric(std::string_view id, const PreconditionerOptions& options) {
  if (id == "fields") return detail::is_symmetric_of_fields(options);
  for (const PreconditionerEntry& entry : entries)
    if (entry.id == id) return entry.symmetric;
  return true;
}
bool is_variable(std::string_view id, const PreconditionerOptions& options) {
  return id == "fields" && detail::is_variable_of_fields(options);
}
std::string_view unavailable(AmgSetup setup) noexcept {
  return setup == AmgSetup::classical ? no_hypre : std::string_view();
}

std::string_view unavailable(SubdomainPartition partition) noexcept {
  return partition == SubdomainPartition::metis ? detail::no_metis() : std::string_view();
}

template <class T>
std::unique_ptr<Preconditioner<T>> make_preconditioner(std::string_view id, const LinearOperator<T>& A,
                                                       const PreconditionerOptions& options) {
  std::vector<std::string_view> ids;
  for (const PreconditionerEntry& entry : entries) ids.push_back(entry.id);
  const auto* const entry = std::find_if(std::begin(entries), std::end(entries),
                                         [&](const PreconditionerEntry& one) { return one.id == id; });
  if (entry == std::end(entries))
    throw BadArgument(fmt::format("there is no preconditioner '{}'; there are {}.{}", id,
                                  fmt::join(ids, ", "), detail::did_you_mean(id, ids)));
  check_options(preconditioner_options(), options);
  require_read(preconditioner_options(), options, "preconditioner", id);
  if (options.near_null_space && !reads_near_null_space(id))
    throw BadArgument(fmt::format(
        "near_null_space is for preconditioners amg and auto, and {} does not read it; leave it out", id));
  if (options.schur_operator && id != "fields")
    throw BadArgument(fmt::format(
        "schur_operator is for preconditioner fields, and {} does not read it; leave it out", id));
  if (id == "none") return nullptr;
  if (!entry->unavailable.empty())
    throw NotAvailable(fmt::format("preconditioner {}: {}", id, entry->unavailable));
  if (A.rows() != A.cols())
    throw ShapeMismatch(
        fmt::format("the operator is {} x {}; a preconditioner needs a square one", A.rows(), A.cols()));
  if (options.solve == TriangularSolve::cusparse) {
    if (A.context()->space() == Space::host || A.context()->simulated())
      throw NotAvailable(fmt::format("{} with solve cusparse runs on a GPU only; take levels or sweeps", id));
    if (A.context()->deterministic())
      throw NotAvailable(
          fmt::format("{} with solve cusparse is not for deterministic mode: another library adds its sums; "
                      "take levels or sweeps",
                      id));
  }
  if constexpr (sizeof(T) == 8) {
    if (detail::stores_floats(id, options)) return detail::make_float_storage(*entry, A, options);
    return entry->make_f64(A, options);
  } else {
    return entry->make_f32(A, options);
  }
}

template class Preconditioner<float>;
template class Preconditioner<double>;
template std::unique_ptr<Preconditioner<float>> make_preconditioner<float>(std::string_view,
                                                                           const LinearOperator<float>&,
                                                                           const PreconditionerOptions&);
template std::unique_ptr<Preconditioner<double>> make_preconditioner<double>(std::string_view,
                                                                             const LinearOperator<double>&,
                                                                             const PreconditionerOptions&);

}  // namespace protean
