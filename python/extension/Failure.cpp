//===- Failure.cpp - Errors as Python exceptions --------------------------===//

#include "Failure.h"
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace binade;

static void raise(const Error &error) {
  nb::object make = nb::module_::import_("binade.errors").attr("make_error");
  nb::object raised = make(render(error), error.exitCode, error.where,
                           error.part, error.message, error.notes);
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(raised.ptr())),
                  raised.ptr());
}

void python::warn(const std::vector<std::string> &warnings) {
  nb::object log = nb::module_::import_("binade.errors").attr("warn");
  for (const std::string &warning : warnings)
    log(warning);
}

void python::registerFailure(nb::module_ &module) {
  nb::register_exception_translator(
      [](const std::exception_ptr &thrown, void *) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Failure &failure) {
          try {
            raise(failure.error);
          } catch (nb::python_error &other) {
            other.restore();
          }
        }
      });
}
