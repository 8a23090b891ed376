// Where work runs. A Context is one memory space with the workers that operate on it: host memory and a
// number of threads. It is passed to everything that allocates or computes; there is no global device, no
// global pool.
#pragma once
#include <memory>
#include <string_view>

namespace protean {

enum class Space : unsigned char { host, device };
std::string_view to_string(Space space) noexcept;

// Not copyable; share it by std::shared_ptr. Const calls are safe from several threads. Two solves that run
// at the same time in two threads of the caller should have a context each, so that they do not share
// workers.
class Context {
 public:
  // Host memory with this many threads; 0 takes OMP_NUM_THREADS or else the processors this process may use.
  // Throws BadArgument for a negative number.
  static std::shared_ptr<Context> host(int threads = 0);

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Space space() const noexcept { return space_; }
  int threads() const noexcept { return threads_; }

  // Returns when all work given to this context has finished (at once on the host).
  void synchronize() const noexcept {}

 private:
  Context(Space space, int threads) : space_(space), threads_(threads) {}
  Space space_;
  int threads_;
};

using ContextPtr = std::shared_ptr<Context>;

}  // namespace protean
