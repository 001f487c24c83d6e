//===- Shared.cpp - Functions that schedules share ------------------------===//

#include "Reduction.h"
#include "Schedules.h"
#include "binade/IR/Build.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

SmallVector<Value> KernelSource::getResults() const {
  func::FuncOp f = function;
  return llvm::to_vector(f.front().getTerminator()->getOperands());
}

SmallVector<Type> KernelSource::getBuffers(int64_t workspace) const {
  func::FuncOp f = function;
  SmallVector<Type> buffers;
  for (TypeRange types : {f.getArgumentTypes(), f.getResultTypes()})
    for (Type type : types) {
      auto tensor = cast<RankedTensorType>(type);
      buffers.push_back(MemRefType::get(
          {tensor.getNumElements()}, getStorageType(tensor.getElementType())));
    }
  if (workspace > 0)
    buffers.push_back(
        MemRefType::get({workspace}, IntegerType::get(f.getContext(), 8)));
  return buffers;
}

bool KernelSource::hasIndices() const {
  func::FuncOp f = function;
  return llvm::any_of(f.front().getOps<KernelOpInterface>(), [](auto op) {
    return llvm::any_of(llvm::seq(op->getNumOperands()), [&](unsigned index) {
      return op.getIndexRange(index).has_value();
    });
  });
}

int64_t KernelSource::chooseLanes(int64_t columns) const {
  // Vectors of more than 8 elements need more registers than a thread has.
  constexpr int64_t kAccess = 16, kMax = 8;
  func::FuncOp f = function;
  int64_t bytes = kAccess;
  for (TypeRange types : {f.getArgumentTypes(), f.getResultTypes()})
    for (Type type : types) {
      auto tensor = cast<RankedTensorType>(type);
      unsigned width = tensor.getElementTypeBitWidth();
      if (tensor.getNumElements() >= columns && columns > 1)
        bytes = std::min<int64_t>(bytes, llvm::divideCeil(width, 8));
    }
  int64_t lanes = std::min(kAccess / bytes, kMax);
  return std::max<int64_t>(std::gcd(lanes, columns), 1);
}

int64_t mlir::binade::findColumns(const KernelSource &source,
                                  ArrayRef<Value> values, int64_t elements) {
  // Emits the kernel with a single row, to see which divisions occur.
  ModuleOp into = source.into;
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(into.getLoc());
  Emitter trial(source.function, source.formulas, *scratch, "trial",
                TypeRange(source.getBuffers(kStatusBytes)), 2);
  func::FuncOp function = source.function;
  for (Operation &op : function.front())
    if (auto reduction = Reduction::from(&op)) {
      RankedTensorType left = getTensor(reduction->getResult());
      trial.place(reduction->getResult(),
                  trial.allocate(left.getNumElements(), left.getElementType()),
                  Offset());
    }
  trial.columns(elements, {}, [&](const Offset &column, ValueRange) {
    for (Value value : values)
      if (getTensor(value).getNumElements() == elements)
        (void)trial.pull(value, column);
    return SmallVector<Value>();
  });
  int64_t common = elements;
  for (int64_t cut : trial.offsets().getCuts())
    if (kLanes % cut != 0) // Otherwise the pattern of lanes is constant.
      common = std::gcd(common, cut);
  return std::max<int64_t>(common, 1);
}

void mlir::binade::storeResults(Emitter &emitter, ArrayRef<unsigned> results,
                                const Offset &offset) {
  // All loads precede the stores, because a result may overwrite an operand.
  Operation *terminator = emitter.source().front().getTerminator();
  SmallVector<Value> values = llvm::map_to_vector(results, [&](unsigned index) {
    return emitter.pull(terminator->getOperand(index), offset).value;
  });
  for (auto [index, value] : llvm::zip(results, values))
    emitter.storeResult(index, value, offset);
}

void mlir::binade::emitSmallResults(Emitter &emitter,
                                    ArrayRef<unsigned> results,
                                    const Offset &item) {
  if (results.empty())
    return;
  Value isFirst =
      arith::CmpIOp::create(emitter.builder(), arith::CmpIPredicate::eq,
                            emitter.number(item), emitter.index(0));
  emitter.conditional(isFirst, {}, [&] {
    emitter.setPlaces(std::nullopt, std::nullopt);
    func::FuncOp source = emitter.source();
    Operation *terminator = source.front().getTerminator();
    for (unsigned index : results) {
      Value result = terminator->getOperand(index);
      emitter.columns(getTensor(result).getNumElements(), {},
                      [&](const Offset &column, ValueRange) {
                        Value value = emitter.pull(result, column).value;
                        emitter.storeResult(index, value, column);
                        return SmallVector<Value>();
                      });
    }
    return SmallVector<Value>();
  });
}

FailureOr<KernelInfo> mlir::binade::emitNothing(const KernelSource &source) {
  Emitter emitter(source.function, source.formulas, source.into,
                  source.symbol + ".items", source.getBuffers(0), 2,
                  source.shape);
  if (source.shape)
    emitter.forItems(1, [](const Offset &) {});
  KernelInfo info;
  info.symbol = source.symbol;
  setInPlace(emitter, info);
  return info;
}
