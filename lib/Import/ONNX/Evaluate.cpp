//===- Evaluate.cpp - Constant folding at import --------------------------===//

#include "Evaluate.h"
#include "binade/IR/Binade.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static bool isFloat(RankedTensorType type) {
  return isa<FloatType>(type.getElementType());
}

static double getDouble(APFloat value) {
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

Elements mlir::binade::importer::unpack(DenseElementsAttr attribute) {
  Elements result{cast<RankedTensorType>(attribute.getType()), {}};
  auto fill = [&](auto values, auto convert) {
    if (attribute.isSplat()) {
      result.numbers.push_back(convert(*values.begin()));
      return;
    }
    result.numbers.reserve(attribute.getNumElements());
    for (const auto &value : values)
      result.numbers.push_back(convert(value));
  };
  if (isFloat(result.type))
    fill(attribute.getValues<APFloat>(),
         [](const APFloat &value) { return Number{.f = getDouble(value)}; });
  else
    fill(attribute.getValues<APInt>(),
         [type = attribute.getElementType()](const APInt &value) {
           return Number{.i = getInteger(value, type)};
         });
  return result;
}

DenseElementsAttr mlir::binade::importer::pack(const Elements &elements) {
  Type element = elements.type.getElementType();
  if (auto format = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    values.reserve(elements.numbers.size());
    for (Number number : elements.numbers) {
      APFloat value(number.f);
      bool losesInfo;
      value.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
      values.push_back(value);
    }
    return DenseElementsAttr::get(elements.type, values);
  }
  SmallVector<APInt> values;
  values.reserve(elements.numbers.size());
  for (Number number : elements.numbers)
    values.emplace_back(element.getIntOrFloatBitWidth(), number.i,
                        /*isSigned=*/true, /*implicitTrunc=*/true);
  return DenseElementsAttr::get(elements.type, values);
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

/// Returns a tensor whose element at `index` is the element of `from` at
/// `source(index)`.
static Elements
move(const Elements &from, RankedTensorType type,
     function_ref<SmallVector<int64_t>(ArrayRef<int64_t>)> source) {
  Elements result{type, {}};
  if (from.isSplat() || from.type.getNumElements() == 1) {
    result.numbers = from.numbers;
    return result;
  }
  SmallVector<int64_t> strides = computeStrides(type.getShape());
  SmallVector<int64_t> fromStrides = computeStrides(from.type.getShape());
  result.numbers.reserve(type.getNumElements());
  for (int64_t i = 0, end = type.getNumElements(); i < end; ++i)
    result.numbers.push_back(
        from[linearize(source(delinearize(i, strides)), fromStrides)]);
  return result;
}

/// Broadcasts `from` to `type`: axis i of `from` is axis axes[i] of the result,
/// or has length 1.
static Elements copyAlong(const Elements &from, RankedTensorType type,
                          ArrayRef<int64_t> axes) {
  return move(from, type, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source;
    for (auto [axis, size] : llvm::zip_equal(axes, from.type.getShape()))
      source.push_back(size == 1 ? 0 : index[axis]);
    return source;
  });
}

Elements mlir::binade::importer::broadcast(const Elements &elements,
                                           ArrayRef<int64_t> shape) {
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(shape.size() - elements.type.getRank(), shape.size()));
  return copyAlong(elements, elements.type.clone(shape), axes);
}

static Elements evaluateConcat(ConcatOp op, ArrayRef<Elements> operands) {
  Elements result{op.getType(), {}};
  int64_t axis = op.getAxis();
  ArrayRef<int64_t> shape = op.getType().getShape();
  int64_t rows = ShapedType::getNumElements(shape.take_front(axis));
  for (int64_t row = 0; row < rows; ++row)
    for (const Elements &part : operands) {
      int64_t size =
          ShapedType::getNumElements(part.type.getShape().drop_front(axis));
      for (int64_t i = 0; i < size; ++i)
        result.numbers.push_back(part[row * size + i]);
    }
  return result;
}

/// Returns nothing if an index is out of bounds.
static std::optional<Elements>
evaluateGather(GatherOp op, const Elements &table, const Elements &indices) {
  Elements result{op.getType(), {}};
  int64_t rows = table.type.getDimSize(0);
  int64_t size = rows == 0 ? 0 : table.type.getNumElements() / rows;
  for (int64_t i = 0, end = indices.type.getNumElements(); i < end; ++i) {
    int64_t row = indices[i].i + (indices[i].i < 0 ? rows : 0);
    if (row < 0 || row >= rows)
      return std::nullopt;
    for (int64_t j = 0; j < size; ++j)
      result.numbers.push_back(table[row * size + j]);
  }
  return result;
}

