#include "solvers/switcher/candidates.hpp"

#include <fmt/format.h>

#include <utility>

namespace protean::detail {

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
  target.spec.order.clear();
  made.format = target.spec.elements ? elements_ : target.spec.name();
  target.spec.order = order;
  made.seen.name = order == callers_order ? made.format : fmt::format("{} in order {}", made.format, order);
  made.seen.order = order, made.seen.bytes = target.bytes;
  made.seen.admitted = target.admitted, made.seen.why = target.why;
  made.target = std::move(target);
  all_.push_back(std::move(made));
  estimated_ = false;
}

std::size_t Candidates::find(std::string_view format, std::string_view order) const noexcept {
  std::size_t i = 0;
  while (i < all_.size() && (all_[i].format != format || all_[i].seen.order != order)) ++i;
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

std::size_t Candidates::last_measured_in(const std::string& order) const {
  const auto last = last_in_.find(order);
  return last == last_in_.end() ? all_.size() : last->second;
}

std::span<const SwitchCandidate> Candidates::seen() {
  seen_.resize(all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    seen_[i] = all_[i].seen;  // strings keep their memory
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
