//===- WriteOps.cpp - ONNX nodes of ops -----------------------------------===//

#include "OnnxWriter.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Returns the ONNX op with the same operands; empty if there is none.
static StringRef getElementwise(Operation *op) {
  bool isBit = op->getNumOperands() > 0 &&
               getElementTypeOrSelf(op->getOperand(0)).isInteger(1);
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](AbsOp) { return "Abs"; })
      .Case([](AddOp) { return "Add"; })
      .Case([&](AndOp) { return isBit ? "And" : "BitwiseAnd"; })
      .Case([](AtanOp) { return "Atan"; })
      .Case([](CeilOp) { return "Ceil"; })
      .Case([](CosOp) { return "Cos"; })
      .Case([](DivOp) { return "Div"; })
      .Case([](ErfOp) { return "Erf"; })
      .Case([](ExpOp) { return "Exp"; })
      .Case([](FloorOp) { return "Floor"; })
      .Case([](LogOp) { return "Log"; })
      .Case([](MaxOp) { return "Max"; })
      .Case([](MinOp) { return "Min"; })
      .Case([](MulOp) { return "Mul"; })
      .Case([](NegOp) { return "Neg"; })
      .Case([&](NotOp) { return isBit ? "Not" : "BitwiseNot"; })
      .Case([&](OrOp) { return isBit ? "Or" : "BitwiseOr"; })
      .Case([](PowOp) { return "Pow"; })
      .Case([](ReciprocalOp) { return "Reciprocal"; })
      .Case([](ReluOp) { return "Relu"; })
      .Case([](RoundOp) { return "Round"; })
      .Case([](SigmoidOp) { return "Sigmoid"; })
      .Case([](SignOp) { return "Sign"; })
      .Case([](SinOp) { return "Sin"; })
      .Case([](SoftplusOp) { return "Softplus"; })
      .Case([](SqrtOp) { return "Sqrt"; })
      .Case([](SubOp) { return "Sub"; })
      .Case([](TanhOp) { return "Tanh"; })
      .Case([&](XorOp) { return isBit ? "Xor" : "BitwiseXor"; })
      .Default(StringRef());
}

/// Writes 2 t / (1 - t) with t = tanh(x / 2), which avoids cancellation; for x
/// > 1, where t is close to 1, writes e^x - 1.
static void write(OnnxWriter &w, Expm1Op op) {
  std::string x = w.getWide(op.getX()), one = w.addFloat(1.0);
  std::string near = w.add("Min", {x, one});
  std::string t = w.add("Tanh", {w.add("Mul", {near, w.addFloat(0.5)})});
  near = w.add("Div", {w.add("Add", {t, t}), w.add("Sub", {one, t})});
  std::string far = w.add("Sub", {w.add("Exp", {x}), one});
  std::string isFar = w.add("Greater", {x, one});
  w.setWide(op.getY(), w.add("Where", {isFar, far, near}));
}

/// Writes 2 atanh(x / (x + 2)), which avoids cancellation; for x > 1, writes
/// log(1 + x).
static void write(OnnxWriter &w, Log1pOp op) {
  std::string x = w.getWide(op.getX()), one = w.addFloat(1.0);
  std::string near = w.add("Min", {x, one});
  std::string sum = w.add("Add", {near, w.addFloat(2.0)});
  std::string half = w.add("Atanh", {w.add("Div", {near, sum})});
  std::string far = w.add("Log", {w.add("Add", {x, one})});
  std::string isFar = w.add("Greater", {x, one});
  near = w.add("Add", {half, half});
  w.setWide(op.getY(), w.add("Where", {isFar, far, near}));
}

static void write(OnnxWriter &w, CompareOp op) {
  StringRef name;
  switch (op.getComparison()) {
  case Comparison::Equal:
    name = "Equal";
    break;
  case Comparison::Less:
    name = "Less";
    break;
  case Comparison::LessEqual:
    name = "LessOrEqual";
    break;
  case Comparison::Greater:
    name = "Greater";
    break;
  case Comparison::GreaterEqual:
    name = "GreaterOrEqual";
    break;
  }
  w.set(op.getY(),
        w.add(name, {w.getWide(op.getLhs()), w.getWide(op.getRhs())}));
}