static std::optional<Elements> evaluateMovement(Operation *op,
                                                ArrayRef<Elements> operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  using Index = ArrayRef<int64_t>;
  return llvm::TypeSwitch<Operation *, std::optional<Elements>>(op)
      .Case([&](ReshapeOp) { return Elements{type, operands[0].numbers}; })
      .Case([&](TransposeOp op) {
        auto inverse = invertPermutationVector(op.getPermutation());
        return move(operands[0], type, [&](Index index) {
          return applyPermutation(index, inverse);
        });
      })
      .Case([&](BroadcastOp op) {
        return copyAlong(operands[0], type, op.getAxes());
      })
      .Case([&](SliceOp op) {
        return move(operands[0], type, [&](Index index) {
          SmallVector<int64_t> source;
          for (auto [place, offset, stride] :
               llvm::zip(index, op.getOffsets(), op.getStrides()))
            source.push_back(offset + place * stride);
          return source;
        });
      })
      .Case([&](ConcatOp op) { return evaluateConcat(op, operands); })
      .Case([&](GatherOp op) {
        return evaluateGather(op, operands[0], operands[1]);
      })
      .Default([](Operation *) { return std::nullopt; });
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

using Arguments = ArrayRef<Number>;

/// Divides integers as `binade.div` does: x / 0 is 0, and overflow wraps.
static int64_t divide(int64_t x, int64_t y, bool isUnsigned) {
  if (y == 0)
    return 0;
  if (isUnsigned)
    return static_cast<uint64_t>(x) / static_cast<uint64_t>(y);
  return y == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x / y;
}

/// Returns the function that an elementwise op applies to each element; empty
/// for other ops.
static std::function<Number(Arguments)> getFunction(Operation *op) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  bool isFloating = isFloat(from), hasNoSign = isUnsigned(from);
  // Maps unsigned integers to signed ones of the same order.
  auto ordered = [=](Number x) {
    return hasNoSign ? x.i ^ std::numeric_limits<int64_t>::min() : x.i;
  };
  auto unary = [](auto function) {
    return std::function(
        [=](Arguments x) { return Number{.f = function(x[0].f)}; });
  };
  auto binary = [&](auto function) -> std::function<Number(Arguments)> {
    if (isFloating)
      return [=](Arguments x) { return Number{.f = function(x[0].f, x[1].f)}; };
    // Unsigned arithmetic wraps; `pack` truncates the result to its width.
    return [=](Arguments x) {
      return Number{
          .i = static_cast<int64_t>(function(static_cast<uint64_t>(x[0].i),
                                             static_cast<uint64_t>(x[1].i)))};
    };
  };
  auto extreme = [&](bool isMax) -> std::function<Number(Arguments)> {
    if (isFloating)
      return [=](Arguments x) {
        bool isFirst =
            std::isnan(x[0].f) || (isMax ? x[0].f >= x[1].f : x[0].f <= x[1].f);
        return isFirst ? x[0] : x[1];
      };
    return [=](Arguments x) {
      int64_t lhs = ordered(x[0]), rhs = ordered(x[1]);
      return (isMax ? lhs >= rhs : lhs <= rhs) ? x[0] : x[1];
    };
  };
  auto compare = [&](Comparison comparison) {
    auto holds = [=](auto lhs, auto rhs) {
      switch (comparison) {
      case Comparison::Equal:
        return lhs == rhs;
      case Comparison::Less:
        return lhs < rhs;
      case Comparison::LessEqual:
        return lhs <= rhs;
      case Comparison::Greater:
        return lhs > rhs;
      case Comparison::GreaterEqual:
        return lhs >= rhs;
      }
      llvm_unreachable("all comparisons are covered");
    };
    return std::function([=](Arguments x) {
      return Number{.i = isFloating ? holds(x[0].f, x[1].f)
                                    : holds(ordered(x[0]), ordered(x[1]))};
    });
  };
  auto convert = [&]() -> std::function<Number(Arguments)> {
    if (cast<CastOp>(op).getSaturate() && isFloating) {
      double largest = getDouble(APFloat::getLargest(
          cast<FloatType>(to.getElementType()).getFloatSemantics()));
      // NaN passes unchanged.
      return [=](Arguments x) {
        return Number{.f = x[0].f > largest    ? largest
                           : x[0].f < -largest ? -largest
                                               : x[0].f};
      };
    }
    if (isFloating == isFloat(to))
      return [](Arguments x) { return x[0]; };
    if (isFloating)
      return [toUnsigned = isUnsigned(to)](Arguments x) {
        if (toUnsigned && x[0].f >= 0x1p63 && x[0].f < 0x1p64)
          return Number{
              .i = static_cast<int64_t>(static_cast<uint64_t>(x[0].f))};
        // Values beyond i64 have no meaning; keep the conversion defined.
        bool fits = x[0].f > -0x1p63 && x[0].f < 0x1p63;
        return Number{.i = fits ? static_cast<int64_t>(x[0].f)
                                : std::numeric_limits<int64_t>::min()};
      };
    return [=](Arguments x) {
      return Number{
          .f = hasNoSign ? static_cast<double>(static_cast<uint64_t>(x[0].i))
                         : static_cast<double>(x[0].i)};
    };
  };
  using Function = std::function<Number(Arguments)>;
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([&](AddOp) { return binary(std::plus<>()); })
      .Case([&](SubOp) { return binary(std::minus<>()); })
      .Case([&](MulOp) { return binary(std::multiplies<>()); })
      .Case([&](DivOp) {
        return isFloating
                   ? Function([](Arguments x) {
                       return Number{.f = x[0].f / x[1].f};
                     })
                   : Function([=](Arguments x) {
                       return Number{.i = divide(x[0].i, x[1].i, hasNoSign)};
                     });
      })
      .Case([&](PowOp) {
        return Function(
            [](Arguments x) { return Number{.f = std::pow(x[0].f, x[1].f)}; });
      })
      .Case([&](MaxOp) { return extreme(true); })
      .Case([&](MinOp) { return extreme(false); })
      .Case([&](NegOp) { return unary(std::negate<>()); })
      .Case([&](AbsOp) { return unary([](double x) { return std::fabs(x); }); })
      .Case([&](ReluOp) {
        return unary([](double x) { return x < 0.0 ? 0.0 : x; });
      })
      .Case(
          [&](SqrtOp) { return unary([](double x) { return std::sqrt(x); }); })
      .Case([&](SinOp) { return unary([](double x) { return std::sin(x); }); })
      .Case([&](CosOp) { return unary([](double x) { return std::cos(x); }); })
      .Case([&](FloorOp) {
        return unary([](double x) { return std::floor(x); });
      })
      .Case(
          [&](CeilOp) { return unary([](double x) { return std::ceil(x); }); })
      .Case([&](RoundOp) {
        return unary([](double x) { return std::nearbyint(x); });
      })
      .Case([&](ExpOp) { return unary([](double x) { return std::exp(x); }); })
      .Case([&](LogOp) { return unary([](double x) { return std::log(x); }); })
      .Case(
          [&](ReciprocalOp) { return unary([](double x) { return 1.0 / x; }); })
      .Case([&](CastOp) { return convert(); })
      .Case([&](CompareOp op) { return compare(op.getComparison()); })
      .Case([&](AndOp) {
        return binary([](auto x, auto y) -> decltype(x) {
          if constexpr (std::is_integral_v<decltype(x)>)
            return x & y;
          else
            return x;
        });
      })
      .Case([&](OrOp) {
        return binary([](auto x, auto y) -> decltype(x) {
          if constexpr (std::is_integral_v<decltype(x)>)
            return x | y;
          else
            return x;
        });
      })
      .Case([&](XorOp) {
        return Function(
            [](Arguments x) { return Number{.i = x[0].i ^ x[1].i}; });
      })
      .Case([&](NotOp) {
        return Function([](Arguments x) { return Number{.i = x[0].i ^ 1}; });
      })
      .Case([&](SelectOp) {
        return Function([](Arguments x) { return x[0].i ? x[1] : x[2]; });
      })
      .Default([](Operation *) { return Function(); });
}

