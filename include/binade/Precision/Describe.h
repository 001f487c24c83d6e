//===- Describe.h - Decisions as text and JSON ------------------*- C++ -*-===//

#ifndef BINADE_PRECISION_DESCRIBE_H
#define BINADE_PRECISION_DESCRIBE_H

#include "binade/Precision/Explain.h"
#include "llvm/Support/JSON.h"

namespace mlir::binade {

/// Returns "bf16", "bf16, sums f32", "bf16, result f32".
std::string describe(PrecisionAttr decision);

/// Returns "hadamard 16 with fixed signs".
std::string describe(TransformAttr transform);

/// Returns "accumulator of 14 bits, promoted every 128 products".
std::string describe(AccumulationAttr accumulation);

/// Returns "bf16, master kahan, states f32"; "f32, states f32" for null.
std::string describe(StorageAttr decision);

/// Returns the rule or pin that made the decision, or "no rule".
std::string describeCause(StorageAttr decision);

/// Returns the rule, class or pin that decided, and the reason of the assigner.
std::string describeCause(const Explanation &explanation, unsigned node);

/// The decision about the storage of a parameter or of an optimizer state.
struct KeptValue {
  StorageAttr decision; ///< Null if nothing was decided.
  std::optional<unsigned> state =
      {}; ///< Index of the state; none for a parameter.
};

/// Returns all parameters and states that optimizer updates read.
DenseMap<Value, KeptValue> getKeptValues(const Explanation &explanation);

/// Returns the format in which `value` is stored.
std::string describeFormat(const Explanation &explanation, Value value,
                           const KeptValue &kept);

/// Returns what `binade explain --format json` prints.
llvm::json::Value toJson(StringRef model, Explanation &explanation,
                         ArrayRef<unsigned> nodes, ArrayRef<RuleCost> rules,
                         func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_PRECISION_DESCRIBE_H
