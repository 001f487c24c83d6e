//===- MeasureCosts.h - Costs of formats on this machine --------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_MEASURECOSTS_H
#define BINADE_TOOLS_BINADE_MEASURECOSTS_H

#include "binade/Container/Error.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Precision/Costs.h"

/// Measures how fast this machine is in each format, by compiling and running
/// small steps. Takes less than half a minute. The formats of the result refer
/// to `context`.
::binade::Result<mlir::binade::TargetCosts>
measureCosts(const mlir::binade::CompileOptions &options,
             mlir::MLIRContext &context);

#endif // BINADE_TOOLS_BINADE_MEASURECOSTS_H
