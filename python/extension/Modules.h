//===- Modules.h - what the extension consists of ---------------*- C++ -*-===//

#ifndef BINADE_PYTHON_MODULES_H
#define BINADE_PYTHON_MODULES_H

#include "binade/Runtime/Program.h"
#include <nanobind/nanobind.h>

namespace binade::python {

/// Options, `compile_step` and `Compiled`.
void addCompiler(nanobind::module_ &module);
/// Options, `convert_model` and what it reports.
void addConverter(nanobind::module_ &module);
/// `Program` and `load_program`.
void addProgram(nanobind::module_ &module);

/// `Alarm` and `choose_alarms`.
void addStepAlarms(nanobind::module_ &module);
/// `StepSchedules` and `choose_schedules`.
void addStepSchedules(nanobind::module_ &module);

/// How a program is loaded, as Python says it.
struct LoadArguments {
  std::string device = "auto"; ///< `auto`, `cpu`, `cuda`, `cuda:1`.
  unsigned threads = 0;
  std::uint64_t seed = 0;
  std::map<std::string, double> settings;
  bool failOnNonfinite = false;
};

/// Calls `load` with these and initializes what it gives.
Program start(const LoadArguments &arguments,
              const std::function<Result<Program>(const LoadOptions &)> &load);

} // namespace binade::python

#endif // BINADE_PYTHON_MODULES_H
