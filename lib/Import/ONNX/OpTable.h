//===- OpTable.h - The table of ONNX ops ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPTABLE_H
#define BINADE_LIB_IMPORT_ONNX_OPTABLE_H

#include "Node.h"
#include "binade/IR/Axes.h"

namespace mlir::binade::importer {

/// Builds the ops of one node and sets its outputs.
using ImportFunction = LogicalResult (*)(Node &);

/// A value of `maxInputs`: the last input is variadic.
inline constexpr unsigned kMany = ~0u;

struct OpRow {
  StringLiteral name;
  /// The first opset in which the op has the meaning that `import` builds; it
  /// has this meaning in all later opsets.
  int since;
  unsigned minInputs, maxInputs;
  ImportFunction import;
  /// Names of attributes without a default, with spaces between them.
  StringLiteral required = "";
  /// The inputs that may be sequences: `numSequences`, starting at
  /// `firstSequence`.
  unsigned firstSequence = 0, numSequences = 0;

  /// Whether `input` is required. Variadic inputs are; for Loop, which has no
  /// required inputs, they start at index 2.
  bool needsInput(unsigned input) const {
    unsigned firstOfList = minInputs == 0 ? 2 : minInputs;
    return input < minInputs || (maxInputs == kMany && input >= firstOfList);
  }

