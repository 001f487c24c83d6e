//===- Describe.h - decisions in words and as JSON --------------*- C++ -*-===//

#ifndef BINADE_PRECISION_DESCRIBE_H
#define BINADE_PRECISION_DESCRIBE_H

#include "binade/Precision/Explain.h"
#include "llvm/Support/JSON.h"

namespace mlir::binade {

/// "bf16", "bf16, sums f32", "bf16, result f32".
std::string describe(PrecisionAttr decision);

/// "bf16, master kahan, states f32"; null where nothing was decided.
std::string describe(StorageAttr decision);

/// Rule or pin that decided.
std::string describeCause(StorageAttr decision);

/// Rule, class or pin that decided, with what it followed.
std::string describeCause(const Explanation &explanation, unsigned node);

/// What was decided about how a parameter, or a state of it, is kept.
struct KeptValue {
  StorageAttr decision;               ///< Null where nothing was.
  std::optional<unsigned> state = {}; ///< Its number; none for a parameter.
};

/// All parameters and states that an optimizer updates.
DenseMap<Value, KeptValue> getKeptValues(const Explanation &explanation);

/// The format in which `value` is kept.
std::string describeFormat(const Explanation &explanation, Value value,
                           const KeptValue &kept);

/// What `binade explain --format json` prints.
llvm::json::Value toJson(StringRef model, Explanation &explanation,
                         ArrayRef<unsigned> nodes, ArrayRef<RuleCost> rules,
                         func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_PRECISION_DESCRIBE_H
