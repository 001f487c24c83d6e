//===- WriteMonitor.cpp - ONNX nodes of statistics ------------------------===//

#include "OnnxWriter.h"
#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

namespace {
/// Writes statistics of one tensor.
class StatisticsWriter {
public:
  StatisticsWriter(OnnxWriter &w, StatisticsOp op)
      : w(w), shape(getShape(op.getX())), x(w.getWide(op.getX())),
        magnitude(w.add("Abs", {x})),
        axes(llvm::to_vector(llvm::seq<int64_t>(0, shape.size()))) {}

  std::string write(Statistic statistic);

private:
  std::string count(const std::string &condition) {
    return w.reduce("ReduceSum", w.cast(condition, w.b.getI64Type()), axes);
  }
  std::string isFinite() {
    return w.add("LessOrEqual",
                 {magnitude, w.addFloat(std::numeric_limits<float>::max())});
  }
  std::string isZero() { return w.add("Equal", {x, w.addFloat(0.0)}); }
  std::string countExponents();

  OnnxWriter &w;
  ArrayRef<int64_t> shape;
  std::string x, magnitude;
  SmallVector<int64_t> axes; ///< All axes.
};
} // namespace

/// Writes a histogram of exponents: rounds the logarithms of the elements'
/// powers of two, and adds one to the entry of each.
std::string StatisticsWriter::countExponents() {
  constexpr int64_t kEntries = StatisticsOp::kExponents, kBias = 127;
  Type i64 = w.b.getI64Type();
  std::string wide = w.cast(magnitude, w.b.getF64Type());
  std::string unit = w.add("Max", {ScaleNodes(w).addUnit("", wide),
                                   w.addDouble(std::ldexp(1.0, -kBias))});
  std::string log = w.add("Log", {unit});
  std::string exponent =
      w.add("Round", {w.add("Mul", {log, w.addDouble(std::numbers::log2e)})});
  exponent = w.add("Add", {exponent, w.addDouble(kBias)});
  // Elements that are not finite have no exponent; count them in the last
  // entry.
  std::string entry =
      w.add("Where", {isFinite(), exponent, w.addDouble(kEntries - 1)});
  int64_t elements = ShapedType::getNumElements(shape);
  entry = w.reshape(w.cast(entry, i64), {elements, 1});
  std::string zeros = w.add("Expand", {w.addInt(0), w.addInts({kEntries})});
  std::string ones = w.add("Expand", {w.addInt(1), w.addInts({elements})});
  std::string counts = w.add("ScatterND", {zeros, entry, ones});
  w.setString("reduction", "add");
  return counts;
}

std::string StatisticsWriter::write(Statistic statistic) {
  switch (statistic) {
  case Statistic::Amax:
    return w.reduceMax(magnitude, axes);
  case Statistic::Smallest: {
    std::string infinity = w.addFloat(INFINITY);
    std::string isPositive = w.add("Greater", {magnitude, w.addFloat(0.0)});
    return w.reduce("ReduceMin",
                    w.add("Where", {isPositive, magnitude, infinity}), axes);
  }
  case Statistic::Zeros:
    return count(isZero());
  case Statistic::NonFinite:
    return count(w.add("Not", {isFinite()}));
  case Statistic::Exponents:
    return countExponents();
  }
  llvm_unreachable("all statistics are listed");
}

void mlir::binade::convert::writeStatistics(OnnxWriter &w, StatisticsOp op) {
  StatisticsWriter statistics(w, op);
  for (auto [value, statistic] :
       llvm::zip_equal(op.getValues(), op.getMembers()))
    w.set(value, statistics.write(statistic));
}
