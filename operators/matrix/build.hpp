// The build of the next storage of a matrix, next to a solve or while it waits. Private to operators/.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/forked.hpp"
#include "core/permutation.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/product_check.hpp"

namespace protean::detail {

inline constexpr std::string_view rows_are_kept =
    "the solve keeps the matrix in shared memory (device_steps resident), so another format would not change "
    "its products";

// Bytes of what a PermutedMatrix holds.
template <class T>
std::size_t permuted_bytes(const CsrMatrix<T>& source) {
  const auto entries = static_cast<std::size_t>(source.nonzeros());
  return source.bytes() + entries * (source.nonzeros() > std::numeric_limits<std::int32_t>::max() ? 8 : 4) +
         static_cast<std::size_t>(source.rows()) * 8;
}
// Bytes of a matrix without the bytes that it shares with the source. A matrix in csr may use the arrays of the source;
// then its to_csr() returns a handle without copying.
template <class T>
std::size_t own_bytes(const AssembledMatrix<T>& matrix, const CsrMatrix<T>& source) {
  if (matrix.float_values() && matrix.entry().traits.uses_source)
    return matrix.bytes() - std::min(matrix.bytes(), source.pattern.bytes());
  const bool shared = matrix.entry().traits.uses_source && matrix.to_csr().values == source.values;
  return matrix.bytes() - (shared ? std::min(matrix.bytes(), source.bytes()) : 0);
}

// The build of one matrix. Members that are neither const nor atomic belong to the building thread while
// `state` is running.
template <class T>
struct Build {
  const FormatSpec spec;
  const std::string reason;
  const std::int64_t iteration;  // at which it began
  const bool overlapped;
  const bool exact;        // the running and the new matrix have the values of the source
  const bool rounds;       // the running or the new matrix may have them in float
  const bool on_elements;  // the running operator is element matrices
  const double begun;
  const std::string order;       // of the new matrix
  const bool reorders;           // it is not the order of the running matrix
  std::size_t bytes_in_use = 0;  // of source, running matrix and a cancelled build
  CsrMatrix<T> source = {};      // a handle; empty if element matrices must be assembled first
  // For another order than the caller's: the source in that order, if it is the running one, and the permutation, if
  // it was found before. The build makes what is missing.
  std::shared_ptr<PermutedMatrix<T>> permuted = {};
  Permutation permutation = {};

  const pid_t process = getpid();
  std::thread thread = {};
  std::atomic<bool> cancel{false};  // changed under the mutex of the permit, as are the next two
  bool has_permit = false;
  std::atomic<Preparation> state{Preparation::running};
  std::atomic<std::size_t> allocated{0};  // bytes; only of builds next to the solve

  std::unique_ptr<AssembledMatrix<T>> matrix = {};  // the result; null for element matrices
  CsrMatrix<T> assembled = {};                      // the assembled matrix, if this build assembled it
  std::optional<ProductCheck<T>> check = {};
  double seconds = 0, assemble_seconds = 0, order_seconds = 0;
  std::size_t bytes_of_order = 0;  // of `permuted`, if this build made it
  SwitchFailure failure = SwitchFailure::failed;
  std::string why = {};

  ~Build();
  void fail(SwitchFailure what, std::string text) { failure = what, why = std::move(text); }
  // Takes the failure from the exception that is being handled.
  void fail_by_exception() noexcept;
  FailedSwitch failed(std::int64_t at, SwitchFailure what, std::string text) const;
};

// The builds of one matrix: one that is wanted, and one that was cancelled and has not ended yet. They read no member
// of the matrix that a change of format replaces.
template <class T>
class Builds {
 public:
  explicit Builds(const Matrix<T>& A) : A_(A) {}
  ~Builds();  // cancels and waits

  // In this thread, while the caller waits.
  void run(Build<T>& build) const noexcept;
  // In its own thread.
  void start(std::unique_ptr<Build<T>> build);

  Preparation state() const noexcept;
  Preparation wait();
  bool abandoned() const noexcept {
    return abandoned_ && !are_in_parent() &&
           abandoned_->state.load(std::memory_order_acquire) == Preparation::running;
  }
  // Waits for the cancelled build, or gives it up if it has ended.
  void forget_abandoned(bool wait) noexcept {
    if (wait || !abandoned()) abandoned_.reset();
  }
  // What a cancelled build still takes.
  std::size_t abandoned_bytes() const noexcept {
    return abandoned_ ? abandoned_->allocated.load(std::memory_order_relaxed) : 0;
  }
  double seconds() const noexcept;
  // The build that has ended, ready or failed; null if there is none.
  std::unique_ptr<Build<T>> take();
  // Cancels the build, and does not wait for it. `ended`: the build, unless it ends later.
  struct CancelledBuild {
    std::unique_ptr<Build<T>> ended;
    std::optional<FailedSwitch> record;
  };
  CancelledBuild cancel(std::int64_t iteration, std::string_view why);
  // A build of the parent of this process, if this is a child of fork(), has failed from here on.
  void leave_in_parent();

 private:
  // Permission to build next to the solve, for one build at a time. Its mutex also orders cancel() and the end of a
  // build.
  struct Permit {
    std::mutex mutex;
    std::condition_variable changed;
    bool in_use = false;
  };

  // In a child of fork() the builds of the parent have failed. What their threads were writing is left alone, and so is
  // the permit, which one of them may hold.
  bool are_in_parent() const noexcept {
    return (next_ && forked_from(next_->process)) || (abandoned_ && forked_from(abandoned_->process));
  }
  void make(Build<T>& build) const;
  void order_rows(Build<T>& build, const CsrMatrix<T>& source, std::size_t& bytes_in_use,
                  std::size_t budget) const;
  void wait_for_permit(Build<T>& build) const;
  void end(Build<T>& build, Preparation state) const;

  const Matrix<T>& A_;
  mutable Permit permit_;
  std::unique_ptr<Build<T>> abandoned_;  // the last build that was cancelled while it was running
  std::unique_ptr<Build<T>> next_;       // the build that start() began
};

}  // namespace protean::detail
