//===- Gather.cpp - Access to the elements of an operand ------------------===//

#include "Gather.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

Type mlir::binade::getElementType(MLIRContext *context, DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return BFloat16Type::get(context);
  case DType::F16:
    return Float16Type::get(context);
  case DType::F8_E4M3:
    return Float8E4M3FNType::get(context);
  case DType::F8_E5M2:
    return Float8E5M2Type::get(context);
  default:
    return Float32Type::get(context);
  }
}

static Type withElement(Type shape, Type element) {
  auto vector = dyn_cast<VectorType>(shape);
  return vector ? Type(vector.clone(element)) : element;
}

Value mlir::binade::convert(ImplicitLocOpBuilder &b, Value x, Type element) {
  Type from = getElementTypeOrSelf(x.getType());
  if (from == element)
    return x;
  if (element.isF16() && from.getIntOrFloatBitWidth() == 8)
    return arith::ExtFOp::create(b, withElement(x.getType(), element), x);
  Type wide = withElement(x.getType(), b.getF32Type());
  Value y = from.isF32() ? x : arith::ExtFOp::create(b, wide, x).getResult();
  if (element.isF32())
    return y;
  Type type = withElement(x.getType(), element);
  if (element.isBF16() && from.getIntOrFloatBitWidth() == 8) {
    // The bits that are cut off are 0.
    Value bits =
        arith::BitcastOp::create(b, withElement(wide, b.getI32Type()), y);
    Value half = arith::ConstantOp::create(
        b, bits.getType(),
        isa<VectorType>(wide)
            ? TypedAttr(DenseElementsAttr::get(cast<ShapedType>(bits.getType()),
                                               b.getI32IntegerAttr(16)))
            : TypedAttr(b.getI32IntegerAttr(16)));
    Value high = arith::TruncIOp::create(b, withElement(wide, b.getI16Type()),
                                         arith::ShRUIOp::create(b, bits, half));
    return arith::BitcastOp::create(b, type, high);
  }
  return arith::TruncFOp::create(b, type, y);
}

SmallVector<Value> Gather::splitDigits(Value number,
                                       ArrayRef<Axis> axes) const {
  SmallVector<Value> digits(axes.size());
  for (size_t i = axes.size(); i-- > 1;)
    std::tie(number, digits[i]) = at.divide(number, axes[i].size);
  digits.front() = number;
  return digits;
}

Value Gather::sumPlaces(ArrayRef<Value> digits, ArrayRef<Axis> axes) const {
  Value place = at.constant(0);
  for (auto [digit, axis] : llvm::zip(digits, axes))
    place = at.add(place, at.scale(digit, axis.stride));
  return place;
}

Gather::Share Gather::findEntry(Value number) const {
  SmallVector<Value> digits = splitDigits(number, operand.entries);
  Share share;
  share.place = at.add(start, sumPlaces(digits, operand.entries));
  for (const Window &window : operand.windows)
    share.windows.push_back(at.add(
        at.scale(digits[window.entryAxis], window.entryFactor), window.offset));
  share.exists = at.isBelow(number, entries.size, entries.padded);
  return share;
}

Gather::Share Gather::findTerm(Value number) const {
  SmallVector<Value> digits = splitDigits(number, operand.terms);
  Share share;
  share.place = sumPlaces(digits, operand.terms);
  for (const Window &window : operand.windows)
    share.windows.push_back(
        at.scale(digits[window.termAxis], window.termFactor));
  share.exists = at.isBelow(number, terms.size, terms.padded);
  return share;
}

Gather::Place Gather::find(const Share &entry, const Share &term) const {
  Place place{at.add(entry.place, term.place),
              at.both(entry.exists, term.exists)};
  for (auto [window, byEntry, byTerm] :
       llvm::zip(operand.windows, entry.windows, term.windows)) {
    Value position = at.add(byEntry, byTerm);
    if (window.divisor > 1) {
      auto [quotient, rest] = at.divide(position, window.divisor);
      place.exists = at.both(place.exists, at.isBelow(rest, 1));
      position = quotient;
    }
    // A negative position is very large as an unsigned number, and thus not
    // below any size.
    place.exists = at.both(place.exists, at.isBelow(position, window.size));
    place.index = at.add(place.index, at.scale(position, window.stride));
  }
  return place;
}

Value Gather::load(const Place &place, int64_t width) const {
  ImplicitLocOpBuilder &b = at.b;
  Value index = place.index;
  if (place.exists)
    index = arith::SelectOp::create(b, place.exists, index, at.constant(0));
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  Value x;
  if (width == 1)
    x = memref::LoadOp::create(b, memory, index);
  else
    x = vector::LoadOp::create(
        b, VectorType::get({width}, element), memory, index,
        /*nontemporal=*/false,
        llvm::MaybeAlign(width * element.getIntOrFloatBitWidth() / 8));
  if (!place.exists)
    return x;
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(x.getType()));
  return arith::SelectOp::create(b, place.exists, x, zero);
}

void Gather::store(Value x, const Place &place) const {
  auto vector = dyn_cast<VectorType>(x.getType());
  if (!vector) {
    memref::StoreOp::create(at.b, x, memory, place.index);
    return;
  }
  int64_t bytes = vector.getNumElements() * vector.getElementTypeBitWidth() / 8;
  vector::StoreOp::create(at.b, x, memory, place.index, /*nontemporal=*/false,
                          llvm::MaybeAlign(bytes));
}
