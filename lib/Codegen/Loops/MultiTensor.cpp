//===- MultiTensor.cpp - Multi-tensor kernels -----------------------------===//
//
// The IR of such a kernel is written for one vector; it is launched for blocks
// of elements of tensors of any shape. Scalars are operands of rank 0.
//
//===----------------------------------------------------------------------===//

#include "../Lanes.h"
#include "Reduction.h"
#include "Schedules.h"
#include "StateGroups.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Emits a kernel that applies its ops to each element of many tensors.
class MultiTensorKernel {
public:
  MultiTensorKernel(const KernelSource &source, int64_t workspace)
      : results(source.getResults()),
        emitter(source.function, source.formulas, source.into,
                source.symbol + ".items",
                TypeRange(getBuffers(source, workspace)), 2, getShape(source)) {
  }

  /// All threads of a block process its elements together, few per thread,
  /// because an update has many values for each.
  static std::optional<GpuShape> getShape(const KernelSource &source) {
    constexpr int64_t kMaxLanes = 4;
    std::optional<GpuShape> shape = source.shape;
    if (shape) {
      shape->team = shape->threads;
      shape->lanes = std::min(source.chooseLanes(kLanes), kMaxLanes);
      shape->isMultiTensor = true;
    }
    return shape;
  }

  /// The vector of the kernel's IR represents all elements.
  static SmallVector<Type> getBuffers(const KernelSource &source,
                                      int64_t workspace) {
    SmallVector<Type> types = source.getBuffers(workspace);
    func::FuncOp function = source.function;
    SmallVector<Type> tensors(function.getArgumentTypes());
    llvm::append_range(tensors, function.getResultTypes());
    for (auto [memory, tensor] : llvm::zip(types, tensors))
      if (cast<RankedTensorType>(tensor).getRank() > 0)
        memory =
            MemRefType::get({kMany}, cast<MemRefType>(memory).getElementType());
    return types;
  }

  FailureOr<KernelInfo> emit(KernelInfo info, func::FuncOp function) {
    auto update = getUpdate(function);
    Value skip = update ? update.getSkip() : Value();
    std::optional<StateGroups> groups;
    if (update && StateGroups::isNeeded(update))
      groups.emplace(emitter, update);
    auto emitUpdates = [&] {
      if (groups)
        groups->emit();
      else
        emitLoop({});
    };
    if (!skip) {
      emitUpdates();
    } else {
      ImplicitLocOpBuilder &b = emitter.builder();
      Value condition = emitter.pull(skip, Offset()).value;
      Value truth = arith::ConstantIntOp::create(b, 1, 1);
      emitter.conditional(arith::XOrIOp::create(b, condition, truth), {}, [&] {
        emitUpdates();
        return SmallVector<Value>();
      });
      emitter.conditional(condition, {}, [&] {
        emitter.readingTableAgain([&] { emitCopies(update, groups); });
        return SmallVector<Value>();
      });
    }
    setInPlace(emitter, info);
    if (failed(emitter.status()))
      return failure();
    return info;
  }

private:
  static OptimizerUpdateOp getUpdate(func::FuncOp function) {
    auto updates = function.front().getOps<OptimizerUpdateOp>();
    return updates.empty() ? nullptr : *updates.begin();
  }

  static SmallVector<Value> getOld(OptimizerUpdateOp update) {
    SmallVector<Value> old = {update.getParameter()};
    llvm::append_range(old, update.getStates());
    return old;
  }

  /// Emits copies of the operands of a skipped update to its results. A result
  /// in place of its operand needs no copy.
  void emitCopies(OptimizerUpdateOp update,
                  std::optional<StateGroups> &groups) {
    emitter.conditional(isOutOfPlace(update), {}, [&] {
      if (groups)
        groups->emitCopies();
      else
        emitLoop(update);
      return SmallVector<Value>();
    });
  }

