//===- SetCpuTarget.cpp - Capabilities of CPUs ----------------------------===//

#include "binade/IR/CpuTarget.h"
#include "binade/Target/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SETCPUTARGETPASS
#include "binade/Target/Passes.h.inc"

/// Maximum columns of heads for which the runtime's attention kernels keep a
/// block of operands in the caches of a core.
static constexpr int64_t kMaxColumns = 256;

namespace {
struct SetCpuTargetPass : impl::SetCpuTargetPassBase<SetCpuTargetPass> {
  void runOnOperation() override {
    Builder b(&getContext());
    getOperation()->setAttr(
        kTargetAttr,
        TargetAttr::get(&getContext(), b.getStringAttr(kCpuTargetName),
                        /*piece=*/0, /*codes=*/{}, /*multiple=*/1, /*block=*/0,
                        {b.getF32Type(), b.getF16Type(), b.getBF16Type()},
                        kMaxColumns));
  }
};
} // namespace
} // namespace mlir::binade
