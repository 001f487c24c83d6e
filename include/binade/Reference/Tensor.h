//===- Tensor.h - a tensor of numbers ---------------------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_TENSOR_H
#define BINADE_REFERENCE_TENSOR_H

#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include <memory>
#include <vector>

namespace mlir::binade {

/// A tensor of static shape whose elements are held in row-major order as
/// doubles (floats of any format) or as 64-bit integers (i1 is 0 or 1, unsigned
/// ones are zero-extended, others sign-extended).
class Tensor {
public:
  Tensor() = default;
  /// Zeros. `type` has a static shape and an element type that `canHold`.
  explicit Tensor(RankedTensorType type);

  /// Whether every value of `element` is a double or a 64-bit integer.
  static bool canHold(Type element);

  /// From raw little-endian bytes: elements narrower than a byte take one byte
  /// each. Fails where `bytes` has another length than `type`, or an i1 is
  /// neither 0 nor 1.
  static FailureOr<Tensor> fromBytes(RankedTensorType type,
                                     ArrayRef<char> bytes);
  std::vector<char> toBytes() const;
  /// Bytes of one element in raw form.
  static unsigned getByteWidth(Type element);

  /// From a dense attribute; fails for other kinds of attributes.
  static FailureOr<Tensor> fromElements(ElementsAttr elements);

  /// `tensor` under a type of as many of the same elements: itself where it has
  /// that type.
  static std::shared_ptr<const Tensor>
  reshape(std::shared_ptr<const Tensor> tensor, RankedTensorType type);

  RankedTensorType getType() const { return type; }
  ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getRank() const { return type.getRank(); }
  int64_t getDimSize(int64_t axis) const { return type.getDimSize(axis); }
  int64_t getNumElements() const { return type.getNumElements(); }
  bool isFloat() const { return isa<FloatType>(type.getElementType()); }

  /// Element `index` of a float tensor.
  double operator[](int64_t index) const { return floats[index]; }
  double &operator[](int64_t index) { return floats[index]; }

  ArrayRef<double> getFloats() const { return floats; }
  MutableArrayRef<double> getFloats() { return floats; }
  ArrayRef<int64_t> getIntegers() const { return integers; }
  MutableArrayRef<int64_t> getIntegers() { return integers; }

  /// Element `index`, whatever the type.
  double getNumber(int64_t index) const;

  /// Rounds the elements to the element type: floats to nearest even, integers
  /// modulo their width.
  void roundElements();

private:
  RankedTensorType type;
  std::vector<double> floats;
  std::vector<int64_t> integers;
};

/// Strides of a row-major `shape`, in elements.
SmallVector<int64_t> getRowMajorStrides(ArrayRef<int64_t> shape);

/// `value` modulo the width of `type`: as a tensor holds it.
int64_t wrapInteger(int64_t value, IntegerType type);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_TENSOR_H