  /// Whether a result of `update` has memory of its own.
  Value isOutOfPlace(OptimizerUpdateOp update) {
    ImplicitLocOpBuilder &b = emitter.builder();
    auto addressOf = [&](Value memory) -> Value {
      return memref::ExtractAlignedPointerAsIndexOp::create(b, memory);
    };
    Value moved = arith::ConstantIntOp::create(b, 0, 1);
    for (auto [index, result] : llvm::enumerate(results)) {
      // A result that is computed from the update always has to be stored.
      Value differs = arith::ConstantIntOp::create(b, 1, 1);
      for (auto [before, after] :
           llvm::zip(getOld(update), update->getResults()))
        if (auto argument = dyn_cast<BlockArgument>(before);
            argument && after == result)
          differs = arith::CmpIOp::create(
              b, arith::CmpIPredicate::ne,
              addressOf(emitter.buffer(argument.getArgNumber())),
              addressOf(emitter.resultBuffer(index)));
      moved = arith::OrIOp::create(b, moved, differs);
    }
    return moved;
  }

  /// With `skipped`, the results of this update are its operands.
  void emitLoop(OptimizerUpdateOp skipped) {
    emitter.dynamicColumns(
        emitter.argument(0), emitter.argument(1), kMany, {},
        [&](const Offset &column, ValueRange) {
          emitter.setPlaces(column, std::nullopt);
          if (skipped)
            for (auto [before, after] :
                 llvm::zip(getOld(skipped), skipped->getResults()))
              emitter.define(after, column, emitter.pull(before, column).value);
          SmallVector<Value> values;
          for (Value result : results)
            values.push_back(emitter.pull(result, column).value);
          for (auto [index, value] : llvm::enumerate(values))
            emitter.storeResult(index, value, column);
          return SmallVector<Value>();
        });
  }

  SmallVector<Value> results;
  Emitter emitter;
};

//===----------------------------------------------------------------------===//
// Statistics of gradients
//===----------------------------------------------------------------------===//

/// A block's partial result: the sum of squares (f64) at byte 0, and the
/// largest magnitude (bits of f32) at byte 8.
constexpr int64_t kPartialBytes = 16;

/// Emits the multi-tensor kernel that computes statistics of gradients.
class StatisticsKernel {
public:
  StatisticsKernel(const KernelSource &source, GradientStatisticsOp op)
      : source(source), op(op) {}

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.grain = kTensorBlock;
    info.workspaceBytes = kPartialBytes;
    info.hasFinish = true;
    if (op.getGradients().size() != 1)
      return op.emitOpError("expects one gradient in a multi-tensor "
                            "kernel, got ")
             << op.getGradients().size();
    SmallVector<Type> buffers =
        MultiTensorKernel::getBuffers(source, kMany * kPartialBytes);
    std::optional<GpuShape> shape = MultiTensorKernel::getShape(source);
    Emitter items(source.function, source.formulas, source.into,
                  source.symbol + ".items", buffers, 2, shape);
    emitItems(items);
    setInPlace(items, info);
    if (shape)
      shape = shape->ofRows();
    Emitter finish(source.function, source.formulas, source.into,
                   source.symbol + ".finish", buffers, 1, shape);
    finish.forAll(1, [&](const Offset &) { emitFinish(finish); });
    if (failed(items.status()) || failed(finish.status()))
      return failure();
    return info;
  }

