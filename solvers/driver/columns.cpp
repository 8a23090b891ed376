#include "solvers/driver/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "solvers/driver/driver.hpp"

namespace protean::detail {
namespace {

// One column in vectors of its own, to look at.
template <class T>
struct TakenOut {
  TakenOut(const ContextPtr& context, std::int64_t n) {
    for (Vector<T>* v : {&b, &x, &residual, &spare[0], &spare[1]}) *v = Vector<T>(context, n);
  }
  Vector<T> b, x, residual, spare[2];
};

// One for each of some columns: 2-norms, and norms by SolverOptions::residual_norm.
struct ColumnNorms {
  std::vector<double> two, measured;
};

template <class T>
class ColumnsRun final : public Driver<ColumnsRun<T>, ColumnsInOrder<T>> {
  using Base = Driver<ColumnsRun<T>, ColumnsInOrder<T>>;
  friend Base;

 public:
  ColumnsRun(const SolverOptions& options, const MultiSystem<T>& callers, MultiWorkspace<T>& workspace,
             MultiSolveObserver* observer, std::span<const StoppingRule> rules,
             const VectorBlock<const T>& null_space)
      : Base(workspace.method->traits().id, options, callers, null_space, workspace, {*workspace.method},
             static_cast<std::size_t>(callers.b.columns), rules, workspace.method->period()),
        workspace_(workspace),
        method_(*workspace.method),
        observer_(observer) {}

 private:
  using Base::callers_, Base::columns_, Base::in_order_, Base::context, Base::system;
  using typename Base::Column, typename Base::Columns;

  static std::string in_words(const LinearOperator<T>& A) {
    const std::string why = column_by_column(A);
    return why.empty() ? "in one pass" : "column by column: " + why;
  }
  // Pairs (lane, lane) of the columns that run.
  std::vector<ColumnPair> lanes() const {
    std::vector<ColumnPair> pairs;
    for (const Column& c : columns_)
      if (c.runs()) pairs.push_back({c.lane, c.lane});
    return pairs;
  }

  void attach() {
    report_.product = in_words(system().A);
    if (system().M) report_.preconditioner = system().d.size > 0 ? "diagonal" : in_words(*system().M);
    if (context().space() == Space::device && !workspace_.batches)
      workspace_.batches = make_batches<T>(method_.context(), method_.most());
    batches_ = workspace_.batches.get();
    if (batches_) batches_->attach(system());
  }

  void measure_rhs() {
    method_.reset(multi_width(system().b.columns));
    std::vector<ColumnPair> all;
    for (const Column& c : columns_) all.push_back({c.number, c.number});
    copy_columns<T>(context(), system().x, method_.x(), all);
    vectors_ = method_.free(method_.width());
    copy_columns<T>(context(), system().b, vectors_, all);
    method_.mark(method_.chosen(), all);
    multi_dot<T>(context(), vectors_, vectors_, method_.chosen(), workspace_.squares.data());
    const ColumnNorms norms = norms_of(all);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      columns_[c].beginning.two_rhs_norm = norms.two[c], columns_[c].beginning.rhs_norm = norms.measured[c];
  }
  // A lane in a vector of its own.
  VectorView<T> taken_out(const MultiVectorView<const T>& V, std::int32_t j) {
    Vector<T>& v = workspace_.column;
    if (v.size() != V.rows) v = Vector<T>(method_.context(), V.rows);
    copy_column<T>(context(), V, j, v);
    return v;
  }
  VectorView<const T> b_of(const Column& c) { return taken_out(system().b, c.number); }
  void check_null_space(const Column& c) {
    Vector<T> q(method_.context(), method_.rows()), d(method_.context(), method_.rows());
    detail::check_null_space<T>(system().A, in_order_.null_space(), b_of(c), c.beginning.two_rhs_norm, q, d,
                                workspace_.number);
  }
  void project_x(const Column& c) { project(method_.x(), c.lane); }
  void project(const MultiVectorView<T>& V, std::int32_t lane) {
    const VectorView<T> v = taken_out(V, lane);
    detail::project<T>(context(), in_order_.null_space(), v, workspace_.components);
    const ColumnPair back{0, lane};
    copy_columns<T>(context(), as_column(VectorView<const T>(v)), V, {&back, 1});
  }

