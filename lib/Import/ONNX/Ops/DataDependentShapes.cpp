//===- DataDependentShapes.cpp - Ops with data-dependent shapes -----------===//
//
// The shapes of the results of NonZero, Unique and NonMaxSuppression depend on
// elements. Since shapes are static, the operands must be constants, and the
// results are computed at import.
//
//===----------------------------------------------------------------------===//

#include "../Evaluate.h"
#include "../OpTable.h"
#include "Indexing.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Returns the elements of an input; fails unless it is a constant. `what`
/// names it in the error.
static FailureOr<Elements> readElements(Node &node, unsigned index,
                                        StringRef what) {
  if (failed(node.requireConstant(index, what)) ||
      failed(node.checkCount(node.getType(index).getNumElements(), kMaxNumbers,
                             what)))
    return failure();
  return unpack(node.getConstant(index));
}

static Value buildIntegers(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                           ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get(shape, b.getI64Type());
  return ConstantOp::create(b, DenseElementsAttr::get(type, values));
}

/// Computes the indices of nonzero elements, one column per element.
LogicalResult mlir::binade::importer::importNonZero(Node &node) {
  FailureOr<Elements> x = readElements(node, 0, "operand");
  if (failed(x))
    return failure();
  RankedTensorType type = node.getType(0);
  int64_t rank = type.getRank();
  SmallVector<int64_t> strides = computeStrides(type.getShape());
  SmallVector<SmallVector<int64_t>> found;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    if (node.hasFloats(0) ? (*x)[i].f != 0.0 : (*x)[i].i != 0)
      found.push_back(delinearize(i, strides));
  auto count = static_cast<int64_t>(found.size());
  SmallVector<int64_t> numbers;
  for (int64_t axis = 0; axis < rank; ++axis)
    for (ArrayRef<int64_t> index : found)
      numbers.push_back(index[axis]);
  return node.setResult(buildIntegers(node.b, {rank, count}, numbers));
}

//===----------------------------------------------------------------------===//
// Unique
//===----------------------------------------------------------------------===//

namespace {
/// Entries of a tensor along its first axis, and their order: ascending, with
/// NaN last.
struct Entries {
  Elements elements;
  int64_t width;
  bool isFloat, hasNoSign;

  int compare(int64_t lhs, int64_t rhs) const {
    for (int64_t i = 0; i < width; ++i)
      if (int order =
              compare(elements[lhs * width + i], elements[rhs * width + i]))
        return order;
    return 0;
  }

private:
  static int order(auto lhs, auto rhs) {
    return lhs < rhs ? -1 : rhs < lhs ? 1 : 0;
  }
  int compare(Number lhs, Number rhs) const {
    if (hasNoSign)
      return order(static_cast<uint64_t>(lhs.i), static_cast<uint64_t>(rhs.i));
    if (!isFloat)
      return order(lhs.i, rhs.i);
    if (std::isnan(lhs.f) || std::isnan(rhs.f))
      return order(std::isnan(lhs.f), std::isnan(rhs.f));
    return order(lhs.f, rhs.f);
  }
};
} // namespace

LogicalResult mlir::binade::importer::importUnique(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  bool isSorted = node.getInt("sorted", 1), hasAxis = node.hasAttribute("axis");
  int64_t axis = 0;
  if (hasAxis) {
    FailureOr<int64_t> given =
        node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
    if (failed(given))
      return failure();
    axis = *given;
  }
  FailureOr<Elements> read = readElements(node, 0, "operand");
  if (failed(read))
    return failure();
  RankedTensorType type = node.getType(0);
  if (!hasAxis)
    type = type.clone({type.getNumElements()});
  int64_t length = type.getDimSize(axis);
  Entries entries{*read, length == 0 ? 0 : type.getNumElements() / length,
                  node.hasFloats(0), isUnsigned(type)};
  // Move axis `axis` to the front.
  SmallVector<int64_t> order = {axis};
  for (int64_t other = 0; other < type.getRank(); ++other)
    if (other != axis)
      order.push_back(other);
  if (!entries.elements.isSplat() && axis != 0) {
    SmallVector<int64_t> strides =
        applyPermutation(computeStrides(type.getShape()), order);
    SmallVector<int64_t> moved =
        computeStrides(applyPermutation(type.getShape(), order));
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      entries.elements.numbers[i] =
          (*read)[linearize(delinearize(i, moved), strides)];
  }
  auto ranked = llvm::to_vector(llvm::seq<int64_t>(0, length));
  llvm::stable_sort(ranked, [&](int64_t lhs, int64_t rhs) {
    return entries.compare(lhs, rhs) < 0;
  });
  // The first of equal entries represents all of them.
  SmallVector<int64_t> firsts, leader(length);
  for (int64_t entry : ranked) {
    if (firsts.empty() || entries.compare(firsts.back(), entry) != 0)
      firsts.push_back(entry);
    leader[entry] = firsts.back();
  }
  if (!isSorted)
    llvm::sort(firsts);
  SmallVector<int64_t> place(length), inverse, counts(firsts.size(), 0);
  for (auto [number, first] : llvm::enumerate(firsts))
    place[first] = number;
  for (int64_t entry : leader) {
    inverse.push_back(place[entry]);
    ++counts[place[entry]];
  }
  auto count = static_cast<int64_t>(firsts.size());
  node.setOutput(1, buildIntegers(b, count, firsts));
  node.setOutput(2, buildIntegers(b, length, inverse));
  node.setOutput(3, buildIntegers(b, count, counts));
  Value x = buildReshape(b, node.getInput(0), type.getShape());
  return node.setResult(takeAlong(b, x, firsts, axis));
}

