//===- Fourier.cpp - DFT --------------------------------------------------===//
//
// A transform is linear: a product with a matrix that is known at import. Rows
// of the matrix are what is read, pairs of a place and of the part of a complex
// number; columns are what is made. A signal that is cut or padded with zeros
// only has another number of rows.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"
#include "OpTable.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Beyond this a transform as a matrix is of no use, and products of lengths
/// would overflow.
static constexpr int64_t kMaxLength = 1 << 20;

namespace {
struct Transform {
  int64_t read, parts;     ///< Places of the input, parts of its numbers.
  int64_t made, madeParts; ///< The same of the output.
  int64_t length;          ///< Of the signal.
  bool isInverse;
  /// Whether of a spectrum only the first half is read, or made.
  bool isHalf;

  double getWeight(int64_t place) const;
  double get(int64_t place, int64_t part, int64_t to, int64_t toPart) const;
};
} // namespace

/// By what a number of the input counts.
double Transform::getWeight(int64_t place) const {
  if (!isInverse)
    return place < length ? 1.0 : 0.0;
  double weight = 1.0 / static_cast<double>(length);
  if (!isHalf)
    return place < length ? weight : 0.0;
  // The other half are the conjugates, but of the first and the middle one.
  if (2 * place > length)
    return 0.0;
  return place == 0 || 2 * place == length ? weight : 2.0 * weight;
}

/// The factor of an element of the input in one of the output.
double Transform::get(int64_t place, int64_t part, int64_t to,
                      int64_t toPart) const {
  double turns =
      static_cast<double>(place * to % length) / static_cast<double>(length);
  double angle = (isInverse ? 2.0 : -2.0) * std::numbers::pi * turns;
  double factor = part == toPart ? std::cos(angle)
                  : toPart == 1  ? std::sin(angle)
                                 : -std::sin(angle);
  return getWeight(place) * factor;
}

/// The transform that a node's attributes and inputs mean along `axis`.
static FailureOr<Transform> readTransform(Node &node, int64_t axis) {
  ArrayRef<int64_t> shape = node.getShape(0);
  Transform t;
  t.isInverse = node.getInt("inverse", 0);
  t.isHalf = node.getInt("onesided", 0);
  t.read = shape[axis];
  t.parts = shape.back();
  t.length = t.isInverse && t.isHalf ? 2 * (t.read - 1) : t.read;
  if (node.hasInput(1)) {
    FailureOr<SmallVector<int64_t>> length = node.getIntegers(1, "dft_length");
    if (failed(length))
      return failure();
    if (length->size() != 1)
      return node.emitError()
             << "expected one dft_length, got [" << *length << "]";
    t.length = length->front();
  }
  if (t.length < 1 || t.length > kMaxLength || t.read > kMaxLength)
    return node.emitError()
           << "expected a length of 1 to " << kMaxLength << ", got " << t.length
           << " of a signal of " << t.read;
  int64_t wanted = t.isHalf ? (t.isInverse ? 2 : 1) : t.parts;
  if (t.parts != wanted || t.parts < 1 || t.parts > 2)
    return node.emitError()
           << "expected " << (t.isHalf ? std::to_string(wanted) : "1 or 2")
           << " numbers along the last axis, got " << t.parts;
  t.made = t.isHalf && !t.isInverse ? t.length / 2 + 1 : t.length;
  t.madeParts = t.isHalf && t.isInverse ? 1 : 2;
  return t;
}

/// The matrix of `t`.
static FailureOr<Value> buildMatrix(Node &node, const Transform &t) {
  SmallVector<int64_t> shape = {t.read * t.parts, t.made * t.madeParts};
  Elements matrix{RankedTensorType::get(shape, node.getElement(0)), {}};
  if (!node.graph.spend(shape[0] * shape[1]))
    return node.emitError()
           << "is too long to be computed at import: " << matrix.type;
  for (int64_t place = 0; place < t.read; ++place)
    for (int64_t part = 0; part < t.parts; ++part)
      for (int64_t to = 0; to < t.made; ++to)
        for (int64_t toPart = 0; toPart < t.madeParts; ++toPart)
          matrix.numbers.push_back({.f = t.get(place, part, to, toPart)});
  return ConstantOp::create(node.b, pack(matrix)).getResult();
}

LogicalResult mlir::binade::importer::importDFT(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t rank = node.getRank(0);
  // The axis became an input.
  int64_t given = node.getOpset() < 20 ? node.getInt("axis", 1) : -2;
  if (node.hasInput(2)) {
    FailureOr<SmallVector<int64_t>> axis = node.getIntegers(2, "axis");
    if (failed(axis))
      return failure();
    if (axis->size() != 1)
      return node.emitError() << "expected one axis, got [" << *axis << "]";
    given = axis->front();
  }
  FailureOr<int64_t> axis = node.normalizeAxis(given, rank);
  if (failed(axis) || failed(requireFloats(node, 0)))
    return failure();
  if (rank < 2 || *axis == rank - 1)
    return node.emitError()
           << "cannot transform axis " << *axis << " of " << node.getType(0)
           << ", whose last are parts of numbers";
  FailureOr<Transform> t = readTransform(node, *axis);
  FailureOr<Value> matrix =
      failed(t) ? FailureOr<Value>(failure()) : buildMatrix(node, *t);
  if (failed(matrix))
    return failure();
  // The axis next to the last one, and back again.
  SmallVector<int64_t> there, back(rank), shape;
  for (int64_t i = 0; i < rank - 1; ++i)
    if (i != *axis)
      there.push_back(i);
  there.append({*axis, rank - 1});
  for (auto [to, from] : llvm::enumerate(there)) {
    back[from] = to;
    shape.push_back(node.getShape(0)[from]);
  }
  int64_t rows = 1;
  for (int64_t size : ArrayRef(shape).drop_back(2))
    rows *= size;
  Value x = buildReshape(b, buildTranspose(b, node.getInput(0), there),
                         {rows, t->read * t->parts});
  Value y =
      MatmulOp::create(b, x, *matrix, Value(), false, false, PrecisionAttr());
  shape[rank - 2] = t->made;
  shape[rank - 1] = t->madeParts;
  return node.setResult(buildTranspose(b, buildReshape(b, y, shape), back));
}
