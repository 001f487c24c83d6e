//===- Module.cpp - binade._core ------------------------------------------===//
// Bindings of the compiler and the runtime. Users call python/binade, which has
// the defaults and docstrings; these bindings have neither.
//===----------------------------------------------------------------------===//

#include "Failure.h"
#include "Modules.h"

NB_MODULE(_core, module) {
  // Arrays that exist when Python exits are not leaks.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = BINADE_VERSION;
  binade::python::registerFailure(module);
  binade::python::addExchange(module);
  binade::python::addProgram(module);
  binade::python::addData(module);
  binade::python::addStepAlarms(module);
  binade::python::addStepSchedules(module);
  binade::python::addMonitor(module);
  binade::python::addCompiler(module);
  binade::python::addConverter(module);
  binade::python::addCosts(module);
}
