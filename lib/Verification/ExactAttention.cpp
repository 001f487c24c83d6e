//===- ExactAttention.cpp - Exact results of attention --------------------===//

#include "ExactSums.h"
#include "binade/Container/Philox.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Reference/Heads.h"
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
    findGroup();
    buildFunction();
  }

  Result<Judgement> judge();

private:
  void findGroup();
  /// Returns the shape of a tensor for one group: its other batch axes have
  /// size 1.
  std::vector<int64_t> getShape(size_t index) const {
    std::vector<int64_t> sizes = tensors[index].sizes;
    for (size_t axis = 0; axis < group.size() && !isState(index); ++axis)
      if (!group[axis])
        sizes[axis] = 1;
    return sizes;
  }
  /// Returns the number of heads of a group, or of groups.
  int64_t countHeads(bool ofGroup) const {
    int64_t count = 1;
    for (auto [size, isIn] : llvm::zip_equal(attention.batch, group))
      if (isIn == ofGroup)
        count *= size;
    return count;
  }
  SmallVector<int64_t> listHeads(int64_t number) const;
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
  /// Returns the index in access `index` of element `number` of group `which`.
  int64_t findElement(size_t index, int64_t which, int64_t number) const;
  TensorRef read(size_t index, int64_t which, const std::vector<Bytes> &from);
  Result<void> judgeGroup(int64_t which, Judgement &judgement);

  ImplicitLocOpBuilder b;
  const plan::Attention &attention;
  const Execution &execution;
  std::vector<plan::Operand> tensors;
  /// Whether heads that differ only in this batch axis are evaluated together.
  SmallVector<bool> group;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Operation *op = nullptr;                ///< The attention of the function.
  SmallVector<size_t> arguments, results; ///< Indices in `tensors`.
};
} // namespace

/// Puts heads that share keys, or the gradient of a bias, into one group.
void ExactAttention::findGroup() {
  group.assign(attention.batch.size(), false);
  if (attention.grouped)
    group.back() = true;
  if (!attention.gradients)
    return;
  for (const plan::Attention::BiasGradient &dbias :
       attention.gradients->dbiases)
    for (auto [isIn, stride] : llvm::zip(group, dbias.view.strides))
      isIn |= stride == 0;
}

/// Builds a function that computes one group.
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
    if (tensors[index].isTensor() && !tensors[index].isWritten())
      arguments.push_back(index);
  auto getTypes = [&](ArrayRef<size_t> which) {
    return llvm::map_to_vector(which,
                               [&](size_t i) -> Type { return getType(i); });
  };
  module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(
      b, "heads", b.getFunctionType(getTypes(arguments), getTypes(results)));
  b.setInsertionPointToStart(function.addEntryBlock());
  ValueRange values = function.getArguments();
  SmallVector<NamedAttribute> attributes = listAttributes();
  if (!attention.gradients) {
    op = AttentionOp::create(b, function.getResultTypes(), values, attributes);
    func::ReturnOp::create(b, op->getResults());
    return;
  }
  // The op has gradients of all biases.
  SmallVector<Type> types(function.getResultTypes().take_front(3));
  for (Value bias : values.slice(6, attention.extras.biases.size()))
    types.push_back(bias.getType());
  SmallVector<size_t> wanted = {0, 1, 2};
  for (const plan::Attention::BiasGradient &dbias :
       attention.gradients->dbiases) {
    size_t number = 3 + dbias.bias;
    types[number] = function.getResultTypes()[wanted.size()];
    wanted.push_back(number);
  }
  op = AttentionGradOp::create(b, types, values, attributes);
  func::ReturnOp::create(b, llvm::map_to_vector(wanted, [&](size_t i) -> Value {
                           return op->getResult(i);
                         }));
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

/// Returns the numbers of the heads of group `number`.
SmallVector<int64_t> ExactAttention::listHeads(int64_t number) const {
  SmallVector<int64_t> heads = {0};
  int64_t step = 1;
  for (size_t axis = group.size(); axis-- > 0;) {
    int64_t size = attention.batch[axis];
    SmallVector<int64_t> all;
    for (int64_t place = 0; place < (group[axis] ? size : 1); ++place)
      for (int64_t head : heads)
        all.push_back((group[axis] ? place : number % size) * step + head);
    if (!group[axis])
      number /= size;
    heads = std::move(all);
    step *= size;
  }
  return heads;
}

