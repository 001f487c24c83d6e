//===- QuantizeValues.h - Codes in the place of values ----------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_QUANTIZEVALUES_H
#define BINADE_LIB_PRECISION_MATERIALIZE_QUANTIZEVALUES_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Has ops read what is left of values in formats with scales. A value is
/// quantized once per format, right behind its definition, and what waits for
/// the backward part is codes.
class ValueQuantizer {
public:
  ValueQuantizer(func::FuncOp function, ImplicitLocOpBuilder &b)
      : function(function), b(b) {}

  /// Has `operand` read what is left of it. Where products are summed over its
  /// columns, elements share scales along those instead of along rows.
  void read(OpOperand &operand, QuantizedAttr format);

  /// Has codes of what `op` saves wait in its place, and erases it. What they
  /// stand for is read as f32, or cast to `element`.
  void save(SaveOp op, QuantizedAttr format, Type element = {});

  /// Erases what nobody came to read.
  void finish();

private:
  SmallVector<Value> quantize(Value value, QuantizedAttr format);
  Value savePart(Value part);
  Value decode(Value like, ValueRange parts, QuantizedAttr format, Phase phase);
  Value getSaved(Value value);

  func::FuncOp function;
  ImplicitLocOpBuilder &b;
  /// Of random numbers: each tensor has its own.
  uint32_t nextStream = uint32_t(3) << 30;
  /// In the order in which they were made: readers behind what they read.
  SmallVector<Operation *> made;
  DenseMap<std::pair<Value, Attribute>, SmallVector<Value>> quantized;
  /// Of parts, what waits.
  DenseMap<Value, Value> saves;
  /// What decoded values were before they waited.
  DenseMap<Value, Value> saved;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_QUANTIZEVALUES_H
