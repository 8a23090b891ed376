// The exceptions of the library as exceptions of protean.errors.
#include <exception>
#include <new>
#include <stdexcept>

#include "common.hpp"
#include "core/error.hpp"

namespace protean::python {
namespace {

void raise(const char* name, const char* what) {
  PyObject* const module = PyImport_ImportModule("protean.errors");
  if (!module) return;  // its exception is the result
  PyObject* const type = PyObject_GetAttrString(module, name);
  if (type) PyErr_SetString(type, what);
  Py_XDECREF(type);
  Py_DECREF(module);
}

// The most derived classes first.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InterpreterEnds&) { PyErr_SetNone(PyExc_SystemExit); } catch (const FormatRefused& e) {
    raise("FormatRefused", e.what());
  } catch (const ShapeMismatch& e) { raise("ShapeMismatch", e.what()); } catch (const BadMatrix& e) {
    raise("BadMatrix", e.what());
  } catch (const BadArgument& e) { raise("BadArgument", e.what()); } catch (const WrongSpace& e) {
    raise("BadArgument", e.what());
  } catch (const NotAvailable& e) { raise("NotAvailable", e.what()); } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const Error& e) { raise("Error", e.what()); } catch (const std::bad_alloc&) {
    raise("OutOfMemory", "no memory left");
  } catch (const std::length_error&) {
    raise("OutOfMemory", "an array would be larger than any address space; give smaller sizes");
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace protean::python