static std::optional<Elements>
evaluateElementwise(Operation *op, ArrayRef<Elements> operands) {
  if (operands.empty())
    return std::nullopt;
  std::function<Number(Arguments)> function = getFunction(op);
  if (!function)
    return std::nullopt;
  Elements result{cast<RankedTensorType>(op->getResult(0).getType()), {}};
  bool isSplat = llvm::all_of(
      operands, [](const Elements &x) { return x.numbers.size() == 1; });
  int64_t count = isSplat ? 1 : result.type.getNumElements();
  result.numbers.reserve(count);
  SmallVector<Number> arguments(operands.size());
  for (int64_t i = 0; i < count; ++i) {
    for (auto [argument, operand] : llvm::zip(arguments, operands))
      argument = operand[i];
    result.numbers.push_back(function(arguments));
  }
  return result;
}

/// Evaluates a batched matmul, which tables of rotary embeddings need.
static Elements evaluateMatmul(MatmulOp op, ArrayRef<Elements> operands) {
  Elements result{op.getType(), {}};
  ArrayRef<int64_t> shape = op.getType().getShape();
  ArrayRef<int64_t> lhs = operands[0].type.getShape();
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  int64_t depth = op.getTransposeLhs() ? lhs[lhs.size() - 2] : lhs.back();
  int64_t batches = ShapedType::getNumElements(shape.drop_back(2));
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        double sum = op.getBias() ? operands[2][column].f : 0.0;
        for (int64_t k = 0; k < depth; ++k) {
          int64_t left =
              op.getTransposeLhs() ? k * rows + row : row * depth + k;
          int64_t right =
              op.getTransposeRhs() ? column * depth + k : k * columns + column;
          sum += operands[0][batch * rows * depth + left].f *
                 operands[1][batch * depth * columns + right].f;
        }
        result.numbers.push_back({.f = sum});
      }
  return result;
}

DenseElementsAttr
mlir::binade::importer::evaluate(Operation *op,
                                 ArrayRef<DenseElementsAttr> attributes) {
  auto operands = llvm::map_to_vector(attributes, unpack);
  std::optional<Elements> result = evaluateMovement(op, operands);
  if (!result)
    result = evaluateElementwise(op, operands);
  if (auto matmul = dyn_cast<MatmulOp>(op))
    result = evaluateMatmul(matmul, operands);
  return result ? pack(*result) : DenseElementsAttr();
}
