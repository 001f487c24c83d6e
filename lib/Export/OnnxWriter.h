//===- OnnxWriter.h - Construction of ONNX graphs ---------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ONNXWRITER_H
#define BINADE_LIB_EXPORT_ONNXWRITER_H

#include "binade/ONNX/ScaleNodes.h"
#include "binade/ONNX/UniqueNames.h"
#include "onnx-ml.pb.h"

namespace mlir::binade::convert {

/// Returns the TensorProto::DataType of an element type; 0 if ONNX has none.
/// Power-of-two scales (f8E8M0FNU) are written as f32, because runtimes do not
/// divide by their type.
int32_t getElementNumber(Type type);

/// Returns `numbers` rounded to `format`.
DenseElementsAttr roundElements(DenseFPElementsAttr numbers, FloatType format);

/// Adds nodes and constants to an ONNX graph, and keeps the names of IR values.
class OnnxWriter : public NodeSink {
public:
  OnnxWriter(::onnx::GraphProto &graph, MLIRContext *context)
      : b(context), graph(graph) {}

  /// Adds a node with one result, and returns the result's new name.
  std::string add(StringRef op, ArrayRef<std::string> inputs);
  void setInts(StringRef name, ArrayRef<int64_t> values);
  void setInt(StringRef name, int64_t value);
  void setFloat(StringRef name, float value);
  void setString(StringRef name, StringRef value);
  /// Adds another result to the last node.
  std::string addResult();

  /// Return the name of a constant with these elements; equal constants are
  /// shared.
  const std::string &addInts(ArrayRef<int64_t> values);
  const std::string &addTable(DenseElementsAttr values);
  /// Return the name of a constant of rank 0.
  const std::string &addNumber(TypedAttr value);
  const std::string &addFloat(double value);
  const std::string &addDouble(double value);
  const std::string &addInt(int64_t value);
  LogicalResult addTensor(Location loc, const std::string &name,
                          Attribute value);

  std::string cast(const std::string &value, Type type);
  std::string reshape(const std::string &value, ArrayRef<int64_t> shape);
  std::string transpose(const std::string &value, ArrayRef<int64_t> axes);
  /// Returns the elements in [starts, ends).
  std::string slice(const std::string &value, ArrayRef<int64_t> starts,
                    ArrayRef<int64_t> ends);
  /// Reduces `axes` by `op` and drops them.
  std::string reduce(StringRef op, const std::string &value,
                     ArrayRef<int64_t> axes);
  /// Reduces f32 `axes` to the maximum, or to NaN if any element is NaN, which
  /// the ReduceMax of runtimes may ignore.
  std::string reduceMax(const std::string &value, ArrayRef<int64_t> axes);
  /// Returns the integers 0 to `count` - 1, i64.
  std::string addRange(int64_t count);
  /// Selects `yes` where `condition` is true, `no` elsewhere; both are of
  /// `type`.
  std::string choose(const std::string &condition, const std::string &yes,
                     const std::string &no, Type type);
  /// Whether `value`, of `type`, has a negative sign, including -0. The sign of
  /// NaN is ignored.
  std::string isNegative(const std::string &value, FloatType type);
  /// Gives `magnitude`, which is not negative, the sign of `sign`; both are of
  /// `type`.
  std::string copySign(const std::string &magnitude, const std::string &sign,
                       FloatType type);
  /// Reinterprets the bits as `type`. The file then needs an operator set with
  /// BitCast.
  std::string bitcast(const std::string &value, Type type);
  bool hasBitcasts() const { return castsBits; }

  std::string addNode(const char *op, ArrayRef<std::string> inputs,
                      const std::string &) override {
    return add(op, inputs);
  }
  std::string addCast(const std::string &value, int32_t type,
                      const std::string &output) override;
  const std::string &getScalar(const char *, float value) override {
    return addFloat(value);
  }
  const std::string &getDouble(const char *, double value) override {
    return addDouble(value);
  }

  /// Return the name of `value`; `getWide` casts narrower floats to f32.
  const std::string &get(Value value) const {
    return values.find(value)->second;
  }
  std::string getWide(Value value);
  /// Rounds `value`, f32, to `type`.
  std::string narrow(const std::string &value, FloatType type) {
    return type.isF32() ? value : cast(value, type);
  }
  void set(Value value, std::string name) { values[value] = std::move(name); }
  /// Sets `value` to `name`, rounded from f32 to the type of `value`.
  void setWide(Value value, const std::string &name);

  std::string makeName(StringRef wanted) { return names.makeNew(wanted); }
  /// Names the following nodes after `loc`.
  void setLoc(Location loc);

  Builder b;

private:
  ::onnx::AttributeProto &addAttribute(StringRef name, int type);

  ::onnx::GraphProto &graph;
  llvm::DenseMap<Value, std::string> values;
  UniqueNames names;
  std::map<std::vector<int64_t>, std::string> integers;
  std::map<const void *, std::string> tables; ///< Keyed by attribute.
  std::string place;
  bool castsBits = false;
};

inline ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

// Write ops of a family. Those that return a LogicalResult fail, without a
// diagnostic, if the op has no nodes.
void writeConvolution(OnnxWriter &w, ConvOp op);
void writeConvolution(OnnxWriter &w, ConvInputGradOp op);
void writeConvolution(OnnxWriter &w, ConvWeightGradOp op);

void writeBits(OnnxWriter &w, BitcastOp op);
void writeBits(OnnxWriter &w, JoinHalvesOp op);

LogicalResult writeQuantization(OnnxWriter &w, QuantizeOp op);
LogicalResult writeQuantization(OnnxWriter &w, DequantizeOp op);
LogicalResult writeQuantization(OnnxWriter &w, GroupMaxOp op);
LogicalResult writeQuantization(OnnxWriter &w, ChooseScaleOp op);
LogicalResult writeQuantization(OnnxWriter &w, EncodeOp op);
LogicalResult writeQuantization(OnnxWriter &w, ScaledMatmulOp op);

void writeRandom(OnnxWriter &w, RandomUniformOp op);
void writeRounding(OnnxWriter &w, RoundToOp op);
void writeStatistics(OnnxWriter &w, StatisticsOp op);

LogicalResult writeOptimizer(OnnxWriter &w, GradientStatisticsOp op);
LogicalResult writeOptimizer(OnnxWriter &w, OptimizerScalarsOp op);
LogicalResult writeOptimizer(OnnxWriter &w, OptimizerUpdateOp op);

/// Writes one op. Fails, without a diagnostic, if it has no nodes.
LogicalResult writeOp(OnnxWriter &w, Operation *op);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_ONNXWRITER_H
