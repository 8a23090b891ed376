// A message for a fault of the processor: what lies at the address that may not be read or written. Without
// it the program ends with "Segmentation fault" and nothing more.
#pragma once
#include <cstddef>

namespace protean::test {

// While this lives, a fault at an address in [begin, begin + size) prints `explain(object, address, text,
// room)`, which writes at most `room` characters to `text`, and the program ends with SIGABRT. Faults
// elsewhere go to the handler that was there before. `explain` runs in a signal handler: it may neither
// allocate nor lock. `allow(object, address)` is asked first if it is given. When it has made the address accessible it
// returns true, and the program goes on. It may lock what no code holds that touches these addresses.
class FaultMessage {
 public:
  using Explain = void (*)(const void* object, const char* address, char* text, std::size_t room);
  using Allow = bool (*)(void* object, const char* address);
  FaultMessage(const char* begin, std::size_t size, Explain explain, void* object, Allow allow = nullptr);
  ~FaultMessage();
  FaultMessage(const FaultMessage&) = delete;
  FaultMessage& operator=(const FaultMessage&) = delete;

 private:
  std::size_t place_;
};

}  // namespace protean::test
