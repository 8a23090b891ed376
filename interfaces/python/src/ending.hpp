// The GIL, also while the interpreter ends: a thread that then asks Python for it is ended by pthread_exit(), which
// crashes the process if frames of C++ lie above.
#pragma once
#include <nanobind/nanobind.h>

namespace protean::python {

// Thrown, with or without the GIL, in a thread whose interpreter ends. It becomes SystemExit, which ends a thread
// without a message.
struct InterpreterEnds {};

// Whether solves of this thread shall end: others than that which ends the interpreter have no time left.
bool interpreter_ends() noexcept;

// An object of one scope: it is not copied.
struct OfOneScope {
  OfOneScope() = default;
  OfOneScope(const OfOneScope&) = delete;
  OfOneScope& operator=(const OfOneScope&) = delete;
};

// Gives the GIL back while it lives. Throws InterpreterEnds.
class WithoutGil : OfOneScope {
 public:
  WithoutGil();
  ~WithoutGil();

 private:
  PyThreadState* state_;
};

// Has the GIL while it lives. Once stop_solves() has returned, a thread that asks for it waits for the end of the
// process.
class WithGil : OfOneScope {
 public:
  WithGil();
  ~WithGil();

 private:
  bool had_given_back_;
  PyGILState_STATE state_;
};

// For atexit: ends the solves of other threads between two iterations, and waits until no thread computes for Python
// without the GIL, for some seconds.
void stop_solves();
// In the child after a fork, which does not have the other threads.
void forget_solves() noexcept;

}  // namespace protean::python
