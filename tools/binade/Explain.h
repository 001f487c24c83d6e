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

/// What was decided about how a parameter, or a state of it, is kept.
struct KeptValue {
  mlir::binade::StorageAttr decision; ///< Null where nothing was.
  std::optional<unsigned> state = {}; ///< Its number; none for a parameter.
};

/// All parameters and states that an optimizer updates.
llvm::DenseMap<mlir::Value, KeptValue>
getKeptValues(const mlir::binade::Explanation &explanation);

/// The format in which `value` is kept.
std::string describeFormat(const mlir::binade::Explanation &explanation,
                           mlir::Value value, const KeptValue &kept);

/// What `binade explain --format json` prints.
llvm::json::Value toJson(llvm::StringRef model,
                         mlir::binade::Explanation &explanation,
                         llvm::ArrayRef<unsigned> nodes,
                         llvm::ArrayRef<mlir::binade::RuleCost> rules,
                         mlir::func::FuncOp function);

#endif // BINADE_TOOLS_BINADE_EXPLAIN_H
