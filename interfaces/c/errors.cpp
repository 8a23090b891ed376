#include "interfaces/c/errors.hpp"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace protean::capi {
namespace {

thread_local std::string last_error;

}  // namespace

protean_status failed(protean_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) { last_error.clear(); }
  return status;
}

protean_status failed_by_exception() noexcept {
  try {
    throw;
  } catch (const CallbackFailed& e) {
    return failed(PROTEAN_CALLBACK_FAILED, e.what());
  } catch (const FormatRefused& e) {
    return failed(PROTEAN_FORMAT_REFUSED, e.what());
  } catch (const ShapeMismatch& e) {
    return failed(PROTEAN_SHAPE_MISMATCH, e.what());
  } catch (const ArraysChanged& e) {
    return failed(PROTEAN_ARRAYS_CHANGED, e.what());
  } catch (const BadMatrix& e) {
    return failed(PROTEAN_BAD_MATRIX, e.what());
  } catch (const NotAvailable& e) {
    return failed(PROTEAN_NOT_AVAILABLE, e.what());
  } catch (const OutOfMemory& e) {
    return failed(PROTEAN_OUT_OF_MEMORY, e.what());
  } catch (const DeviceError& e) {
    return failed(PROTEAN_DEVICE_ERROR, e.what());
  } catch (const Error& e) {  // BadArgument, WrongSpace
    return failed(PROTEAN_BAD_ARGUMENT, e.what());
  } catch (const std::bad_alloc&) {
    return failed(PROTEAN_OUT_OF_MEMORY, "no memory left");
  } catch (const std::length_error&) {  // of a container of the standard library
    return failed(PROTEAN_OUT_OF_MEMORY,
                  "an array would be larger than any address space; give smaller sizes");
  } catch (const std::exception& e) { return failed(PROTEAN_INTERNAL_ERROR, e.what()); } catch (...) {
    return failed(PROTEAN_INTERNAL_ERROR, "unknown error");
  }
}

}  // namespace protean::capi

using namespace protean::capi;

extern "C" {

const char* protean_last_error(void) { return last_error.c_str(); }
const char* protean_status_name(protean_status status) {
  switch (status) {
    case PROTEAN_OK:
      return "ok";
    case PROTEAN_NOT_CONVERGED:
      return "not-converged";
    case PROTEAN_BAD_ARGUMENT:
      return "bad-argument";
    case PROTEAN_BAD_MATRIX:
      return "bad-matrix";
    case PROTEAN_SHAPE_MISMATCH:
      return "shape-mismatch";
    case PROTEAN_FORMAT_REFUSED:
      return "format-refused";
    case PROTEAN_NOT_AVAILABLE:
      return "not-available";
    case PROTEAN_OUT_OF_MEMORY:
      return "out-of-memory";
    case PROTEAN_DEVICE_ERROR:
      return "device-error";
    case PROTEAN_ARRAYS_CHANGED:
      return "arrays-changed";
    case PROTEAN_CALLBACK_FAILED:
      return "callback-failed";
    case PROTEAN_INTERNAL_ERROR:
      return "internal-error";
  }
  return "unknown";
}

}  // extern "C"
