// Exceptions become a status and a text. Private to interfaces/c/.
#pragma once
#include <cstddef>
#include <string>

#include "core/error.hpp"
#include "interfaces/c/protean.h"

namespace protean::capi {

// A function of the caller returned a number other than 0.
class CallbackFailed : public Error {
 public:
  CallbackFailed(const std::string& what, int result)
      : Error(what + " returned " + std::to_string(result) + "; 0 means success") {}
};

// Keeps the text for protean_last_error() and returns the status.
protean_status failed(protean_status status, const char* text) noexcept;

// The same for the exception that is being handled.
protean_status failed_by_exception() noexcept;

// Runs body() and turns an exception into its status.
template <class Body>
protean_status guarded(Body body) noexcept {
  try {
    body();
    return PROTEAN_OK;
  } catch (...) { return failed_by_exception(); }
}

template <class Pointer>
Pointer* need(Pointer* pointer, const char* what) {
  if (!pointer) throw BadArgument(std::string(what) + " is a null pointer");
  return pointer;
}

// No struct of the interface will have more bytes, in any version.
constexpr std::size_t largest_struct = 4096;

}  // namespace protean::capi
