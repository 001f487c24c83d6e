//===- Rotary.cpp - Import of RotaryEmbedding -----------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "Attention.h"
#include "Indexing.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

LogicalResult mlir::binade::importer::importRotaryEmbedding(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t heads = node.getInt("num_heads", 0), rank = node.getRank(0);
  bool isInterleaved = node.getInt("interleaved", 0);
  auto reject = [&]() {
    return node.emitError() << "cannot rotate " << node.getType(0) << " by "
                            << node.getType(1) << " and " << node.getType(2);
  };
  if (failed(requireFloats(node)))
    return failure();
  if (rank == 3 && (heads < 1 || node.getShape(0)[2] % heads != 0))
    return node.emitError() << "expected num_heads that divide "
                            << node.getType(0) << ", got " << heads;
  if (rank != 3 && rank != 4)
    return reject();
  Value x = rank == 4 ? node.getInput(0) : splitHeads(node, 0, heads);
  SmallVector<int64_t> shape(getTensor(x).getShape());
  int64_t rotated = node.getInt("rotary_embedding_dim", 0);
  if (rotated == 0)
    rotated = shape[3];
  if (rotated < 2 || rotated % 2 != 0 || rotated > shape[3])
    return node.emitError()
           << "cannot rotate " << rotated << " of " << shape[3] << " elements";
  // [batch, length, rotated / 2] to [batch, heads, length, rotated / 2].
  int64_t half = rotated / 2;
  SmallVector<int64_t> table = {shape[0], shape[2], half}, part = shape;
  part[3] = half;
  Value angles[2];
  for (unsigned index : {1u, 2u}) {
    Value cache = node.getInput(index);
    if (node.getElement(index) != node.getElement(0))
      return reject();
    if (node.hasInput(3)) {
      if (node.getRank(index) != 2 || failed(requireIndices(node, 3)))
        return reject();
      cache = GatherOp::create(b, cache, node.getInput(3), PrecisionAttr());
    }
    if (getTensor(cache).getShape() != ArrayRef(table))
      return reject();
    angles[index - 1] = buildBroadcast(b, cache, {0, 2, 3}, part);
  }
  Value sides[2];
  for (int64_t side : {0, 1}) {
    SmallVector<int64_t> offsets(4, 0), strides(4, 1);
    offsets[3] = isInterleaved ? side : side * half;
    strides[3] = isInterleaved && half > 1 ? 2 : 1;
    sides[side] =
        SliceOp::create(b, getTensor(x).clone(part), x, offsets, strides);
  }
  auto mul = [&](Value lhs, Value rhs) { return MulOp::create(b, lhs, rhs); };
  auto [cos, sin] = angles;
  Value real = SubOp::create(b, mul(cos, sides[0]), mul(sin, sides[1]));
  Value imaginary = AddOp::create(b, mul(sin, sides[0]), mul(cos, sides[1]));
  auto join = [&](ValueRange parts, ArrayRef<int64_t> joined, int64_t axis) {
    return ConcatOp::create(b, getTensor(x).clone(joined), parts, axis,
                            PrecisionAttr());
  };
  SmallVector<int64_t> turned = shape;
  turned[3] = rotated;
  Value y;
  if (isInterleaved) {
    SmallVector<int64_t> pairs = part;
    pairs.push_back(1);
    Value both[2] = {buildReshape(b, real, pairs),
                     buildReshape(b, imaginary, pairs)};
    pairs.back() = 2;
    y = buildReshape(b, join(both, pairs, 4), turned);
  } else {
    y = join({real, imaginary}, turned, 3);
  }
  if (rotated < shape[3])
    y = join({y, buildSlice(b, x, 3, rotated, shape[3] - rotated)}, shape, 3);
  return node.setResult(rank == 4 ? y : joinHeads(b, y));
}
