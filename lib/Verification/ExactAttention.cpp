//===- ExactAttention.cpp - Exact results of attention --------------------===//

#include "ExactSums.h"
#include "binade/Container/Philox.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Reference/FirstHead.h"
#include "binade/Target/CUDA.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::DType;
using ::binade::Result;

namespace {
class ExactAttention {
public:
  ExactAttention(MLIRContext *context, const plan::Attention &attention,
                 const Execution &execution)
      : b(UnknownLoc::get(context), context), attention(attention),
        execution(execution), tensors(attention.listOperands()) {
    buildFunction();
  }

  Result<Judgement> judge();

private:
  /// Returns the shape of a tensor for one head, or for the heads that share
  /// key and value.
  ArrayRef<int64_t> getShape(size_t index) const {
    ArrayRef<int64_t> sizes = tensors[index].sizes;
    return isState(index)
               ? sizes
               : sizes.drop_front(attention.batch.size() - attention.grouped);
  }
  RankedTensorType getType(size_t index) {
    DType dtype = execution.accesses[index].dtype;
    Type element = getElementType(b.getContext(), dtype);
    if (dtype == DType::BOOL || dtype == DType::I64)
      element = b.getIntegerType(dtype == DType::BOOL ? 1 : 64);
    return RankedTensorType::get(getShape(index), element);
  }
  /// Whether a tensor is the state of the generator, which all heads share.
  bool isState(size_t index) const {
    return execution.accesses[index].dtype == DType::I64;
  }
  void buildFunction();
  SmallVector<NamedAttribute> listAttributes();
  /// Returns the index in access `index` of element `number` of a head.
  int64_t findElement(size_t index, int64_t head, int64_t number) const;
  TensorRef read(size_t index, int64_t head, const std::vector<Bytes> &from);
  Result<void> judgeHead(int64_t head, Judgement &judgement);

  ImplicitLocOpBuilder b;
  const plan::Attention &attention;
  const Execution &execution;
  std::vector<plan::Operand> tensors;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Operation *op = nullptr;                ///< The attention of the function.
  SmallVector<size_t> arguments, results; ///< Indices in `tensors`.
};
} // namespace

/// Builds a function that computes one head.
void ExactAttention::buildFunction() {
  // In the order of the op's operands.
  enum { Query, Key, Values, Y, Lse, Dy };
  if (attention.gradients)
    arguments = {Dy, Query, Key, Values, Y, Lse};
  else
    arguments = {Query, Key, Values};
  for (auto [index, tensor] : llvm::enumerate(tensors))
    if (tensor.isWritten())
      results.push_back(index);
  size_t tensorsOfOp = attention.gradients ? 9 : 5;
  for (size_t index = tensorsOfOp; index < tensors.size(); ++index)
    if (tensors[index].isTensor())
      arguments.push_back(index);
  auto getTypes = [&](ArrayRef<size_t> which) {
    return llvm::map_to_vector(which,
                               [&](size_t i) -> Type { return getType(i); });
  };
  module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(
      b, "head", b.getFunctionType(getTypes(arguments), getTypes(results)));
  b.setInsertionPointToStart(function.addEntryBlock());
  SmallVector<Type> types(function.getResultTypes());
  ValueRange values = function.getArguments();
  SmallVector<NamedAttribute> attributes = listAttributes();
  if (attention.gradients) {
    for (Value bias : values.slice(6, attention.extras.biases.size()))
      types.push_back(bias.getType());
    op = AttentionGradOp::create(b, types, values, attributes);
  } else {
    op = AttentionOp::create(b, types, values, attributes);
  }
  func::ReturnOp::create(b, op->getResults().take_front(results.size()));
}

SmallVector<NamedAttribute> ExactAttention::listAttributes() {
  const plan::AttentionExtras &extras = attention.extras;
  // One of each operand, then biases, mask and random state.
  SmallVector<int32_t> segments(attention.gradients ? 6 : 3, 1);
  segments.push_back(static_cast<int32_t>(extras.biases.size()));
  segments.push_back(extras.mask.has_value());
  segments.push_back(extras.dropout.has_value());
  SmallVector<NamedAttribute> attributes = {
      b.getNamedAttr("scale", b.getF64FloatAttr(attention.scale)),
      b.getNamedAttr("operandSegmentSizes", b.getDenseI32ArrayAttr(segments)),
      b.getNamedAttr("softcap", b.getF64FloatAttr(extras.softcap)),
      b.getNamedAttr("fill", b.getF64FloatAttr(extras.fill))};
  if (const auto &dropout = extras.dropout)
    attributes.append(
        {b.getNamedAttr("ratio", b.getF64FloatAttr(dropout->ratio)),
         b.getNamedAttr("stream", b.getI64IntegerAttr(dropout->stream))});
  for (auto [name, isSet] : {std::pair("causal", attention.causal),
                             std::pair("zero_hidden", extras.zeroHidden),
                             std::pair("zero_nan", extras.zeroNan)})
    if (isSet)
      attributes.push_back(b.getNamedAttr(name, b.getUnitAttr()));
  return attributes;
}

