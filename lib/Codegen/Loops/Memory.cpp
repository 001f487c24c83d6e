//===- Memory.cpp - Loads and stores of kernels ---------------------------===//

#include "Emitter.h"
#include "Positions.h"
#include "binade/Codegen/Saturate.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

Value Emitter::broadcast(Value x) {
  if (isa<VectorType>(x.getType()))
    return x;
  return vector::BroadcastOp::create(
      b, VectorType::get({laneCount}, x.getType()), x);
}

Value Emitter::fillLanes(Value lanes, Value rest) {
  if (lanes.getType() == rest.getType())
    return lanes;
  return vector::InsertStridedSliceOp::create(
      b, lanes, rest, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
}

Value Emitter::widen(Value x) {
  Type element = getElementTypeOrSelf(x.getType());
  Type wide = getComputeType(element);
  if (wide == element)
    return x;
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    wide = vector.clone(wide);
  return arith::ExtFOp::create(b, wide, x);
}

Value Emitter::narrow(Value x, Type element, bool saturate) {
  if (saturate)
    x = clampTo(b, x, cast<FloatType>(element));
  element = getRegisterType(element);
  if (getElementTypeOrSelf(x.getType()) == element)
    return x;
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    type = vector.clone(element);
  return arith::TruncFOp::create(b, type, x);
}

Value mlir::binade::conjunction(ImplicitLocOpBuilder &b, Value x, Value y) {
  return !x ? y : !y ? x : arith::AndIOp::create(b, x, y).getResult();
}

/// Returns 0 or false, one per lane if `offset` has lanes.
Value Emitter::zero(Type element, const Offset &offset) {
  Type type = getRegisterType(element);
  if (offset.variesOverLanes())
    type = VectorType::get({laneCount}, type);
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

Value Emitter::allocate(int64_t count, Type element) {
  At at(*this, 0);
  if (shape)
    return allocateForTeam(count, getStorageType(element));
  return memref::AllocaOp::create(
      b, MemRefType::get({count}, getStorageType(element)),
      b.getI64IntegerAttr(64));
}

Value Emitter::viewWorkspace(int64_t byte, int64_t count, Type element) {
  At at(*this, 0);
  return memref::ViewOp::create(b, MemRefType::get({count}, element),
                                workspace(), index(byte), ValueRange());
}

/// Returns the alignment of the first of contiguous lanes, on GPUs only and if
/// it exceeds the element size.
llvm::MaybeAlign Emitter::getAlignment(Value memory, const Offset &offset) {
  if (!shape)
    return {};
  int64_t elements = offset.constant;
  for (auto [variable, coefficient] : offset.terms)
    if (!variable->variesOverLanes)
      elements = std::gcd(elements, coefficient);
  auto type = cast<MemRefType>(memory.getType());
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  int64_t alignment = std::gcd(getBaseAlignment(memory), elements * bytes);
  if (auto view = memory.getDefiningOp<memref::ViewOp>())
    if (auto shift = getConstantIntValue(view.getByteShift()))
      alignment = std::gcd(alignment, *shift);
  return alignment > bytes ? llvm::MaybeAlign(alignment) : llvm::MaybeAlign();
}

/// Returns the float whose bit pattern is in the low bits of a byte.
static Value fromCode(ImplicitLocOpBuilder &b, Value code, Type element) {
  Type bits = b.getIntegerType(element.getIntOrFloatBitWidth());
  if (auto vector = dyn_cast<VectorType>(code.getType())) {
    bits = vector.clone(bits);
    element = vector.clone(element);
  }
  return arith::BitcastOp::create(b, element,
                                  arith::TruncIOp::create(b, bits, code));
}

Element Emitter::load(Value memory, Type element, const Offset &offset,
                      unsigned depth) {
  Type storage = getStorageType(element);
  unsigned where = std::max(offset.depth(), depth);
  Value loaded;
  At at(*this, where);
  int64_t stride = getLaneStride(offset);
  auto type = VectorType::get({laneCount}, storage);
  if (stride == 0) {
    loaded = memref::LoadOp::create(b, memory, number(offset));
  } else if (stride == 1) {
    loaded = vector::LoadOp::create(b, type, memory, number(offset),
                                    /*nontemporal=*/false,
                                    getAlignment(memory, offset));
  } else {
    loaded = gather(memory, perLane(offset));
  }
  if (isa<FloatType>(element) && storage != element)
    loaded = fromCode(b, loaded, element);
  if (element.isInteger(1))
    loaded = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, loaded,
                                   splat(b, loaded, 0));
  return {loaded, where};
}

Value Emitter::gather(Value memory, Value index) {
  auto lanes = cast<VectorType>(index.getType());
  auto type = lanes.clone(cast<MemRefType>(memory.getType()).getElementType());
  Value all = vector::BroadcastOp::create(
      b, lanes.clone(b.getI1Type()), arith::ConstantIntOp::create(b, 1, 1));
  Value nothing = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return vector::GatherOp::create(b, type, memory, this->index(0), index, all,
                                  nothing);
}

Value Emitter::loadNow(Value memory, const Offset &offset) {
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  Value place = number(offset);
  if (!offset.variesOverLanes())
    return memref::LoadOp::create(b, memory, place);
  return vector::LoadOp::create(b, VectorType::get({laneCount}, element),
                                memory, place, /*nontemporal=*/false,
                                getAlignment(memory, offset));
}

void Emitter::prefetch(Value memory, Value place) {
  constexpr uint32_t kIntoSecondLevel = 2;
  memref::PrefetchOp::create(b, memory, place, /*isWrite=*/false,
                             kIntoSecondLevel, /*isDataCache=*/true);
}

void Emitter::storeLanes(Value memory, Value lanes, const Offset &offset) {
  if (!offset.variesOverLanes())
    lanes = vector::ExtractOp::create(b, lanes, int64_t(0));
  store(memory, lanes, offset);
}

void Emitter::store(Value memory, Value element, const Offset &offset) {
  Type storage = cast<MemRefType>(memory.getType()).getElementType();
  bool perLane = offset.variesOverLanes();
  if (perLane)
    element = broadcast(element);
  if (getElementTypeOrSelf(element.getType()) != storage) {
    Type type = storage;
    Type bits = b.getIntegerType(
        getElementTypeOrSelf(element.getType()).getIntOrFloatBitWidth());
    if (auto vector = dyn_cast<VectorType>(element.getType())) {
      type = vector.clone(storage);
      bits = vector.clone(bits);
    }
    if (bits != element.getType())
      element = arith::BitcastOp::create(b, bits, element);
    element = arith::ExtUIOp::create(b, type, element);
  }
  if (!perLane) {
    memref::StoreOp::create(b, element, memory, number(offset));
    return;
  }
  assert(getLaneStride(offset) == 1 && "stores must be contiguous");
  vector::StoreOp::create(b, element, memory, number(offset),
                          /*nontemporal=*/false, getAlignment(memory, offset));
}

void Emitter::record(Accesses &accesses, unsigned index, const Offset &offset) {
  using Place = Access::Place;
  Place place = elementPlace && offset == *elementPlace ? Place::Element
                : rowPlace && offset == *rowPlace       ? Place::Row
                                                        : Place::Other;
  Access access = {place, pass};
  if (!llvm::is_contained(accesses[index], access))
    accesses[index].push_back(access);
}

void Emitter::storeResult(unsigned index, Value element, const Offset &offset) {
  record(stores, index, offset);
  storeOnce(resultBuffer(index), element, offset);
}

void Emitter::storeOnce(Value memory, Value element, const Offset &offset) {
  auto vector = dyn_cast<VectorType>(element.getType());
  if (vector && !offset.variesOverLanes())
    element = vector::ExtractOp::create(b, element, int64_t(0));
  (void)number(offset); // Computed outside of the branch.
  guarded([&] { store(memory, element, offset); });
}

void Emitter::addTo(Value memory, Value place, Value value) {
  if (shape) {
    memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addi, value, memory,
                                place);
    return;
  }
  Value now = memref::LoadOp::create(b, memory, place);
  memref::StoreOp::create(b, arith::AddIOp::create(b, now, value), memory,
                          place);
}