private:
  static Value getConstant(ImplicitLocOpBuilder &b, Type type,
                           Attribute value) {
    if (auto vector = dyn_cast<VectorType>(type))
      value = DenseElementsAttr::get(vector, value);
    return arith::ConstantOp::create(b, cast<TypedAttr>(value));
  }

  static Value view(Emitter &e, Type type, int64_t byte) {
    return e.viewWorkspace(byte, 2 * kMany, type);
  }

  void emitItems(Emitter &e) {
    ImplicitLocOpBuilder &b = e.builder();
    auto sums = VectorType::get({e.wholeLanes()}, b.getF64Type());
    auto words = VectorType::get({e.wholeLanes()}, b.getI32Type());
    SmallVector<Value> partials = {
        getConstant(b, sums, b.getF64FloatAttr(0.0)),
        getConstant(b, words, b.getI32IntegerAttr(0))};
    Value noSquares = partials[0], noWords = partials[1];
    partials = e.dynamicColumns(
        e.argument(0), e.argument(1), kMany, partials,
        [&](const Offset &column, ValueRange now) {
          Value x = e.pullLanes(op.getGradients().front(), column);
          auto type = cast<VectorType>(x.getType());
          Value wide = arith::ExtFOp::create(b, type.clone(b.getF64Type()), x);
          Value square = arith::MulFOp::create(b, wide, wide);
          Value bits =
              arith::BitcastOp::create(b, type.clone(b.getI32Type()), x);
          Value magnitude = arith::AndIOp::create(
              b, bits,
              getConstant(b, bits.getType(), b.getI32IntegerAttr(kMagnitude)));
          return SmallVector<Value>{
              arith::AddFOp::create(b, now[0], e.fillLanes(square, noSquares)),
              arith::MaxUIOp::create(b, now[1],
                                     e.fillLanes(magnitude, noWords))};
        });
    Offset block = e.offsets().counter(e.argument(0), kMany / kTensorBlock,
                                       e.depth(), kTensorBlock);
    SmallVector<Value> totals = combineThreads(
        e,
        combineLanes(b, partials[0],
                     [&](Value x, Value y) { return add(b, x, y); }),
        vector::ReductionOp::create(b, vector::CombiningKind::MAXUI,
                                    partials[1]));
    e.storeOnce(view(e, b.getF64Type(), 0), totals[0], block * 2);
    e.storeOnce(view(e, b.getI32Type(), 8), totals[1], block * 4);
  }

  static Value add(ImplicitLocOpBuilder &b, Value x, Value y) {
    return arith::AddFOp::create(b, x, y);
  }

  static SmallVector<Value> combineThreads(Emitter &e, Value squares,
                                           Value largest) {
    ImplicitLocOpBuilder &b = e.builder();
    auto addOne = [&](Value x, Value y) { return add(b, x, y); };
    auto takeLarger = [&](Value x, Value y) -> Value {
      return arith::MaxUIOp::create(b, x, y);
    };
    return {e.combineThreads(squares, addOne),
            e.combineThreads(largest, takeLarger)};
  }

  void emitFinish(Emitter &e) {
    ImplicitLocOpBuilder &b = e.builder();
    Value sums = view(e, b.getF64Type(), 0), words = view(e, b.getI32Type(), 8);
    SmallVector<Value> totals = e.rows(
        e.index(0), e.argument(0), kMany / kTensorBlock,
        {getConstant(b, b.getF64Type(), b.getF64FloatAttr(0.0)),
         getConstant(b, b.getI32Type(), b.getI32IntegerAttr(0))},
        [&](const Offset &block, ValueRange now) {
          Value sum = e.loadNow(sums, block * 2);
          Value word = e.loadNow(words, block * 4);
          return SmallVector<Value>{arith::AddFOp::create(b, now[0], sum),
                                    arith::MaxUIOp::create(b, now[1], word)};
        });
    totals = combineThreads(e, totals[0], totals[1]);
    Value found = arith::CmpIOp::create(
        b, arith::CmpIPredicate::uge, totals[1],
        getConstant(b, b.getI32Type(), b.getI32IntegerAttr(kInfinityBits)));
    e.define(op.getSquares(), Offset(), totals[0]);
    e.define(op.getFoundInf(), Offset(), found);
    for (auto [index, result] : llvm::enumerate(source.getResults()))
      e.storeResult(index, e.pull(result, Offset()).value, Offset());
  }

  const KernelSource &source;
  GradientStatisticsOp op;
};
} // namespace

FailureOr<KernelInfo>
mlir::binade::emitMultiTensor(const KernelSource &source) {
  func::FuncOp function = source.function;
  for (auto op : function.front().getOps<GradientStatisticsOp>())
    return StatisticsKernel(source, op).emit();
  for (Type type : function.getResultTypes())
    if (cast<RankedTensorType>(type).getRank() != 1)
      return function.emitError("multi-tensor kernel '@")
             << source.symbol << "' returns " << type
             << "; expected one vector per result";
  KernelInfo info;
  info.symbol = source.symbol;
  info.grain = kTensorBlock;
  return MultiTensorKernel(source, 0).emit(info, function);
}
