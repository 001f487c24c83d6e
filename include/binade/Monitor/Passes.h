//===- Passes.h - Passes of the Monitor phase -------------------*- C++ -*-===//

#ifndef BINADE_MONITOR_PASSES_H
#define BINADE_MONITOR_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Monitor/Passes.h.inc"
} // namespace mlir::binade

#endif // BINADE_MONITOR_PASSES_H
