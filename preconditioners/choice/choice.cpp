#include "preconditioners/choice/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/statistics.hpp"
#include "core/transfer.hpp"

namespace protean::detail {
namespace {

// Part of jacobi's time that may be lost.
constexpr double most_loss = 0.1;
constexpr double most_positive = 0.1;

// Measured: docs/results/preconditioners.md. Numbers on the careful side.
// On a GPU factors were not faster than jacobi by more than a fifth, setup left out, and their approximate inverses not
// by more than two fifths. Setups of the latter take as long as several solves.
constexpr ChoiceCandidate table[] = {
    {"amg", Space::host, false, true, true, 20, 0, 4.5, 200, 0.25},
    {"ic0", Space::host, true, true, false, 0, 0.42, 2, 40, 0.5},
    {"ilu0", Space::host, false, false, false, 0, 0.25, 2, 40, 0.5},
    {"amg", Space::device, false, true, true, 20, 0, 4.6, 150, 0.25, 40e-6, 10e-3},
};

}  // namespace

std::span<const ChoiceCandidate> choice_candidates() noexcept { return table; }

namespace {

// Of entries off the diagonal.
struct Sums {
  double positive = 0, all = 0;
  bool good = true;  // each diagonal entry is there and positive

  template <class T>
  void add_row(std::int64_t i, std::span<const std::int32_t> columns, const T* values) {
    bool diagonal = false;
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const auto a = static_cast<double>(values[k]);
      if (columns[k] == i) {
        diagonal = a > 0;
        continue;
      }
      all += std::abs(a), positive += std::max(a, 0.0);
    }
    good = good && diagonal;
  }
  void add(const Sums& other) { positive += other.positive, all += other.all, good = good && other.good; }
  bool diffusion() const { return good && positive <= most_positive * all; }
};

}  // namespace

namespace {

// The largest number of rows up to 8 that divides nearly all groups of neighbouring rows with the same columns.
class RowsOfNodes {
 public:
  void add_row(std::int64_t i, bool as_before) {
    for (std::int64_t d = 2; d <= most; ++d) (i % d == 0 ? first_ : later_)[d] += as_before;
    ++rows_;
  }
  void add(const RowsOfNodes& other) {
    for (std::int64_t d = 2; d <= most; ++d) first_[d] += other.first_[d], later_[d] += other.later_[d];
    rows_ += other.rows_;
  }
  std::int64_t unknowns() const {
    for (std::int64_t d = most; d >= 2; --d) {
      const double nodes = static_cast<double>(rows_ / d);
      if (rows_ % d == 0 && static_cast<double>(later_[d]) >= 0.95 * nodes * static_cast<double>(d - 1) &&
          static_cast<double>(first_[d]) <= 0.5 * nodes)
        return d;
    }
    return 1;
  }

 private:
  static constexpr std::int64_t most = 8;
  std::int64_t rows_ = 0, first_[most + 1] = {},
               later_[most + 1] = {};  // rows that have the columns of the one before
};

bool has_columns_of_row_before(const SparsityPattern& pattern, std::int64_t i) {
  if (i == 0 || pattern.row_length(i) != pattern.row_length(i - 1)) return false;
  const auto row = pattern.row(i), before = pattern.row(i - 1);
  return std::equal(row.begin(), row.end(), before.begin());
}

}  // namespace

template <class T>
ChoiceTraits choice_traits(const Context& host, const CsrMatrix<T>& csr, std::optional<bool> symmetric) {
  ChoiceTraits traits;
  traits.symmetric = symmetric ? *symmetric : asymmetry<T>(host, csr) <= symmetry_tolerance<T>;
  const int workers = useful_parts(host, csr.nonzeros());
  std::vector<Sums> sums(static_cast<std::size_t>(workers));
  std::vector<RowsOfNodes> nodes(static_cast<std::size_t>(workers));
  parallel(workers, [&](int part, int parts) {
    const Range rows = even_range(csr.rows(), part, parts);
    Sums own;
    RowsOfNodes own_nodes;
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      own.add_row(i, csr.pattern.row(i), csr.values + csr.pattern.row_ptr[i]);
      own_nodes.add_row(i, has_columns_of_row_before(csr.pattern, i));
    }
    sums[static_cast<std::size_t>(part)] = own, nodes[static_cast<std::size_t>(part)] = own_nodes;
  });
  Sums total;
  for (const Sums& one : sums) total.add(one);
  traits.diffusion = total.diffusion();
  RowsOfNodes all_nodes;
  for (const RowsOfNodes& one : nodes) all_nodes.add(one);
  traits.unknowns = all_nodes.unknowns();
  return traits;
}

