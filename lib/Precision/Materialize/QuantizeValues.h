//===- QuantizeValues.h - Quantized operands and saved values ---*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_QUANTIZEVALUES_H
#define BINADE_LIB_PRECISION_MATERIALIZE_QUANTIZEVALUES_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Inserts `quantize` and `dequantize` ops, and `hadamard` ops before them. A
/// value is quantized once per format and transform, right after its
/// definition; if the backward pass reads it, the quantized value is saved.
class ValueQuantizer {
public:
  ValueQuantizer(func::FuncOp function, ImplicitLocOpBuilder &b)
      : function(function), b(b) {}

  /// Makes `operand` read the quantized and dequantized value; if `transform`
  /// is not null, the value is transformed first. If the op sums over the
  /// columns of the operand, elements share scales along columns instead of
  /// rows.
  void read(OpOperand &operand, QuantizedAttr format, TransformAttr transform);

  /// Saves the quantized value instead of what `op` saves, and erases `op`. Its
  /// users read the dequantized value as f32, or cast to `element`.
  void save(SaveOp op, QuantizedAttr format, Type element = {});

  /// Erases inserted ops that have no users.
  void finish();

private:
  Value transformValue(Value value, TransformAttr transform, int64_t axis);
  Value getSigns(TransformAttr transform, Phase phase);
  SmallVector<Value> quantize(Value value, QuantizedAttr format);
  Value savePart(Value part);
  Value decode(Value like, ValueRange parts, QuantizedAttr format, Phase phase);
  Value getSaved(Value value);

  func::FuncOp function;
  ImplicitLocOpBuilder &b;
  /// Next stream of random numbers for stochastic rounding; one per tensor.
  uint32_t nextStream = uint32_t(3) << 30;
  /// In the order of creation: users come after the ops that they read.
  SmallVector<Operation *> made;
  DenseMap<std::pair<Value, Attribute>, SmallVector<Value>> quantized;
  /// The transformed copies of values, along rows (-1) or columns (-2).
  DenseMap<std::tuple<Value, Attribute, int64_t>, Value> transformed;
  DenseMap<Attribute, Value> signs;
  /// The saved copy of each part of a quantized value.
  DenseMap<Value, Value> saves;
  /// For dequantized values, the value before it was saved.
  DenseMap<Value, Value> saved;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_QUANTIZEVALUES_H
