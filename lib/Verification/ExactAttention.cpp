//===- ExactAttention.cpp - Exact results of attention --------------------===//

#include "ExactSums.h"
#include "binade/Container/Philox.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Target/CUDA.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
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
    return ArrayRef(tensors[index].sizes)
        .drop_front(attention.batch.size() - attention.grouped);
  }
  RankedTensorType getType(size_t index) {
    return RankedTensorType::get(
        getShape(index),
        getElementType(b.getContext(), execution.accesses[index].dtype));
  }
  void buildFunction();
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
  auto getTypes = [&](ArrayRef<size_t> which) {
    return llvm::map_to_vector(which,
                               [&](size_t i) -> Type { return getType(i); });
  };
  module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(
      b, "head", b.getFunctionType(getTypes(arguments), getTypes(results)));
  b.setInsertionPointToStart(function.addEntryBlock());
  auto scale = b.getNamedAttr("scale", b.getF64FloatAttr(attention.scale));
  // One operand each, and none of biases, mask and random state.
  SmallVector<int32_t> segments(arguments.size(), 1);
  segments.append(3, 0);
  SmallVector<NamedAttribute> attributes = {
      scale,
      b.getNamedAttr("operandSegmentSizes", b.getDenseI32ArrayAttr(segments))};
  if (attention.causal)
    attributes.push_back(b.getNamedAttr("causal", b.getUnitAttr()));
  TypeRange types = function.getResultTypes();
  ValueRange values = function.getArguments();
  Operation *op =
      attention.gradients
          ? AttentionGradOp::create(b, types, values, attributes).getOperation()
          : AttentionOp::create(b, types, values, attributes).getOperation();
  func::ReturnOp::create(b, op->getResults());
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
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    tensor[i] = readElement(execution.accesses[index].dtype, from[index],
                            findElement(index, head, i));
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
