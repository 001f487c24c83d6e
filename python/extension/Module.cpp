//===- Module.cpp - binade._core ------------------------------------------===//
// The compiler and the runtime for Python. What users call is in
// python/binade; here nothing has a default or a docstring of its own.
//===----------------------------------------------------------------------===//

#include "Failure.h"
#include "Modules.h"

NB_MODULE(_core, module) {
  // An array that is alive when Python ends is not a leak.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = BINADE_VERSION;
  binade::python::registerFailure(module);
  binade::python::addProgram(module);
  binade::python::addStepAlarms(module);
  binade::python::addStepSchedules(module);
  binade::python::addCompiler(module);
  binade::python::addConverter(module);
}
