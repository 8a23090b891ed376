#include "systems/distributed_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/simulated_device.hpp"
#include "core/words.hpp"
#include "distributed/halo.hpp"
#include "distributed/part_team.hpp"
#include "distributed/partition.hpp"
#include "distributed/simulated_parts.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "distributed/gpu_parts.hpp"
#endif
#include "formats/catalogue.hpp"
#include "systems/method_choice.hpp"
#include "systems/part_system.hpp"
#include "systems/seconds.hpp"

namespace protean::detail {
namespace {

// The observer of the caller is called in the thread of part 0; its answers are those of all parts.
class SharedObserver final : public SolveObserver {
 public:
  // watch: of the parts.
  SharedObserver(const Context& context, PartWatch& watch, SolveObserver* callers)
      : context_(context), watch_(watch), callers_(callers) {}
  bool on_iteration(const IterationInfo& info) override {
    bool go_on = true;
    if (callers_) {
      const struct Away {
        explicit Away(PartWatch& of) : watch(of) { watch.away(true); }
        ~Away() { watch.away(false); }
        PartWatch& watch;
      } away(watch_);
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
  PartWatch& watch_;
  SolveObserver* const callers_;
  std::int64_t next_stop_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

void require_distributable(const SolveSettings& settings) {
  if (const std::optional<Unserved> found = unserved_by_parts(settings, "device"))
    throw BadArgument(found->text);
}

template <class T>
struct DistributedSystem<T>::Plan {
  std::shared_ptr<const Partition> partition;  // over the devices that have rows
  std::vector<std::int64_t> devices;           // of the parts
  std::vector<PartHalo> halos;
  std::shared_ptr<Parts> links;
  std::string word;
};

template <class T>
struct DistributedSystem<T>::Part {
  PartBlocks<T> blocks;
  PartSystem<T> system;
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
  auto plan = std::make_shared<Plan>();
  const int devices = static_cast<int>(wanted.contexts.size());
  const bool is_given = !wanted.part_of_row.empty();
  if (is_given && std::ssize(wanted.part_of_row) != csr_.rows())
    throw ShapeMismatch(fmt::format("part_of_row has {} entries; the matrix has {} rows",
                                    wanted.part_of_row.size(), csr_.rows()));
  plan->word = is_given ? "given" : wanted.partition;
  Partition all = is_given ? Partition(wanted.part_of_row, devices)
                           : make_partition(*host_, csr_.pattern, wanted.partition, devices);
  if (const std::int64_t unknowns = settings_.preconditioning.unknowns;
      !is_given && preconditioner_of_parts(settings_) == "amg" && unknowns > 1) {
    // Nodes stay whole.
    std::vector<std::int32_t> of_row(static_cast<std::size_t>(csr_.rows()));
    for (int d = 0; d < devices; ++d)
      for (const std::int32_t row : all.rows_of(d)) of_row[static_cast<std::size_t>(row)] = d;
    for (std::int64_t i = 0; i < csr_.rows(); ++i)
      of_row[static_cast<std::size_t>(i)] = of_row[static_cast<std::size_t>(i - i % unknowns)];
    all = Partition(std::move(of_row), devices);
  }
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
    plan->links = make_gpu_parts(std::move(contexts), plan->partition, sizeof(T));
  else
#endif
    plan->links = std::make_unique<SimulatedParts>(std::move(contexts), plan->partition);
  plan_ = std::move(plan);
}

template <class T>
void DistributedSystem<T>::require_idle(std::string_view what) const {
  if (!lost_.empty()) throw DeviceError(lost_);
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
                              preconditioner_traits(preconditioner_of_parts(settings_),
                                                    settings_.preconditioning, {}, settings_.combine));
    method = choice.method, reason = choice.reason;
  }
  if (method != method_)
    for (const auto& part : parts_) part->system.drop_solver();
  method_ = std::move(method), method_reason_ = std::move(reason);
}

template <class T>
void DistributedSystem<T>::in_all_parts(std::function<void(int)> work, bool may_leave) {
  const int parts = plan_->partition->parts();
  const auto [errors, left] = work_of_parts(plan_->links, parts, std::move(work), may_leave);
  if (left >= 0 || std::any_of(errors.begin(), errors.end(), [](const auto& one) { return one != nullptr; }))
    rethrow(errors, left);
  try {
    plan_->links->require_answers();
  } catch (const PartSilent& silent) { throw DeviceError(silence(silent.part, parts, false)); }
}

template <class T>
std::string DistributedSystem<T>::silence(int part, int parts, bool left) const {
  const std::string who = part < 0 ? fmt::format("the {} parts wait for each other", parts)
                                   : fmt::format("part {} of {} (on device {}) has not answered", part, parts,
                                                 plan_->devices[static_cast<std::size_t>(part)]);
  return fmt::format(
      "{} for {:g} s, and the others have stopped waiting; x is as it was. {}", who, part_patience.load(),
      left ? "It is left behind, and this system cannot be used any more: make another one, on other "
             "devices if this one hangs"
           : "The system can be used again");
}

// The thread of a part still works: what it works with is never freed.
template <class T>
void DistributedSystem<T>::leave_behind(const std::string& why) {
  lost_ = why;
  (void)new std::shared_ptr<Plan>(plan_);
  (void)new std::vector<std::unique_ptr<Part>>(std::move(parts_));
  parts_.clear();
}

// The error of the first part that failed by itself. Its message names the part, unless all parts have the same one.
template <class T>
void DistributedSystem<T>::rethrow(const std::vector<std::exception_ptr>& errors, int left) {
  const int parts = static_cast<int>(errors.size());
  if (left >= 0) {
    const std::string text = silence(left, parts, true);
    leave_behind(text);
    throw DeviceError(text);
  }
  const auto message = [](const std::exception_ptr& error) -> std::string {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const PartAbandoned&) {
    } catch (const PartSilent&) {
    } catch (const std::exception& one) { return one.what(); } catch (...) {
      return "unknown";
    }
    return {};
  };
  std::size_t first = 0;
  while (first + 1 < errors.size() && message(errors[first]).empty()) ++first;
  const std::string text = message(errors[first]);
  if (text.empty()) {
    int silent = -1;
    try {
      for (const std::exception_ptr& error : errors) try {
          if (error) std::rethrow_exception(error);
        } catch (const PartAbandoned&) {}
      plan_->links->require_answers();
    } catch (const PartSilent& error) { silent = error.part; }
    throw DeviceError(silence(silent, parts, false));
  }
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
  PartBlocks<T> blocks(host_, csr_, *plan_->partition, halo, number);
  const CsrMatrix<T> interior = blocks.interior(), boundary = blocks.boundary();
  parts_[index].reset(
      new Part{std::move(blocks),
               {settings_.distribution.contexts[static_cast<std::size_t>(plan_->devices[index])], halo,
                interior, boundary, plan_->links->exchange(number, halo, T()),
                [&links = *plan_->links, number](const PartHalo& of_level) {
                  return links.exchange(number, of_level, T());
                },
                settings_}});
}

// New values in the blocks of a part.
template <class T>
void DistributedSystem<T>::renew_part(int number) {
  Part& part = *parts_[static_cast<std::size_t>(number)];
  part.blocks.update_values(host_, csr_.values);
  part.system.update_values(part.blocks.interior(), part.blocks.boundary());
}

template <class T>
void DistributedSystem<T>::set_up() {
  require_idle("set_up()");
  choose_method();
  Stopwatch clock;
  const auto stage = [&](std::string_view what) {
    if (settings_.on_stage) settings_.on_stage(what);
  };
  const bool anew = parts_.empty(), renew = !anew && new_values_;
  if (anew) parts_.resize(static_cast<std::size_t>(plan_->partition->parts()));
  double converted = 0;
  try {
    if (anew || renew) stage("converting the matrix");
    in_all_parts(
        [&](int number) {
          if (anew) make_part(number);
          if (renew) renew_part(number);
        },
        false);
    converted = clock.passed();
    stage("setting up");
    // Apart from the matrices: setups may add up over all parts, and then nobody should still allocate.
    in_all_parts(
        [&](int number) { parts_[static_cast<std::size_t>(number)]->system.set_up(method_, settings_); },
        false);
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
  // What the threads of the parts use, as long as one of them works.
  struct Job {
    std::vector<Part*> parts;
    std::shared_ptr<Plan> plan;
    std::vector<std::vector<T>> found;
    SolveReport report;
    std::exception_ptr of_observer;
  };
  const auto job = std::make_shared<Job>();
  for (const auto& part : parts_) job->parts.push_back(part.get());
  job->plan = plan_, job->found.resize(parts_.size());
  try {
    in_all_parts(
        [job, b, x, observer](int number) {
          Part& part = *job->parts[static_cast<std::size_t>(number)];
          const auto rows = job->plan->partition->rows_of(number);
          std::vector<T>& values = job->found[static_cast<std::size_t>(number)];
          std::vector<T> right(rows.size());
          values.resize(rows.size());
          for (std::size_t i = 0; i < rows.size(); ++i)
            values[i] = x.data[rows[i]], right[i] = b.data[rows[i]];
          SharedObserver shared(*part.system.A().context(), job->plan->links->watch(),
                                number == 0 ? observer : nullptr);
          SolveReport report;
          try {
            report = part.system.solve(right, values, observer ? &shared : nullptr);
          } catch (...) {
            if (number == 0) job->of_observer = shared.thrown;
            throw;
          }
          if (number == 0) job->report = std::move(report);
        },
        true);
  } catch (...) {
    // What a method keeps may be of different iterations in different parts.
    for (const auto& part : parts_) part->system.drop_solver();
    if (job->of_observer) std::rethrow_exception(job->of_observer);
    throw;
  }
  const std::vector<std::vector<T>>& found = job->found;
  result.report = std::move(job->report);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const auto rows = plan_->partition->rows_of(static_cast<int>(p));
    for (std::size_t i = 0; i < rows.size(); ++i) x.data[rows[i]] = found[p][i];
  }
  const PartSystem<T>& first = parts_.front()->system;
  result.method = method_, result.method_reason = method_reason_;
  result.format = first.A().interior().name(), result.kernel = first.A().interior().kernel(),
  result.order = "none";
  if (settings_.format == "auto") result.format_reason = "over several devices format auto is csr";
  result.values = first.A().interior().stored_values();
  result.preconditioner = preconditioner_of_parts(settings_);
  if (settings_.preconditioner == "auto")
    result.preconditioner_reason = "jacobi: over several devices auto is jacobi";
  if (const auto* const M = first.preconditioner()) result.storage_reason = M->storage_reason();
  result.partition = plan_->word, result.parts = records();
  result.convert_seconds = std::exchange(convert_seconds_, 0),
  result.setup_seconds = std::exchange(setup_seconds_, 0);
  return result;
}

template <class T>
std::vector<PartRecord> DistributedSystem<T>::records() const {
  std::vector<PartRecord> all;
  for (std::size_t p = 0; p < parts_.size(); ++p) all.push_back(parts_[p]->system.record(plan_->devices[p]));
  return all;
}

template <class T>
std::string DistributedSystem<T>::describe() const {
  std::string text = fmt::format(
      "A               {} x {}, {} nonzeros, {} precision, on {} devices (partition {})\n", csr_.rows(),
      csr_.cols(), csr_.nonzeros(), sizeof(T) == 8 ? "double" : "single", plan_->devices.size(), plan_->word);
  text +=
      fmt::format("method          {}\npreconditioner  {}\n",
                  method_.empty() ? settings_.method.name() : method_, preconditioner_of_parts(settings_));
  for (const PartRecord& part : records())
    text += fmt::format("part on {:<8}{} rows, {} nonzeros, {} ghosts of {} neighbours, format {}, {}\n",
                        part.device, part.rows, part.nonzeros, part.ghosts, part.neighbours, part.format,
                        human_bytes(part.bytes));
  return text;
}

template class DistributedSystem<float>;
template class DistributedSystem<double>;

}  // namespace protean::detail
