// amg: which of its setups makes it, smoothed aggregation (aggregation.cpp) or hypre's BoomerAMG (boomeramg.cpp).
#include <fmt/format.h>

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/multigrid/level_maker.hpp"
#include "preconditioners/multigrid/near_null_space.hpp"

namespace protean::detail {
namespace {

void require_whole_nodes(std::int64_t rows, std::int64_t unknowns) {
  if (rows % unknowns != 0)
    throw ShapeMismatch(
        fmt::format("amg: unknowns is {}, which does not divide the {} rows of the matrix", unknowns, rows));
}

}  // namespace

void require_nodes(std::int64_t rows, const PreconditionerOptions& options) {
  require_whole_nodes(rows, options.unknowns);
  if (options.near_null_space) (void)near_null_space_of(rows, *options.near_null_space);
}

template <class T>
MadePreconditioner<T> make_aggregation(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  require_whole_nodes(A.rows(), options.unknowns);
  if (!options.near_null_space) return make_smoothed_aggregation<T>(A, options, {options.unknowns, {}});
  PreconditionerOptions own = options;
  own.near_null_space = nullptr;
  return make_smoothed_aggregation<T>(
      A, own, {options.near_null_space->columns(), near_null_space_of(A.rows(), *options.near_null_space)});
}

template <class T>
MadePreconditioner<T> make_amg(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  if (options.setup == AmgSetup::aggregation) return make_aggregation<T>(A, options);
  if (options.near_null_space)
    throw BadArgument(
        "vectors near the null space are for amg with setup aggregation; leave them out, or take that");
  if (A.context()->space() == Space::device)
    throw NotAvailable(
        "preconditioner amg with setup classical is not for a device: it computes on the host; take setup "
        "aggregation");
  if (const std::string_view why = unavailable(options.setup); !why.empty())
    throw NotAvailable(fmt::format("preconditioner amg with setup classical: {}", why));
  if (A.context()->deterministic())
    throw NotAvailable(
        "preconditioner amg with setup classical is not for deterministic mode: another library adds its "
        "sums; take setup aggregation");
#if defined(PROTEAN_HAVE_HYPRE)
  return make_classical<T>(A, options);
#else
  return nullptr;
#endif
}

#define PROTEAN_INSTANTIATE(T)                                                      \
  template MadePreconditioner<T> make_aggregation<T>(const LinearOperator<T>&,      \
                                                     const PreconditionerOptions&); \
  template MadePreconditioner<T> make_amg<T>(const LinearOperator<T>&, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail

namespace protean {

template <class T>
std::unique_ptr<Preconditioner<T>> make_amg(const LinearOperator<T>& A, MultiVectorView<const double> vectors,
                                            const PreconditionerOptions& options) {
  require<double>(vectors, A.rows(), vectors.columns, Space::host, "the vectors near the null space");
  MultiVector<double> copied(Context::host(1), vectors.rows, vectors.columns);
  for (std::int64_t k = 0; k < vectors.columns; ++k)
    for (std::int64_t i = 0; i < vectors.rows; ++i) copied.view()(i, k) = vectors(i, k);
  PreconditionerOptions with = options;
  with.near_null_space = &copied;
  return make_preconditioner<T>("amg", A, with);
}
template std::unique_ptr<Preconditioner<float>> make_amg<float>(const LinearOperator<float>&,
                                                                MultiVectorView<const double>,
                                                                const PreconditionerOptions&);
template std::unique_ptr<Preconditioner<double>> make_amg<double>(const LinearOperator<double>&,
                                                                  MultiVectorView<const double>,
                                                                  const PreconditionerOptions&);

}  // namespace protean
