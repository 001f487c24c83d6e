//===- OpTable.cpp - One row per ONNX op ----------------------------------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

static constexpr unsigned kMany = ~0u;

// Sorted by name. `since` is 1 for ops whose meaning has not changed in the
// opsets that are read; differences between opsets that an import function
// can see (attributes that became inputs) are handled there.
static constexpr OpRow rows[] = {
    // clang-format off
    {"Abs",                     1, 1, 1, Operands::Any, importAbs},
    {"Add",                     7, 2, 2, Operands::Any, importBinary<AddOp>},
    {"And",                     7, 2, 2, Operands::Any, importBinary<AndOp>},
    {"Attention",              23, 3, 7, Operands::Any, importAttention},
    {"AveragePool",             7, 1, 1, Operands::Any, importAveragePool},
    {"BatchNormalization",      9, 5, 5, Operands::Any, importBatchNormalization},
    {"Cast",                    9, 1, 1, Operands::Any, importCast},
    {"CastLike",                15, 2, 2, Operands::Any, importCastLike},
    {"Celu",                    12, 1, 1, Operands::Any, importCelu},
    {"Clip",                   11, 1, 3, Operands::Any, importClip},
    {"Concat",                 11, 1, kMany, Operands::Any, importConcat},
    {"Constant",                1, 0, 0, Operands::Any, importConstant},
    {"ConstantOfShape",         9, 1, 1, Operands::Constants, importConstantOfShape},
    {"Conv",                    1, 2, 3, Operands::Any, importConv},
    {"Cos",                     7, 1, 1, Operands::Constants, importCos},
    {"Div",                     7, 2, 2, Operands::Any, importDiv},
    {"Dropout",                12, 1, 3, Operands::Any, importDropout},
    {"Einsum",                  12, 1, kMany, Operands::Any, importEinsum},
    {"Elu",                      6, 1, 1, Operands::Any, importElu},
    {"Equal",                   7, 2, 2, Operands::Any, importCompare<Comparison::Equal>},
    {"Erf",                     9, 1, 1, Operands::Any, importUnary<ErfOp>},
    {"Exp",                     1, 1, 1, Operands::Any, importUnary<ExpOp>},
    {"Expand",                  8, 2, 2, Operands::Any, importExpand},
    {"Flatten",                 1, 1, 1, Operands::Any, importFlatten},
    {"GRU",                      7, 3, 6, Operands::Any, importGRU},
    {"Gather",                 11, 2, 2, Operands::Any, importGather},
    {"GatherElements",          11, 2, 2, Operands::Any, importGatherElements},
    {"GatherND",                11, 2, 2, Operands::Any, importGatherND},
    {"Gelu",                   20, 1, 1, Operands::Any, importGelu},
    {"Gemm",                   11, 2, 3, Operands::Any, importGemm},
    {"GlobalAveragePool",       1, 1, 1, Operands::Any, importGlobalAveragePool},
    {"Greater",                 7, 2, 2, Operands::Any, importCompare<Comparison::Greater>},
    {"GreaterOrEqual",         12, 2, 2, Operands::Any, importCompare<Comparison::GreaterEqual>},
    {"GroupNormalization",      21, 3, 3, Operands::Any, importGroupNormalization},
    {"HardSigmoid",              6, 1, 1, Operands::Any, importHardSigmoid},
    {"HardSwish",               14, 1, 1, Operands::Any, importHardSwish},
    {"Identity",                1, 1, 1, Operands::Any, importIdentity},
    {"InstanceNormalization",    6, 3, 3, Operands::Any, importInstanceNormalization},
    {"IsInf",                   10, 1, 1, Operands::Any, importIsInf},
    {"IsNaN",                    9, 1, 1, Operands::Any, importIsNaN},
    {"LSTM",                     7, 3, 8, Operands::Any, importLSTM},
    {"LayerNormalization",     17, 2, 3, Operands::Any, importLayerNormalization},
    {"LeakyRelu",                6, 1, 1, Operands::Any, importLeakyRelu},
    {"Less",                    7, 2, 2, Operands::Any, importCompare<Comparison::Less>},
    {"LessOrEqual",            12, 2, 2, Operands::Any, importCompare<Comparison::LessEqual>},
    {"Log",                     1, 1, 1, Operands::Any, importUnary<LogOp>},
    {"LogSoftmax",             13, 1, 1, Operands::Any, importLogSoftmax},
    {"LpNormalization",          1, 1, 1, Operands::Any, importLpNormalization},
    {"MatMul",                  1, 2, 2, Operands::Any, importMatMul},
    {"Max",                     8, 1, kMany, Operands::Any, importBinary<MaxOp>},
    {"MaxPool",                11, 1, 1, Operands::Any, importMaxPool},
    {"Mean",                     8, 1, kMany, Operands::Any, importMean},
    {"Min",                     8, 1, kMany, Operands::Any, importBinary<MinOp>},
    {"Mod",                    10, 2, 2, Operands::Constants, importMod},
    {"Mul",                     7, 2, 2, Operands::Any, importBinary<MulOp>},
    {"Neg",                     1, 1, 1, Operands::Any, importNeg},
    {"NegativeLogLikelihoodLoss", 12, 2, 3, Operands::Any, importNegativeLogLikelihoodLoss},
    {"Not",                     1, 1, 1, Operands::Any, importNot},
    {"OneHot",                  11, 3, 3, Operands::Any, importOneHot},
    {"Or",                      7, 2, 2, Operands::Any, importBinary<OrOp>},
    {"PRelu",                    9, 2, 2, Operands::Any, importPRelu},
    {"Pow",                     7, 2, 2, Operands::Any, importPow},
    {"RMSNormalization",        23, 2, 2, Operands::Any, importRMSNormalization},
    {"RNN",                      7, 3, 6, Operands::Any, importRNN},
    {"Range",                  11, 3, 3, Operands::Constants, importRange},
    {"Reciprocal",              1, 1, 1, Operands::Any, importUnary<ReciprocalOp>},
    {"ReduceL1",                 1, 1, 2, Operands::Any, importReduceL1},
    {"ReduceL2",                 1, 1, 2, Operands::Any, importReduceL2},
    {"ReduceLogSum",             1, 1, 2, Operands::Any, importReduceLogSum},
    {"ReduceLogSumExp",          1, 1, 2, Operands::Any, importReduceLogSumExp},
    {"ReduceMax",               1, 1, 2, Operands::Any, importReduceMax},
    {"ReduceMean",              1, 1, 2, Operands::Any, importReduceMean},
    {"ReduceMin",               1, 1, 2, Operands::Any, importReduceMin},
    {"ReduceProd",              1, 1, 2, Operands::Constants, importReduceProd},
    {"ReduceSum",               1, 1, 2, Operands::Any, importReduceSum},
    {"ReduceSumSquare",          1, 1, 2, Operands::Any, importReduceSumSquare},
    {"Relu",                    1, 1, 1, Operands::Any, importUnary<ReluOp>},
    {"Reshape",                 5, 2, 2, Operands::Any, importReshape},
    {"Selu",                     6, 1, 1, Operands::Any, importSelu},
    {"Shape",                   1, 1, 1, Operands::Any, importShape},
    {"Shrink",                   9, 1, 1, Operands::Any, importShrink},
    {"Sigmoid",                 1, 1, 1, Operands::Any, importUnary<SigmoidOp>},
    {"Sign",                    9, 1, 1, Operands::Any, importUnary<SignOp>},
    {"Sin",                     7, 1, 1, Operands::Constants, importSin},
    {"Size",                    1, 1, 1, Operands::Any, importSize},
    {"Slice",                  10, 3, 5, Operands::Any, importSlice},
    {"Softmax",                13, 1, 1, Operands::Any, importSoftmax},
    {"SoftmaxCrossEntropyLoss", 12, 2, 3, Operands::Any, importSoftmaxCrossEntropyLoss},
    {"Softsign",                 1, 1, 1, Operands::Any, importSoftsign},
    {"Split",                  13, 1, 2, Operands::Any, importSplit},
    {"Sqrt",                    1, 1, 1, Operands::Any, importUnary<SqrtOp>},
    {"Squeeze",                13, 1, 2, Operands::Any, importSqueeze},
    {"Sub",                     7, 2, 2, Operands::Any, importBinary<SubOp>},
    {"Sum",                     8, 1, kMany, Operands::Any, importBinary<AddOp>},
    {"Swish",                   24, 1, 1, Operands::Any, importSwish},
    {"Tanh",                    1, 1, 1, Operands::Any, importUnary<TanhOp>},
    {"ThresholdedRelu",         10, 1, 1, Operands::Any, importThresholdedRelu},
    {"Tile",                    6, 2, 2, Operands::Any, importTile},
    {"Transpose",               1, 1, 1, Operands::Any, importTranspose},
    {"Trilu",                  14, 1, 2, Operands::Constants, importTrilu},
    {"Unsqueeze",              13, 2, 2, Operands::Any, importUnsqueeze},
    {"Where",                   9, 3, 3, Operands::Any, importWhere},
    // clang-format on
};

const OpRow *mlir::binade::importer::findOp(StringRef domain, StringRef name,
                                            int64_t opset) {
  if (!domain.empty() && domain != "ai.onnx")
    return nullptr;
  const OpRow *row =
      llvm::find_if(rows, [&](const OpRow &row) { return row.name == name; });
  return row != std::end(rows) && row->since <= opset ? row : nullptr;
}