int64_t ExactAttention::findElement(size_t index, int64_t head,
                                    int64_t number) const {
  const std::vector<int64_t> &sizes = tensors[index].sizes;
  const std::vector<int64_t> &strides = tensors[index].view.strides;
  auto count = ShapedType::getNumElements(getShape(index));
  int64_t rest = head * count + number, element = 0;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    element += rest % sizes[axis] * strides[axis];
    rest /= sizes[axis];
  }
  return element;
}

TensorRef ExactAttention::read(size_t index, int64_t head,
                               const std::vector<Bytes> &from) {
  Tensor tensor(getType(index));
  if (isState(index)) {
    std::memcpy(tensor.getIntegers().data(), from[index].data(),
                tensor.getNumElements() * sizeof(int64_t));
    return std::make_shared<const Tensor>(std::move(tensor));
  }
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    double element = readElement(execution.accesses[index].dtype, from[index],
                                 findElement(index, head, i));
    if (tensor.isFloat())
      tensor[i] = element;
    else
      tensor.getIntegers()[i] = element != 0;
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

Result<void> ExactAttention::judgeHead(int64_t head, Judgement &judgement) {
  NamedTensors inputs;
  bool areFinite = true;
  for (auto [name, index] : llvm::zip(getArgumentNames(function), arguments)) {
    inputs[name] = read(index, head, execution.before);
    areFinite &= llvm::all_of(inputs[name]->getFloats(),
                              [](double x) { return std::isfinite(x); });
  }
  int64_t sharers = attention.grouped ? attention.batch.back() : 1;
  op->setAttr(kFirstHeadAttr, b.getI64IntegerAttr(head * sharers));
  EvaluationOptions options;
  options.bounds = true;
  DiagnosticCollector diagnostics(b.getContext());
  FailureOr<Outputs> expected =
      evaluate(*module, function.getName(), inputs, options);
  if (failed(expected))
    return diagnostics.takeError("", "attention cannot be evaluated");
  for (auto [name, index] : llvm::zip(getResultNames(function), results)) {
    TensorRef value = read(index, head, execution.after);
    Tensor wanted = *expected->values[name];
    // Kernels may multiply masked elements by 0, which gives NaN for non-finite
    // ones, or skip them, as the reference does. Accept both.
    for (int64_t i = 0; !areFinite && i < wanted.getNumElements(); ++i)
      if (std::isnan((*value)[i]))
        wanted[i] = NAN;
    Deviation deviation = compare(*value, wanted, expected->bounds[name].get());
    if (execution.onBound)
      for (int64_t i = 0; i < wanted.getNumElements(); ++i)
        execution.onBound(index, findElement(index, head, i), wanted[i],
                          (*expected->bounds[name])[i]);
    double own = (*value)[deviation.index], other = wanted[deviation.index];
    deviation.index = findElement(index, head, deviation.index);
    judgement.add(index, execution.accesses[index].dtype, deviation, own,
                  other);
  }
  return {};
}

Result<Judgement> ExactAttention::judge() {
  constexpr int64_t kMaxProducts = 1 << 26; // About a second.
  int64_t heads = llvm::product_of(attention.batch);
  int64_t shared = attention.grouped ? attention.batch.back() : 1;
  heads /= shared;
  int64_t each = shared * attention.queries * attention.keys *
                 (attention.depth + attention.width);
  int64_t most = std::max<int64_t>(1, kMaxProducts / each);
  if (execution.onBound)
    most = heads;
  Judgement judgement;
  for (int64_t i = 0; i < std::min(heads, most); ++i) {
    auto random = ::binade::philox({static_cast<uint32_t>(i), 0, 0, 0}, {});
    int64_t head = heads <= most ? i : random[0] % heads;
    if (Result<void> done = judgeHead(head, judgement); !done)
      return std::move(done).takeError();
  }
  return judgement;
}

Result<Judgement> mlir::binade::judge(ModuleOp source,
                                      const plan::Attention &attention,
                                      const Execution &execution) {
  return ExactAttention(source.getContext(), attention, execution).judge();
}
