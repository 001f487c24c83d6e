//===- Target.h - what a step is compiled for -------------------*- C++ -*-===//
//
// A kind of targets is a subclass of Target and a TargetKind, in a folder of
// its own in lib/Pipelines/Targets, and one line of the table in Targets.cpp.
// Nothing else in lib/Pipelines or in the tools names a kind.
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

  /// Whether instructions convert numbers of `format`, which is TF32 or has
  /// less than 16 bits, as `op` makes or reads them.
  virtual bool converts(Type format, Operation *op) const = 0;
  /// Whether matrix products of `format`, which has at least 16 bits, are
  /// computed in it.
  virtual bool multiplies(Type format) const = 0;

  /// Integer operations in a second of a device that the target stands for, for
  /// predictions, and its name with an article.
  struct Throughput {
    StringRef device;
    double perSecond;
  };
  virtual std::optional<Throughput> getThroughput() const {
    return std::nullopt;
  }

  /// Adds the kernels of `module` to `bundle`, and what the plan has to know of
  /// them to `plan`.
  virtual LogicalResult compileKernels(ModuleOp module,
                                       const CompileOptions &options,
                                       ::binade::Bundle &bundle,
                                       PlanOptions &plan) const = 0;
  /// Writes on the kernels of `module` what follows for them from the plan.
  /// Says whether they have to be compiled once more.
  virtual bool notePlan(ModuleOp, const ::binade::Plan &) const {
    return false;
  }
  /// Compiles for the records of the bundle's plan what is not left to a
  /// library.
  virtual LogicalResult compileRecords(ModuleOp, const CompileOptions &,
                                       ::binade::Bundle &) const {
    return success();
  }
};

/// Targets that differ in details, such as the chips of a manufacturer.
struct TargetKind {
  StringRef name; ///< "cuda", the part of a target's name before the colon.
  /// The names of all its targets, except for the CPU's, which has none.
  std::vector<std::string> (*listNames)();
  /// Null where the kind has no target of that name.
  std::unique_ptr<Target> (*create)(StringRef name);
  /// Prints a line for each target, and what it takes to compile for them.
  void (*print)(raw_ostream &os);
  /// Adds what comes first in phase `kernels` for the target of that name; null
  /// where nothing does.
  void (*addPasses)(OpPassManager &passes, StringRef name) = nullptr;
  /// The name of the target that `plan` was made for, empty where it is none of
  /// the kind; null where plans do not say.
  std::string (*findName)(const ::binade::Plan &plan) = nullptr;
  /// Registers pipelines of its own; null where there are none.
  void (*registerPipelines)() = nullptr;
};

ArrayRef<TargetKind> getTargetKinds();

/// The CPU where `name` is empty; null where no target has that name.
std::unique_ptr<Target> findTarget(StringRef name);
/// As users name them, without the CPU.
std::vector<std::string> getTargetNames();
/// Of the target that `plan` was made for; empty for the CPU.
std::string getTargetName(const ::binade::Plan &plan);
/// Adds what comes first in phase `kernels` for the target called `name`. Where
/// there is no such target, the passes of the first kind that has some report
/// it.
void addTargetPasses(OpPassManager &passes, StringRef name);

/// A line of `binade list targets`.
void printTarget(raw_ostream &os, const Twine &name, const Twine &summary);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_TARGET_H
