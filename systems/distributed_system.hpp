// A system whose rows are distributed over several devices: what LinearSystem is if SolveSettings::distribution has two
// contexts or more. Each part has its rows, a host thread, and a solver of its own; all solvers do the same iterations,
// since each scalar is a sum over all parts (core/communicator.hpp). Private to systems/.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "systems/settings.hpp"

namespace protean::detail {

// Throws BadArgument or NotAvailable, with what to do, for a setting that a distributed system does not serve.
void require_distributable(const SolveSettings& settings);

template <class T>
class DistributedSystem {
 public:
  // csr lies in host memory, was checked, and has sorted rows. Throws what require_distributable() and make_partition()
  // throw, BadArgument for contexts that are not of different devices, and ShapeMismatch for a rectangular matrix.
  DistributedSystem(CsrMatrix<T> csr, SolveSettings settings);
  ~DistributedSystem();
  DistributedSystem(const DistributedSystem&) = delete;
  DistributedSystem& operator=(const DistributedSystem&) = delete;

  const SolveSettings& settings() const noexcept { return settings_; }
  const CsrMatrix<T>& given() const noexcept { return csr_; }
  // New settings of the same distribution (BadArgument for another one). Later solves set up everything anew. This and
  // all calls below throw BadArgument while a solve is running, and DeviceError after a part did not answer in a solve.
  void set(SolveSettings settings);
  // New values of the same pattern, which live as long as solves use them. Throws ShapeMismatch for another pattern,
  // BadMatrix for values that are not finite.
  void update_values(CsrMatrix<T> csr);
  void set_up();
  // b and x lie in host memory. x is unchanged if it throws.
  SolveResult solve(VectorView<const T> b, VectorView<T> x, SolveObserver* observer);
  std::vector<PartRecord> records() const;
  std::string describe() const;

 private:
  struct Part;
  struct Plan;
  void make_plan();
  void choose_method();
  void require_idle(std::string_view what) const;
  // may_leave: a part that does not answer is left behind with its thread; then `work` refers to nothing of this
  // object, nor of the caller.
  void in_all_parts(std::function<void(int)> work, bool may_leave);
  void leave_behind(const std::string& why);
  [[noreturn]] void rethrow(const std::vector<std::exception_ptr>& errors, int left);
  std::string silence(int part, int parts, bool left) const;
  void make_part(int part);
  void renew_part(int part);

  CsrMatrix<T> csr_;
  SolveSettings settings_;
  ContextPtr host_;
  std::shared_ptr<Plan> plan_;
  std::vector<std::unique_ptr<Part>> parts_;  // empty: to be set up
  bool new_values_ = false, new_method_ = true, busy_ = false;
  std::string lost_;  // why the system cannot be used any more
  std::string method_, method_reason_;
  double convert_seconds_ = 0, setup_seconds_ = 0;  // since the last solve
};

}  // namespace protean::detail
