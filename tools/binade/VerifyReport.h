//===- VerifyReport.h - what a verification found ---------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_VERIFYREPORT_H
#define BINADE_TOOLS_BINADE_VERIFYREPORT_H

#include "binade/Verification/Verification.h"
#include "llvm/Support/JSON.h"

/// Whether nothing differs.
bool areEqual(const mlir::binade::Verification &verification);

void printReport(const mlir::binade::Verification &verification);
llvm::json::Value toJson(const mlir::binade::Verification &verification);

#endif // BINADE_TOOLS_BINADE_VERIFYREPORT_H
