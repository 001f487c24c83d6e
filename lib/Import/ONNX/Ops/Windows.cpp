//===- Windows.cpp - Import of window functions ---------------------------===//

#include "../Evaluate.h"
#include "../OpTable.h"
#include "onnx-ml.pb.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Computes the sum of (-1)^k coefficients[k] cos(2 pi k n / N) for each n.
static LogicalResult importWindow(Node &node, ArrayRef<double> coefficients) {
  FailureOr<SmallVector<int64_t>> size = node.getIntegers(0, "size");
  int64_t number = node.getInt("output_datatype", ::onnx::TensorProto::FLOAT);
  bool isPeriodic = node.getInt("periodic", 1);
  Type element = getElementType(node.b.getContext(), number);
  if (failed(size))
    return failure();
  if (!element)
    return node.emitUnsupported() << describeElementType(number);
  if (size->size() != 1 || size->front() < 0 || !isa<FloatType>(element))
    return node.emitError() << "expected one size and floats, got [" << *size
                            << "] and " << element;
  int64_t length = size->front();
  Elements window{RankedTensorType::get(length, element), {}};
  if (!node.graph.spend(length))
    return node.emitUnsupported()
           << "is too long to be computed at import: " << window.type;
  auto period = static_cast<double>(isPeriodic ? length : length - 1);
  for (int64_t n = 0; n < length; ++n) {
    double sum = 0.0;
    for (auto [k, coefficient] : llvm::enumerate(coefficients)) {
      double angle =
          2.0 * std::numbers::pi * static_cast<double>(k * n) / period;
      sum += (k % 2 == 0 ? coefficient : -coefficient) * std::cos(angle);
    }
    window.numbers.push_back({.f = sum});
  }
  return node.setResult(ConstantOp::create(node.b, pack(window)));
}

LogicalResult mlir::binade::importer::importHannWindow(Node &node) {
  return importWindow(node, {0.5, 0.5});
}

LogicalResult mlir::binade::importer::importHammingWindow(Node &node) {
  return importWindow(node, {25.0 / 46.0, 21.0 / 46.0});
}

LogicalResult mlir::binade::importer::importBlackmanWindow(Node &node) {
  return importWindow(node, {0.42, 0.5, 0.08});
}
