//===- Tensor.h - Tensors with elements as numbers --------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_TENSOR_H
#define BINADE_REFERENCE_TENSOR_H

#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include <memory>
#include <vector>

namespace mlir::binade {

/// A tensor of static shape that stores its elements in row-major order as
/// doubles (floats of any format) or as 64-bit integers (i1 as 0 or 1, unsigned
/// ones zero-extended, others sign-extended).
class Tensor {
public:
  Tensor() = default;
  /// Creates a tensor of zeros. `type` has a static shape and an element type
  /// for which `canHold` is true.
  explicit Tensor(RankedTensorType type);

  /// Whether a double or a 64-bit integer can represent every value of
  /// `element`.
  static bool canHold(Type element);

  /// Creates a tensor from raw little-endian bytes; elements narrower than a
  /// byte take one byte each. Fails if the length of `bytes` does not fit
  /// `type`, or an i1 is neither 0 nor 1.
  static FailureOr<Tensor> fromBytes(RankedTensorType type,
                                     ArrayRef<char> bytes);
  std::vector<char> toBytes() const;
  /// Returns the bytes of one element in raw form.
  static unsigned getByteWidth(Type element);

  /// Creates a tensor from a dense attribute; fails for other attributes.
  static FailureOr<Tensor> fromElements(ElementsAttr elements);

  /// Returns `tensor` with a type of the same number of the same elements;
  /// `tensor` itself if it has that type.
  static std::shared_ptr<const Tensor>
  reshape(std::shared_ptr<const Tensor> tensor, RankedTensorType type);

  RankedTensorType getType() const { return type; }
  ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getRank() const { return type.getRank(); }
  int64_t getDimSize(int64_t axis) const { return type.getDimSize(axis); }
  int64_t getNumElements() const { return type.getNumElements(); }
  bool isFloat() const { return isa<FloatType>(type.getElementType()); }

  /// Returns element `index` of a float tensor.
  double operator[](int64_t index) const { return floats[index]; }
  double &operator[](int64_t index) { return floats[index]; }

  ArrayRef<double> getFloats() const { return floats; }
  MutableArrayRef<double> getFloats() { return floats; }
  ArrayRef<int64_t> getIntegers() const { return integers; }
  MutableArrayRef<int64_t> getIntegers() { return integers; }

  /// Returns element `index` of a float or integer tensor.
  double getNumber(int64_t index) const;

  /// Rounds the elements to the element type: floats to nearest even, integers
  /// modulo their width.
  void roundElements();

private:
  RankedTensorType type;
  std::vector<double> floats;
  std::vector<int64_t> integers;
};

/// Returns the strides of a row-major `shape`, in elements.
SmallVector<int64_t> getRowMajorStrides(ArrayRef<int64_t> shape);

/// Returns `value` modulo 2^width of `type`, as a tensor stores it.
int64_t wrapInteger(int64_t value, IntegerType type);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_TENSOR_H
