//===- Shards.h - Parameters that are parts of larger ones ------*- C++ -*-===//
//
// A process may have some rows of a parameter, which are the entries along its
// first axis. What a step stores for a row must then not depend on the process
// that has it: formats follow from the whole parameter, groups of quantized
// states lie within rows, and random numbers depend on the index of an element
// in the whole parameter.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_SHARDS_H
#define BINADE_IR_SHARDS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The attribute of an argument that has rows of a larger parameter:
/// `array<i64: first, rows>`, the number of its first row in the whole
/// parameter, and the number of rows of the whole parameter.
inline constexpr StringLiteral kShardAttr = "binade.shard";
/// The unit attribute of a whole parameter whose quantized states are grouped
/// as those of its shards are.
inline constexpr StringLiteral kRowGroupsAttr = "binade.row_groups";

/// The names of the buffers through which processes exchange sums of rows:
/// these prefixes, the name of the parameter, and a number for each sum. The
/// first has the sums of the rows that this process has; the caller adds those
/// of the others and writes the second.
inline constexpr StringLiteral kRowSums = "row_sums/";
inline constexpr StringLiteral kAllRowSums = "all_row_sums/";

/// The smallest group of elements of a quantized state that share a scale.
inline constexpr int64_t kMinStateGroup = 16;

/// Whether `attribute` is a valid `kShardAttr` of an argument of `type`.
bool isShard(Attribute attribute, Type type);

/// Returns the number of elements of the whole parameter.
int64_t countWholeElements(Value parameter);
/// Whether results for a row of `parameter` must not depend on the other rows
/// that this process has.
bool isComputedByRows(Value parameter);
/// Returns the number of rows of the whole parameter; nothing if the argument
/// has all of them.
std::optional<int64_t> getWholeRows(Value parameter);
/// Returns the index in the whole parameter of the first element.
int64_t getFirstElement(Value parameter);

/// Returns the format of a quantized state of `parameter`. If its groups have
/// to lie within rows, their size becomes the largest power of two that divides
/// the length of a row, if that is less. Null if a group would have fewer than
/// `kMinStateGroup` elements and the parameter is a shard.
QuantizedAttr fitGroupsToRows(QuantizedAttr format, Value parameter);

} // namespace mlir::binade

#endif // BINADE_IR_SHARDS_H
