// One sequential matrix of a rank in one of our formats: a whole matrix, or the diagonal or the off-diagonal block of a
// matrix of several ranks.
//
// PETSc's arrays stay the matrix; a Block is a copy of them in another format (in csr it is a view), which follows the
// states that PETSc counts: new values are put into the same format, a new pattern is converted.
#pragma once
#include <petscmat.h>

#include <cstdint>
#include <memory>
#include <protean/core/context.hpp>
#include <protean/core/csr.hpp>
#include <protean/core/vector.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/policy/switch_records.hpp>
#include <protean/solvers/auto_switcher.hpp>
#include <string>
#include <vector>

#include "interfaces/petsc/settings.hpp"

namespace protean {
template <class T>
class SystemMatrix;
}  // namespace protean

namespace protean_types {

enum class Role : unsigned char { whole, diagonal, off_diagonal };
const char* name_of(Role role) noexcept;

// What a KSP reports after an iteration (KSPProteanWatch()).
struct Watched {
  std::int64_t iteration = 0;
  double residual = 0, first_residual = 0;  // norms, of this iteration and of iteration 0
  double relative_tolerance = 0, absolute_tolerance = 0;
  std::int64_t max_iterations = 0;
};

// What became of a block.
struct BlockState {
  std::string format = "csr", kernel = "native", chosen = {};  // chosen: why, of format auto
  std::size_t bytes = 0;
  std::int64_t rows = 0, nonzeros = 0, products = 0, conversions = 0, updates = 0;
  double making_seconds = 0, product_seconds = 0;  // of the first format; of all products
  bool policy = false;
  std::vector<protean::SwitchRecord> changes = {};
  std::vector<protean::FailedSwitch> failures = {};
  std::vector<protean::CandidateRecord> candidates = {};
  std::vector<protean::DecisionRecord> decisions = {};
};

// For ranks that decide together (-mat_protean_agree): seconds of a product, as it is and with the change that the
// policy would make.
struct Proposal {
  double now = 0, then = 0;
};

// PETSc's own arrays of a sequential matrix, not copied.
protean::CsrMatrix<double> arrays_of(Mat A);

// The clock of all policies, in seconds. A test puts another one in its place.
extern double (*policy_clock)();

class Block {
 public:
  Block();
  ~Block();

  // The format of later products. Nothing happens if it is the same.
  void configure(std::shared_ptr<const Settings> settings, Role role);
  const std::shared_ptr<const Settings>& settings() const noexcept { return settings_; }
  Role role() const noexcept { return role_; }

  // What the next product would do first: converts the matrix, or takes its new values. Throws as product().
  void bring_up_to_date(Mat A);
  // y := A x, or y := y + A x. A is the matrix that has this block; x and y are not the same. Throws Failure and what
  // make_matrix() and SystemMatrix throw.
  void product(Mat A, Vec x, Vec y, bool add);
  // If the policy is asked for: decides by residuals from now on, no longer by the number of products.
  void watched(const Watched& iteration);
  // With -mat_protean_agree: what this block would do, the same numbers if it would do nothing; and whether it may.
  // A proposal counts once: the policy makes it again in each iteration in which the change pays.
  Proposal take_proposal();
  void grant(bool granted) noexcept { granted_ = granted; }
  bool agrees() const noexcept { return settings_ && settings_->agree; }
  // The matrix of the next product; null while there is none.
  const protean::AssembledMatrix<double>* current() const;
  // Whether there was a product, or a conversion before one. A block without entries has no matrix then either.
  bool begun() const noexcept { return values_ != -1; }
  BlockState state() const;
  // Lines for a person, with the changes of format so far.
  std::vector<std::string> description() const;

 private:
  struct Clock;
  class Counting;
  bool same_pattern(const protean::CsrMatrix<double>& csr) const;
  void make(const protean::CsrMatrix<double>& csr);
  protean::CsrMatrix<double> without_empty_rows(const protean::CsrMatrix<double>& csr) const;
  void find_empty_rows(const protean::CsrMatrix<double>& csr);
  void forget() noexcept;
  void begin_policy(std::int64_t expected_products);
  void ask_others(protean::AutoSwitchOptions& options);

  std::shared_ptr<const Settings> settings_;
  Role role_ = Role::whole;
  protean::ContextPtr context_;
  // State of the arrays that system_ was made of.
  PetscObjectState values_ = -1, pattern_ = -1;
  protean::CsrMatrix<double> given_;
  std::uint64_t hash_ = 0;
  // Rows that have entries, if these are few: system_ has these rows alone.
  std::vector<std::int32_t> rows_, row_ptr_;
  std::vector<double> in_rows_;
  std::unique_ptr<protean::SystemMatrix<double>> system_;
  // With a policy, which belongs to system_. The clock runs during products, conversions and decisions of this block
  // alone.
  std::shared_ptr<Clock> clock_;
  protean::AutoSwitcher<double>* switcher_ = nullptr;
  bool by_residuals_ = false;
  double wanted_seconds_ = 0;  // of a product, by the change that the policy would make; 0: none
  bool granted_ = false;
  std::int64_t products_ = 0, of_these_values_ = 0;
  std::int64_t conversions_ = 0, updates_ = 0;
  double making_seconds_ = 0;  // of the first format of the present pattern
  double product_seconds_ = 0;
};

// The block of a sequential matrix of type seqaijprotean: null if it has none yet, or made now.
Block* found_block(Mat A) noexcept;
Block& block_of(Mat A);
// Before the arrays of A are freed.
void drop_block(Mat A);

}  // namespace protean_types
