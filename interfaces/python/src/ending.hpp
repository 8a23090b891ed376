// The GIL, also while the interpreter ends: a thread that then asks Python for it is ended by pthread_exit(), which
// takes the process down where frames of C++ lie above.
#pragma once
#include <nanobind/nanobind.h>

namespace protean::python {

// Thrown, with or without the GIL, in a thread whose interpreter ends. It becomes SystemExit, which ends a thread
// without a message.
struct InterpreterEnds {};

// Whether solves of this thread shall end: others than that which ends the interpreter have no time left.
bool interpreter_ends() noexcept;

// Gives the GIL back while it lives. Throws InterpreterEnds.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Has the GIL while it lives. Once stop_solves() has returned, a thread that asks for it waits for the end of the
// process.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  bool had_given_back_;
  PyGILState_STATE state_;
};

// For atexit: ends the solves of other threads between two iterations, and waits until no thread computes for Python
// without the GIL, for some seconds.
void stop_solves();
// In the child after a fork, which has none of the other threads.
void forget_solves() noexcept;

}  // namespace protean::python
