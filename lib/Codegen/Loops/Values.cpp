//===- Values.cpp - Elements from their definitions -----------------------===//

#include "Emitter.h"
#include "Movement.h"
#include "Positions.h"
#include "RandomNumbers.h"
#include "binade/IR/Accuracy.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Entries of the largest table that is copied to shared memory: copying it
/// takes little in comparison with the elements of a block.
static constexpr int64_t kMaxSharedTable = 1024;

//===----------------------------------------------------------------------===//
// Known values
//===----------------------------------------------------------------------===//

std::optional<Element> Emitter::recall(Value value, const Offset &offset) {
  std::pair key(value.getAsOpaquePointer(), offset);
  for (unsigned where = scopes.size(); where-- > 0;)
    if (auto found = scopes[where].values.find(key);
        found != scopes[where].values.end())
      return Element{found->second, where};
  return std::nullopt;
}

Element Emitter::remember(Value value, const Offset &offset, Element element) {
  scopes[element.depth].values[{value.getAsOpaquePointer(), offset}] =
      element.value;
  return element;
}

void Emitter::define(Value value, const Offset &offset, Value known) {
  remember(value, offset, {known, depth()});
}

void Emitter::place(Value value, Value memory, const Offset &base) {
  homes[value] = {memory, base, depth()};
}

Element Emitter::pull(Value value, const Offset &offset) {
  if (std::optional<Element> known = recall(value, offset))
    return *known;
  return remember(value, offset, compute(value, offset));
}

Value Emitter::pullLanes(Value value, const Offset &offset) {
  return broadcast(widen(pull(value, offset).value));
}

/// Reports that `op` cannot be emitted, and returns zeros so that emission
/// continues.
Element Emitter::fail(Operation *op, const Twine &reason, Type element) {
  if (!hasFailed)
    op->emitOpError(reason);
  hasFailed = true;
  At at(*this, 0);
  return {arith::ConstantOp::create(b, b.getZeroAttr(getRegisterType(element))),
          0};
}

