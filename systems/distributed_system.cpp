#include "systems/distributed_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/signals_blocked.hpp"
#include "core/simulated_device.hpp"
#include "core/words.hpp"
#include "distributed/halo.hpp"
#include "distributed/part_operator.hpp"
#include "distributed/partition.hpp"
#include "distributed/simulated_parts.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "distributed/gpu_parts.hpp"
#endif
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "systems/method_choice.hpp"
#include "systems/options.hpp"
#include "systems/seconds.hpp"

namespace protean::detail {
namespace {

// Preconditioners that are set up for the rows and columns of each part alone, and chebyshev, which needs products
// only.
constexpr std::string_view served[] = {
    "none", "jacobi", "block-jacobi", "gauss-seidel",  "ssor",           "ic0",      "ic", "ilu0",
    "ilu",  "isai",   "isai-lu",      "subdomain-ic0", "subdomain-ilu0", "chebyshev"};

// "auto" is jacobi.
std::string_view preconditioner_of(const SolveSettings& settings) {
  return settings.preconditioner == "auto" ? std::string_view("jacobi") : settings.preconditioner.name();
}

const FormatEntry& format_on(const Context& context, std::string_view id) {
  return context.simulated() ? context.simulated()->format(id) : find_format(id);
}

// The observer of the caller is called in the thread of part 0; its answers are those of all parts.
class SharedObserver final : public SolveObserver {
 public:
  SharedObserver(const Context& context, SolveObserver* callers) : context_(context), callers_(callers) {}
  bool on_iteration(const IterationInfo& info) override {
    bool go_on = true;
    if (callers_) {
      try {
        go_on = callers_->on_iteration(info);
      } catch (...) {
        thrown = std::current_exception();
        throw;
      }
      next_stop_ = callers_->next_stop();
    }
    go_on = agreed(context_, go_on ? 1 : 0) != 0;
    // Larger numbers than a double holds are no stops.
    constexpr std::int64_t most = std::int64_t{1} << 53;
    next_stop_ = static_cast<std::int64_t>(agreed(context_, static_cast<double>(std::min(next_stop_, most))));
    return go_on;
  }
  std::int64_t next_stop() const noexcept override { return next_stop_; }

  std::exception_ptr thrown;  // by the caller's observer

