//===- Tensor.cpp - Tensors with elements as numbers ----------------------===//

#include "binade/Reference/Tensor.h"
#include "binade/Reference/FloatFormat.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;

bool Tensor::canHold(Type element) {
  if (auto type = dyn_cast<FloatType>(element))
    return type.getWidth() <= 64;
  auto type = dyn_cast<IntegerType>(element);
  return type && !type.isSigned() && type.getWidth() <= 64;
}

Tensor::Tensor(RankedTensorType type) : type(type) {
  assert(type.hasStaticShape() && canHold(type.getElementType()));
  if (isFloat())
    floats.resize(getNumElements());
  else
    integers.resize(getNumElements());
}

unsigned Tensor::getByteWidth(Type element) {
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

int64_t mlir::binade::wrapInteger(int64_t value, IntegerType type) {
  unsigned unused = 64 - type.getWidth();
  if (type.getWidth() == 1 || type.isUnsigned())
    return static_cast<uint64_t>(value) << unused >> unused;
  return llvm::SignExtend64(static_cast<uint64_t>(value), type.getWidth());
}

FailureOr<Tensor> Tensor::fromBytes(RankedTensorType type,
                                    ArrayRef<char> bytes) {
  unsigned width = getByteWidth(type.getElementType());
  if (static_cast<int64_t>(bytes.size()) != type.getNumElements() * width)
    return failure();
  Tensor tensor(type);
  auto read = [&](int64_t index) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < width; ++i)
      bits |= static_cast<uint64_t>(
                  static_cast<unsigned char>(bytes[index * width + i]))
              << (8 * i);
    return bits;
  };
  int64_t count = type.getNumElements();
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    FloatFormat format(element.getFloatSemantics());
    for (int64_t i = 0; i < count; ++i)
      tensor.floats[i] = format.decode(read(i));
    return tensor;
  }
  auto element = cast<IntegerType>(type.getElementType());
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = read(i);
    if (element.getWidth() == 1 && bits > 1)
      return failure();
    tensor.integers[i] = wrapInteger(static_cast<int64_t>(bits), element);
  }
  return tensor;
}

double Tensor::getNumber(int64_t index) const {
  if (isFloat())
    return floats[index];
  return type.getElementType().isUnsignedInteger()
             ? static_cast<double>(static_cast<uint64_t>(integers[index]))
             : static_cast<double>(integers[index]);
}

std::vector<char> Tensor::toBytes() const {
  unsigned width = getByteWidth(type.getElementType());
  std::vector<char> bytes(getNumElements() * width);
  auto write = [&](int64_t index, uint64_t bits) {
    for (unsigned i = 0; i < width; ++i)
      bytes[index * width + i] = static_cast<char>(bits >> (8 * i));
  };
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    FloatFormat format(element.getFloatSemantics());
    for (auto [i, x] : llvm::enumerate(floats))
      write(i, format.encode(x));
  } else {
    for (auto [i, x] : llvm::enumerate(integers))
      write(i, static_cast<uint64_t>(x));
  }
  return bytes;
}

FailureOr<Tensor> Tensor::fromElements(ElementsAttr elements) {
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  auto type = dyn_cast<RankedTensorType>(elements.getType());
  if (!dense || !type || !canHold(type.getElementType()))
    return failure();
  Tensor tensor(type);
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    FloatFormat format(element.getFloatSemantics());
    auto values = dense.getValues<APFloat>();
    if (dense.isSplat()) {
      double value =
          format.decode((*values.begin()).bitcastToAPInt().getZExtValue());
      llvm::fill(tensor.floats, value);
      return tensor;
    }
    for (int64_t i = 0, count = tensor.getNumElements(); i < count; ++i)
      tensor.floats[i] = format.decode(
          (*(values.begin() + i)).bitcastToAPInt().getZExtValue());
    return tensor;
  }
  auto element = cast<IntegerType>(type.getElementType());
  auto values = dense.getValues<APInt>();
  for (int64_t i = 0, count = tensor.getNumElements(); i < count; ++i)
    tensor.integers[i] =
        wrapInteger((*(values.begin() + i)).getZExtValue(), element);
  return tensor;
}

std::shared_ptr<const Tensor>
Tensor::reshape(std::shared_ptr<const Tensor> tensor, RankedTensorType type) {
  assert(tensor->type.getElementType() == type.getElementType() &&
         tensor->getNumElements() == type.getNumElements());
  if (tensor->type == type)
    return tensor;
  auto reshaped = std::make_shared<Tensor>(*tensor);
  reshaped->type = type;
  return reshaped;
}

void Tensor::roundElements() {
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    if (element.isF64())
      return;
    FloatFormat format(element.getFloatSemantics());
    for (double &x : floats)
      x = format.round(x);
    return;
  }
  auto element = cast<IntegerType>(type.getElementType());
  for (int64_t &x : integers)
    x = wrapInteger(x, element);
}

SmallVector<int64_t> mlir::binade::getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t axis = static_cast<int64_t>(shape.size()) - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}
