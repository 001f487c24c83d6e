//===- EmitPlan.h - Emission of a plan from launches ------------*- C++ -*-===//

#ifndef BINADE_KERNELS_EMITPLAN_H
#define BINADE_KERNELS_EMITPLAN_H

#include "binade/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace mlir::binade {

/// The properties of a compiled kernel that the plan contains; see
/// plan::Launch. A multi-tensor kernel has as many work items as the tensor has
/// elements.
struct KernelShape {
  int64_t extent = 0;
  int64_t grain = 1;
  /// Bytes per launch; for a multi-tensor kernel, per block of `grain` work
  /// items.
  uint64_t workspaceBytes = 0;
  bool finish = false;
  /// Whether the first i32 of the workspace is a status word, which the kernel
  /// sets if an index is out of range.
  bool hasStatus = false;
  /// For each result, the operands whose memory it may reuse.
  std::vector<std::vector<unsigned>> inPlace;
};

/// What a plan depends on in addition to the module.
struct PlanOptions {
  /// Compiled kernels by symbol.
  llvm::StringMap<KernelShape> kernels;
  /// Returns the bytes of scratch memory for a record, whose buffers are in the
  /// plan: for the library on a CPU, for Binade's own kernel on a device.
  /// `alone` is whether it runs on one thread instead of all. May be empty.
  std::function<uint64_t(const ::binade::plan::Record &, const ::binade::Plan &,
                         bool alone)>
      queryScratch;
  /// Returns sizes of scratch memory with which a device's library can compute
  /// a record, in ascending order; with more, it is faster. The plan reserves
  /// the first, or the largest that fits without a larger arena. Returns an
  /// empty list if no library computes the record. Null for CPUs.
  std::function<std::vector<uint64_t>(const ::binade::plan::Record &,
                                      const ::binade::Plan &)>
      queryLibraryScratch;
  uint32_t threads = 1;
};

/// A plan, and the tensors with which the bundle initializes its ports.
struct EmittedPlan {
  ::binade::Plan plan;
  /// Name in the bundle and value, for `plan::BundleInit`.
  std::vector<std::pair<std::string, DenseElementsAttr>> tensors;
};

/// Returns how elements of a type are stored; i1 takes a byte.
::binade::DType getDType(Type element);

/// Places every value of the programs in one arena, and writes their launches,
/// library calls and tiles as records. A result with the role and name of an
/// argument is written in place of this argument. `@accumulate` and
/// `@evaluate`, if the module has them, become programs of the plan. Fails with
/// a diagnostic, for example if `module` has no `@step`.
FailureOr<EmittedPlan> emitPlan(ModuleOp module, const PlanOptions &options);

} // namespace mlir::binade

#endif // BINADE_KERNELS_EMITPLAN_H