 private:
  const Context& context_;
  SolveObserver* const callers_;
  std::int64_t next_stop_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

void require_distributable(const SolveSettings& settings) {
  const auto refuse = [](const std::string& what, const std::string& instead) {
    throw BadArgument(fmt::format("{} is not served over several devices; {}", what, instead));
  };
  if (settings.context) refuse("a context", "leave it empty, since the distribution has one for each part");
  if (may_decide(settings) && settings.policy == "auto")
    refuse("a policy", "take policy none, and name a format");
  if (!settings.schedule.empty()) refuse("a schedule", "leave it out, and name a format");
  if (settings.order != "none")
    refuse("an order of the rows", "take order none; partition graph keeps neighbours together");
  if (settings.precision != "double") refuse("precision " + settings.precision, "take double");
  if (settings.expected_iterations > 0)
    refuse("expected_iterations", "leave it out: format auto is csr there, so name the format");
  if (settings.selector != default_selector) refuse("a selector", "leave it out, and name a format");
  if (!settings.parts.empty()) refuse("a composition of preconditioners", "take one preconditioner");
  const std::string_view type = preconditioner_of(settings);
  if (std::find(std::begin(served), std::end(served), type) == std::end(served))
    refuse(fmt::format("preconditioner {}", type),
           "take chebyshev, jacobi or ic0 (for an unsymmetric matrix ilu0), or one device");
  if (settings.preconditioning.refresh != Refresh::automatic &&
      settings.preconditioning.refresh != Refresh::every)
    refuse(fmt::format("refresh {}", to_string(settings.preconditioning.refresh)), "take every");
  if (settings.format == "auto" && (!settings.kernel.empty() || !settings.parameters.all().empty()))
    throw BadArgument("parameters and kernel belong to a format; name it, since auto leaves it open");
}

template <class T>
struct DistributedSystem<T>::Plan {
  std::shared_ptr<const Partition> partition;  // over the devices that have rows
  std::vector<std::int64_t> devices;           // of the parts
  std::vector<PartHalo> halos;
  std::unique_ptr<Parts> links;
  std::string word;
};

template <class T>
struct DistributedSystem<T>::Part {
  ContextPtr context;
  std::unique_ptr<PartBlocks<T>> blocks;
  CsrMatrix<T> interior, boundary;  // in the memory of the device
  std::unique_ptr<PartOperator<T>> A;
  std::unique_ptr<Preconditioner<T>> M;      // null for none
  PartPreconditioner<T>* of_part = nullptr;  // M, if it was set up for the part alone
  std::unique_ptr<Solver<T>> solver;
  Vector<T> b, x;
};

template <class T>
DistributedSystem<T>::DistributedSystem(CsrMatrix<T> csr, SolveSettings settings)
    : csr_(std::move(csr)), settings_(std::move(settings)), host_(Context::host()) {
  require_distributable(settings_);
  if (csr_.pattern.space != Space::host)
    throw WrongSpace(
        "the matrix lies in device memory; a system over several devices is given in host memory");
  if (csr_.rows() != csr_.cols())
    throw ShapeMismatch(
        fmt::format("the matrix is {} x {}; a system needs a square one", csr_.rows(), csr_.cols()));
  make_plan();
}

template <class T>
DistributedSystem<T>::~DistributedSystem() = default;

template <class T>
void DistributedSystem<T>::make_plan() {
  const Distribution& wanted = settings_.distribution;
  for (const ContextPtr& context : wanted.contexts) {
    if (!context)
      throw BadArgument("a context of the distribution is empty; give a context of a device for each part");
    if (context->space() != Space::device)
      throw BadArgument("a context of the distribution is one of the host; give contexts of devices");
    if (!context->simulated() != !wanted.contexts.front()->simulated())
      throw BadArgument("some contexts of the distribution are of GPUs, others are simulated");
    if (context->vector_kernels() != VectorKernels::native)
      throw NotAvailable("a distributed system needs native vector kernels");
  }
  auto plan = std::make_unique<Plan>();
  const int devices = static_cast<int>(wanted.contexts.size());
  const bool is_given = !wanted.part_of_row.empty();
  if (is_given && std::ssize(wanted.part_of_row) != csr_.rows())
    throw ShapeMismatch(fmt::format("part_of_row has {} entries; the matrix has {} rows",
                                    wanted.part_of_row.size(), csr_.rows()));
  plan->word = is_given ? "given" : wanted.partition;
  const Partition all = is_given ? Partition(wanted.part_of_row, devices)
                                 : make_partition(*host_, csr_.pattern, wanted.partition, devices);
  // A device without rows takes no part.
  std::vector<std::int32_t> number(static_cast<std::size_t>(devices), -1);
  std::vector<ContextPtr> contexts;
  for (int d = 0; d < devices; ++d)
    if (all.size(d) > 0 || (csr_.rows() == 0 && d == 0)) {
      number[static_cast<std::size_t>(d)] = static_cast<std::int32_t>(contexts.size());
      contexts.push_back(wanted.contexts[static_cast<std::size_t>(d)]), plan->devices.push_back(d);
    }
  std::vector<std::int32_t> part_of_row(static_cast<std::size_t>(csr_.rows()));
  for (int d = 0; d < devices; ++d)
    for (const std::int32_t row : all.rows_of(d))
      part_of_row[static_cast<std::size_t>(row)] = number[static_cast<std::size_t>(d)];
  plan->partition = std::make_shared<Partition>(std::move(part_of_row), static_cast<int>(contexts.size()));
  plan->halos = halos_of(csr_.pattern, *plan->partition);
#if defined(PROTEAN_HAVE_CUDA)
  if (!contexts.front()->simulated())
    plan->links = make_gpu_parts(std::move(contexts), plan->partition, plan->halos, sizeof(T));
  else
#endif
    plan->links = std::make_unique<SimulatedParts>(std::move(contexts), plan->partition);
  plan_ = std::move(plan);
}

template <class T>
void DistributedSystem<T>::require_idle(std::string_view what) const {
  if (busy_) throw BadArgument(fmt::format("{}: a solve of this system is running", what));
}

template <class T>
void DistributedSystem<T>::set(SolveSettings settings) {
  require_idle("set()");
  require_distributable(settings);
  const Distribution &now = settings.distribution, &before = settings_.distribution;
  if (now.contexts != before.contexts || now.partition != before.partition ||
      now.part_of_row != before.part_of_row)
    throw BadArgument(
        "the settings name another distribution, and a system keeps its own; leave it out, or make another "
        "system");
  parts_.clear();
  settings_ = std::move(settings);
  new_method_ = true;
}

template <class T>
void DistributedSystem<T>::update_values(CsrMatrix<T> csr) {
  require_idle("update_values()");
  const SparsityPattern &now = csr.pattern, &before = csr_.pattern;
  bool same = now.space == Space::host && now.rows == before.rows && now.cols == before.cols &&
              now.nonzeros == before.nonzeros;
  for (std::int64_t r = 0; same && r < before.rows; ++r) same = now.row_ptr[r + 1] == before.row_ptr[r + 1];
  if (!same || (now.col != before.col && !std::equal(now.col, now.col + now.nonzeros, before.col)))
    throw ShapeMismatch("the new values belong to another pattern; make another system");
  if (settings_.check_arrays) require_finite(*host_, csr);
  csr_.values = csr.values, csr_.values_owner = std::move(csr.values_owner);
  new_values_ = new_method_ = true;
}

template <class T>
void DistributedSystem<T>::choose_method() {
  if (!std::exchange(new_method_, false)) return;
  std::string method = settings_.method.name(), reason;
  if (method == automatic_method) {
    const MethodChoice choice =
        detail::choose_method(method_traits<T>(*host_, csr_),
                              preconditioner_traits(preconditioner_of(settings_), settings_.preconditioning,
                                                    {}, settings_.combine));
    method = choice.method, reason = choice.reason;
  }
  if (method != method_)
    for (const auto& part : parts_) part->solver.reset();
  method_ = std::move(method), method_reason_ = std::move(reason);
}

// Part 0 works in the calling thread, which has the caller's observers.
template <class T>
void DistributedSystem<T>::in_all_parts(const std::function<void(int)>& work) {
  Parts& links = *plan_->links;
  const int parts = plan_->partition->parts();
  links.begin();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(parts));
  const auto guarded = [&](int part) {
    try {
      work(part);
    } catch (...) {
      errors[static_cast<std::size_t>(part)] = std::current_exception();
      links.abandon();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      const SignalsBlocked blocked;
      for (int p = 1; p < parts; ++p) threads.emplace_back(guarded, p);
    } catch (...) {
      errors[0] = std::current_exception();
      links.abandon();
    }
    if (!errors[0]) guarded(0);
  }
  if (std::any_of(errors.begin(), errors.end(), [](const auto& one) { return one != nullptr; }))
    rethrow(errors);
}

// The error of the first part that failed by itself. Its message names the part, unless all parts have the same one.
template <class T>
void DistributedSystem<T>::rethrow(const std::vector<std::exception_ptr>& errors) const {
  const auto message = [](const std::exception_ptr& error) -> std::string {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const PartAbandoned&) {
    } catch (const std::exception& one) { return one.what(); } catch (...) {
      return "unknown";
    }
    return {};
  };
  std::size_t first = 0;
  while (first + 1 < errors.size() && message(errors[first]).empty()) ++first;
  const std::string text = message(errors[first]);
  const bool alike =
      std::all_of(errors.begin(), errors.end(), [&](const auto& one) { return message(one) == text; });
  if (alike) std::rethrow_exception(errors[first]);
  const auto rows = plan_->partition->rows_of(static_cast<int>(first));
  const std::string named =
      fmt::format("part {} of {} (rows are counted within the part; its row 0 is row {} of the matrix): {}",
                  first, errors.size(), rows.empty() ? 0 : rows.front(), text);
  try {
    std::rethrow_exception(errors[first]);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(named, error.bytes());
  } catch (const FormatRefused& error) {
    throw FormatRefused(error.format(),
                        fmt::format("part {} of {}: {}", first, errors.size(), error.reason()),
                        error.bytes());
  } catch (const BadMatrix&) { throw BadMatrix(named); } catch (const NotAvailable&) {
    throw NotAvailable(named);
  } catch (const DeviceError&) { throw DeviceError(named); } catch (const BadArgument&) {
    throw BadArgument(named);
  }
}

template <class T>
void DistributedSystem<T>::make_part(int number) {
  const auto index = static_cast<std::size_t>(number);
  const PartHalo& halo = plan_->halos[index];
  auto part = std::make_unique<Part>();
  part->context = settings_.distribution.contexts[static_cast<std::size_t>(plan_->devices[index])];
  part->blocks = std::make_unique<PartBlocks<T>>(host_, csr_, *plan_->partition, halo, number);
  {
    const LocalWork local;
    const ContextPtr& context = part->context;
    const FormatEntry& csr = format_on(*context, "csr");
    const FormatEntry& wanted = settings_.format == "auto" ? csr : format_on(*context, settings_.format);
    part->interior = upload(context, part->blocks->interior());
    auto interior = make_matrix(wanted, part->interior, context, settings_.parameters, settings_.kernel);
    std::unique_ptr<AssembledMatrix<T>> boundary;
    if (!halo.boundary_rows.empty()) {
      part->boundary = upload(context, part->blocks->boundary());
      boundary = make_matrix(csr, part->boundary, context);
    }
    part->A = std::make_unique<PartOperator<T>>(context, std::move(interior), std::move(boundary), halo,
                                                plan_->links->exchange(number, halo, T()));
  }
  parts_[index] = std::move(part);
}

// New values in the blocks of a part, and its preconditioner.
template <class T>
void DistributedSystem<T>::renew_part(int number) {
  Part& part = *parts_[static_cast<std::size_t>(number)];
  const auto take = [&](const CsrMatrix<T>& block, CsrMatrix<T>& there, AssembledMatrix<T>& matrix) {
    auto values = std::make_shared<Buffer<T>>(part.context, block.nonzeros());
    copy<T>(*part.context, {block.values, block.nonzeros()},
            {values->data(), block.nonzeros(), Space::device});
    CsrMatrix<T> next = there;
    next.values = values->data(), next.values_owner = std::move(values);
    matrix.update_values(next, SamePattern());
    there = std::move(next);
  };
  const LocalWork local;
  part.blocks->update_values(host_, csr_.values);
  take(part.blocks->interior(), part.interior, part.A->interior());
  if (part.A->boundary()) take(part.blocks->boundary(), part.boundary, *part.A->boundary());
}

template <class T>
void DistributedSystem<T>::set_up() {
  require_idle("set_up()");
  choose_method();
  Stopwatch clock;
  const std::string_view type = preconditioner_of(settings_);
  const bool anew = parts_.empty(), renew = !anew && new_values_;
  if (anew) parts_.resize(static_cast<std::size_t>(plan_->partition->parts()));
  double converted = 0;
  try {
    in_all_parts([&](int number) {
      if (anew) make_part(number);
      if (renew) renew_part(number);
    });
    converted = clock.passed();
    // Apart from the matrices: setups may add up over all parts, and then nobody should still allocate.
    in_all_parts([&](int number) {
      Part& part = *parts_[static_cast<std::size_t>(number)];
      if (anew && type != "none") {
        if (type == "chebyshev") {
          part.M = make_preconditioner<T>(type, *part.A, settings_.preconditioning);
        } else {
          const LocalWork local;
          auto M = std::make_unique<PartPreconditioner<T>>(
              make_preconditioner<T>(type, part.A->interior(), settings_.preconditioning));
          part.of_part = M.get(), part.M = std::move(M);
        }
      }
      if (part.of_part)
        part.of_part->ensure_for(part.A->interior());
      else if (part.M)
        part.M->ensure(*part.A);
      if (!part.solver) part.solver = make_solver<T>(method_, settings_.solver);
      if (part.b.size() != part.A->rows()) {
        part.b = Vector<T>(part.context, part.A->rows());
        part.x = Vector<T>(part.context, part.A->rows());
      }
    });
  } catch (...) {
    parts_.clear();  // the next solve sets everything up
    throw;
  }
  new_values_ = false;
  convert_seconds_ += converted, setup_seconds_ += clock.lap() - converted;
}

template <class T>
SolveResult DistributedSystem<T>::solve(VectorView<const T> b, VectorView<T> x, SolveObserver* observer) {
  require<T>(b, csr_.rows(), Space::host, "b");
  require<T>(VectorView<const T>(x), csr_.rows(), Space::host, "x");
  const std::less<const T*> before;
  if (b.size > 0 && before(b.data, x.data + x.size) && before(x.data, b.data + b.size))
    throw BadArgument("b and x of a solve overlap; use two separate vectors");
  set_up();
  const struct Busy {
    explicit Busy(bool& flag) : busy(flag) { busy = true; }
    ~Busy() { busy = false; }
    bool& busy;
  } running(busy_);
  if (!observer) observer = settings_.observer;
  if (settings_.on_stage) settings_.on_stage("solving");
  SolveResult result;
  std::vector<std::vector<T>> found(parts_.size());
  std::exception_ptr of_observer;
  try {
    in_all_parts([&](int number) {
      Part& part = *parts_[static_cast<std::size_t>(number)];
      const auto rows = plan_->partition->rows_of(number);
      std::vector<T>& values = found[static_cast<std::size_t>(number)];
      values.resize(rows.size());
      const auto send = [&](const T* from, Vector<T>& to) {
        for (std::size_t i = 0; i < rows.size(); ++i) values[i] = from[rows[i]];
        copy<T>(*part.context, {values.data(), to.size()}, to.view());
      };
      send(b.data, part.b), send(x.data, part.x);
      SharedObserver shared(*part.context, number == 0 ? observer : nullptr);
      SolveReport report;
      try {
        report = part.solver->solve(*part.A, part.b, part.x, part.M.get(), observer ? &shared : nullptr);
      } catch (...) {
        if (number == 0) of_observer = shared.thrown;
        throw;
      }
      copy<T>(*part.context, part.x, {values.data(), part.x.size()});
      if (number == 0) result.report = std::move(report);
    });
  } catch (...) {
    // What a method keeps may be of different iterations in different parts.
    for (const auto& part : parts_) part->solver.reset();
    if (of_observer) std::rethrow_exception(of_observer);
    throw;
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const auto rows = plan_->partition->rows_of(static_cast<int>(p));
    for (std::size_t i = 0; i < rows.size(); ++i) x.data[rows[i]] = found[p][i];
  }
  const Part& first = *parts_.front();
  result.method = method_, result.method_reason = method_reason_;
  result.format = first.A->interior().name(), result.kernel = first.A->interior().kernel(),
  result.order = "none";
  if (settings_.format == "auto") result.format_reason = "over several devices format auto is csr";
  result.values = first.A->interior().stored_values();
  result.preconditioner = preconditioner_of(settings_);
  if (settings_.preconditioner == "auto")
    result.preconditioner_reason = "jacobi: over several devices auto is jacobi";
  if (first.M) result.storage_reason = first.M->storage_reason();
  result.partition = plan_->word, result.parts = records();
  result.convert_seconds = std::exchange(convert_seconds_, 0),
  result.setup_seconds = std::exchange(setup_seconds_, 0);
  return result;
}

template <class T>
std::vector<PartRecord> DistributedSystem<T>::records() const {
  std::vector<PartRecord> all;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = *parts_[p];
    const PartHalo& halo = plan_->halos[p];
    const AssembledMatrix<T>* const boundary = part.A->boundary();
    all.push_back({.device = plan_->devices[p],
                   .rows = part.A->rows(),
                   .nonzeros = halo.interior_entries + halo.boundary_entries,
                   .boundary_rows = std::ssize(halo.boundary_rows),
                   .ghosts = std::ssize(halo.ghosts),
                   .neighbours = std::ssize(halo.neighbours),
                   .sent = halo.sent(),
                   .format = std::string(part.A->interior().name()),
                   .kernel = std::string(part.A->interior().kernel()),
                   .boundary_format = boundary ? std::string(boundary->name()) : std::string(),
                   .bytes = part.A->interior().bytes() + (boundary ? boundary->bytes() : 0),
                   .preconditioner_bytes = part.M ? part.M->bytes() : 0});
  }
  return all;
}

template <class T>
std::string DistributedSystem<T>::describe() const {
  std::string text = fmt::format(
      "A               {} x {}, {} nonzeros, {} precision, on {} devices (partition {})\n", csr_.rows(),
      csr_.cols(), csr_.nonzeros(), sizeof(T) == 8 ? "double" : "single", plan_->devices.size(), plan_->word);
  text += fmt::format("method          {}\npreconditioner  {}\n",
                      method_.empty() ? settings_.method.name() : method_, preconditioner_of(settings_));
  for (const PartRecord& part : records())
    text += fmt::format("part on {:<8}{} rows, {} nonzeros, {} ghosts of {} neighbours, format {}, {}\n",
                        part.device, part.rows, part.nonzeros, part.ghosts, part.neighbours, part.format,
                        human_bytes(part.bytes));
  return text;
}

template class DistributedSystem<float>;
template class DistributedSystem<double>;

}  // namespace protean::detail
