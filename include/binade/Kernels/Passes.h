//===- Passes.h - Passes of the phase `kernels` -----------------*- C++ -*-===//

#ifndef BINADE_KERNELS_PASSES_H
#define BINADE_KERNELS_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Kernels/Passes.h.inc"
} // namespace mlir::binade

#endif // BINADE_KERNELS_PASSES_H
