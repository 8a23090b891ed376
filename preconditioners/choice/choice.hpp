// The rule behind preconditioner `auto`: a pure function of numbers that its caller measures. Private; systems/ uses
// it.
//
// It begins with jacobi, whose setup costs next to nothing. From what jacobi's solves took it predicts what each
// candidate would take, by a table of measured systems, and tries one if
//   gain   = remaining solves * (jacobi's iterations - predicted ones * their price) - setup  is positive, and
//   risk   = setup + what a bad solve takes longer                                   is within the budget.
// If a type other than jacobi is in use already, its measured solves take the place of jacobi's in `gain`. All are in
// iterations of jacobi. One application after the setup gives the true price, so that a candidate whose applications
// are too slow on this machine costs its setup and no solve. The budget is 10 % of what jacobi alone would have taken
// so far (with `expected`: of all expected solves), less what was lost, plus what was gained. So the solves together
// take at most 10 % longer than with jacobi alone, if a candidate costs no more than its risk says. The number of
// remaining solves is `expected` minus the solves done, or as many as were done. A candidate stays while its solves and
// later setups take less time than the solves of the type before it; else that type comes back, and the candidate is
// not tried again.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "core/csr.hpp"

namespace protean::detail {

// What the rule asks of a matrix.
struct ChoiceTraits {
  bool entries = true;  // they can be had
  bool symmetric = false;
  // As of a diffusion problem: the diagonal is positive, and of the absolute values off the diagonal at most 10 %
  // belong to positive entries. For such a matrix aggregation finds levels that converge in a number of iterations that
  // hardly grows with it.
  bool diffusion = false;
  // Of a node, which is a group of consecutive rows with the same columns. 1 if there are no nodes, or none of one
  // size.
  std::int64_t unknowns = 1;
};
// symmetric: if it is known.
template <class T>
ChoiceTraits choice_traits(const Context& host, const CsrMatrix<T>& csr, std::optional<bool> symmetric = {});
// Of some thousand rows of a matrix in the memory of a device: to copy all of it would take longer than some solves. It
// does not look for symmetry, which no candidate on a device needs.
template <class T>
ChoiceTraits sampled_traits(const Context& context, const CsrMatrix<T>& csr);

struct ChoiceCandidate {
  std::string_view id;
  Space space;
  bool for_symmetric;  // needs a symmetric matrix; else it is taken for any, if the method allows it
  bool symmetric;      // M is symmetric if A is
  bool for_diffusion;  // or for a system with near_null_space, for which it takes twice `least`
  // Predicted iterations: the larger of `least` and factor times the iterations of jacobi.
  double least, factor;
  double price;  // of an iteration, in iterations of jacobi
  double setup;  // in iterations of jacobi
  double worst;  // in the worst case, by how many solves of jacobi a solve with it is longer
  // Fixed times of an iteration and of the setup in any system, in seconds: launches, and waiting for the device. If
  // they are not 0, jacobi solves a system first, so that its iterations have a length.
  double iteration_seconds = 0, setup_seconds = 0;
};
std::span<const ChoiceCandidate> choice_candidates() noexcept;

struct ChoiceSituation {
  Space space = Space::host;
  bool needs_symmetric = false;  // the method takes symmetric preconditioners only
  std::int64_t expected = 0;     // solves; 0: not known
  std::int64_t iterations = 0;   // expected of a solve with jacobi; 0: not known
  bool deterministic = false;    // measured times must not decide: it changes in the middle of a solve alone
  bool near_null_space = false;  // aggregation is given the vectors that its coarser levels need
  // Of the method in an iteration (SolverEntry::products), and as many M^-1 r. The table is for methods with one.
  double products = 1;
};

class PreconditionerChoice {
 public:
  PreconditionerChoice() = default;
  explicit PreconditionerChoice(ChoiceSituation situation);

  // Before a solve. traits() is called if a candidate depends on it, and its answer is kept. Returns the name of the
  // preconditioner of this solve.
  std::string_view decide(const std::function<ChoiceTraits()>& traits);
  // The setup of what decide() named took so long; it did not succeed: jacobi comes back.
  void note_setup(double seconds);
  void refuse(std::string_view why);
  // Whether the candidate that decide() named has been set up for the first time, so that one application of it should
  // be measured.
  bool on_trial() const noexcept { return current_ && own_setup_ && own_solves_ == 0; }
  // One application of it takes `seconds`; to find that out took `all` seconds. If that makes a solve clearly slower
  // than before, what was in use before comes back.
  void note_application(double seconds, double all);
  // A solve with it has ended. A solve with several columns counts as that many solves, which have taken equal parts of
  // its time; iterations: of all columns together.
  void note_solve(std::int64_t iterations, double seconds, bool converged, std::int64_t columns = 1);

  // In the middle of a solve of this many seconds the type has taken the place of jacobi, which would have taken this
  // many iterations of `unit` seconds. With several columns each column would have taken that many iterations, and
  // `unit` is for all of them. Does nothing for a name that is not a candidate.
  void note_changed(std::string_view id, double iterations, double unit, double seconds, std::string why,
                    std::int64_t columns = 1);
  // It has been tried in the middle of a solve, in vain.
  void note_tried(std::string_view id, std::string why);
  bool was_tried(std::string_view id) const noexcept;

  std::string_view current() const noexcept { return current_ ? current_->id : "jacobi"; }
  // Why, for a person.
  const std::string& reason() const noexcept { return reason_; }

 private:
  struct Predicted {
    const ChoiceCandidate* candidate = nullptr;
    double solve = 0, setup = 0, gain = 0, risk = 0;
  };
  // One that was in use, and the seconds of its solves with later setups.
  struct Known {
    const ChoiceCandidate* candidate = nullptr;  // null: jacobi
    double seconds = 0;
  };
  bool tried(const ChoiceCandidate& candidate) const noexcept;
  const ChoiceCandidate* find(std::string_view id) const noexcept;
  bool fits(const ChoiceCandidate& candidate, const std::function<ChoiceTraits()>& traits);
  double unit() const noexcept;  // seconds of an iteration of jacobi; 0: not known
  double jacobi_iterations() const noexcept;
  double iterations_of(const ChoiceCandidate& candidate) const noexcept;  // predicted
  double own_seconds() const noexcept;  // of a solve with the one in use; 0: not known
  void go_back(const std::string& why);
  void consider(const std::function<ChoiceTraits()>& traits);

  ChoiceSituation situation_;
  const ChoiceCandidate* current_ = nullptr;  // null: jacobi
  Known before_;                              // the one before it
  std::vector<const ChoiceCandidate*> tried_;
  bool known_traits_ = false, jacobi_failed_ = false;
  ChoiceTraits traits_;
  std::string reason_;
  double solves_ = 0, spent_ = 0;  // all solves, and the seconds of these and of all setups
  double jacobi_solves_ = 0, jacobi_seconds_ = 0, jacobi_all_iterations_ = 0;
  double own_solves_ = 0, own_seconds_ = 0;  // of the candidate in use, without its first setup
  bool own_setup_ = false;                   // it has had its first setup
};

}  // namespace protean::detail