  bool takesSequence(unsigned input) const {
    return input >= firstSequence && input - firstSequence < numSequences;
  }
};

/// Returns the row of an op of the standard domain in `opset`, or of a domain
/// whose ops have one version (`com.microsoft`, `ai.onnx.ml`,
/// `ai.onnx.preview`); null for unknown ops.
const OpRow *findOp(StringRef domain, StringRef name, int64_t opset);

/// Returns whether `name` is an op that a runtime defines in its own operator
/// set, which models use without importing it.
bool isRuntimeOp(StringRef domain, StringRef name);

//===----------------------------------------------------------------------===//
// Import functions by family
//===----------------------------------------------------------------------===//

// Elementwise.cpp
LogicalResult importAbs(Node &node);
LogicalResult importCast(Node &node);
LogicalResult importCastLike(Node &node);
LogicalResult importClip(Node &node);
LogicalResult importBitwiseNot(Node &node);
LogicalResult importDiv(Node &node);
LogicalResult importGelu(Node &node);
LogicalResult importIdentity(Node &node);
LogicalResult importIsInf(Node &node);
LogicalResult importIsNaN(Node &node);
LogicalResult importMean(Node &node);
LogicalResult importMod(Node &node);
LogicalResult importNeg(Node &node);
LogicalResult importNot(Node &node);
LogicalResult importPow(Node &node);
LogicalResult importRelu(Node &node);
LogicalResult importSign(Node &node);
LogicalResult importWhere(Node &node);
LogicalResult importComparison(Node &node, Comparison comparison);

/// Returns inputs [first, ...) broadcast to one shape by numpy's rules; fails
/// unless they have one element type.
FailureOr<SmallVector<Value>> broadcastInputs(Node &node, unsigned first = 0);
/// Broadcasts `value` to `shape`, whose trailing axes it has.
Value broadcastTo(ImplicitLocOpBuilder &b, Value value,
                  ArrayRef<int64_t> shape);
LogicalResult requireFloats(Node &node, unsigned index = 0);

template <typename Op> LogicalResult importUnary(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  return node.setResult(Op::create(node.b, node.getInput(0)));
}

/// Imports an op of two operands or, if it is variadic, of any number, from
/// left to right.
template <typename Op> LogicalResult importBinary(Node &node) {
  FailureOr<SmallVector<Value>> values = broadcastInputs(node);
  if (failed(values))
    return failure();
  Value result = values->front();
  for (Value value : ArrayRef(*values).drop_front())
    result = Op::create(node.b, result, value);
  return node.setResult(result);
}

/// Imports a bitwise op; fails on floats.
template <typename Op> LogicalResult importBitwise(Node &node) {
  if (!node.hasFloats(0))
    return importBinary<Op>(node);
  return node.emitError() << "expected integers, got " << node.getType(0);
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
LogicalResult importLog(Node &node);
LogicalResult importMish(Node &node);
LogicalResult importPRelu(Node &node);
LogicalResult importSelu(Node &node);
LogicalResult importShrink(Node &node);
LogicalResult importSoftsign(Node &node);
LogicalResult importSwiGLU(Node &node);
LogicalResult importSwish(Node &node);
LogicalResult importThresholdedRelu(Node &node);

// Trigonometry.cpp
LogicalResult importAcos(Node &node);
LogicalResult importAcosh(Node &node);
LogicalResult importAsin(Node &node);
LogicalResult importAsinh(Node &node);
LogicalResult importAtanh(Node &node);
LogicalResult importCosh(Node &node);
LogicalResult importSinh(Node &node);
LogicalResult importTan(Node &node);

// Combine.cpp
LogicalResult importCumProd(Node &node);
LogicalResult importCumSum(Node &node);

// Einsum.cpp
LogicalResult importEinsum(Node &node);

// Recurrent.cpp
LogicalResult importGRU(Node &node);
LogicalResult importLSTM(Node &node);
LogicalResult importRNN(Node &node);

// RecurrentGrad.cpp
LogicalResult importLSTMGrad(Node &node);

// Indexing.cpp
LogicalResult importGatherElements(Node &node);
LogicalResult importGatherND(Node &node);
LogicalResult importTensorScatter(Node &node);
LogicalResult importOneHot(Node &node);

// Padding.cpp
LogicalResult importCenterCropPad(Node &node);
LogicalResult importDepthToSpace(Node &node);
LogicalResult importPad(Node &node);
LogicalResult importSpaceToDepth(Node &node);

// Resize.cpp
LogicalResult importResize(Node &node);
LogicalResult importUpsample(Node &node);

// Scatter.cpp
LogicalResult importScatterElements(Node &node);
LogicalResult importScatterND(Node &node);

// Selection.cpp
LogicalResult importArgMax(Node &node);
LogicalResult importArgMin(Node &node);
LogicalResult importCompress(Node &node);
LogicalResult importHardmax(Node &node);
LogicalResult importReverseSequence(Node &node);
LogicalResult importTopK(Node &node);

// Sequences.cpp
LogicalResult importConcatFromSequence(Node &node);
LogicalResult importOptional(Node &node);
LogicalResult importOptionalGetElement(Node &node);
LogicalResult importOptionalHasElement(Node &node);
LogicalResult importSequenceAt(Node &node);
LogicalResult importSequenceConstruct(Node &node);
LogicalResult importSequenceEmpty(Node &node);
LogicalResult importSequenceErase(Node &node);
LogicalResult importSequenceInsert(Node &node);
LogicalResult importSequenceLength(Node &node);
LogicalResult importSplitToSequence(Node &node);

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

/// Builds the slice of elements [begin, begin + size) along `axis`.
Value buildSlice(ImplicitLocOpBuilder &b, Value x, int64_t axis, int64_t begin,
                 int64_t size);

// Constants.cpp
LogicalResult importConstant(Node &node);
LogicalResult importConstantOfShape(Node &node);
LogicalResult importEyeLike(Node &node);
LogicalResult importRange(Node &node);
LogicalResult importShape(Node &node);
LogicalResult importSize(Node &node);
LogicalResult importTrilu(Node &node);

// Contraction.cpp
LogicalResult importGemm(Node &node);
LogicalResult importMatMul(Node &node);

/// Returns a decision without a rule, which pins an op to `format`: a policy
/// does not change it.
PrecisionAttr pinTo(FloatType format);

/// Builds the matmul of `left` and `right` by the rules of numpy.matmul.
FailureOr<Value> buildProduct(Node &node, Value left, Value right,
                              PrecisionAttr decision = {});

// Convolution.cpp
LogicalResult importConv(Node &node);
LogicalResult importConvGrad(Node &node);
LogicalResult importConvTranspose(Node &node);
LogicalResult importCausalConv(Node &node);

// Fourier.cpp
LogicalResult importDFT(Node &node);
LogicalResult importSTFT(Node &node);

// Pooling.cpp
LogicalResult importAveragePool(Node &node);
LogicalResult importGlobalAveragePool(Node &node);
LogicalResult importGlobalLpPool(Node &node);
LogicalResult importGlobalMaxPool(Node &node);
LogicalResult importLpPool(Node &node);
LogicalResult importMaxPool(Node &node);

// Unpooling.cpp
LogicalResult importMaxUnpool(Node &node);

// Reduction.cpp
LogicalResult importReduceL1(Node &node);
LogicalResult importReduceL2(Node &node);
LogicalResult importReduceLogSum(Node &node);
LogicalResult importReduceLogSumExp(Node &node);
LogicalResult importReduceMax(Node &node);
LogicalResult importReduceMean(Node &node);
LogicalResult importReduceMin(Node &node);
LogicalResult importReduceProd(Node &node);
LogicalResult importReduceSum(Node &node);
LogicalResult importReduceSumSquare(Node &node);

// Normalization.cpp
LogicalResult importBatchNormalization(Node &node);
LogicalResult importGroupNormalization(Node &node);
LogicalResult importInstanceNormalization(Node &node);
LogicalResult importLRN(Node &node);
LogicalResult importLayerNormalization(Node &node);
LogicalResult importLogSoftmax(Node &node);
LogicalResult importLpNormalization(Node &node);
LogicalResult importMeanVarianceNormalization(Node &node);
LogicalResult importRMSNormalization(Node &node);
LogicalResult importSoftmax(Node &node);

// Attention.cpp
LogicalResult importAttention(Node &node);
LogicalResult importRotaryEmbedding(Node &node);

// Optimizers.cpp
LogicalResult importAdagrad(Node &node);
LogicalResult importAdam(Node &node);
LogicalResult importMomentum(Node &node);

// Microsoft.cpp
LogicalResult importConcatTraining(Node &node);
LogicalResult importFastGelu(Node &node);
LogicalResult importFastGeluGrad(Node &node);
LogicalResult importFusedMatMul(Node &node);
LogicalResult importGatherGrad(Node &node);
LogicalResult importGatherNDGrad(Node &node);
LogicalResult importGeluGrad(Node &node);
LogicalResult importInPlaceAccumulator(Node &node);
LogicalResult importLayerNormalizationGrad(Node &node);
LogicalResult importLogSoftmaxGrad(Node &node);
LogicalResult importQuickGelu(Node &node);
LogicalResult importQuickGeluGrad(Node &node);
LogicalResult importReluGrad(Node &node);
LogicalResult importScale(Node &node);
LogicalResult importSimplifiedLayerNormalization(Node &node);
LogicalResult importSimplifiedLayerNormalizationGrad(Node &node);
LogicalResult importSoftmaxGrad(Node &node);

// Loss.cpp
LogicalResult importNegativeLogLikelihoodLoss(Node &node);
LogicalResult importSoftmaxCrossEntropyLoss(Node &node);
LogicalResult importSoftmaxCrossEntropyLossGrad(Node &node);

// Random.cpp
LogicalResult importBernoulli(Node &node);
LogicalResult importDropout(Node &node);
LogicalResult importRandomNormal(Node &node);
LogicalResult importRandomUniform(Node &node);

// ControlFlow.cpp
LogicalResult importIf(Node &node);
LogicalResult importLoop(Node &node);
LogicalResult importScan(Node &node);

// Quantize.cpp
LogicalResult importDequantizeLinear(Node &node);
LogicalResult importQuantizeLinear(Node &node);
LogicalResult importDynamicQuantizeLinear(Node &node);
/// Casts f32 values that are whole numbers to the integer type `codes`, with
/// saturation.
Value buildSaturated(ImplicitLocOpBuilder &b, Value x, Type codes);

// Blocks.cpp
LogicalResult importCol2Im(Node &node);

// LinearAttention.cpp
LogicalResult importLinearAttention(Node &node);

// IntegerContractions.cpp
LogicalResult importConvInteger(Node &node);
LogicalResult importMatMulInteger(Node &node);
LogicalResult importQLinearConv(Node &node);
LogicalResult importQLinearMatMul(Node &node);

// Sampling.cpp
LogicalResult importAffineGrid(Node &node);
LogicalResult importGridSample(Node &node);

// Regions.cpp
LogicalResult importRoiAlign(Node &node);

// Deformable.cpp
LogicalResult importDeformConv(Node &node);

// Determinant.cpp
LogicalResult importDet(Node &node);

// Features.cpp
LogicalResult importArrayFeatureExtractor(Node &node);
LogicalResult importBinarizer(Node &node);

// FlexAttention.cpp
LogicalResult importFlexAttention(Node &node);

// DataDependentShapes.cpp
LogicalResult importNonMaxSuppression(Node &node);
LogicalResult importNonZero(Node &node);
LogicalResult importUnique(Node &node);

// Mel.cpp
LogicalResult importMelWeightMatrix(Node &node);

// Bits.cpp
LogicalResult importBitCast(Node &node);
LogicalResult importBitShift(Node &node);

// Windows.cpp
LogicalResult importBlackmanWindow(Node &node);
LogicalResult importHammingWindow(Node &node);
LogicalResult importHannWindow(Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPTABLE_H
