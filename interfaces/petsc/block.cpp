#include "interfaces/petsc/block.hpp"

#include <petsc/private/petscimpl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <protean/protean.hpp>
#include <utility>

#include "interfaces/petsc/csr.hpp"
#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/vectors.hpp"

namespace protean_types {
namespace {

constexpr char key[] = "protean_block";
// Fewer rows than this part have entries: the others are left out, as PETSc does (MatCheckCompressedRow()).
constexpr double few_rows = 0.6;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

protean::CsrMatrix<double> arrays_of(Mat A) {
  const protean_petsc::detail::Arrays a = protean_petsc::detail::arrays_of(A);
  return protean::csr_view<double>(a.rows, a.cols, a.row_ptr, a.col, a.values);
}

namespace {

PetscErrorCode delete_block(void* block) {
  delete static_cast<Block*>(block);
  return PetscErrorCode(0);
}

}  // namespace

double (*policy_clock)() = steady_seconds;

const char* name_of(Role role) noexcept {
  switch (role) {
    case Role::diagonal:
      return "diagonal block";
    case Role::off_diagonal:
      return "off-diagonal block";
    case Role::whole:
      break;
  }
  return "matrix";
}

struct Block::Clock {
  double before = 0, entered = 0;
  int depth = 0;
  double now() const { return before + (depth > 0 ? policy_clock() - entered : 0); }
};
class Block::Counting {
 public:
  explicit Counting(Clock* clock) : clock_(clock) {
    if (clock_ && clock_->depth++ == 0) clock_->entered = policy_clock();
  }
  ~Counting() {
    if (clock_ && --clock_->depth == 0) clock_->before += policy_clock() - clock_->entered;
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  Clock* clock_;
};

Block::Block() = default;
Block::~Block() { forget(); }

void Block::forget() noexcept {
  switcher_ = nullptr, system_.reset(), clock_.reset();
  given_ = {}, rows_ = {}, row_ptr_ = {}, in_rows_ = {};
  values_ = pattern_ = -1, by_residuals_ = false, products_ = of_these_values_ = 0;
  wanted_seconds_ = 0, granted_ = false, product_seconds_ = 0;
}

void Block::configure(std::shared_ptr<const Settings> settings, Role role) {
  if (settings == settings_ && role == role_) return;
  const bool same = settings_ && *settings == *settings_ && role == role_;
  settings_ = std::move(settings), role_ = role;
  if (same) return;
  forget();
  context_.reset();
}

void Block::find_empty_rows(const protean::CsrMatrix<double>& csr) {
  rows_.clear(), row_ptr_.clear();
  const std::int32_t* const p = csr.pattern.row_ptr.p32;
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < csr.rows(); ++i) used += p[i + 1] > p[i];
  if (static_cast<double>(used) > few_rows * static_cast<double>(csr.rows())) return;
  rows_.reserve(static_cast<std::size_t>(used)), row_ptr_.reserve(static_cast<std::size_t>(used) + 1);
  row_ptr_.push_back(0);
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    if (p[i + 1] > p[i]) rows_.push_back(static_cast<std::int32_t>(i)), row_ptr_.push_back(p[i + 1]);
  in_rows_.assign(rows_.size(), 0.0);
}
// Columns and values are the same arrays, since an empty row has none.
protean::CsrMatrix<double> Block::without_empty_rows(const protean::CsrMatrix<double>& csr) const {
  if (rows_.empty()) return csr;
  return protean::csr_view<double>(static_cast<std::int64_t>(rows_.size()), csr.cols(), row_ptr_.data(),
                                   csr.pattern.col, csr.values);
}

void Block::make(const protean::CsrMatrix<double>& csr) {
  forget();
  find_empty_rows(csr);
  if (!context_) context_ = protean::Context::host(settings_->threads);
  const bool other = role_ == Role::off_diagonal;
  const std::string& format = other ? settings_->off_diagonal_format : settings_->format;
  const protean::FormatParams parameters = other ? protean::FormatParams() : settings_->parameters;
  const std::string kernel = other ? std::string() : settings_->kernel;
  const protean::CsrMatrix<double> from = without_empty_rows(csr);
  const double begin = steady_seconds();
  system_ = std::make_unique<protean::SystemMatrix<double>>(context_, from, false);
  system_->set_format(format, parameters, kernel);
  (void)system_->settle({.policy = settings_->policy});
  if (settings_->policy) {
    clock_ = std::make_shared<Clock>();
    (void)system_->make_adaptive({.clock = [clock = clock_] { return clock->now(); }});
    begin_policy(0);
  }
  making_seconds_ = steady_seconds() - begin;
  ++conversions_;
}

// A change waits until the ranks have agreed.
void Block::ask_others(protean::AutoSwitchOptions& options) {
  if (!agrees()) return;
  options.approve = [this](double, double then) {
    wanted_seconds_ = then;
    if (!granted_) return false;
    wanted_seconds_ = 0, granted_ = false;
    return true;
  };
}

Proposal Block::take_proposal() {
  if (!switcher_) return {};
  const double now = system_->adaptive()->seconds_per_product(), wanted = std::exchange(wanted_seconds_, 0);
  return {now, wanted > 0 ? std::min(wanted, now) : now};
}

// expected_products: before the values change again; 0: not known.
void Block::begin_policy(std::int64_t expected_products) {
  protean::AutoSwitchOptions options;
  // Other processors belong to other ranks, so the product waits while a matrix is built.
  options.policy.overlapped = false;
  options.max_iterations = std::numeric_limits<std::int64_t>::max() / 2;
  options.order = {};
  options.expected_iterations = expected_products;
  options.following_iterations = expected_products > 0 ? static_cast<double>(products_) : 0;
  ask_others(options);
  of_these_values_ = 0;
  switcher_ = &system_->begin_policy(nullptr, options, nullptr);
}

bool Block::same_pattern(const protean::CsrMatrix<double>& csr) const {
  return csr.rows() == given_.rows() && csr.cols() == given_.cols() && csr.nonzeros() == given_.nonzeros() &&
         csr.pattern.row_ptr.p32 == given_.pattern.row_ptr.p32 && csr.pattern.col == given_.pattern.col &&
         hash_of(*context_, csr.pattern) == hash_;
}

void Block::bring_up_to_date(Mat A) {
  PetscObjectState values = 0, pattern = 0;
  must(PetscObjectStateGet(object(A), &values));
  must(MatGetNonzeroState(A, &pattern));
  if (values == values_ && pattern == pattern_) return;
  const protean::CsrMatrix<double> csr = arrays_of(A);
  if (csr.nonzeros() == 0) {
    forget();
  } else if (system_ && pattern == pattern_ && same_pattern(csr)) {
    // If it throws, values_ is old, and the next product tries again.
    const protean::CsrMatrix<double> from = without_empty_rows(csr);
    const Counting counting(clock_.get());
    system_->update_values(from, protean::SamePattern());
    if (switcher_ && !by_residuals_) begin_policy(of_these_values_);
    ++updates_;
  } else {
    make(csr);
    hash_ = hash_of(*context_, csr.pattern);
  }
  given_ = csr, values_ = values, pattern_ = pattern;
}

void Block::product(Mat A, Vec x, Vec y, bool add) {
  bring_up_to_date(A);
  const protean_petsc::detail::Reading from(x);
  const protean_petsc::detail::Writing to(y, add);
  const protean::VectorView<double> out = to.view();
  if (given_.nonzeros() == 0) {
    if (!add) std::fill(out.data, out.data + out.size, 0.0);
    return;
  }
  const Counting counting(clock_.get());
  if (switcher_ && !by_residuals_) (void)switcher_->on_iteration({.iteration = of_these_values_});
  ++products_, ++of_these_values_;
  const protean::LinearOperator<double>& B = system_->A();
  const double begin = steady_seconds();
  if (rows_.empty()) {
    B.apply(1, from.view(), add ? 1 : 0, out);
  } else {
    B.apply(from.view(), {in_rows_.data(), static_cast<std::int64_t>(in_rows_.size())});
    if (!add) std::fill(out.data, out.data + out.size, 0.0);
    for (std::size_t i = 0; i < rows_.size(); ++i) out.data[rows_[i]] += in_rows_[i];
  }
  product_seconds_ += steady_seconds() - begin;
  must(PetscLogFlops(2.0 * static_cast<double>(given_.nonzeros())));
}

void Block::watched(const Watched& iteration) {
  if (!switcher_) return;
  const Counting counting(clock_.get());
  if (iteration.iteration == 0 || !by_residuals_) {
    protean::AutoSwitchOptions options;
    options.policy.overlapped = false;
    options.order = {};
    options.goal = iteration.relative_tolerance, options.absolute_goal = iteration.absolute_tolerance;
    options.max_iterations = iteration.max_iterations;
    ask_others(options);
    wanted_seconds_ = 0, granted_ = false;
    switcher_->begin(options);
    by_residuals_ = true;
  }
  (void)switcher_->on_iteration({.iteration = iteration.iteration,
                                 .residual = iteration.residual,
                                 .relative_residual = iteration.first_residual > 0
                                                          ? iteration.residual / iteration.first_residual
                                                          : 0});
}

const protean::AssembledMatrix<double>* Block::current() const {
  return system_ ? system_->assembled() : nullptr;
}

BlockState Block::state() const {
  BlockState s;
  s.policy = switcher_ != nullptr, s.products = products_;
  s.rows = given_.rows(), s.nonzeros = given_.nonzeros();
  s.conversions = conversions_, s.updates = updates_;
  s.making_seconds = making_seconds_, s.product_seconds = product_seconds_;
  const protean::AssembledMatrix<double>* const now = current();
  if (!now) return s;
  s.format = now->name(), s.kernel = now->kernel(), s.bytes = now->bytes();
  s.chosen = system_->format_reason();
  if (!switcher_) return s;
  const protean::Matrix<double>& matrix = *system_->adaptive();
  s.changes.assign(matrix.history().begin(), matrix.history().end());
  s.failures.assign(matrix.failures().begin(), matrix.failures().end());
  s.candidates = switcher_->candidates();
  s.decisions.assign(switcher_->decisions().begin(), switcher_->decisions().end());
  return s;
}

std::vector<std::string> Block::description() const {
  std::vector<std::string> lines;
  char text[512];
  if (!system_) {
    lines.emplace_back(values_ == -1 ? "no product yet, so it has no format yet" : "no entries");
    return lines;
  }
  const BlockState s = state();
  std::snprintf(
      text, sizeof text,
      "format %s, kernel %s, %zu bytes, %lld entries%s, %lld products, made in %.2g s (%lld times), new "
      "values %lld times",
      s.format.c_str(), s.kernel.c_str(), s.bytes, static_cast<long long>(s.nonzeros),
      rows_.empty() ? "" : (" in " + std::to_string(rows_.size()) + " rows").c_str(),
      static_cast<long long>(s.products), s.making_seconds, static_cast<long long>(s.conversions),
      static_cast<long long>(s.updates));
  lines.emplace_back(text);
  if (!s.chosen.empty()) lines.push_back("chosen: " + s.chosen);
  for (const protean::SwitchRecord& change : s.changes) {
    std::snprintf(text, sizeof text, "change at %s %lld: %s to %s, %.2g s",
                  by_residuals_ ? "iteration" : "product", static_cast<long long>(change.iteration),
                  change.from.c_str(), change.to.c_str(), change.wait_seconds);
    lines.emplace_back(text);
    lines.push_back("  " + change.reason);
  }
  for (const protean::FailedSwitch& failed : s.failures)
    lines.push_back("no change to " + failed.to + ": " + failed.why);
  return lines;
}

Block* found_block(Mat A) noexcept {
  PetscObject found = nullptr;
  void* block = nullptr;
  if (PetscObjectQuery(object(A), key, &found) || !found) return nullptr;
  if (PetscContainerGetPointer(reinterpret_cast<PetscContainer>(found), &block)) return nullptr;
  return static_cast<Block*>(block);
}

Block& block_of(Mat A) {
  if (Block* const found = found_block(A)) return *found;
  PetscContainer container = nullptr;
  must(PetscContainerCreate(PETSC_COMM_SELF, &container));
  Block* block = nullptr;
  try {
    block = new Block;
    must(PetscContainerSetPointer(container, block));
    must(PetscContainerSetUserDestroy(container, delete_block));
    must(PetscObjectCompose(object(A), key, object(container)));
  } catch (...) {
    PetscContainerDestroy(&container);
    throw;
  }
  must(PetscContainerDestroy(&container));  // A has it
  return *block;
}

void drop_block(Mat A) { must(PetscObjectCompose(object(A), key, nullptr)); }

}  // namespace protean_types