static void write(OnnxWriter &w, SelectOp op) {
  w.set(op.getY(),
        w.choose(w.get(op.getCondition()), w.get(op.getLhs()),
                 w.get(op.getRhs()), getElementTypeOrSelf(op.getY())));
}

static void write(OnnxWriter &w, GeluOp op) {
  std::string y = w.add("Gelu", {w.getWide(op.getX())});
  if (op.getApproximate() == Approximation::Tanh)
    w.setString("approximate", "tanh");
  w.setWide(op.getY(), y);
}

static void write(OnnxWriter &w, ReluGradOp op) {
  std::string zero = w.addFloat(0.0);
  std::string off = w.add("LessOrEqual", {w.getWide(op.getOperand(1)), zero});
  w.setWide(op.getResult(),
            w.add("Where", {off, zero, w.getWide(op.getOperand(0))}));
}

/// Writes dy times the derivative of gelu.
static void write(OnnxWriter &w, GeluGradOp op) {
  auto mul = [&](const std::string &a, const std::string &b) {
    return w.add("Mul", {a, b});
  };
  auto plus = [&](const std::string &a, const std::string &b) {
    return w.add("Add", {a, b});
  };
  std::string dy = w.getWide(op.getOperand(0)), x = w.getWide(op.getOperand(1));
  std::string half = w.addFloat(0.5), one = w.addFloat(1.0);
  std::string square = mul(x, x), slope;
  if (op.getApproximate() == Approximation::Tanh) {
    constexpr double kCubic = 0.044715;
    std::string root = w.addFloat(std::sqrt(2.0 / std::numbers::pi));
    std::string inner = plus(x, mul(mul(square, x), w.addFloat(kCubic)));
    std::string t = w.add("Tanh", {mul(inner, root)});
    std::string outer =
        mul(root, plus(one, mul(square, w.addFloat(3.0 * kCubic))));
    std::string bend = mul(mul(x, w.add("Sub", {one, mul(t, t)})), outer);
    slope = mul(half, plus(plus(one, t), bend));
  } else {
    std::string erf =
        w.add("Erf", {mul(x, w.addFloat(std::numbers::sqrt2 / 2.0))});
    std::string density =
        mul(w.add("Exp", {mul(square, w.addFloat(-0.5))}),
            w.addFloat(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
    slope = plus(mul(half, plus(one, erf)), mul(x, density));
  }
  w.setWide(op.getResult(), mul(dy, slope));
}

static void write(OnnxWriter &w, SiluOp op) {
  std::string x = w.getWide(op.getX());
  w.setWide(op.getY(), w.add("Mul", {x, w.add("Sigmoid", {x})}));
}

/// Writes dy (s + x s (1 - s)) with s = sigmoid(x) and 1 - s = sigmoid(-x).
static void write(OnnxWriter &w, SiluGradOp op) {
  std::string dy = w.getWide(op.getOperand(0)), x = w.getWide(op.getOperand(1));
  std::string rest = w.add("Sigmoid", {w.add("Neg", {x})});
  std::string bend = w.add("Add", {w.addFloat(1.0), w.add("Mul", {x, rest})});
  std::string slope = w.add("Mul", {w.add("Sigmoid", {x}), bend});
  w.setWide(op.getResult(), w.add("Mul", {dy, slope}));
}

static LogicalResult writeCast(OnnxWriter &w, CastOp op) {
  Type from = getElementTypeOrSelf(op.getX()),
       to = getElementTypeOrSelf(op.getY());
  // f8E8M0FNU is written as f32, to which a cast would not round.
  if (!getElementNumber(to) || isa<Float8E8M0FNUType>(to))
    return failure();
  std::string y = w.cast(w.get(op.getX()), to);
  auto format = dyn_cast<FloatType>(to);
  if (format && format.getWidth() == 8 && isa<FloatType>(from))
    w.setInt("saturate", op.getSaturate());
  w.set(op.getY(), y);
  return success();
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

static void write(OnnxWriter &w, TransposeOp op) {
  w.set(op.getY(), w.transpose(w.get(op.getX()), op.getPermutation()));
}

static void write(OnnxWriter &w, BroadcastOp op) {
  SmallVector<int64_t> aligned(getShape(op.getY()).size(), 1);
  for (auto [axis, size] : llvm::zip(op.getAxes(), getShape(op.getX())))
    aligned[axis] = size;
  std::string x = w.reshape(w.get(op.getX()), aligned);
  w.set(op.getY(), w.add("Expand", {x, w.addInts(getShape(op.getY()))}));
}

static void write(OnnxWriter &w, SliceOp op) {
  SmallVector<int64_t> ends, axes;
  for (auto [axis, size] : llvm::enumerate(getShape(op.getY()))) {
    ends.push_back(op.getOffsets()[axis] +
                   (size ? (size - 1) * op.getStrides()[axis] + 1 : 0));
    axes.push_back(axis);
  }
  w.set(op.getY(), w.add("Slice", {w.get(op.getX()), w.addInts(op.getOffsets()),
                                   w.addInts(ends), w.addInts(axes),
                                   w.addInts(op.getStrides())}));
}

/// Writes a pad. To insert zeros between elements, each element becomes a row
/// that is padded with zeros at its end.
static void write(OnnxWriter &w, PadOp op) {
  ArrayRef<int64_t> from = getShape(op.getX()), to = getShape(op.getY());
  size_t rank = from.size();
  SmallVector<int64_t> rows, gaps, spread, before, pads(2 * rank);
  for (auto [axis, size] : llvm::enumerate(from)) {
    int64_t stride = op.getStrides()[axis];
    rows.append({size, 1});
    gaps.append({0, stride - 1});
    spread.push_back(size * stride);
    before.push_back(0);
    pads[axis] = op.getOffsets()[axis];
    // Negative padding crops zeros after the last element.
    pads[rank + axis] = to[axis] - op.getOffsets()[axis] - size * stride;
  }
  std::string x = w.get(op.getX());
  if (spread != from) {
    SmallVector<int64_t> all(2 * rank);
    llvm::append_range(all, gaps);
    x = w.add("Pad", {w.reshape(x, rows), w.addInts(all)});
    x = w.reshape(x, spread);
  }
  w.set(op.getY(), w.add("Pad", {x, w.addInts(pads)}));
}

static void write(OnnxWriter &w, ConcatOp op) {
  SmallVector<std::string> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(w.get(input));
  std::string y = w.add("Concat", inputs);
  w.setInt("axis", op.getAxis());
  w.set(op.getY(), y);
}

static void write(OnnxWriter &w, IotaOp op) {
  auto type = cast<RankedTensorType>(op.getY().getType());
  int64_t count =
      op.getAxis() ? type.getDimSize(*op.getAxis()) : type.getNumElements();
  std::string y = w.cast(w.addRange(count), type.getElementType());
  if (!op.getAxis())
    return w.set(op.getY(), w.reshape(y, type.getShape()));
  SmallVector<int64_t> aligned(type.getRank(), 1);
  aligned[*op.getAxis()] = count;
  w.set(op.getY(),
        w.add("Expand", {w.reshape(y, aligned), w.addInts(type.getShape())}));
}

static void write(OnnxWriter &w, GatherOp op) {
  w.set(op.getY(),
        w.add("Gather", {w.get(op.getTable()), w.get(op.getIndices())}));
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

static std::string transposeLast(OnnxWriter &w, Value x, bool isTransposed) {
  std::string name = w.getWide(x);
  if (!isTransposed)
    return name;
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, getShape(x).size()));
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return w.transpose(name, axes);
}

static void write(OnnxWriter &w, MatmulOp op) {
  std::string y =
      w.add("MatMul", {transposeLast(w, op.getLhs(), op.getTransposeLhs()),
                       transposeLast(w, op.getRhs(), op.getTransposeRhs())});
  if (Value bias = op.getBias())
    y = w.add("Add", {y, w.getWide(bias)});
  w.setWide(op.getY(), y);
}

/// Adds rows at their indices.
static void write(OnnxWriter &w, GatherGradOp op) {
  ArrayRef<int64_t> shape = getShape(op.getDtable());
  SmallVector<int64_t> indices(getShape(op.getIndices()));
  indices.push_back(1);
  std::string zeros = w.add("Expand", {w.addFloat(0.0), w.addInts(shape)});
  std::string sums =
      w.add("ScatterND", {zeros, w.reshape(w.get(op.getIndices()), indices),
                          w.getWide(op.getGradient())});
  w.setString("reduction", "add");
  w.setWide(op.getDtable(), sums);
}

template <typename Op>
static void writeReduction(OnnxWriter &w, Op op, StringRef name) {
  w.setWide(op.getY(), w.reduce(name, w.getWide(op.getX()), op.getAxes()));
}

template <typename Op>
static void writeSoftmax(OnnxWriter &w, Op op, StringRef name) {
  std::string y = w.add(name, {w.getWide(op.getX())});
  w.setInt("axis", -1);
  w.setWide(op.getY(), y);
}

static void write(OnnxWriter &w, LayerNormOp op) {
  SmallVector<std::string> inputs{w.getWide(op.getX()),
                                  w.getWide(op.getScale())};
  if (Value bias = op.getBias())
    inputs.push_back(w.getWide(bias));
  std::string y = w.add("LayerNormalization", inputs);
  std::string mean = w.addResult(), rstd = w.addResult();
  w.setInt("axis", -1);
  w.setFloat("epsilon", op.getEpsilon().convertToDouble());
  w.setWide(op.getY(), y);
  w.set(op.getMean(), w.reshape(mean, getShape(op.getMean())));
  w.set(op.getRstd(), w.reshape(rstd, getShape(op.getRstd())));
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::convert::writeOp(OnnxWriter &w, Operation *op) {
  if (StringRef name = getElementwise(op); !name.empty()) {
    SmallVector<std::string> inputs;
    for (Value operand : op->getOperands())
      inputs.push_back(w.getWide(operand));
    w.setWide(op->getResult(0), w.add(name, inputs));
    return success();
  }
  auto done = [&](auto op) {
    write(w, op);
    return success();
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](CastOp cast) { return writeCast(w, cast); })
      .Case<BroadcastOp, CompareOp, ConcatOp, Expm1Op, GatherGradOp, GatherOp,
            Log1pOp, GeluGradOp, GeluOp, IotaOp, LayerNormOp, MatmulOp, PadOp,
            ReluGradOp, SelectOp, SiluGradOp, SiluOp, SliceOp, TransposeOp>(
          done)
      .Case<ConvOp, ConvInputGradOp, ConvWeightGradOp>([&](auto op) {
        writeConvolution(w, op);
        return success();
      })
      .Case<BitcastOp, JoinHalvesOp>([&](auto op) {
        writeBits(w, op);
        return success();
      })
      .Case<QuantizeOp, DequantizeOp, GroupMaxOp, ChooseScaleOp, EncodeOp,
            ScaledMatmulOp>([&](auto op) { return writeQuantization(w, op); })
      .Case([&](RandomUniformOp op) {
        writeRandom(w, op);
        return success();
      })
      .Case([&](RoundToOp op) {
        writeRounding(w, op);
        return success();
      })
      .Case([&](StatisticsOp op) {
        writeStatistics(w, op);
        return success();
      })
      .Case<GradientStatisticsOp, OptimizerScalarsOp, OptimizerUpdateOp>(
          [&](auto op) { return writeOptimizer(w, op); })
      .Case([&](CheckIndexOp check) {
        // Runtimes check indices where they are used.
        w.set(check.getY(), w.add("Identity", {w.get(check.getX())}));
        return success();
      })
      .Case([&](ReshapeOp reshape) {
        w.set(reshape.getY(),
              w.reshape(w.get(reshape.getX()), getShape(reshape.getY())));
        return success();
      })
      .Case([&](SaveOp save) {
        w.set(save.getY(), w.add("Identity", {w.get(save.getX())}));
        return success();
      })
      .Case([&](ReduceSumOp sum) {
        writeReduction(w, sum, "ReduceSum");
        return success();
      })
      .Case([&](ReduceMeanOp mean) {
        writeReduction(w, mean, "ReduceMean");
        return success();
      })
      .Case([&](ReduceMaxOp max) {
        w.setWide(max.getY(),
                  w.reduceMax(w.getWide(max.getX()), max.getAxes()));
        return success();
      })
      .Case([&](SoftmaxOp softmax) {
        writeSoftmax(w, softmax, "Softmax");
        return success();
      })
      .Case([&](LogSoftmaxOp softmax) {
        writeSoftmax(w, softmax, "LogSoftmax");
        return success();
      })
      .Default(failure());
}
