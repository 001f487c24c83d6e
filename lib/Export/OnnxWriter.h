//===- OnnxWriter.h - A graph that is written node by node ------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ONNXWRITER_H
#define BINADE_LIB_EXPORT_ONNXWRITER_H

#include "Names.h"
#include "binade/IR/Binade.h"
#include "onnx-ml.pb.h"

namespace mlir::binade::convert {

/// ONNX's number of an element type; 0 where it has none.
int32_t getElementNumber(Type type);

/// Nodes, constants and names of a graph.
class OnnxWriter {
public:
  explicit OnnxWriter(::onnx::GraphProto &graph) : graph(graph) {}

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
  const std::string &addFloat(double value);
  LogicalResult addTensor(Location loc, const std::string &name,
                          Attribute value);

  std::string cast(const std::string &value, Type type);
  std::string reshape(const std::string &value, ArrayRef<int64_t> shape);

  /// The name of `value`, and the same in f32 where it is narrower.
  const std::string &get(Value value) const {
    return values.find(value)->second;
  }
  std::string getWide(Value value);
  void set(Value value, std::string name) { values[value] = std::move(name); }
  /// Rounds what was computed in f32 to the type of `value`.
  void setWide(Value value, const std::string &name);

  std::string makeName(StringRef wanted) { return names.makeNew(wanted); }
  /// Nodes from now on are called after it.
  void setLoc(Location loc);

private:
  ::onnx::AttributeProto &addAttribute(StringRef name, int type);

  ::onnx::GraphProto &graph;
  llvm::DenseMap<Value, std::string> values;
  Names names;
  std::map<std::vector<int64_t>, std::string> integers;
  std::map<uint32_t, std::string> numbers; ///< By their bits.
  std::string place;
};

LogicalResult writeConvolution(OnnxWriter &w, ConvOp op);
LogicalResult writeConvolution(OnnxWriter &w, ConvInputGradOp op);
LogicalResult writeConvolution(OnnxWriter &w, ConvWeightGradOp op);

LogicalResult writeOptimizer(OnnxWriter &w, GradientStatisticsOp op);
LogicalResult writeOptimizer(OnnxWriter &w, OptimizerScalarsOp op);
LogicalResult writeOptimizer(OnnxWriter &w, OptimizerUpdateOp op);

/// Writes one op. Fails, without a word, where it has no nodes.
LogicalResult writeOp(OnnxWriter &w, Operation *op);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_ONNXWRITER_H
