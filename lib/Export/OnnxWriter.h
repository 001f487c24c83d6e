//===- OnnxWriter.h - A graph that is written node by node ------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ONNXWRITER_H
#define BINADE_LIB_EXPORT_ONNXWRITER_H

#include "binade/ONNX/ScaleNodes.h"
#include "binade/ONNX/UniqueNames.h"
#include "onnx-ml.pb.h"

namespace mlir::binade::convert {

/// ONNX's number of an element type; 0 where it has none. Scales that are
/// powers of two are f32: runtimes do not divide by their own type.
int32_t getElementNumber(Type type);

/// Numbers rounded to `format`.
DenseElementsAttr roundElements(DenseFPElementsAttr numbers, FloatType format);

/// Nodes, constants and names of a graph.
class OnnxWriter : public NodeSink {
public:
  OnnxWriter(::onnx::GraphProto &graph, MLIRContext *context)
      : b(context), graph(graph) {}

  /// Adds a node with one result, whose name is new.
  std::string add(StringRef op, ArrayRef<std::string> inputs);
  void setInts(StringRef name, ArrayRef<int64_t> values);
  void setInt(StringRef name, int64_t value);
  void setFloat(StringRef name, float value);
  void setString(StringRef name, StringRef value);
  /// Gives the last node another result.
  std::string addResult();

  /// The constant that has these numbers.
  const std::string &addInts(ArrayRef<int64_t> values);
  const std::string &addTable(DenseElementsAttr values);
  /// Those of rank 0.
  const std::string &addNumber(TypedAttr value);
  const std::string &addFloat(double value);
  const std::string &addDouble(double value);
  const std::string &addInt(int64_t value);
  LogicalResult addTensor(Location loc, const std::string &name,
                          Attribute value);

  std::string cast(const std::string &value, Type type);
  std::string reshape(const std::string &value, ArrayRef<int64_t> shape);
  std::string transpose(const std::string &value, ArrayRef<int64_t> axes);
  /// The elements in [starts, ends).
  std::string slice(const std::string &value, ArrayRef<int64_t> starts,
                    ArrayRef<int64_t> ends);
  /// Over `axes`, which are no more.
  std::string reduce(StringRef op, const std::string &value,
                     ArrayRef<int64_t> axes);
  /// NaN where any is, which runtimes' ReduceMax may pass over; of f32.
  std::string reduceMax(const std::string &value, ArrayRef<int64_t> axes);
  /// The numbers from 0 to `count` - 1, i64.
  std::string addRange(int64_t count);
  /// `yes` where `condition` holds, else `no`; both are of `type`.
  std::string choose(const std::string &condition, const std::string &yes,
                     const std::string &no, Type type);
  /// Whether the sign of `value`, of `type`, is minus, also that of 0; that of
  /// NaN is lost.
  std::string isNegative(const std::string &value, FloatType type);
  /// `magnitude`, which has no sign, with that of `sign`; both are of `type`.
  std::string copySign(const std::string &magnitude, const std::string &sign,
                       FloatType type);
  /// The same bits as elements of `type`. Makes the file one of an operator set
  /// that has a node for it.
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

  /// The name of `value`, and the same in f32 where it is narrower.
  const std::string &get(Value value) const {
    return values.find(value)->second;
  }
  std::string getWide(Value value);
  /// `value`, f32, rounded to `type`.
  std::string narrow(const std::string &value, FloatType type) {
    return type.isF32() ? value : cast(value, type);
  }
  void set(Value value, std::string name) { values[value] = std::move(name); }
  /// Rounds what was computed in f32 to the type of `value`.
  void setWide(Value value, const std::string &name);

  std::string makeName(StringRef wanted) { return names.makeNew(wanted); }
  /// Nodes from now on are called after it.
  void setLoc(Location loc);

  Builder b;

private:
  ::onnx::AttributeProto &addAttribute(StringRef name, int type);

  ::onnx::GraphProto &graph;
  llvm::DenseMap<Value, std::string> values;
  UniqueNames names;
  std::map<std::vector<int64_t>, std::string> integers;
  std::map<const void *, std::string> tables; ///< By their attributes.
  std::string place;
  bool castsBits = false;
};

inline ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

// Ops by family. Those that fail, without a word, have no nodes.
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

/// Writes one op. Fails, without a word, where it has no nodes.
LogicalResult writeOp(OnnxWriter &w, Operation *op);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_ONNXWRITER_H