  // In free vectors of the method, of which other lanes are lost. With few columns they are packed.
  void compute_truth(const Columns& of) {
    const std::int64_t width = method_.width(), narrow = multi_width(std::ssize(of));
    const bool packed = 2 * narrow <= width;
    std::vector<ColumnPair> own, from_b;
    lane_of_.assign(columns_.size(), -1);
    std::int32_t next = 0;
    for (const Column* c : of) {
      const std::int32_t lane = packed ? next++ : c->lane;
      lane_of_[static_cast<std::size_t>(c->number)] = lane;
      own.push_back({c->lane, lane}), from_b.push_back({c->number, lane});
    }
    MultiVectorView<const T> x = method_.x();
    vectors_ = method_.free(width);
    if (packed) {
      const MultiVectorView<T> copies = method_.free(narrow);
      fill<T>(context(), T(0), VectorView<T>{copies.data, copies.rows * narrow, copies.space});
      copy_columns<T>(context(), method_.x(), copies, own);
      x = copies, vectors_ = method_.free(narrow, true);
    }
    const LinearOperator<T>* const given = given_matrix_of(system().A);
    method_.product(given ? *given : system().A, x, vectors_, own_lanes(own));
    multi_residual<T>(context(), system().b, vectors_, from_b, workspace_.squares.data());
    const ColumnNorms norms = norms_of(from_b);
    ++report_.products;
    for (std::size_t i = 0; i < of.size(); ++i) {
      of[i]->report().true_residual = norms.measured[i], of[i]->two_norm = norms.two[i];
      if (in_order_.null_space().count > 0) project(vectors_, from_b[i].to);
    }
  }

  // One for each of some columns: 2-norms, and norms by SolverOptions::residual_norm.
  struct ColumnNorms {
    std::vector<double> two, measured;
  };
  // Of lanes pairs[i].to of the vectors, whose squares are known.
  ColumnNorms norms_of(std::span<const ColumnPair> pairs) {
    ColumnNorms found;
    found.two = found.measured = norms(pairs, vectors_, workspace_.squares.data());
    if (system().weights.size == 0) return found;
    Vector<T>& ones = workspace_.ones;
    if (ones.size() == 0) {
      ones = Vector<T>(method_.context(), method_.most());
      fill<T>(context(), T(1), ones);
    }
    found.measured = norms(pairs, method_.weigh(system(), vectors_, ones.data()), method_.weighted_squared());
    return found;
  }
  // From their squares, or anew if a square is out of range.
  std::vector<double> norms(std::span<const ColumnPair> pairs, const MultiVectorView<const T>& V,
                            const T* squared) {
    std::vector<T> squares(static_cast<std::size_t>(V.columns));
    copy<T>(context(), VectorView<const T>{squared, V.columns, context().space()},
            {squares.data(), V.columns, Space::host});
    std::vector<double> found;
    for (const ColumnPair pair : pairs) {
      constexpr T smallest_safe = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
      const T square = squares[static_cast<std::size_t>(pair.to)];
      if (std::isfinite(square) && square > smallest_safe) {
        found.push_back(std::sqrt(static_cast<double>(square)));
        continue;
      }
      found.push_back(norm<T>(context(), taken_out(V, pair.to), workspace_.number));
    }
    return found;
  }

  void begin(const Columns& of) {
    std::vector<ColumnPair> pairs;
    for (const Column* c : of) pairs.push_back({lane_of_[static_cast<std::size_t>(c->number)], c->lane});
    method_.mark(method_.chosen(), pairs);
    method_.begin(system(), vectors_, pairs);
    const std::vector<LaneScalars<T>> now = read_scalars();
    for (Column* c : of) {
      c->first = true, c->begun_at = method_.steps();
      c->scalars = now[static_cast<std::size_t>(c->lane)];
    }
  }

  // The scalars of all lanes; of lanes that have ended they are old.
  std::vector<LaneScalars<T>> read_scalars() {
    std::vector<LaneScalars<T>> lanes(static_cast<std::size_t>(method_.width()));
    for (int s = 0; s < method_.scalar_count(); ++s) {
      std::vector<T> numbers(lanes.size());
      copy<T>(context(), VectorView<const T>{method_.scalars(s), method_.width(), context().space()},
              {numbers.data(), method_.width(), Space::host});
      for (std::size_t l = 0; l < lanes.size(); ++l) lanes[l][static_cast<std::size_t>(s)] = numbers[l];
    }
    return lanes;
  }

  Verdict verdict_of(const Column& c) const {
    const auto at = [&](int place) {
      return place < 0 ? nullptr : &c.scalars[static_cast<std::size_t>(place)];
    };
    std::array<Guard<T>, most_lane_guards> guards{};
    std::size_t count = 0;
    for (const LaneGuard& guard : method_.traits().guards)
      if (guard.at_begin || !c.first) guards[count++] = guard.of<T>(at);
    return c.control().read(
        Signals<T>{.residual_squared = at(method_.residual_scalar()), .guards = {guards.data(), count}});
  }

