//===- Target.h - Targets of compilation ------------------------*- C++ -*-===//
//
// A kind of targets consists of a subclass of Target and a TargetKind, in a
// separate folder of lib/Pipelines/Targets, and one line in the table of
// Targets.cpp. Nothing else in lib/Pipelines or in the tools refers to a
// particular kind.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_PIPELINES_TARGET_H
#define BINADE_PIPELINES_TARGET_H

#include "binade/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include <memory>
#include <optional>

namespace binade {
struct Bundle;
} // namespace binade

namespace mlir::binade {

struct CompileOptions;
struct PlanOptions;

class Target {
public:
  virtual ~Target() = default;

  /// Whether the target has instructions for the conversions of `op` from or to
  /// `format`, which is TF32 or has fewer than 16 bits.
  virtual bool converts(Type format, Operation *op) const = 0;
  /// Whether the target computes matmuls of `format`, which has at least 16
  /// bits, in that format.
  virtual bool multiplies(Type format) const = 0;

  /// Integer operations per second of a typical device of the target, for
  /// predictions, and the device's name with an article.
  struct Throughput {
    StringRef device;
    double perSecond;
  };
  virtual std::optional<Throughput> getThroughput() const {
    return std::nullopt;
  }

  /// Compiles the kernels of `module` into `bundle`, and adds what the plan
  /// needs about them to `plan`.
  virtual LogicalResult compileKernels(ModuleOp module,
                                       const CompileOptions &options,
                                       ::binade::Bundle &bundle,
                                       PlanOptions &plan) const = 0;
  /// Annotates the kernels of `module` with facts of the plan, such as
  /// alignments. Returns whether they have to be compiled again.
  virtual bool notePlan(ModuleOp, const ::binade::Plan &) const {
    return false;
  }
  /// Compiles kernels for records of the bundle's plan that a library does not
  /// compute.
  virtual LogicalResult compileRecords(ModuleOp, const CompileOptions &,
                                       ::binade::Bundle &) const {
    return success();
  }
};

/// Targets that differ in details, such as the chips of a manufacturer.
struct TargetKind {
  /// The part of a target's name before the colon, such as "cuda".
  StringRef name;
  /// Returns the names of all targets of the kind; the CPU has no name.
  std::vector<std::string> (*listNames)();
  /// Returns a target; null if the kind has no target of that name.
  std::unique_ptr<Target> (*create)(StringRef name);
  /// Prints a line for each target, and which tools are needed to compile for
  /// them.
  void (*print)(raw_ostream &os);
  /// Adds passes to the start of phase `kernels` for the target of that name;
  /// null if there are none.
  void (*addPasses)(OpPassManager &passes, StringRef name) = nullptr;
  /// Returns the name of the target of `plan`, or empty if it is not of this
  /// kind; null if plans of this kind do not record a target.
  std::string (*findName)(const ::binade::Plan &plan) = nullptr;
  /// Registers the kind's pipelines; null if there are none.
  void (*registerPipelines)() = nullptr;
};

ArrayRef<TargetKind> getTargetKinds();

/// Returns the target called `name`, or the CPU if `name` is empty; null if
/// there is no such target.
std::unique_ptr<Target> findTarget(StringRef name);
/// Returns the names of all targets except the CPU.
std::vector<std::string> getTargetNames();
/// Returns the name of the target of `plan`; empty for the CPU.
std::string getTargetName(const ::binade::Plan &plan);
/// Adds the target's passes at the start of phase `kernels`. If no target is
/// called `name`, adds those of the first kind that has passes, which report
/// the error.
void addTargetPasses(OpPassManager &passes, StringRef name);

/// Prints a line of `binade list targets`.
void printTarget(raw_ostream &os, const Twine &name, const Twine &summary);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_TARGET_H
