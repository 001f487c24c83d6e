//===- Modules.h - Parts of the Python extension module ---------*- C++ -*-===//

#ifndef BINADE_PYTHON_MODULES_H
#define BINADE_PYTHON_MODULES_H

#include "binade/Runtime/Program.h"
#include <nanobind/nanobind.h>

namespace binade::python {

/// Binds the compile options, `compile_step` and `Compiled`.
void addCompiler(nanobind::module_ &module);
/// Binds the conversion options, `convert_model` and its report.
void addConverter(nanobind::module_ &module);
/// Binds `predict_matmul` and `count_attention_workspace`, for the GPU
/// benchmark.
void addCosts(nanobind::module_ &module);
/// Binds `Program` and `load_program`.
void addProgram(nanobind::module_ &module);

/// Binds `Alarm` and `choose_alarms`.
void addStepAlarms(nanobind::module_ &module);
/// Binds `LoopRecorder`, requests for statistics, and the choice of alarm
/// rules for loops that are not compiled.
void addMonitor(nanobind::module_ &module);
/// Binds `StepSchedules` and `choose_schedules`.
void addStepSchedules(nanobind::module_ &module);

/// Arguments with which Python loads a program.
struct LoadArguments {
  std::string device = "auto"; ///< `auto`, `cpu`, `cuda`, `cuda:1`.
  unsigned threads = 0;
  std::uint64_t seed = 0;
  std::map<std::string, double> settings;
  bool failOnNonfinite = false;
  /// Roles of ports in memory of the caller, who binds and initializes them.
  std::vector<std::string> boundRoles;
};

/// Calls `load` with these arguments and initializes the program that it loads,
/// unless the caller has to bind ports first.
Program start(const LoadArguments &arguments,
              const std::function<Result<Program>(const LoadOptions &)> &load);

} // namespace binade::python

#endif // BINADE_PYTHON_MODULES_H
