//===- ConvertOnnx.h - An ONNX file with its precision assigned -*- C++ -*-===//

#ifndef BINADE_PIPELINES_CONVERTONNX_H
#define BINADE_PIPELINES_CONVERTONNX_H

#include "binade/ConvertONNX/Convert.h"
#include "binade/Import/ONNX/Import.h"

namespace mlir::binade {

struct OnnxConversion {
  ImportOptions import;
  std::string policy = "fp32";
  /// File of ranges that a run recorded; empty for none.
  std::string ranges;
  std::vector<PortType> ports;
  /// Of gradients in f16; what the policy says where absent, and 1 for none.
  std::optional<double> scale;
  /// Whether the scale is an input of the graph, and its next value an output.
  bool hasDynamicScale = false;
};

struct OnnxConversionReport {
  ConvertReport written;
  /// Nodes about which nothing could be decided.
  PartialImport partial;
  /// Nodes that stay wide because a narrow format does not hold a number that
  /// they read or make: which, and why.
  std::vector<std::string> held;
};

/// Writes the ONNX file at `path` to `output` in the formats that the policy
/// gives its nodes. What cannot be imported stays as it is: any ONNX file can
/// be converted. Errors are diagnostics; then nothing is written.
LogicalResult convertOnnx(StringRef path, const OnnxConversion &conversion,
                          StringRef output, MLIRContext *context,
                          OnnxConversionReport &report);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_CONVERTONNX_H
