#include "systems/part_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"

namespace protean::detail {
namespace {

// Preconditioners that are set up for the rows and columns of each part alone, chebyshev, which needs products only,
// and amg, which has levels of all parts.
constexpr std::string_view served[] = {
    "none", "jacobi", "block-jacobi", "gauss-seidel",  "ssor",           "ic0",       "ic", "ilu0",
    "ilu",  "isai",   "isai-lu",      "subdomain-ic0", "subdomain-ilu0", "chebyshev", "amg"};

const FormatEntry& format_on(const Context& context, std::string_view id) {
  return context.simulated() ? context.simulated()->format(id) : find_format(id);
}

// For method auto there may be options of each method that it can take.
SolverOptions options_of(std::string_view method, const SolverOptions& given) {
  SolverOptions options = options_read_by(method, given);
  if (options.null_space != given.null_space)
    throw BadArgument(fmt::format(
        "a null space is for methods cg, fcg and minres, and auto takes {}; leave it out, or name one of them",
        method));
  return options;
}

// The block in the memory of the context.
template <class T>
CsrMatrix<T> placed(const ContextPtr& context, const CsrMatrix<T>& block) {
  return context->space() == Space::host ? block : upload(context, block);
}

}  // namespace

std::string_view preconditioner_of_parts(const SolveSettings& settings) {
  return settings.preconditioner == "auto" ? std::string_view("jacobi") : settings.preconditioner.name();
}

std::optional<Unserved> unserved_by_parts(const SolveSettings& settings, std::string_view parts) {
  const auto refused = [&](std::string_view setting, const std::string& what, const std::string& instead) {
    return Unserved{setting, fmt::format("{} is not served over several {}s; {}", what, parts, instead)};
  };
  if (settings.context)
    return refused("context", "a context", "leave it empty, since the distribution has one for each part");
  if (may_decide(settings) && settings.policy == "auto")
    return refused("policy", "a policy", "take policy none, and name a format");
  if (!settings.schedule.empty()) return refused("schedule", "a schedule", "leave it out, and name a format");
  if (settings.order != "none")
    return refused("order", "an order of the rows",
                   "take order none; partition graph keeps neighbours together");
  if (settings.precision != "double")
    return refused("precision", "precision " + settings.precision, "take double");
  if (settings.expected_iterations > 0)
    return refused("expected_iterations", "expected_iterations",
                   "leave it out: format auto is csr there, so name the format");
  if (settings.selector != default_selector)
    return refused("selector", "a selector", "leave it out, and name a format");
  if (!settings.parts.empty())
    return refused("parts", "a composition of preconditioners", "take one preconditioner");
  const std::string_view type = preconditioner_of_parts(settings);
  if (std::find(std::begin(served), std::end(served), type) == std::end(served))
    return refused(
        "preconditioner", fmt::format("preconditioner {}", type),
        fmt::format("take amg, chebyshev, jacobi or ic0 (for an unsymmetric matrix ilu0), or one {}", parts));
  if (type == "amg" && settings.preconditioning.setup != AmgSetup::aggregation)
    return refused("preconditioner", "amg with setup classical", "take setup aggregation");
  if (type == "amg" && settings.preconditioning.storage == PreconditionerStorage::single_precision)
    return refused("preconditioner", "amg with storage float", "take storage double");
  if (type == "amg" && settings.preconditioning.smoother == Smoother::gauss_seidel)
    return refused("preconditioner", "amg with smoother gauss-seidel", "take l1-jacobi or chebyshev");
  if (settings.preconditioning.refresh != Refresh::automatic &&
      settings.preconditioning.refresh != Refresh::every)
    return refused("preconditioner", fmt::format("refresh {}", to_string(settings.preconditioning.refresh)),
                   "take every");
  if (settings.format == "auto" && (!settings.kernel.empty() || !settings.parameters.all().empty()))
    return Unserved{"format", "parameters and kernel belong to a format; name it, since auto leaves it open"};
  return std::nullopt;
}

bool setup_communicates(std::string_view preconditioner) {
  return preconditioner == "chebyshev" || preconditioner == "amg";
}

template <class T>
PartSystem<T>::PartSystem(ContextPtr context, const PartHalo& halo, const CsrMatrix<T>& interior,
                          const CsrMatrix<T>& boundary, std::unique_ptr<HaloExchange<T>> exchange,
                          ExchangeMaker<T> of_levels, const SolveSettings& settings)
    : context_(std::move(context)),
      halo_(halo),
      given_interior_(interior),
      given_boundary_(boundary),
      of_levels_(std::move(of_levels)) {
  const LocalWork local;
  const FormatEntry& csr = format_on(*context_, "csr");
  const FormatEntry& wanted = settings.format == "auto" ? csr : format_on(*context_, settings.format);
  interior_ = placed(context_, interior);
  auto of_interior = make_matrix(wanted, interior_, context_, settings.parameters, settings.kernel);
  std::unique_ptr<AssembledMatrix<T>> of_boundary;
  if (!halo_.boundary_rows.empty()) {
    boundary_ = placed(context_, boundary);
    of_boundary = make_matrix(csr, boundary_, context_);
  }
  A_ = std::make_unique<PartOperator<T>>(context_, std::move(of_interior), std::move(of_boundary), halo_,
                                         std::move(exchange));
}

template <class T>
void PartSystem<T>::update_values(const CsrMatrix<T>& interior, const CsrMatrix<T>& boundary) {
  const auto take = [&](const CsrMatrix<T>& block, CsrMatrix<T>& there, AssembledMatrix<T>& matrix) {
    CsrMatrix<T> next = there;
    if (context_->space() == Space::host) {
      next.values = block.values, next.values_owner = block.values_owner;
    } else {
      auto values = std::make_shared<Buffer<T>>(context_, block.nonzeros());
      copy<T>(*context_, {block.values, block.nonzeros()}, {values->data(), block.nonzeros(), Space::device});
      next.values = values->data(), next.values_owner = std::move(values);
    }
    matrix.update_values(next, SamePattern());
    there = std::move(next);
  };
  given_interior_ = interior, given_boundary_ = boundary;
  const LocalWork local;
  take(interior, interior_, A_->interior());
  if (A_->boundary()) take(boundary, boundary_, *A_->boundary());
}

template <class T>
void PartSystem<T>::set_up(std::string_view method, const SolveSettings& settings) {
  const std::string_view type = preconditioner_of_parts(settings);
  if (!M_ && type != "none") {
    if (type == "chebyshev") {
      M_ = make_preconditioner<T>(type, *A_, settings.preconditioning);
    } else if (type == "amg") {
      const int parts = communicator_of(*context_)->parts();
      M_ = make_part_amg<T>(*A_, settings.preconditioning,
                            context_->space() == Space::host
                                ? context_
                                : Context::host(std::max(1, available_threads() / parts)),
                            {halo_, [this]() -> const CsrMatrix<T>& { return given_interior_; },
                             [this]() -> const CsrMatrix<T>& { return given_boundary_; }, of_levels_});
    } else {
      const LocalWork local;
      auto M = std::make_unique<PartPreconditioner<T>>(
          make_preconditioner<T>(type, A_->interior(), settings.preconditioning));
      of_part_ = M.get(), M_ = std::move(M);
    }
  }
  if (of_part_)
    of_part_->ensure_for(A_->interior());
  else if (M_)
    M_->ensure(*A_);
  if (!solver_) solver_ = make_solver<T>(method, options_of(method, settings.solver));
  if (b_.size() != A_->rows() || x_.size() != A_->rows())
    b_ = Vector<T>(context_, A_->rows()), x_ = Vector<T>(context_, A_->rows());
}

template <class T>
SolveReport PartSystem<T>::solve(std::span<const T> b, std::span<T> x, SolveObserver* observer) {
  copy<T>(*context_, {b.data(), b_.size()}, b_.view());
  copy<T>(*context_, VectorView<const T>{x.data(), x_.size()}, x_.view());
  SolveReport report = solver_->solve(*A_, b_, x_, M_.get(), observer);
  copy<T>(*context_, x_, {x.data(), x_.size()});
  return report;
}

template <class T>
PartRecord PartSystem<T>::record(std::int64_t device) const {
  const AssembledMatrix<T>* const boundary = A().boundary();
  return {.device = device,
          .rows = A_->rows(),
          .nonzeros = halo_.interior_entries + halo_.boundary_entries,
          .boundary_rows = std::ssize(halo_.boundary_rows),
          .ghosts = std::ssize(halo_.ghosts),
          .neighbours = std::ssize(halo_.neighbours),
          .sent = halo_.sent(),
          .format = std::string(A().interior().name()),
          .kernel = std::string(A().interior().kernel()),
          .boundary_format = boundary ? std::string(boundary->name()) : std::string(),
          .bytes = A().interior().bytes() + (boundary ? boundary->bytes() : 0),
          .preconditioner_bytes = M_ ? M_->bytes() : 0,
          .products = A().products()};
}

template class PartSystem<float>;
template class PartSystem<double>;

}  // namespace protean::detail
