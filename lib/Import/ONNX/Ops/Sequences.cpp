//===- Sequences.cpp - Import of sequences and optional values ------------===//
//
// Sequences exist only at import, as lists of values; the dialect has no op for
// them. Whether an optional value is empty is known at import, too.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Indexing.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Returns the position in `input`, counted from the front; fails unless it is
/// within `count`.
static FailureOr<int64_t> readPlace(Node &node, unsigned input, int64_t count) {
  FailureOr<SmallVector<int64_t>> place = node.getIntegers(input, "position");
  if (failed(place))
    return failure();
  int64_t number = place->size() == 1 ? place->front() : count;
  if (number < -count || number >= count)
    return node.emitError() << "expected a position within " << count
                            << " tensors, got [" << *place << "]";
  return number < 0 ? number + count : number;
}

LogicalResult mlir::binade::importer::importSequenceConstruct(Node &node) {
  return node.setSequence(node.getInputs());
}

LogicalResult mlir::binade::importer::importSequenceEmpty(Node &node) {
  (void)node.getInt("dtype", 1);
  return node.setSequence({});
}

LogicalResult mlir::binade::importer::importSequenceAt(Node &node) {
  FailureOr<ArrayRef<Value>> sequence = node.getSequence(0);
  if (failed(sequence))
    return failure();
  FailureOr<int64_t> place = readPlace(node, 1, sequence->size());
  return failed(place) ? failure() : node.setResult((*sequence)[*place]);
}

LogicalResult mlir::binade::importer::importSequenceErase(Node &node) {
  FailureOr<ArrayRef<Value>> sequence = node.getSequence(0);
  if (failed(sequence))
    return failure();
  FailureOr<int64_t> place = static_cast<int64_t>(sequence->size()) - 1;
  if (node.hasInput(1) || sequence->empty())
    place = readPlace(node, 1, sequence->size());
  if (failed(place))
    return failure();
  SmallVector<Value> rest(*sequence);
  rest.erase(rest.begin() + *place);
  return node.setSequence(rest);
}

LogicalResult mlir::binade::importer::importSequenceInsert(Node &node) {
  FailureOr<ArrayRef<Value>> sequence = node.getSequence(0);
  if (failed(sequence))
    return failure();
  auto count = static_cast<int64_t>(sequence->size());
  FailureOr<int64_t> place = count;
  if (node.hasInput(2)) {
    FailureOr<SmallVector<int64_t>> given = node.getIntegers(2, "position");
    if (failed(given))
      return failure();
    place = given->size() == 1 ? given->front() : count + 1;
    if (*place < -count || *place > count)
      return node.emitError() << "expected a position from " << -count << " to "
                              << count << ", got [" << *given << "]";
    if (*place < 0)
      *place += count;
  }
  SmallVector<Value> more(*sequence);
  more.insert(more.begin() + *place, node.getInput(1));
  return node.setSequence(more);
}

LogicalResult mlir::binade::importer::importSequenceLength(Node &node) {
  FailureOr<ArrayRef<Value>> sequence = node.getSequence(0);
  if (failed(sequence))
    return failure();
  auto type = RankedTensorType::get({}, node.b.getI64Type());
  return node.setResult(ConstantOp::create(
      node.b,
      DenseElementsAttr::get(type, static_cast<int64_t>(sequence->size()))));
}

/// Splits an axis into parts of equal or given lengths, or into single entries,
/// whose axis may be dropped.
LogicalResult mlir::binade::importer::importSplitToSequence(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
  bool keeps = node.getInt("keepdims", 1);
  if (failed(axis))
    return failure();
  int64_t length = node.getShape(0)[*axis];
  SmallVector<int64_t> sizes;
  if (!node.hasInput(1)) {
    if (failed(node.checkCount(length, kMaxOps, "parts")))
      return failure();
    sizes.assign(length, 1);
  } else {
    FailureOr<SmallVector<int64_t>> split = node.getIntegers(1, "split");
    if (failed(split))
      return failure();
    sizes = *split;
    if (node.getRank(1) == 0) {
      int64_t size = split->front();
      if (size < 1)
        return node.emitUnsupported() << "cannot split into parts of " << size;
      if (failed(node.checkCount(length / size, kMaxOps, "parts")))
        return failure();
      sizes.assign(length / size, size);
      if (length % size != 0)
        sizes.push_back(length % size);
    }
  }
  if (!isSplit(sizes, length))
    return node.emitError() << "cannot split axis " << *axis << " of "
                            << node.getType(0) << " into [" << sizes << "]";
  SmallVector<Value> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    Value part = buildSlice(b, node.getInput(0), *axis, begin, size);
    begin += size;
    if (!keeps && !node.hasInput(1)) {
      SmallVector<int64_t> shape(node.getShape(0));
      shape.erase(shape.begin() + *axis);
      part = buildReshape(b, part, shape);
    }
    parts.push_back(part);
  }
  return node.setSequence(parts);
}

LogicalResult mlir::binade::importer::importConcatFromSequence(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<ArrayRef<Value>> sequence = node.getSequence(0);
  if (failed(sequence))
    return failure();
  if (sequence->empty())
    return node.emitUnsupported()
           << "expected a sequence with at least one tensor";
  bool isNew = node.getInt("new_axis", 0);
  auto type = cast<RankedTensorType>(sequence->front().getType());
  FailureOr<int64_t> axis = node.normalizeAxis(
      node.getInt("axis", 0), type.getRank() + (isNew ? 1 : 0));
  if (failed(axis))
    return failure();
  SmallVector<Value> parts;
  SmallVector<int64_t> shape;
  for (Value part : *sequence) {
    SmallVector<int64_t> own(cast<RankedTensorType>(part.getType()).getShape());
    if (isNew)
      own.insert(own.begin() + *axis, 1);
    parts.push_back(buildReshape(b, part, own));
    if (shape.empty()) {
      shape = own;
      continue;
    }
    SmallVector<int64_t> like = shape;
    if (own.size() == like.size())
      like[*axis] = own[*axis];
    if (own != like || getElementTypeOrSelf(part) != type.getElementType())
      return node.emitError() << "cannot join " << type << " and "
                              << part.getType() << " along axis " << *axis;
    shape[*axis] += own[*axis];
  }
  if (parts.size() == 1)
    return node.setResult(parts.front());
  return node.setResult(
      ConcatOp::create(b, type.clone(shape), parts, *axis, PrecisionAttr()));
}

//===----------------------------------------------------------------------===//
// Optional values
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importOptional(Node &node) {
  (void)node.findAttribute("type");
  node.setOutput(0, node.hasInput(0)
                        ? node.getNamedInput(0)
                        : NamedValue{Value(), std::nullopt, /*isEmpty=*/true});
  return success();
}

LogicalResult mlir::binade::importer::importOptionalHasElement(Node &node) {
  bool hasElement = node.hasInput(0) && !node.getNamedInput(0).isEmpty;
  auto type = RankedTensorType::get({}, node.b.getI1Type());
  return node.setResult(
      ConstantOp::create(node.b, DenseElementsAttr::get(type, hasElement)));
}

LogicalResult mlir::binade::importer::importOptionalGetElement(Node &node) {
  NamedValue value = node.getNamedInput(0);
  if (value.isEmpty)
    return node.emitError() << quote(node.getInputName(0))
                            << " is an optional value without element";
  node.setOutput(0, value);
  return success();
}
