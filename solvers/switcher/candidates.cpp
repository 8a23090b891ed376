#include "solvers/switcher/candidates.hpp"

#include <fmt/format.h>

#include <utility>

namespace protean::detail {
namespace {

// How many times the iterations a solve takes with its values in float, before it has been measured
// (docs/precision.md).
constexpr double usual_stretch = 1.1, usual_stretch_uncertainty = 0.1;

}  // namespace

CandidateRecord Candidate::record() const {
  return {.format = seen.name,
          .order = seen.order,
          .admitted = seen.admitted,
          .lost = seen.lost,
          .ran = ran,
          .why = seen.why,
          .bytes = seen.bytes,
          .predicted_product = predicted_product,
          .predicted_convert = predicted_convert,
          .uncertainty = predicted_uncertainty,
          .measured_product = measured_product,
          .measured_convert = measured_convert};
}

void Candidates::add(SwitchTarget target, const std::string& order) {
  Candidate made;
  made.format = made.storage = elements_;
  if (!target.spec.elements) {
    FormatSpec plain = target.spec;
    plain.order.clear();
    made.storage = plain.name();
    plain.params = {};
    made.format = plain.name();
  }
  target.spec.order = order;
  made.seen.name = order == callers_order ? made.storage : fmt::format("{} in order {}", made.storage, order);
  if (target.rounds)
    made.seen.stretch = usual_stretch, made.seen.stretch_uncertainty = usual_stretch_uncertainty;
  made.seen.order = order, made.seen.bytes = target.bytes;
  made.seen.admitted = target.admitted, made.seen.why = target.why;
  made.target = std::move(target);
  all_.push_back(std::move(made));
  estimated_ = false;
}

std::size_t Candidates::find(std::string_view storage, std::string_view order) const noexcept {
  std::size_t i = 0;
  while (i < all_.size() && (all_[i].storage != storage || all_[i].seen.order != order)) ++i;
  return i;
}

void Candidates::renew(std::size_t i, SwitchTarget target) {
  Candidate& known = all_[i];
  target.spec.order = known.seen.order;
  known.seen.bytes = target.bytes, known.seen.admitted = target.admitted;
  if (!known.seen.lost) known.seen.why = target.why;
  known.target = std::move(target);
}

void Candidates::clear() noexcept {
  all_.clear(), last_in_.clear();
  first_ = current_ = 0, estimated_ = false;
}

void Candidates::start_in(std::size_t i, std::size_t bytes) noexcept {
  first_ = current_ = i;
  all_[i].target.bytes = all_[i].seen.bytes = bytes;
  all_[i].ran = true;
}

void Candidates::change_to(std::size_t i, std::size_t bytes) {
  if (const SwitchCandidate& left = all_[current_].seen; left.measured) last_in_[left.order] = current_;
  Candidate& next = all_[i];
  next.ran = true, next.seen.bytes = bytes, next.seen.measured = false;
  current_ = i, estimated_ = false;
}

void Candidates::lose(std::size_t i, const Why& why) {
  all_[i].seen.lost = true, all_[i].seen.why = text_of(why);
}

void Candidates::fail(std::size_t i, const Why& why) {
  lose(i, why);
  const SwitchCandidate& failed = all_[i].seen;
  if (failed.order == all_[current_].seen.order) return;
  for (std::size_t k = 0; k < all_.size(); ++k)
    if (all_[k].seen.order == failed.order && all_[k].seen.admitted && !all_[k].seen.lost)
      lose(k, {.reason = Reason::order_failed, .name = failed.name, .other = text_of(why)});
}

void Candidates::exclude(std::size_t i, const Why& why) {
  all_[i].seen.admitted = false, all_[i].seen.why = text_of(why);
}

void Candidates::stretch_of_rounding(double stretch, double uncertainty) noexcept {
  for (Candidate& one : all_)
    if (one.target.rounds) one.seen.stretch = stretch, one.seen.stretch_uncertainty = uncertainty;
}

void Candidates::lose_rounding(const Why& why) {
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].target.rounds && all_[i].seen.admitted && !all_[i].seen.lost) lose(i, why);
}

std::size_t Candidates::last_measured_in(const std::string& order) const {
  const auto last = last_in_.find(order);
  return last == last_in_.end() ? all_.size() : last->second;
}

std::span<const SwitchCandidate> Candidates::seen() {
  seen_.resize(all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    seen_[i] = all_[i].seen;  // strings keep their memory
    if (all_[i].target.rounds && !may_round_) seen_[i].admitted = false;
  }
  return seen_;
}

std::vector<CandidateRecord> Candidates::records() const {
  std::vector<CandidateRecord> result;
  result.reserve(all_.size());
  for (const Candidate& one : all_) result.push_back(one.record());
  return result;
}

}  // namespace protean::detail