template <class T>
ChoiceTraits sampled_traits(const Context& context, const CsrMatrix<T>& csr) {
  constexpr std::int64_t parts = 32, most_rows = 256;
  const bool all = csr.rows() <= parts * most_rows;
  Sums total;
  std::vector<std::int32_t> columns;
  std::vector<T> values;
  const auto fetch = [&](auto& to, const auto* from, std::int64_t begin, std::int64_t end) {
    to.resize(static_cast<std::size_t>(end - begin));
    copy_bytes(context, to.data(), Space::host, from + begin, csr.pattern.space,
               to.size() * sizeof(*to.data()));
  };
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    std::vector<std::remove_cvref_t<decltype(*ptr)>> begins;
    for (std::int64_t part = 0; part < (all ? 1 : parts); ++part) {
      const std::int64_t first = all ? 0 : even_range(csr.rows(), static_cast<int>(part), parts).begin,
                         count = all ? csr.rows() : most_rows;
      fetch(begins, ptr, first, first + count + 1);
      fetch(columns, csr.pattern.col, begins.front(), begins.back());
      fetch(values, csr.values, begins.front(), begins.back());
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto begin = static_cast<std::size_t>(begins[at] - begins.front()),
                   end = static_cast<std::size_t>(begins[at + 1] - begins.front());
        total.add_row(first + i, std::span(columns).subspan(begin, end - begin), values.data() + begin);
      }
    }
  });
  ChoiceTraits traits;
  traits.diffusion = total.diffusion();
  return traits;
}
template ChoiceTraits sampled_traits<float>(const Context&, const CsrMatrix<float>&);
template ChoiceTraits sampled_traits<double>(const Context&, const CsrMatrix<double>&);
template ChoiceTraits choice_traits<float>(const Context&, const CsrMatrix<float>&, std::optional<bool>);
template ChoiceTraits choice_traits<double>(const Context&, const CsrMatrix<double>&, std::optional<bool>);

namespace {

constexpr std::string_view begins =
    "jacobi, whose setup costs next to nothing; others are tried in long solves, and if the system is solved again";
constexpr std::string_view by_no_times =
    "jacobi: in deterministic mode it changes only within a solve, by counts of iterations, not by times";

}  // namespace

PreconditionerChoice::PreconditionerChoice(ChoiceSituation situation)
    : situation_(situation), reason_(situation.deterministic ? by_no_times : begins) {}

bool PreconditionerChoice::tried(const ChoiceCandidate& candidate) const noexcept {
  return std::find(tried_.begin(), tried_.end(), &candidate) != tried_.end();
}

bool PreconditionerChoice::fits(const ChoiceCandidate& candidate,
                                const std::function<ChoiceTraits()>& traits) {
  if (!known_traits_) traits_ = traits(), known_traits_ = true;
  return traits_.entries && (!candidate.for_symmetric || traits_.symmetric) &&
         (!candidate.for_diffusion || traits_.diffusion || situation_.near_null_space);
}

double PreconditionerChoice::unit() const noexcept {
  return jacobi_all_iterations_ > 0 ? jacobi_seconds_ / jacobi_all_iterations_ : 0;
}

double PreconditionerChoice::jacobi_iterations() const noexcept {
  return jacobi_solves_ > 0 ? jacobi_all_iterations_ / jacobi_solves_
                            : static_cast<double>(situation_.iterations);
}

double PreconditionerChoice::iterations_of(const ChoiceCandidate& candidate) const noexcept {
  const double least = (candidate.for_diffusion && situation_.near_null_space ? 2 : 1) * candidate.least;
  return std::max(least / situation_.products, candidate.factor * jacobi_iterations());
}

