// The world of these tests: contexts, operators, solvers, preconditioners and vectors that are kept from step
// to step. Each kept object can say what is needed to make a fresh one that must behave in the same way.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "life/systems.hpp"
#include "operators/callback_operator.hpp"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/solver.hpp"

namespace protean::test::life {

// Numbers for one step. Only functions of this class draw, so that all compilers draw the same.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  unsigned number() { return static_cast<unsigned>(random_() >> 40); }
  template <class Value>
  Value of(std::initializer_list<Value> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  std::mt19937_64 random_;
};

// Where an operator works.
enum class Place : unsigned char {
  host,            // two threads
  one_thread,      // one
  ordered,         // two threads, deterministic mode
  simulated,       // the device for tests, tests/support/fake_device.hpp
  device,          // a GPU
  ordered_device,  // a GPU, deterministic mode
};
std::string_view to_string(Place place);
bool on_gpu(Place place);
// `threads` is for the host in deterministic mode, whose results must not depend on it.
ContextPtr make_context(Place place, int threads = 2);

// in_order: a Matrix that stays in an order.
enum class Kind : unsigned char { assembled, adaptive, elements, adaptive_elements, callback, in_order };
std::string_view to_string(Kind kind);

// All that is needed to make an operator once more.
struct OperatorSpec {
  Place place = Place::host;
  Kind kind = Kind::assembled;
  int system = 0;
  unsigned generation = 0;  // of its values
  FormatSpec format = {};   // .elements: not assembled; .order: empty or "none" is the order of the system
  ElementScatter scatter = ElementScatter::automatic;
  bool recordable = false;  // of a callback
};
std::string describe(const OperatorSpec& spec);

// A storage format with parameters and kernel for this place; the same number gives the same one.
FormatSpec pick_format(Place place, unsigned number);
// What an adaptive operator is to change to: a format, an order of the rows or both.
FormatSpec pick_change(Place place, unsigned number);

// What callbacks and observers of these tests throw.
struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
class Operator {
 public:
  // A format that refuses the matrix is replaced by csr.
  Operator(const ContextPtr& context, const OperatorSpec& spec);

  const LinearOperator<T>& get() const { return *A_; }
  Matrix<T>* adaptive() { return adaptive_; }
  const ContextPtr& context() const { return A_->context(); }
  std::int64_t size() const { return A_->rows(); }
  // Of the operator as it is now.
  OperatorSpec spec() const;
  // The operator has its old values if this throws.
  void set_values(unsigned generation);
  // The n-th product of a callback from now on throws; 0: none.
  void throw_at_product(std::int64_t n) { until_throw_ = n; }
  // Empty, or what is wrong with an adaptive operator between two solves. A change of format may fail only
  // because it was refused or cancelled; if `faults`, also because memory ran out.
  std::string complaint(bool faults);

 private:
  CsrMatrix<T> placed_csr(unsigned generation) const;
  std::unique_ptr<AssembledMatrix<T>> make_assembled();
  std::unique_ptr<AssembledMatrix<T>> make_assembled(const CsrMatrix<T>& csr);
  void make_in_order();
  void bring_into_order();
  std::unique_ptr<ElementOperator<T>> make_elements() const;
  void make_callback(const ContextPtr& context);

  OperatorSpec spec_;
  ContextPtr context_;
  std::atomic<std::int64_t> until_throw_{0};
  std::unique_ptr<AssembledMatrix<T>> inner_;  // computes for a callback; outlives A_
  std::unique_ptr<LinearOperator<T>> A_;
  const AssembledMatrix<T>* inside_ = nullptr;  // of in_order_
  // A_ by its kind, else null.
  AssembledMatrix<T>* assembled_ = nullptr;
  Matrix<T>* adaptive_ = nullptr;
  ElementOperator<T>* elements_ = nullptr;
  CallbackOperator<T>* callback_ = nullptr;
  Matrix<T>* in_order_ = nullptr;
  std::size_t failures_seen_ = 0;
  bool had_faults_ = false;
};

enum class Preconditioning : unsigned char {
  none,
  jacobi,
  callback,  // half of the inverse diagonal, which it takes over when it is set up
  block_jacobi,
  spai0,
  gauss_seidel,
  ssor,
  ic0,
  ic,
  ilu0,
  ilu,
  chebyshev
};
inline constexpr int preconditionings = static_cast<int>(Preconditioning::chebyshev) + 1;
std::string_view to_string(Preconditioning kind);
// For operators of this size and context, not yet set up; null for none.
template <class T>
std::unique_ptr<Preconditioner<T>> make_preconditioning(Preconditioning kind, const LinearOperator<T>& A);

// A made-up clock for adaptive operators: each look at it takes some microseconds, drawn from the seed.
double made_up_seconds();
void seed_made_up_clock(std::uint64_t seed);

// Which part of the kept memory a vector of a solve uses.
enum class Memory : unsigned char {
  same,    // the vector of the solve before if that has the size, else one at another address
  moved,   // one at another address, and the old one is freed
  arena,   // the beginning of one large array: one address for all sizes
  shifted  // the same, one entry later
};
std::string_view to_string(Memory memory);

template <class T>
struct Vectors {
  Vector<T> x, b, arena_x, arena_b;
  std::vector<T> last_x;  // the solution of the last solve here
  VectorView<T> view(bool of_x, Memory memory, const ContextPtr& context, std::int64_t n);
};

SolverOptions draw_options(Draw& draw, bool single, bool gpu);

template <class T>
class World {
 public:
  static constexpr int operators = 6, solvers = 5, multi_solvers = 3;
  // space: "host", "simulated" or "device"; the latter two also have operators on the host.
  World(std::string_view space, std::uint64_t seed);

  Operator<T>& op(int slot) { return *operators_[slot]; }
  Solver<T>& solver(int slot) { return *solvers_[slot]; }
  MultiSolver<T>& multi_solver(int slot) { return *multi_solvers_[slot]; }
  // Of the context of an operator.
  Vectors<T>& vectors(int slot) { return kept(slot).vectors; }
  // Of several right-hand sides, B and X.
  std::pair<MultiVector<T>, MultiVector<T>>& columns(int slot) { return kept(slot).columns; }
  // Kept for all operators of one context and size; null for none.
  Preconditioner<T>* preconditioner(Preconditioning kind, int slot);
  void new_operator(int slot, Draw& draw);
  void new_solver(int slot, Draw& draw);
  void new_multi_solver(int slot, Draw& draw);
  void drop_preconditioners();
  // The first operator from `from` on, in turn, of a context other than the context of `slot`; -1 if there is none.
  int operator_elsewhere(int slot, int from) const;

  // What was done, in plain words, the latest last.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  const std::vector<std::string>& notes() const { return notes_; }
  // How often things happened, to see that the steps reach what they are for.
  std::map<std::string, std::int64_t> counts;

 private:
  // Beside the operators of one context.
  struct Kept {
    Vectors<T> vectors;
    std::pair<MultiVector<T>, MultiVector<T>> columns;
    std::map<std::pair<std::int64_t, Preconditioning>, std::unique_ptr<Preconditioner<T>>> preconditioners;
  };
  Kept& kept(int slot) { return kept_[operators_[slot]->context()]; }

  std::vector<Place> places_;
  std::map<Place, ContextPtr> contexts_;
  std::map<ContextPtr, Kept> kept_;
  std::vector<std::unique_ptr<Operator<T>>> operators_;
  std::vector<std::unique_ptr<Solver<T>>> solvers_;
  std::vector<std::unique_ptr<MultiSolver<T>>> multi_solvers_;
  std::vector<std::string> notes_;
};

}  // namespace protean::test::life
