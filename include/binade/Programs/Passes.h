//===- Passes.h - Passes of the Programs phase ------------------*- C++ -*-===//

#ifndef BINADE_PROGRAMS_PASSES_H
#define BINADE_PROGRAMS_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Programs/Passes.h.inc"
} // namespace mlir::binade

#endif // BINADE_PROGRAMS_PASSES_H
