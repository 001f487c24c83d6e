//===- OpTable.h - One row per ONNX op --------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPTABLE_H
#define BINADE_LIB_IMPORT_ONNX_OPTABLE_H

#include "Node.h"

namespace mlir::binade::importer {

/// Builds the ops of one node and sets its outputs.
using ImportFunction = LogicalResult (*)(Node &);

/// Which inputs an op can be imported with.
enum class Operands {
  Any,
  Constants, ///< all of them known: shape arithmetic without an op of its own
};

struct OpRow {
  StringLiteral name;
  /// The first opset in which the op means what `import` builds; none of the
  /// opsets that are read has taken that meaning back.
  int since;
  unsigned minInputs, maxInputs;
  Operands operands;
  ImportFunction import;
};

/// The row of an op of the standard domain in `opset`, or null.
const OpRow *findOp(StringRef domain, StringRef name, int64_t opset);

//===----------------------------------------------------------------------===//
// Import functions by family
//===----------------------------------------------------------------------===//

// Elementwise.cpp
LogicalResult importAbs(Node &node);
LogicalResult importCast(Node &node);
LogicalResult importCastLike(Node &node);
LogicalResult importClip(Node &node);
LogicalResult importDiv(Node &node);
LogicalResult importGelu(Node &node);
LogicalResult importIdentity(Node &node);
LogicalResult importIsInf(Node &node);
LogicalResult importIsNaN(Node &node);
LogicalResult importMean(Node &node);
LogicalResult importNeg(Node &node);
LogicalResult importNot(Node &node);
LogicalResult importPow(Node &node);
LogicalResult importWhere(Node &node);
LogicalResult importComparison(Node &node, Comparison comparison);

/// Inputs [first, ...) under numpy's rules of broadcasting, of one shape and
/// element type.
FailureOr<SmallVector<Value>> broadcastInputs(Node &node, unsigned first = 0);
/// `value` copied to `shape`, whose trailing axes it has.
Value broadcastTo(ImplicitLocOpBuilder &b, Value value,
                  ArrayRef<int64_t> shape);
LogicalResult requireFloats(Node &node, unsigned index = 0);

template <typename Op> LogicalResult importUnary(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  return node.setResult(Op::create(node.b, node.getInput(0)));
}

/// Two operands or, for a commutative op, any number from the left.
template <typename Op> LogicalResult importBinary(Node &node) {
  FailureOr<SmallVector<Value>> values = broadcastInputs(node);
  if (failed(values))
    return failure();
  Value result = values->front();
  for (Value value : ArrayRef(*values).drop_front())
    result = Op::create(node.b, result, value);
  return node.setResult(result);
}

template <Comparison comparison> LogicalResult importCompare(Node &node) {
  return importComparison(node, comparison);
}

// Activations.cpp
LogicalResult importCelu(Node &node);
LogicalResult importElu(Node &node);
LogicalResult importHardSigmoid(Node &node);
LogicalResult importHardSwish(Node &node);
LogicalResult importLeakyRelu(Node &node);
LogicalResult importPRelu(Node &node);
LogicalResult importSelu(Node &node);
LogicalResult importShrink(Node &node);
LogicalResult importSoftsign(Node &node);
LogicalResult importSwish(Node &node);
LogicalResult importThresholdedRelu(Node &node);

// Einsum.cpp
LogicalResult importEinsum(Node &node);

// Recurrent.cpp
LogicalResult importGRU(Node &node);
LogicalResult importLSTM(Node &node);
LogicalResult importRNN(Node &node);

// Indexing.cpp
LogicalResult importGatherElements(Node &node);
LogicalResult importGatherND(Node &node);
LogicalResult importOneHot(Node &node);

// Shape.cpp
LogicalResult importConcat(Node &node);
LogicalResult importExpand(Node &node);
LogicalResult importFlatten(Node &node);
LogicalResult importGather(Node &node);
LogicalResult importReshape(Node &node);
LogicalResult importSlice(Node &node);
LogicalResult importSplit(Node &node);
LogicalResult importSqueeze(Node &node);
LogicalResult importTile(Node &node);
LogicalResult importTranspose(Node &node);
LogicalResult importUnsqueeze(Node &node);

/// Elements [begin, begin + size) along one axis.
Value buildSlice(ImplicitLocOpBuilder &b, Value x, int64_t axis, int64_t begin,
                 int64_t size);
/// Axes in another order; `x` itself for the identity.
Value buildTranspose(ImplicitLocOpBuilder &b, Value x,
                     ArrayRef<int64_t> permutation);
/// Axis `axis` moved to the end, the others in their order.
SmallVector<int64_t> getAxisLast(int64_t rank, int64_t axis);

// Constants.cpp
LogicalResult importConstant(Node &node);
LogicalResult importConstantOfShape(Node &node);
LogicalResult importCos(Node &node);
LogicalResult importIntegerQuotient(Node &node);
LogicalResult importMod(Node &node);
LogicalResult importRange(Node &node);
LogicalResult importReduceProd(Node &node);
LogicalResult importShape(Node &node);
LogicalResult importSin(Node &node);
LogicalResult importSize(Node &node);
LogicalResult importTrilu(Node &node);

/// Reduces a constant of integers over `axes`, which the result does not keep.
LogicalResult reduceIntegers(Node &node, ArrayRef<int64_t> axes,
                             ArrayRef<int64_t> shape,
                             function_ref<int64_t(int64_t, int64_t)> combine);

// Contraction.cpp
LogicalResult importGemm(Node &node);
LogicalResult importMatMul(Node &node);

// Convolution.cpp
LogicalResult importConv(Node &node);
LogicalResult importAveragePool(Node &node);
LogicalResult importGlobalAveragePool(Node &node);
LogicalResult importMaxPool(Node &node);

// Reduction.cpp
LogicalResult importReduceL1(Node &node);
LogicalResult importReduceL2(Node &node);
LogicalResult importReduceLogSum(Node &node);
LogicalResult importReduceLogSumExp(Node &node);
LogicalResult importReduceMax(Node &node);
LogicalResult importReduceMean(Node &node);
LogicalResult importReduceMin(Node &node);
LogicalResult importReduceSum(Node &node);
LogicalResult importReduceSumSquare(Node &node);

// Normalization.cpp
LogicalResult importBatchNormalization(Node &node);
LogicalResult importGroupNormalization(Node &node);
LogicalResult importInstanceNormalization(Node &node);
LogicalResult importLayerNormalization(Node &node);
LogicalResult importLogSoftmax(Node &node);
LogicalResult importLpNormalization(Node &node);
LogicalResult importRMSNormalization(Node &node);
LogicalResult importSoftmax(Node &node);

// Attention.cpp
LogicalResult importAttention(Node &node);

// Loss.cpp
LogicalResult importNegativeLogLikelihoodLoss(Node &node);
LogicalResult importSoftmaxCrossEntropyLoss(Node &node);

// Random.cpp
LogicalResult importDropout(Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPTABLE_H
