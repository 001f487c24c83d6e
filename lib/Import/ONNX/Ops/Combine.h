//===- Combine.h - Many elements into one -----------------------*- C++ -*-===//
//
// What no reduction of the dialect does, products and anything of integers, is
// a tree of elementwise ops on halves of an axis.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_COMBINE_H
#define BINADE_LIB_IMPORT_ONNX_OPS_COMBINE_H

#include "../Node.h"

namespace mlir::binade::importer {

/// How two elements become one.
enum class Combination { Add, Mul, Max, Min };

/// The combination that `name` says; nothing for another word.
std::optional<Combination> parseCombination(StringRef name);

Value combine(ImplicitLocOpBuilder &b, Combination combination, Value lhs,
              Value rhs);

/// A tensor of `type` that leaves unchanged what it is combined with.
Value buildNeutral(ImplicitLocOpBuilder &b, Combination combination,
                   RankedTensorType type);

/// The elements of `x` along `axis` combined, without that axis.
Value combineAlong(ImplicitLocOpBuilder &b, Combination combination, Value x,
                   int64_t axis);

/// For each element of `x` the combination of it and of those before it along
/// `axis`, or with `isReverse` behind it; without it if `isExclusive`.
Value scanAlong(ImplicitLocOpBuilder &b, Combination combination, Value x,
                int64_t axis, bool isExclusive, bool isReverse);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_COMBINE_H
