//===- EmitPlan.h - from launches to a plan ---------------------*- C++ -*-===//

#ifndef BINADE_KERNELS_EMITPLAN_H
#define BINADE_KERNELS_EMITPLAN_H

#include "binade/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace mlir::binade {

/// What the plan has to know of a compiled kernel; see plan::Launch. A kernel
/// over many tensors has as many items as a tensor has elements.
struct KernelShape {
  int64_t extent = 0;
  int64_t grain = 1;
  /// Of one launch; for a kernel over many tensors, of one block of `grain`
  /// items.
  uint64_t workspaceBytes = 0;
  bool finish = false;
  /// Whether the first i32 of the workspace says that an index was out of
  /// range.
  bool hasStatus = false;
  /// For each result, the operands whose memory it may take.
  std::vector<std::vector<unsigned>> inPlace;
};

struct PlanOptions {
  /// By symbol of the kernel.
  llvm::StringMap<KernelShape> kernels;
  /// Bytes of scratch memory that the library wants for a record, whose buffers
  /// are those of the plan, when it runs `alone` on one thread or on all; may
  /// be empty.
  std::function<uint64_t(const ::binade::plan::Record &, const ::binade::Plan &,
                         bool alone)>
      queryScratch;
  /// The same for a device's library, which may have so many; empty for CPUs.
  std::function<uint64_t(const ::binade::plan::Record &,
                         const ::binade::Plan &)>
      queryLibraryScratch;
  uint32_t threads = 1;
};

/// A plan, and the tensors that its ports take from the bundle.
struct EmittedPlan {
  ::binade::Plan plan;
  /// Name in the bundle and value, for `plan::BundleInit`.
  std::vector<std::pair<std::string, DenseElementsAttr>> tensors;
};

/// How elements of a type are stored; i1 takes a byte.
::binade::DType getDType(Type element);

/// Gives every value of `@step` (launches, library calls and views) a place in
/// one arena and writes the calls down as records. A result of the role and
/// name of an argument is written in the argument's place. `@evaluate`, where
/// there is one, becomes the plan's evaluation.
FailureOr<EmittedPlan> emitPlan(ModuleOp module, const PlanOptions &options);

} // namespace mlir::binade

#endif // BINADE_KERNELS_EMITPLAN_H