Element Emitter::compute(Value value, const Offset &offset) {
  Type element = getTensor(value).getElementType();
  if (auto home = homes.find(value); home != homes.end()) {
    Offset local = offset - home->second.base;
    if (!local.isNegative())
      return load(home->second.memory, element, local, home->second.depth);
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    record(loads, argument.getArgNumber(), offset);
    return load(buffer(argument.getArgNumber()), element, offset);
  }
  Operation *op = value.getDefiningOp();
  if (isa<ElementwiseOpInterface>(op))
    return computeElementwise(op, offset);
  if (std::optional<Offset> source = moveOffset(space, op, offset))
    return pull(op->getOperand(0), *source);
  if (auto gather = dyn_cast<GatherOp>(op))
    return pull(gather.getTable(), gatherOffset(gather, offset));
  if (auto concat = dyn_cast<ConcatOp>(op))
    return computeConcat(concat, offset);
  if (auto pad = dyn_cast<PadOp>(op))
    return computePad(pad, offset);
  if (isa<IotaOp>(op))
    return computeIota(op, offset);
  if (std::optional<IndexedElement> indexed = IndexedElement::from(op))
    return indexed->compute(*this, offset);
  if (auto check = dyn_cast<CheckIndexOp>(op))
    return computeCheck(check, offset);
  if (isa<ConstantOp>(op))
    return computeConstant(op, offset);
  unsigned result = cast<OpResult>(value).getResultNumber();
  if (isa<OptimizerUpdateOp, OptimizerScalarsOp>(op))
    return computeFormula(op, result, offset);
  if (auto dequantize = dyn_cast<DequantizeOp>(op))
    return computeDequantize(dequantize, offset);
  if (auto encode = dyn_cast<EncodeOp>(op))
    return computeEncode(encode, offset);
  if (auto choose = dyn_cast<ChooseScaleOp>(op))
    return computeChooseScale(choose, result, offset);
  return fail(op, "has no lowering inside a kernel with this schedule",
              element);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Element Emitter::computeElementwise(Operation *op, const Offset &offset) {
  if (std::optional<Element> found = comparePosition(*this, op, offset))
    return *found;
  if (std::optional<Element> drawn = drawTogether(*this, op, offset))
    return *drawn;
  unsigned where = 0;
  SmallVector<Value> operands;
  bool hasVector = false;
  for (Value operand : op->getOperands()) {
    Element element = pull(operand, offset);
    where = std::max(where, element.depth);
    hasVector |= isa<VectorType>(element.value.getType());
    operands.push_back(element.value);
  }
  At at(*this, where);
  for (Value &operand : operands) {
    operand = widen(operand);
    if (hasVector)
      operand = broadcast(operand);
  }
  AccuracyKeeper keeper(op);
  b.setListener(&keeper);
  Value y = cast<ElementwiseOpInterface>(op).buildScalar(b, operands);
  b.setListener(nullptr);
  auto castOp = dyn_cast<CastOp>(op);
  y = narrow(y, getTensor(op->getResult(0)).getElementType(),
             castOp && castOp.getSaturate());
  return {y, where};
}

Element Emitter::computeIota(Operation *op, const Offset &offset) {
  Offset position = getPosition(space, cast<IotaOp>(op), offset);
  unsigned where = position.depth();
  At at(*this, where);
  bool perLane = position.variesOverLanes();
  Value number = perLane ? this->perLane(position) : this->number(position);
  Type target = getTensor(op->getResult(0)).getElementType();
  if (perLane)
    target = VectorType::get({laneCount}, target);
  return {arith::IndexCastOp::create(b, target, number), where};
}

static APInt widen(const APInt &number, IntegerType from, unsigned width) {
  return isUnsigned(from) ? number.zext(width) : number.sext(width);
}

static IntegerAttr toRegister(IntegerAttr number) {
  auto from = cast<IntegerType>(number.getType());
  auto to = cast<IntegerType>(getRegisterType(from));
  return IntegerAttr::get(to, widen(number.getValue(), from, to.getWidth()));
}

/// Converts `elements` to the element type of buffers.
static DenseElementsAttr toStorage(DenseElementsAttr elements, Type storage) {
  Type element = elements.getElementType();
  unsigned width = storage.getIntOrFloatBitWidth();
  if (element == storage)
    return elements;
  if (auto from = dyn_cast<IntegerType>(element)) {
    auto function = [&](const APInt &x) { return widen(x, from, width); };
    return elements.mapValues(
        storage, llvm::function_ref<APInt(const APInt &)>(function));
  }
  auto function = [&](const APFloat &x) {
    return x.bitcastToAPInt().zext(width);
  };
  return elements.mapValues(
      storage, llvm::function_ref<APInt(const APFloat &)>(function));
}

Element Emitter::computeConstant(Operation *op, const Offset &offset) {
  Attribute value = cast<ConstantOp>(op).getValue();
  auto elements = dyn_cast<DenseElementsAttr>(value);
  RankedTensorType type = getTensor(op->getResult(0));
  if (!elements)
    return fail(
        op, "cannot be part of a kernel, because its elements are in a file",
        type.getElementType());
  if (elements.isSplat()) {
    At at(*this, 0);
    auto number = elements.getSplatValue<TypedAttr>();
    if (auto integer = dyn_cast<IntegerAttr>(number))
      number = toRegister(integer);
    return {arith::ConstantOp::create(b, number), 0};
  }
  auto flat =
      RankedTensorType::get({type.getNumElements()}, type.getElementType());
  return load(table(elements.reshape(flat)), type.getElementType(), offset);
}

/// Creates a constant in the kernel's object.
Value Emitter::table(DenseElementsAttr elements) {
  Value &known = tables[elements];
  if (known)
    return known;
  Operation *module = SymbolTable::getNearestSymbolTable(target);
  RankedTensorType type = cast<RankedTensorType>(elements.getType());
  auto memory =
      MemRefType::get(type.getShape(), getStorageType(type.getElementType()));
  DenseElementsAttr stored = toStorage(elements, memory.getElementType());
  std::string name = (SymbolTable::getSymbolName(target).getValue() + ".table" +
                      std::to_string(tables.size()))
                         .str();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&module->getRegion(0).front());
  memref::GlobalOp::create(b, name, b.getStringAttr("private"), memory, stored,
                           /*constant=*/true, b.getI64IntegerAttr(64));
  At at(*this, 0);
  known = memref::GetGlobalOp::create(b, memory, name);
  return known;
}

Value Emitter::lookUp(DenseElementsAttr elements, Value index) {
  bool isShared = sharesTables && elements.size() <= kMaxSharedTable;
  Value memory = isShared ? sharedTable(elements) : table(elements);
  if (isa<VectorType>(index.getType()))
    return gather(memory, index);
  index = arith::IndexCastUIOp::create(b, b.getIndexType(), index);
  return memref::LoadOp::create(b, memory, index);
}