double PreconditionerChoice::own_seconds() const noexcept {
  if (!current_) return unit() * jacobi_iterations();
  return own_solves_ > 0 ? own_seconds_ / own_solves_ : 0;
}

std::string_view PreconditionerChoice::decide(const std::function<ChoiceTraits()>& traits) {
  if (!situation_.deterministic)
    consider(traits);
  else if (!current_)
    reason_ = by_no_times;
  return current();
}

void PreconditionerChoice::consider(const std::function<ChoiceTraits()>& traits) {
  const double iterations = jacobi_iterations();
  if (iterations == 0) {
    reason_ = begins;
    return;
  }
  if (current_ && (own_solves_ == 0 || unit() == 0)) return;  // its trial comes first
  // What a solve takes now, in iterations of jacobi.
  const double now = current_ ? own_seconds() / unit() : iterations;
  const auto expected = static_cast<double>(situation_.expected);
  const double remaining = expected > 0 ? std::max(expected - solves_, 1.0) : solves_;
  const double lost = unit() > 0 ? spent_ / unit() - solves_ * iterations : 0;
  const double budget = most_loss * std::max(expected, solves_) * iterations - lost;
  Predicted best, waiting;
  for (const ChoiceCandidate& one : table) {
    if (one.space != situation_.space || tried(one) || (situation_.needs_symmetric && !one.symmetric))
      continue;
    const bool has_seconds = one.iteration_seconds > 0 || one.setup_seconds > 0;
    if (has_seconds && unit() == 0) continue;
    const auto in_iterations = [&](double seconds) { return seconds > 0 ? seconds / unit() : 0; };
    Predicted predicted{&one};
    predicted.solve =
        iterations_of(one) * (one.price + situation_.products * in_iterations(one.iteration_seconds));
    predicted.setup = one.setup / situation_.products + in_iterations(one.setup_seconds);
    predicted.gain = remaining * (now - predicted.solve) - predicted.setup;
    predicted.risk = predicted.setup + one.worst * iterations;
    // If jacobi does not solve the system at all, nothing can be lost: the strongest one.
    if (jacobi_failed_) {
      if (current_) continue;
      predicted.gain = -predicted.solve;
    } else if (predicted.gain <= 0) {
      continue;
    }
    Predicted& other = jacobi_failed_ || predicted.risk <= budget ? best : waiting;
    if ((!other.candidate || predicted.gain > other.gain) && fits(one, traits)) other = predicted;
  }
  if (best.candidate) {
    before_ = {current_, own_seconds()};
    current_ = best.candidate;
    tried_.push_back(current_);
    own_solves_ = own_seconds_ = 0, own_setup_ = false;
    reason_ = jacobi_failed_
                  ? fmt::format("{} is tried, since jacobi has not solved the system", current_->id)
                  : fmt::format(
                        "{} is tried: jacobi takes {:.0f} iterations; predicted are {:.0f} of jacobi's "
                        "iterations for each of {:.0f} solves, and {:.0f} for the setup",
                        current_->id, iterations, best.solve, remaining, best.setup);
    return;
  }
  if (current_) return;
  if (waiting.candidate)
    reason_ = fmt::format(
        "jacobi: {} would take {:.0f} of its {:.0f} iterations, but trying it may cost {:.0f}, and "
        "10 % of the solves are {:.0f} so far",
        waiting.candidate->id, waiting.solve, iterations, waiting.risk, std::max(budget, 0.0));
  else if (tried_.empty())
    reason_ =
        fmt::format("jacobi: with {:.0f} iterations no candidate is predicted to pay for its setup in {}",
                    iterations, remaining < 1 ? "one solve" : fmt::format("{:.0f} more solves", remaining));
}

void PreconditionerChoice::note_setup(double seconds) {
  spent_ += seconds;
  if (!current_) return;
  // The first setup is paid for; what decides is whether to go on.
  if (own_setup_) own_seconds_ += seconds;
  own_setup_ = true;
}