  // The next step of all columns that run; on a GPU the next steps.
  void advance() {
    const std::vector<ColumnPair> of = lanes();
    if (batches_) {
      batches_->next(system(), method_, of, this->room(observer_), done_);
      return take(done_);
    }
    method_.step(system(), of);
    report_.products += method_.traits().products;
    const std::vector<LaneScalars<T>> now = read_scalars();
    const auto residual = static_cast<std::size_t>(method_.residual_scalar());
    for (Column& c : columns_)
      if (c.runs()) {
        const LaneScalars<T>& scalars = now[static_cast<std::size_t>(c.lane)];
        stepped(c, scalars, {static_cast<double>(scalars[residual])});
      }
  }
  void take(const typename Batches<T>::Done& done) {
    std::size_t most = 0;
    for (Column& c : columns_)
      if (c.runs()) {
        const auto lane = static_cast<std::size_t>(c.lane);
        most = std::max(most, done.residual_squared[lane].size());
        stepped(c, done.last[lane], done.residual_squared[lane]);
      }
    report_.products += method_.traits().products * static_cast<std::int64_t>(most);
  }
  void stepped(Column& c, const LaneScalars<T>& scalars, const std::vector<double>& squares) {
    if (squares.empty()) return;
    c.first = false, c.scalars = scalars;
    for (const double square : squares) c.history.push_back(std::sqrt(square));
    Base::stepped(c, std::ssize(squares), verdict_of(c));
  }

  bool settle(bool) {
    if (!batches_) return false;
    batches_->settle(done_);
    take(done_);
    return true;
  }
  void finish(const Columns& of) {
    if (!method_.traits().finishes) return;
    std::vector<LaneSteps> steps;
    for (const Column* c : of)
      if (c->runs()) steps.push_back({c->lane, c->steps_since_begin()});
    method_.finish(system(), steps);
  }
  // Methods of several lanes have no reliable updates.
  void renew(Column&) {}
  void correct() {}

  // On a device it may have stopped some steps before the others.
  bool resumes(const Course<T>& of) override {
    if (method_.traits().cycles) return false;
    Column& c = columns_[static_cast<std::size_t>(static_cast<const Column&>(of).number)];
    const std::int64_t missed = method_.steps() - c.begun_at - c.steps_since_begin();
    c.begun_at += missed;
    return method_.go_on(c.lane, missed);
  }

  Evidence<T> evidence(const Course<T>& of) override {
    const auto& c = static_cast<const Column&>(of);
    TakenOut<T>& out = evidence_vectors();
    copy_column<T>(context(), system().b, c.number, out.b);
    copy_column<T>(context(), method_.x(), c.lane, out.x);
    copy_column<T>(context(), vectors_, lane_of_[static_cast<std::size_t>(c.number)], out.residual);
    return evidence_of(system(), out);
  }
  Evidence<T> evidence_for_caller() override { return evidence_of(callers_, evidence_vectors()); }
  TakenOut<T>& evidence_vectors() {
    if (!taken_out_) taken_out_.emplace(method_.context(), method_.rows());
    return *taken_out_;
  }
  Evidence<T> evidence_of(const MultiSystem<T>& s, TakenOut<T>& out) {
    return {{{s.A, out.b.view(), out.x.view(), s.M, s.d}},
            out.residual,
            {out.spare[0].view(), out.spare[1].view()},
            workspace_.number};
  }

  void give_back_x(const Column& c) {
    const ColumnPair pair{c.lane, c.number};
    copy_columns<T>(context(), method_.x(), system().x, {&pair, 1});
  }

  // The columns that run, in as few lanes as hold them; which lanes run, and their scalars. Then the limits of a GPU.
  void pack() {
    const std::int64_t left = this->running();
    if (left == 0) return;
    if (const std::int64_t width = multi_width(left); width < method_.width()) {
      std::vector<ColumnPair> keep;
      std::int32_t next = 0;
      for (Column& c : columns_)
        if (c.in_lane()) keep.push_back({c.lane, next}), c.lane = next++;
      method_.pack(width, keep);
    }
    // On a GPU a lane may have stopped some steps before the others, whose scalars may lie in other places by now.
    for (int place = 0; place < method_.scalar_count(); ++place) {
      std::vector<T> numbers(static_cast<std::size_t>(method_.width()));
      for (const Column& c : columns_)
        if (c.in_lane())
          numbers[static_cast<std::size_t>(c.lane)] = c.scalars[static_cast<std::size_t>(place)];
      copy<T>(context(), VectorView<const T>{numbers.data(), method_.width(), Space::host},
              {method_.scalars(place), method_.width(), context().space()});
    }
    method_.mark(method_.running(), lanes());
    if (!batches_) return;
    std::vector<typename Batches<T>::Limits> limits(static_cast<std::size_t>(method_.width()));
    for (const Column& c : columns_)
      if (c.in_lane())
        limits[static_cast<std::size_t>(c.lane)] = {c.control().goal(), c.control().too_large(),
                                                    c.rule().max_iterations - c.report().iterations};
    batches_->start(limits);
  }

