// Measures the variants of a comparison.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/command/clock.hpp"
#include "apps/compare/compare.hpp"
#include "apps/report/progress.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"
#include "operators/assembled_matrix.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::apps {

// The system in the memory of one space.
struct SpaceSystem {
  ContextPtr context;
  CsrMatrix<double> csr;
  Vector<double> b, x0;
};

// A variant to be measured, and the seconds of each of its rounds.
struct VariantRun {
  Variant* variant = nullptr;
  const FormatEntry* entry = nullptr;
  const SpaceSystem* place = nullptr;
  std::vector<double> converts = {}, setups = {}, solves = {};
  std::vector<Timing> products = {};
};

// Each round converts, sets up and solves every variant once. What disturbs the machine for a while so falls on all of
// them, and shows in the spread of each. There are three rounds, or fewer for a variant that takes long.
//
// With a budget the conversions and products of all variants come first, in at most half of it. The solves follow: csr
// first, then the ones with the shortest expected times. A solve that would not fit into the time left is left out.
class Rounds {
 public:
  // budget: seconds since the clock has begun; 0: no limit. References are kept.
  Rounds(const Problem& problem, Progress& progress, const Clock& clock, double budget);

  // Fills in all that is measured of each variant, and its status.
  void operator()(std::vector<VariantRun>& runs);
  bool interrupted() const noexcept { return interrupted_; }
  // The reasons of rounds that failed after a first one that did not.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  using Matrix = std::unique_ptr<AssembledMatrix<double>>;
  double left() const;  // seconds of the budget
  void stage(const std::string& text) { progress_.stage(text); }
  void measure_all(std::vector<VariantRun>& runs);
  void products_within(std::vector<VariantRun>& runs);
  void solves_within(std::vector<VariantRun>& runs);
  void repeat(std::vector<VariantRun>& runs);
  void again(VariantRun& run);
  // Calls `work`, and turns what it throws into the status of the variant.
  void attempt(VariantRun& run, const std::function<void()>& work);
  bool admitted(VariantRun& run) const;
  Matrix convert(VariantRun& run) const;
  void product(VariantRun& run, const AssembledMatrix<double>& A, double seconds) const;
  std::unique_ptr<Preconditioner<double>> setup(VariantRun& run, const AssembledMatrix<double>& A) const;
  // Returns false if the solve was interrupted; then nothing has changed.
  bool solve(VariantRun& run, const AssembledMatrix<double>& A, Preconditioner<double>* M, double seconds);

  const Problem& problem_;
  Progress& progress_;
  const Clock& clock_;
  double budget_;
  bool interrupted_ = false;
  std::vector<std::string> notes_;
};

}  // namespace protean::apps
