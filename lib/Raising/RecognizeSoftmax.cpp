//===- RecognizeSoftmax.cpp - Recognition of softmax and log_softmax ------===//

#include "Composites.h"
#include "Views.h"
#include "binade/IR/Axes.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Matches exp(x - max(x)) and its sum over one axis. exp(x) does not match,
/// because it may overflow.
class Exponentials {
public:
  Exponentials(Operation *root, int64_t axis)
      : composite(root), frame(getTensor(root->getResult(0)).getShape()),
        whole(getRowMajor(frame)), axis(axis) {
    SmallVector<int64_t> kept(frame);
    kept[axis] = 1;
    rows = getRowMajor(kept);
  }

  /// Returns x if `value` is x - max(x); null otherwise.
  Value takeShifted(Value value) {
    auto difference = take<SubOp>({value, whole}, whole);
    if (!difference)
      return {};
    auto max = take<ReduceMaxOp>({difference.getRhs(), whole}, rows);
    return max && isOfRows(max) &&
                   traceWhole(max.getX(), frame) ==
                       traceWhole(difference.getLhs(), frame)
               ? difference.getLhs()
               : Value();
  }

  /// Returns x if `value` is exp(x - max(x)); null otherwise.
  Value takeExponential(Value value) {
    auto exp = take<ExpOp>({value, whole}, whole);
    return exp ? takeShifted(exp.getX()) : Value();
  }

  /// Returns the operand if `view` is a sum with one element per row; null
  /// otherwise.
  Value takeSum(const View &view) {
    auto sum = take<ReduceSumOp>(view, rows);
    return sum && isOfRows(sum) ? sum.getX() : Value();
  }

  /// Returns the `Op` that defines the value of which `view` is a view with
  /// `strides`; null for other ops.
  template <typename Op> Op take(const View &view, ArrayRef<int64_t> strides) {
    SmallVector<Operation *> passed;
    View from = trace(view, frame, passed);
    if (ArrayRef(from.strides) != strides || !composite.takeAll(passed))
      return {};
    return composite.takeShared<Op>(from.value);
  }

  /// Whether both are views of the same value.
  bool areSame(Value one, Value other) const {
    return traceWhole(one, frame) == traceWhole(other, frame);
  }

  template <typename Op>
  LogicalResult replace(Value x, PatternRewriter &rewriter, Operation *root) {
    if (!composite.isClosed())
      return failure();
    ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
    SmallVector<int64_t> last = getAxisLast(frame.size(), axis);
    Value rows = buildTranspose(b, buildReshape(b, x, frame), last);
    Value y = Op::create(b, rows, PrecisionAttr()).getY();
    rewriter.replaceOp(root,
                       buildTranspose(b, y, invertPermutationVector(last)));
    return success();
  }

  Composite composite;
  ArrayRef<int64_t> frame;
  SmallVector<int64_t> whole, rows;

private:
  /// Whether `op` reduces the axis of the frame or, for the last axis, the last
  /// axis of a tensor with the same rows in another shape.
  template <typename Op> bool isOfRows(Op op) const {
    ArrayRef<int64_t> shape = getTensor(op.getX()).getShape();
    if (shape == frame)
      return ArrayRef(op.getAxes()) == ArrayRef(axis);
    return axis + 1 == static_cast<int64_t>(frame.size()) &&
           ArrayRef(op.getAxes()) ==
               ArrayRef(static_cast<int64_t>(shape.size()) - 1) &&
           shape.back() == frame.back() &&
           ShapedType::getNumElements(shape) ==
               ShapedType::getNumElements(frame);
  }

  int64_t axis;
};

/// Calls `match` for each axis of the result of `root` until it succeeds.
LogicalResult matchOverAxis(Operation *root,
                            function_ref<LogicalResult(Exponentials)> match) {
  int64_t rank = getTensor(root->getResult(0)).getRank();
  for (int64_t axis = rank - 1; axis >= 0; --axis)
    if (succeeded(match(Exponentials(root, axis))))
      return success();
  return failure();
}

/// Replaces exp(x - max(x)) / sum(exp(x - max(x))) by `softmax`.
template <typename Root> struct RecognizeSoftmax : OpRewritePattern<Root> {
  using OpRewritePattern<Root>::OpRewritePattern;

  LogicalResult matchAndRewrite(Root root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    return matchOverAxis(root, [&](const Exponentials &untouched) {
      return match(root, untouched, rewriter);
    });
  }

private:
  static LogicalResult match(Root root, const Exponentials &untouched,
                             PatternRewriter &rewriter) {
    for (auto [exponential, sum] : {std::pair(root.getLhs(), root.getRhs()),
                                    std::pair(root.getRhs(), root.getLhs())}) {
      Exponentials found = untouched;
      View divisor{sum, found.whole};
      if (isa<MulOp>(root)) {
        auto inverse = found.take<ReciprocalOp>(divisor, found.rows);
        divisor = {inverse ? inverse.getX() : Value(), found.rows};
      }
      Value summed = divisor.value ? found.takeSum(divisor) : Value();
      Value shifted = summed ? found.takeExponential(summed) : Value();
      Value x = shifted ? found.takeExponential(exponential) : Value();
      if (x && found.areSame(shifted, x))
        return found.replace<SoftmaxOp>(x, rewriter, root);
      if (isa<DivOp>(root))
        break;
    }
    return failure();
  }
};

/// Replaces (x - max(x)) - log(sum(exp(x - max(x)))) by `log_softmax`.
struct RecognizeLogSoftmax : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SubOp root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    return matchOverAxis(root, [&](Exponentials found) {
      return match(root, std::move(found), rewriter);
    });
  }

private:
  static LogicalResult match(SubOp root, Exponentials found,
                             PatternRewriter &rewriter) {
    auto log = found.take<LogOp>({root.getRhs(), found.whole}, found.rows);
    Value summed = log ? found.takeSum({log.getX(), found.rows}) : Value();
    auto exp = summed ? found.take<ExpOp>({summed, found.whole}, found.whole)
                      : ExpOp();
    Value shifted = exp ? found.takeShifted(exp.getX()) : Value();
    Value x = shifted ? found.takeShifted(root.getLhs()) : Value();
    if (!x || !found.areSame(shifted, x))
      return failure();
    return found.replace<LogSoftmaxOp>(x, rewriter, root);
  }
};
} // namespace

void mlir::binade::populateSoftmaxPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeSoftmax<DivOp>, RecognizeSoftmax<MulOp>,
               RecognizeLogSoftmax>(patterns.getContext());
}
