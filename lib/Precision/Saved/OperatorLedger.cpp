//===- OperatorLedger.cpp - Saved memory counted per operator -------------===//

#include "binade/Precision/OperatorLedger.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
struct Operator {
  SmallVector<Operation *> ops;
  Value argument; ///< The tensor that all ops depend on; null for a contraction
                  ///< or join.
};

/// A saved tensor.
struct Kept {
  uint64_t bytes = 0, scaleBytes = 0;
  unsigned reader = 0;
  bool isRead = false; ///< Otherwise its producer keeps it, so far.
};

class Counter {
public:
  explicit Counter(func::FuncOp step) : step(step) {
    findReads();
    findOperators();
    for (unsigned index = 0; index < operators.size(); ++index)
      keep(index);
  }

  std::vector<OperatorRow> getRows() const;

private:
  void findReads();
  void findOperators();
  void place(Operation *op);
  void keep(unsigned index);
  void keep(unsigned index, Value value, Kept kept, bool isRead);

  bool isActivation(Value value) const {
    return sources.contains(value) &&
           isa<FloatType>(getElementTypeOrSelf(value));
  }
  Kept measure(Value value, Type element) const;
  Kept measure(Value value, QuantizedAttr format) const;
  Kept measureRead(PrecisionOpInterface op, unsigned index) const;
  Kept measureMade(Value value) const;

  func::FuncOp step;
  /// The forward values that the adjoints at a location read. An adjoint has
  /// the location of its op.
  DenseMap<Location, DenseSet<Value>> reads;
  /// The quantized format in which each tensor is saved; null if it is not
  /// quantized.
  DenseMap<Value, QuantizedAttr> waits;
  /// For values that depend on the batch: the only tensor that they depend on.
  DenseMap<Value, Value> sources;
  std::vector<Operator> operators;
  DenseMap<Value, unsigned> ofArgument; ///< Indices of operators by `argument`.
  llvm::MapVector<Value, Kept> tensors;
};
} // namespace

/// Returns the tensor of which `value` is a view, transpose or cast.
static Value getBase(Value value) {
  while (Value from = getMoved(value))
    value = from;
  return value;
}

/// Whether `op` computes, instead of only copying elements.
static bool isArithmetic(Operation *op) {
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  return isa<ElementwiseOpInterface>(op) ||
         (decided && decided.getPrecisionClass() != PrecisionClass::Clear);
}