//===----------------------------------------------------------------------===//
// NonMaxSuppression
//===----------------------------------------------------------------------===//

namespace {
/// A box in f32, as other implementations compute it, so that comparisons with
/// thresholds have the same outcome.
struct Box {
  float low[2], high[2];

  Box(const Elements &boxes, int64_t first, bool isCentered) {
    for (int64_t axis : {0, 1}) {
      auto x = static_cast<float>(boxes[first + axis].f),
           y = static_cast<float>(boxes[first + 2 + axis].f);
      low[axis] = isCentered ? x - y / 2 : std::min(x, y);
      high[axis] = isCentered ? x + y / 2 : std::max(x, y);
    }
  }

  float getArea() const { return (high[0] - low[0]) * (high[1] - low[1]); }

  bool overlaps(const Box &other, float threshold) const {
    float common = 1.0f;
    for (int64_t axis : {0, 1}) {
      float side = std::min(high[axis], other.high[axis]) -
                   std::max(low[axis], other.low[axis]);
      common *= std::max(side, 0.0f);
    }
    float area = getArea(), rest = other.getArea(), all = area + rest - common;
    return common > 0.0f && area > 0.0f && rest > 0.0f && all > 0.0f &&
           common / all > threshold;
  }
};
} // namespace

/// Returns the only element of an optional input, or `byDefault` if it is left
/// out.
static FailureOr<float> readNumber(Node &node, unsigned index, StringRef what,
                                   float byDefault) {
  if (!node.hasInput(index))
    return byDefault;
  FailureOr<Elements> elements = readElements(node, index, what);
  if (failed(elements))
    return failure();
  if (node.getType(index).getNumElements() == 1 && node.hasFloats(index))
    return static_cast<float>((*elements)[0].f);
  return node.emitError() << "expected one float as " << what << ", got "
                          << node.getType(index);
}

LogicalResult mlir::binade::importer::importNonMaxSuppression(Node &node) {
  RankedTensorType boxType = node.getType(0), scoreType = node.getType(1);
  ArrayRef<int64_t> shape = scoreType.getShape();
  if (shape.size() != 3 || !node.hasFloats(0) || !node.hasFloats(1) ||
      boxType.getShape() != ArrayRef<int64_t>({shape[0], shape[2], 4}))
    return node.emitError()
           << "cannot choose boxes " << boxType << " by " << scoreType;
  bool isCentered = node.getInt("center_point_box", 0);
  SmallVector<int64_t> most = {0};
  if (node.hasInput(2)) {
    auto given = node.getIntegers(2, "max_output_boxes_per_class");
    if (failed(given))
      return failure();
    most = *given;
  }
  FailureOr<Elements> boxes = readElements(node, 0, "boxes"),
                      scores = readElements(node, 1, "scores");
  FailureOr<float> overlap = readNumber(node, 3, "iou_threshold", 0.0f),
                   least = readNumber(node, 4, "score_threshold", -INFINITY);
  if (failed(boxes) || failed(scores) || failed(overlap) || failed(least))
    return failure();
  if (most.size() != 1)
    return node.emitError()
           << "expected one max_output_boxes_per_class, got [" << most << "]";
  bool hasLeast = node.hasInput(4);
  int64_t count = shape[2], compared = 0;
  SmallVector<int64_t> chosen;
  for (int64_t batch = 0; batch < shape[0]; ++batch)
    for (int64_t kind = 0; kind < shape[1]; ++kind) {
      auto score = [&](int64_t box) {
        return static_cast<float>(
            (*scores)[(batch * shape[1] + kind) * count + box].f);
      };
      SmallVector<int64_t> candidates;
      for (int64_t box = 0; box < count; ++box)
        if (hasLeast ? score(box) > *least : !std::isnan(score(box)))
          candidates.push_back(box);
      // Sort by descending score; stable, so that the first of equal boxes
      // comes first.
      llvm::stable_sort(candidates, [&](int64_t lhs, int64_t rhs) {
        return score(lhs) > score(rhs);
      });
      SmallVector<Box> kept;
      for (int64_t candidate : candidates) {
        if (static_cast<int64_t>(kept.size()) >= most.front())
          break;
        Box box(*boxes, (batch * count + candidate) * 4, isCentered);
        compared += kept.size();
        if (failed(node.checkCount(compared, int64_t(1) << 28, "pairs")))
          return failure();
        if (llvm::any_of(kept, [&](const Box &other) {
              return box.overlaps(other, *overlap);
            }))
          continue;
        kept.push_back(box);
        chosen.append({batch, kind, candidate});
      }
    }
  return node.setResult(buildIntegers(
      node.b, {static_cast<int64_t>(chosen.size()) / 3, 3}, chosen));
}
