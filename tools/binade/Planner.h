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

/// A policy, and a format of optimizer states that overrides the policy's.
struct Variant {
  std::string policy, states;
  bool releasesGradients = false;
};

/// Sizes of a model that can be chosen, by their names.
struct Sizes {
  std::map<std::string, std::int64_t> dims;   ///< Symbolic dimensions.
  std::map<std::string, std::int64_t> depths; ///< Blocks of each stack.

  auto operator<=>(const Sizes &) const = default;
};

/// Plans the steps of one model without compiling kernels. The memory in a plan
/// is the memory that a run takes. Not thread-safe.
class Planner {
public:
  Planner(std::string path, mlir::binade::ImportOptions import,
          mlir::binade::CompileOptions options);

  /// Returns the sizes of the unchanged model.
  ::binade::Result<Sizes> getSizes();

  /// Plans a step. Returns errors of the phases, such as for sizes that the
  /// model does not allow.
  ::binade::Result<::binade::Plan> plan(const Variant &variant,
                                        const Sizes &sizes);

private:
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parse();
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> load(Sizes &sizes);
  mlir::FailureOr<mlir::ModuleOp>
  getStep(const Sizes &sizes, const mlir::binade::CompileOptions &options);
  mlir::FailureOr<::binade::Plan>
  plan(mlir::ModuleOp step, const mlir::binade::CompileOptions &options);

  std::string path;
  mlir::binade::ImportOptions import;
  mlir::binade::CompileOptions options;
  mlir::MLIRContext context;
  /// Steps without formats; `bool` is whether they release gradients.
  std::map<std::pair<Sizes, bool>, mlir::OwningOpRef<mlir::ModuleOp>> steps;
};

/// The largest size of something that fits.
struct Largest {
  std::int64_t size = 0;   ///< 0 if not even 1 fits.
  std::uint64_t bytes = 0; ///< Memory of this size.
  /// Why the next size is illegal, whatever its memory; empty if it is legal.
  std::string limit;
};

/// Searches the largest n up to `most` for which `measure(n)` is at most
/// `budget`. `given` is the result for a known n, whether it fits or not. The
/// answer is exact if memory grows with n. For rows of a batch (`isUneven`) it
/// may shrink: ops that process rows in chunks take less memory if the number
/// of rows has many divisors. So the search also tries multiples of powers of
/// two beyond the first n that does not fit.
Largest findLargest(
    const std::function<::binade::Result<std::uint64_t>(std::int64_t)> &measure,
    std::uint64_t budget, Largest given, std::int64_t most, bool isUneven);

#endif // BINADE_TOOLS_BINADE_PLANNER_H
