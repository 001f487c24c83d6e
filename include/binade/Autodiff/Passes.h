//===- Passes.h - Passes of the Autodiff phase ------------------*- C++ -*-===//

#ifndef BINADE_AUTODIFF_PASSES_H
#define BINADE_AUTODIFF_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Autodiff/Passes.h.inc"
} // namespace mlir::binade

#endif // BINADE_AUTODIFF_PASSES_H
