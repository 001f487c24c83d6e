//===- Combine.h - Reductions and scans by elementwise ops ------*- C++ -*-===//
//
// The dialect has no reductions of integers and no product. These are built as
// trees of elementwise ops on halves of an axis.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_COMBINE_H
#define BINADE_LIB_IMPORT_ONNX_OPS_COMBINE_H

#include "../Node.h"

namespace mlir::binade::importer {

/// The op that combines two elements.
enum class Combination { Add, Mul, Max, Min };

/// Returns the combination called `name`, or nothing.
std::optional<Combination> parseCombination(StringRef name);

/// Builds the elementwise op of `combination`.
Value combine(ImplicitLocOpBuilder &b, Combination combination, Value lhs,
              Value rhs);

/// Returns a tensor of `type` filled with the neutral element of `combination`.
Value buildNeutral(ImplicitLocOpBuilder &b, Combination combination,
                   RankedTensorType type);

/// Reduces `x` along `axis` and drops the axis.
Value combineAlong(ImplicitLocOpBuilder &b, Combination combination, Value x,
                   int64_t axis);

/// Builds a prefix scan of `x` along `axis`, or a suffix scan if `isReverse`.
/// An exclusive scan leaves out the element itself.
Value scanAlong(ImplicitLocOpBuilder &b, Combination combination, Value x,
                int64_t axis, bool isExclusive, bool isReverse);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_COMBINE_H