int64_t ExactAttention::findElement(size_t index, int64_t which,
                                    int64_t number) const {
  std::vector<int64_t> shape = getShape(index);
  const plan::Operand &tensor = tensors[index];
  int64_t element = 0;
  for (size_t axis = shape.size(); axis-- > 0;) {
    int64_t place = number % shape[axis];
    number /= shape[axis];
    if (axis < group.size() && !group[axis]) {
      int64_t size = attention.batch[axis];
      place = tensor.sizes[axis] == 1 ? 0 : which % size;
      which /= size;
    }
    element += place * tensor.view.strides[axis];
  }
  return element;
}

TensorRef ExactAttention::read(size_t index, int64_t which,
                               const std::vector<Bytes> &from) {
  Tensor tensor(getType(index));
  if (isState(index)) {
    std::memcpy(tensor.getIntegers().data(), from[index].data(),
                tensor.getNumElements() * sizeof(int64_t));
    return std::make_shared<const Tensor>(std::move(tensor));
  }
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    double element = readElement(execution.accesses[index].dtype, from[index],
                                 findElement(index, which, i));
    if (tensor.isFloat())
      tensor[i] = element;
    else
      tensor.getIntegers()[i] = element != 0;
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

Result<void> ExactAttention::judgeGroup(int64_t which, Judgement &judgement) {
  NamedTensors inputs;
  bool areFinite = true;
  for (auto [name, index] : llvm::zip(getArgumentNames(function), arguments)) {
    inputs[name] = read(index, which, execution.before);
    areFinite &= llvm::all_of(inputs[name]->getFloats(),
                              [](double x) { return std::isfinite(x); });
  }
  op->setAttr(kHeadsAttr, b.getDenseI64ArrayAttr(listHeads(which)));
  EvaluationOptions options;
  options.bounds = true;
  DiagnosticCollector diagnostics(b.getContext());
  FailureOr<Outputs> expected =
      evaluate(*module, function.getName(), inputs, options);
  if (failed(expected))
    return diagnostics.takeError("", "attention cannot be evaluated");
  for (auto [name, index] : llvm::zip(getResultNames(function), results)) {
    TensorRef value = read(index, which, execution.after);
    Tensor wanted = *expected->values[name];
    // Kernels may multiply masked elements by 0, which gives NaN for non-finite
    // ones, or skip them, as the reference does. Accept both.
    for (int64_t i = 0; !areFinite && i < wanted.getNumElements(); ++i)
      if (std::isnan((*value)[i]))
        wanted[i] = NAN;
    Deviation deviation = compare(*value, wanted, expected->bounds[name].get());
    if (execution.onBound)
      for (int64_t i = 0; i < wanted.getNumElements(); ++i)
        execution.onBound(index, findElement(index, which, i), wanted[i],
                          (*expected->bounds[name])[i]);
    double own = (*value)[deviation.index], other = wanted[deviation.index];
    deviation.index = findElement(index, which, deviation.index);
    judgement.add(index, execution.accesses[index].dtype, deviation, own,
                  other);
  }
  return {};
}

Result<Judgement> ExactAttention::judge() {
  constexpr int64_t kMaxProducts = 1 << 26; // About a second.
  int64_t groups = countHeads(/*ofGroup=*/false);
  int64_t each = countHeads(/*ofGroup=*/true) * attention.queries *
                 attention.keys * (attention.depth + attention.width);
  int64_t most = std::max<int64_t>(1, kMaxProducts / each);
  if (execution.onBound)
    most = groups;
  Judgement judgement;
  for (int64_t i = 0; i < std::min(groups, most); ++i) {
    auto random = ::binade::philox({static_cast<uint32_t>(i), 0, 0, 0}, {});
    int64_t which = groups <= most ? i : random[0] % groups;
    if (Result<void> done = judgeGroup(which, judgement); !done)
      return std::move(done).takeError();
  }
  return judgement;
}

Result<Judgement> mlir::binade::judge(ModuleOp source,
                                      const plan::Attention &attention,
                                      const Execution &execution) {
  return ExactAttention(source.getContext(), attention, execution).judge();
}
