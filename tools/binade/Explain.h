//===- Explain.h - precision decisions shown to people ----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EXPLAIN_H
#define BINADE_TOOLS_BINADE_EXPLAIN_H

#include "binade/Precision/Explain.h"
#include "llvm/Support/JSON.h"
#include <CLI/CLI.hpp>

/// How explanations are printed.
enum class ReportFormat { Text, Json };
void addReportFormat(CLI::App &command, ReportFormat &format);

/// "bf16", "bf16, sums f32", "bf16, result f32".
std::string describe(mlir::binade::PrecisionAttr decision);

/// "bf16, master kahan, states f32"; null where nothing was decided.
std::string describe(mlir::binade::StorageAttr decision);

/// Rule or pin that decided.
std::string describeCause(mlir::binade::StorageAttr decision);

/// Rule, class or pin that decided, with what it followed.
std::string describeCause(const mlir::binade::Explanation &explanation,
                          unsigned node);

/// How parameters and states are kept, where a rule or a pin says so.
llvm::DenseMap<mlir::Value, mlir::binade::StorageAttr>
getStorageDecisions(const mlir::binade::Explanation &explanation);

/// What `binade explain --format json` prints.
llvm::json::Value toJson(llvm::StringRef model,
                         mlir::binade::Explanation &explanation,
                         llvm::ArrayRef<unsigned> nodes,
                         llvm::ArrayRef<mlir::binade::RuleCost> rules,
                         mlir::func::FuncOp function);

#endif // BINADE_TOOLS_BINADE_EXPLAIN_H