  MultiSolveReport report() {
    report_.iterations = this->iteration();
    report_.steps = batches_ ? batches_->name() : context().simulated() ? "simulated" : "host";
    // The last format may have another product than the first.
    if (const std::string product = in_words(system().A); product != report_.product)
      report_.product += "; then " + product;
    for (Column& c : columns_) {
      c.report().steps = report_.steps;
      // Each is a graph of its own.
      if (batches_) c.report().graphs_recorded = c.report().graphs_made = batches_->recorded();
      report_.columns.push_back(std::move(c.report()));
    }
    report_.seconds = this->now_;
    return std::move(report_);
  }

  bool observe() {
    if (!observer_) return true;
    Shown& shown = shown_;
    shown.clear();
    std::int64_t broken = 0;
    for (const Column& c : columns_) {
      const StopReason reason = c.report().reason;
      shown.residuals.push_back(c.residual), shown.relative.push_back(c.relative(c.residual));
      shown.runs.push_back(c.in_lane()), shown.reasons.push_back(reason);
      broken += reason == StopReason::breakdown || reason == StopReason::indefinite_preconditioner;
    }
    const MultiIterationInfo info{.iteration = this->iteration(),
                                  .running = this->running(),
                                  .broken = broken,
                                  .residuals = shown.residuals,
                                  .relative_residuals = shown.relative,
                                  .runs = shown.runs,
                                  .reasons = shown.reasons,
                                  .seconds = this->now_};
    if (observer_->reads_solution(info)) show_solution();
    const bool go_on = observer_->on_iteration(info);
    in_order_.require_change();
    return go_on;
  }
  void show_solution() {
    std::vector<ColumnPair> pairs;
    for (const Column& c : columns_)
      if (c.in_lane()) pairs.push_back({c.lane, c.number});
    if (!pairs.empty()) copy_columns<T>(context(), method_.x(), system().x, pairs);
    in_order_.show_solution();
  }
  // Of all columns, for the observer.
  struct Shown {
    std::vector<double> residuals, relative;
    std::vector<unsigned char> runs;
    std::vector<StopReason> reasons;
    void clear() noexcept { residuals.clear(), relative.clear(), runs.clear(), reasons.clear(); }
  };

  MultiWorkspace<T>& workspace_;
  MultiMethod<T>& method_;
  MultiSolveObserver* const observer_;
  MultiVectorView<T> vectors_{};       // b - A x of some columns
  std::vector<std::int32_t> lane_of_;  // in which lane of these the one of a column lies
  MultiSolveReport report_;
  Shown shown_;
  std::optional<TakenOut<T>> taken_out_;  // made when a column is looked at
  Batches<T>* batches_ = nullptr;         // of a device
  typename Batches<T>::Done done_;
};

}  // namespace

template <class T>
void require_memory_of_columns(std::int64_t k) {
  constexpr std::size_t each =
      sizeof(ColumnOf<ColumnsInOrder<T>>) + sizeof(SolveReport) + 2 * sizeof(double) + 1;
  const bool possible = static_cast<std::size_t>(k) <= unlimited_memory / each;
  require_memory(possible ? static_cast<std::size_t>(k) * each : unlimited_memory,
                 fmt::format("the results of {} right-hand sides", k));
}

template <class T>
MultiSolveReport solve_columns(const SolverOptions& options, const MultiSystem<T>& system,
                               MultiWorkspace<T>& workspace, MultiSolveObserver* observer,
                               std::span<const StoppingRule> rules, const VectorBlock<const T>& null_space) {
  return ColumnsRun<T>(options, system, workspace, observer, rules, null_space)();
}

#define PROTEAN_INSTANTIATE(T)                                                            \
  template void require_memory_of_columns<T>(std::int64_t);                               \
  template MultiSolveReport solve_columns<T>(const SolverOptions&, const MultiSystem<T>&, \
                                             MultiWorkspace<T>&, MultiSolveObserver*,     \
                                             std::span<const StoppingRule>, const VectorBlock<const T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
