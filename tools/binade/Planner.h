//===- Planner.h - how much memory a step takes -----------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_PLANNER_H
#define BINADE_TOOLS_BINADE_PLANNER_H

#include "binade/Import/ONNX/Import.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Plan/Plan.h"
#include "mlir/IR/OwningOpRef.h"
#include <compare>
#include <map>
#include <optional>

/// A policy, and the format of the optimizer's states, whatever the policy says
/// of them.
struct Variant {
  std::string policy, states;
};

/// Sizes of a model that can be chosen, by their names.
struct Sizes {
  std::map<std::string, std::int64_t> dims;   ///< Symbolic dimensions.
  std::map<std::string, std::int64_t> depths; ///< Blocks of each stack.

  auto operator<=>(const Sizes &) const = default;
};

/// Plans the steps of one model without compiling kernels: what a plan says of
/// memory is what a run takes. For one thread at a time.
class Planner {
public:
  Planner(std::string path, mlir::binade::ImportOptions import,
          mlir::binade::CompileOptions options);

  /// What the model has as it is.
  binade::Result<Sizes> getSizes();

  /// Errors are those of the phases; sizes that the model does not allow are
  /// among them.
  binade::Result<binade::Plan> plan(const Variant &variant, const Sizes &sizes);

private:
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> load(Sizes &sizes);
  mlir::FailureOr<mlir::ModuleOp> getStep(const Sizes &sizes);
  mlir::FailureOr<binade::Plan> plan(mlir::ModuleOp step,
                                     const Variant &variant);

  std::string path;
  mlir::binade::ImportOptions import;
  mlir::binade::CompileOptions options;
  mlir::MLIRContext context;
  /// Steps without formats.
  std::map<Sizes, mlir::OwningOpRef<mlir::ModuleOp>> steps;
};

/// The largest size of something that fits.
struct Largest {
  std::int64_t size = 0;   ///< 0 where not even 1 does.
  std::uint64_t bytes = 0; ///< That it takes.
  /// Why the next size is illegal, whatever its memory; empty if it is legal.
  std::string limit;
};

/// Looks for the largest n up to `most` with `measure(n)` at most `budget`, of
/// which one is `given`, whether it fits or not. Exact where bytes grow with n.
/// Rows of a batch are `isUneven`: what is done a few at a time takes less
/// where they are a multiple of many numbers; so multiples of powers of two are
/// tried beyond the first n that does not fit.
Largest findLargest(
    const std::function<binade::Result<std::uint64_t>(std::int64_t)> &measure,
    std::uint64_t budget, Largest given, std::int64_t most, bool isUneven);

#endif // BINADE_TOOLS_BINADE_PLANNER_H
