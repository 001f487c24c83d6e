//===- CheckSparse.cpp - Checks that a sparse tensor is valid -------------===//

#include "CheckSparse.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::SparseTensorProto;
using ::onnx::TensorProto;

/// Returns the indices of a sparse tensor as positions in the flat tensor of
/// shape `dims`; -1 for an index out of bounds. `isFlat` means that they are
/// such positions already; otherwise each has one coordinate per axis.
static SmallVector<int64_t> flatten(ArrayRef<int64_t> indices,
                                    ArrayRef<int64_t> dims, bool isFlat) {
  int64_t count = 1;
  for (int64_t size : dims)
    count *= size;
  SmallVector<int64_t> places;
  if (isFlat) {
    for (int64_t index : indices)
      places.push_back(index < count ? index : -1);
    return places;
  }
  for (size_t begin = 0; begin < indices.size(); begin += dims.size()) {
    int64_t place = 0;
    for (auto [index, size] :
         llvm::zip(indices.slice(begin, dims.size()), dims))
      place =
          place < 0 || index < 0 || index >= size ? -1 : place * size + index;
    places.push_back(place);
  }
  return places;
}

static LogicalResult checkIndices(Location loc, const SparseTensorProto &tensor,
                                  ArrayRef<int64_t> indices) {
  ArrayRef dims(tensor.dims().data(), tensor.dims().size());
  const TensorProto &given = tensor.indices();
  int64_t count =
      tensor.values().dims_size() == 1 ? tensor.values().dims(0) : -1;
  bool isFlat = given.dims_size() == 1 && given.dims(0) == count;
  bool isMatrix = given.dims_size() == 2 && given.dims(0) == count &&
                  given.dims(1) == static_cast<int64_t>(dims.size());
  if (dims.empty() || count < 0 || !(isFlat || isMatrix))
    return mlir::emitError(loc)
           << "expected a list of values, and an index for each of them";
  int64_t last = -1;
  for (auto [index, place] : llvm::enumerate(flatten(indices, dims, isFlat))) {
    if (place < 0)
      return mlir::emitError(loc)
             << "index " << index << " is outside of [" << dims << "]";
    if (place <= last)
      return mlir::emitError(loc)
             << "expected ascending indices, index " << index << " is not";
    last = place;
  }
  return success();
}

LogicalResult mlir::binade::checkSparse(Location loc,
                                        const SparseTensorProto &tensor,
                                        TensorReader &tensors) {
  if (!getElementType(loc.getContext(), tensor.values().data_type()))
    return success();
  if (failed(tensors.check(loc, tensor.values())))
    return failure();
  if (tensor.indices().data_type() != TensorProto::INT64)
    return mlir::emitError(loc) << "expected indices of int64";
  FailureOr<std::vector<char>> bytes = tensors.readBytes(loc, tensor.indices());
  if (failed(bytes))
    return failure();
  SmallVector<int64_t> indices(bytes->size() / sizeof(int64_t));
  std::memcpy(indices.data(), bytes->data(), bytes->size());
  for (int64_t size : tensor.dims())
    if (size < 0)
      return mlir::emitError(loc)
             << "has a dimension of negative length " << size;
  return checkIndices(loc, tensor, indices);
}
