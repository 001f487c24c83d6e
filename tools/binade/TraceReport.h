//===- TraceReport.h - a traced step as JSON --------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_TRACEREPORT_H
#define BINADE_TOOLS_BINADE_TRACEREPORT_H

#include "binade/Tracing/Trace.h"
#include "llvm/Support/JSON.h"

/// Returns the report of `binade trace`. Values that are not finite are null.
llvm::json::Object toJson(const mlir::binade::StepTrace &trace);

#endif // BINADE_TOOLS_BINADE_TRACEREPORT_H
