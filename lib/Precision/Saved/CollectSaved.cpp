//===- CollectSaved.cpp - The saved values of a step ----------------------===//

#include "ChooseSaved.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Rematerialize.h"
#include "binade/Precision/StateFormats.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

/// The maximum number of ops that are recomputed for one value.
static constexpr unsigned kMaxOps = 8;

/// Whether `op` is limited by memory traffic, so that recomputing it is cheap.
static bool isCheap(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  if (!kernelOp || !isMemoryEffectFree(op))
    return false;
  switch (kernelOp.getSchedule()) {
  case Schedule::Elementwise:
  case Schedule::RowReduction:
  case Schedule::ColumnReduction:
  case Schedule::FullReduction:
  case Schedule::Permute:
  case Schedule::Gather:
    return true;
  default:
    return false;
  }
}

/// Returns the multiply-adds of a contraction with one result and no side
/// effects; 0 for other ops.
static uint64_t countContractionMacs(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  auto precisionOp = dyn_cast<PrecisionOpInterface>(op);
  if (!kernelOp || !precisionOp || !isMemoryEffectFree(op) ||
      op->getNumResults() != 1 || kernelOp.getSchedule() != Schedule::Library)
    return 0;
  return static_cast<uint64_t>(precisionOp.countMacs().value_or(0));
}

/// Whether decisions choose the format of `value`. They do not for values such
/// as statistics of rows.
static bool hasChosenFormat(Value value) {
  while (Value from = getMoved(value))
    value = from;
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return true;
  auto op = dyn_cast<PrecisionOpInterface>(result.getOwner());
  return op &&
         op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen;
}

namespace {
class Collector {
public:
  Collector(Block &body, QuantizedAttr format, bool recomputesMatmuls)
      : body(body), format(format), recomputesMatmuls(recomputesMatmuls) {}

  std::vector<SavedValue> run() {
    saveAll();
    joinViews();
    collect();
    return std::move(values);
  }

private:
  /// Adds a `save` to each value that the backward pass reads without one, such
  /// as a copy of a parameter in another format.
  void saveAll() {
    auto isRead = [](OpOperand &use) {
      return getPhase(use.getOwner()) == Phase::Backward;
    };
    for (Operation &op : llvm::make_early_inc_range(body)) {
      auto kernelOp = dyn_cast<KernelOpInterface>(op);
      if (isa<SaveOp>(op) || getPhase(&op) != Phase::Forward || !kernelOp ||
          kernelOp.isRecomputed())
        continue;
      for (Value value : op.getResults()) {
        if (llvm::none_of(value.getUses(), isRead))
          continue;
        OpBuilder b(value.getContext());
        b.setInsertionPointAfterValue(value);
        Value save = SaveOp::create(b, value.getLoc(), value);
        value.replaceUsesWithIf(save, isRead);
        implicit.insert(findBase(value));
      }
    }
  }

  /// Saves each value once, instead of views of it, because they share its
  /// memory. Arguments are not saved.
  void joinViews() {
    Rematerializer rematerializer(body);
    llvm::MapVector<Value, SmallVector<SaveOp>> byBase;
    for (auto save : body.getOps<SaveOp>())
      if (save.getX().getType() == save.getType())
        byBase[findBase(save.getX())].push_back(save);
    for (auto &[base, saves] : byBase) {
      if (saves.size() == 1 && !isa<BlockArgument>(base))
        continue;
      for (SaveOp save : saves)
        if (Operation *user = findFirstUser(save.getResult()))
          rematerializer.keep(base, user);
      for (SaveOp save : saves) {
        SmallVector<Operation *> views = rematerializer.find(save, 0, isCheap);
        if (!views.empty())
          rematerializer.replace(save, views);
        else if (isa<BlockArgument>(save.getX()))
          eraseSave(save);
      }
    }
  }

  void collect() {
    ErrorPropagationAnalysis analysis(body);
    Rematerializer rematerializer(body);
    DenseMap<Value, unsigned> numbers;
    for (SaveOp save : getSaves()) {
      numbers[save.getX()] = values.size();
      SavedValue &value = values.emplace_back();
      value.save = save;
      value.bytes = getByteSize(save.getType());
      value.isImplicit = implicit.contains(save.getX());
      value.quantizedBytes = getQuantizedBytes(save);
      value.reach = analysis.getReach(save);
      value.firstRead = analysis.getFirstRead(save);
      value.ops = rematerializer.find(save, kMaxOps, isCheap);
      if (value.ops.empty() && recomputesMatmuls)
        value.ops = rematerializer.find(save, kMaxOps, [](Operation *op) {
          return isCheap(op) || countContractionMacs(op) > 0;
        });
      for (Operation *op : value.ops) {
        if (!isView(op))
          value.work += countElements(op);
        value.macs += countContractionMacs(op);
        for (Value operand : op->getOperands())
          if (auto known = numbers.find(operand); known != numbers.end())
            value.sources.push_back(known->second);
      }
    }
  }

  /// Returns the saves in the order of the values that they save.
  SmallVector<SaveOp> getSaves() {
    SmallVector<SaveOp> saves(body.getOps<SaveOp>());
    llvm::stable_sort(saves, [](SaveOp l, SaveOp r) {
      Operation *before = l.getX().getDefiningOp();
      Operation *second = r.getX().getDefiningOp();
      return before != second && before->isBeforeInBlock(second);
    });
    return saves;
  }

  static uint64_t countElements(Operation *op) {
    uint64_t count = 0;
    for (Value value : op->getOperands())
      count += getNumElements(value);
    for (Value value : op->getResults())
      count += getNumElements(value);
    return count;
  }

  /// Returns the bytes of the quantized value; none if quantizing does not save
  /// memory, or the format of the value cannot be chosen.
  std::optional<uint64_t> getQuantizedBytes(SaveOp save) const {
    PrecisionAttr decision = save.getPrecisionAttr();
    RankedTensorType type = save.getType();
    if (!isa<FloatType>(type.getElementType()) ||
        save.getX().getType() != type || (decision && decision.isPin()) ||
        type.getNumElements() < kMinQuantized || save.use_empty() ||
        !hasChosenFormat(save.getX()))
      return std::nullopt;
    uint64_t bytes = format.getBytes(type.getShape());
    if (bytes >= getByteSize(type))
      return std::nullopt;
    return bytes;
  }

  Block &body;
  QuantizedAttr format;
  bool recomputesMatmuls;
  /// Values that the backward pass read without a `save`.
  DenseSet<Value> implicit;
  std::vector<SavedValue> values;
};
} // namespace

void mlir::binade::eraseSave(SaveOp save) {
  save.replaceAllUsesWith(save.getX());
  save->erase();
}

std::vector<SavedValue> mlir::binade::collectSaved(Block &body,
                                                   QuantizedAttr format,
                                                   bool recomputesMatmuls) {
  return Collector(body, format, recomputesMatmuls).run();
}