static QuantizedAttr getQuantized(Operation *op, unsigned operand) {
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  PrecisionAttr decision = decided ? decided.getPrecisionAttr() : nullptr;
  if (!decision || !decision.getOperands())
    return {};
  return dyn_cast<QuantizedAttr>(decision.getOperands()[operand]);
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

void Counter::findReads() {
  step.walk([&](SaveOp save) {
    QuantizedAttr format = getQuantized(save, 0);
    // A value that one reader needs in its own format is not quantized.
    auto [known, isNew] = waits.try_emplace(getBase(save.getX()), format);
    if (!isNew && !format)
      known->second = {};
    for (Operation *reader : save->getUsers())
      if (getPhase(reader) == Phase::Backward)
        reads[reader->getLoc()].insert(save.getX());
  });
}

void Counter::findOperators() {
  for (const Port &port : getArguments(step, Role::Batch)) {
    Value batch = step.getArgument(port.index);
    sources[batch] = batch;
  }
  for (Operation &op : step.front().without_terminator())
    if (getPhase(&op) == Phase::Forward && !isa<SaveOp>(op))
      place(&op);
}

void Counter::place(Operation *op) {
  SetVector<Value> found;
  bool depends = false;
  for (Value operand : op->getOperands()) {
    depends |= sources.contains(operand);
    if (isActivation(operand))
      found.insert(sources.lookup(operand));
  }
  if (!depends)
    return;
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  bool isOwn = found.size() != 1 || (decided && decided.accumulates());
  for (Value result : op->getResults())
    sources[result] = isOwn ? result : found.front();
  if (isOwn) {
    operators.push_back({{op}, {}});
  } else if (isArithmetic(op)) {
    auto [known, isNew] =
        ofArgument.try_emplace(found.front(), operators.size());
    if (isNew)
      operators.push_back({{}, found.front()});
    operators[known->second].ops.push_back(op);
  }
}

//===----------------------------------------------------------------------===//
// What they keep
//===----------------------------------------------------------------------===//

Kept Counter::measure(Value value, Type element) const {
  auto type = cast<RankedTensorType>(getBase(value).getType());
  return {getByteSize(type.clone(getStorageFormat(cast<FloatType>(element))))};
}

Kept Counter::measure(Value value, QuantizedAttr format) const {
  auto type = cast<RankedTensorType>(getBase(value).getType());
  uint64_t codes = getByteSize(format.getParts(type.getShape()).front());
  return {codes, format.getBytes(type.getShape()) - codes};
}

/// Measures an operand in the format in which `op`, a contraction, reads it.
Kept Counter::measureRead(PrecisionOpInterface op, unsigned index) const {
  Value value = op->getOperand(index);
  QuantizedAttr format = getQuantized(op, index);
  if (!format)
    format = waits.lookup(getBase(value));
  if (format)
    return measure(value, format);
  PrecisionAttr decision = op.getPrecisionAttr();
  return measure(value, decision ? Type(decision.getCompute())
                                 : getElementTypeOrSelf(value));
}

Kept Counter::measureMade(Value value) const {
  Value base = getBase(value);
  if (QuantizedAttr format = waits.lookup(base))
    return measure(value, format);
  auto maker = base.getDefiningOp<PrecisionOpInterface>();
  PrecisionAttr decision = maker ? maker.getPrecisionAttr() : nullptr;
  return measure(value, decision ? Type(decision.getResult())
                                 : getElementTypeOrSelf(value));
}

void Counter::keep(unsigned index) {
  const Operator &owner = operators[index];
  if (owner.argument) {
    if (llvm::any_of(owner.ops, [&](Operation *op) {
          return reads.contains(op->getLoc());
        }))
      keep(index, owner.argument, measureMade(owner.argument), true);
    return;
  }
  Operation *op = owner.ops.front();
  const DenseSet<Value> &read = reads[op->getLoc()];
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  bool sums = decided && decided.accumulates();
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    if (isActivation(operand) && read.contains(operand))
      keep(index, operand,
           sums ? measureRead(decided, number) : measureMade(operand), true);
  // Other results, such as statistics, are small.
  if (sums && read.contains(op->getResult(0)))
    keep(index, op->getResult(0), measureMade(op->getResult(0)), false);
}

void Counter::keep(unsigned index, Value value, Kept kept, bool isRead) {
  kept.reader = index;
  kept.isRead = isRead;
  auto [known, isNew] = tensors.try_emplace(getBase(value), kept);
  if (isNew)
    return;
  Kept &before = known->second;
  if (!before.isRead && isRead) {
    before.reader = index;
    before.isRead = true;
  }
  if (kept.bytes > before.bytes) {
    before.bytes = kept.bytes;
    before.scaleBytes = kept.scaleBytes;
  }
}

std::vector<OperatorRow> Counter::getRows() const {
  std::vector<OperatorRow> rows;
  llvm::StringMap<unsigned> known;
  SmallVector<unsigned> rowOf;
  for (const Operator &owner : operators) {
    SetVector<StringRef> kinds;
    for (Operation *op : owner.ops)
      kinds.insert(op->getName().stripDialect());
    std::string name = llvm::join(kinds, " ");
    auto [row, isNew] = known.try_emplace(name, rows.size());
    if (isNew)
      rows.push_back({name});
    rowOf.push_back(row->second);
    ++rows[row->second].operators;
  }
  for (const auto &[value, kept] : tensors) {
    OperatorRow &row = rows[rowOf[kept.reader]];
    ++row.tensors;
    row.bytes += kept.bytes;
    row.scaleBytes += kept.scaleBytes;
  }
  llvm::erase_if(rows, [](const OperatorRow &row) { return !row.tensors; });
  return rows;
}

std::vector<OperatorRow> mlir::binade::countByOperators(func::FuncOp step) {
  return Counter(step).getRows();
}
