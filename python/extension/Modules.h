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
/// Binds `Exchange`, which `Program.set_exchange` passes to its callback.
void addExchange(nanobind::module_ &module);
/// Binds `Data`, `open_data` and `SampleOrder`.
void addData(nanobind::module_ &module);
/// Binds `Program` and `load_program`.
void addProgram(nanobind::module_ &module);

/// Makes the program a rank of a group whose steps call `callback`, or a
/// program alone if it is None. Its exceptions end the step.
void setExchange(Program &program, std::uint32_t rank, std::uint32_t size,
                 nanobind::object callback);
/// Returns the exchanges of the program's step as a dictionary, or None.
nanobind::object describeExchange(const Program &program);
/// Executes a step with all statistics, without the interpreter's lock. Throws
/// the exception of a transport that ended it.
void runStep(Program &program);

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