void PreconditionerChoice::note_application(double seconds, double all) {
  spent_ += all;
  if (!on_trial() || jacobi_failed_ || unit() == 0 || situation_.deterministic) return;
  constexpr double clearly = 1.25;  // the predicted iterations are careful
  const double iterations = jacobi_iterations();
  const double now = before_.candidate ? before_.seconds / unit() : iterations;
  const double solve = iterations_of(*current_) * (1 + situation_.products * seconds / unit());
  if (solve > clearly * now)
    go_back(
        fmt::format("one application of {} takes as long as {:.1f} iterations of jacobi, so that a solve "
                    "would take {:.0f} of them; before it took {:.0f}",
                    current_->id, seconds / unit(), solve, now));
}

const ChoiceCandidate* PreconditionerChoice::find(std::string_view id) const noexcept {
  const auto* const found = std::find_if(std::begin(table), std::end(table), [&](const ChoiceCandidate& one) {
    return one.id == id && one.space == situation_.space;
  });
  return found == std::end(table) ? nullptr : found;
}

bool PreconditionerChoice::was_tried(std::string_view id) const noexcept {
  const ChoiceCandidate* const candidate = find(id);
  return candidate && tried(*candidate);
}

void PreconditionerChoice::note_changed(std::string_view id, double iterations, double unit, double seconds,
                                        std::string why, std::int64_t columns) {
  const ChoiceCandidate* const candidate = find(id);
  if (!candidate) return;
  const auto count = static_cast<double>(columns);
  if (jacobi_solves_ == 0)
    jacobi_solves_ = count, jacobi_all_iterations_ = count * iterations, jacobi_seconds_ = iterations * unit;
  solves_ += count, spent_ += seconds;
  before_ = {current_, own_seconds()};
  current_ = candidate;
  if (!tried(*candidate)) tried_.push_back(candidate);
  own_solves_ = own_seconds_ = 0, own_setup_ = true;
  reason_ = std::move(why);
}

void PreconditionerChoice::note_tried(std::string_view id, std::string why) {
  const ChoiceCandidate* const candidate = find(id);
  if (candidate && !tried(*candidate)) tried_.push_back(candidate);
  reason_ = std::move(why);
}

void PreconditionerChoice::go_back(const std::string& why) {
  current_ = before_.candidate;
  // It has been measured before; its setup now is one more.
  own_solves_ = 1, own_seconds_ = before_.seconds, own_setup_ = true;
  before_ = {};
  reason_ = fmt::format("{}: {}", current(), why);
}

void PreconditionerChoice::refuse(std::string_view why) {
  if (current_) go_back(fmt::format("{} was refused: {}", current_->id, why));
}

void PreconditionerChoice::note_solve(std::int64_t iterations, double seconds, bool converged,
                                      std::int64_t columns) {
  const auto count = static_cast<double>(columns);
  solves_ += count, spent_ += seconds;
  if (!current_) {
    jacobi_failed_ = !converged;
    if (!converged && jacobi_solves_ > 0) return;  // not what a solve takes
    jacobi_solves_ += count, jacobi_seconds_ += seconds;
    jacobi_all_iterations_ += static_cast<double>(std::max(iterations, columns));
    return;
  }
  own_solves_ += count, own_seconds_ += seconds;
  if (situation_.deterministic) return;
  const std::string_view name = current();
  const std::string_view other = before_.candidate ? before_.candidate->id : "jacobi";
  const double own = own_seconds(),
               before = before_.candidate ? before_.seconds : unit() * jacobi_iterations();
  if (!converged) {
    go_back(fmt::format("{} did not converge", name));
  } else if (!jacobi_failed_ && before > 0 && own > before) {
    go_back(fmt::format("{} took {:.3g} ms a solve with its later setups, {} {:.3g} ms", name, 1e3 * own,
                        other, 1e3 * before));
  } else if (before > 0) {
    reason_ = fmt::format("{}: it takes {:.3g} ms a solve with its later setups, {} took {:.3g} ms", name,
                          1e3 * own, other, 1e3 * before);
  }
}

}  // namespace protean::detail
