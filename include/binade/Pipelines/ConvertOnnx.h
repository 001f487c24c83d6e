//===- ConvertOnnx.h - Conversion of ONNX files by a policy -----*- C++ -*-===//

#ifndef BINADE_PIPELINES_CONVERTONNX_H
#define BINADE_PIPELINES_CONVERTONNX_H

#include "binade/ConvertONNX/Convert.h"
#include "binade/Import/ONNX/Import.h"

namespace mlir::binade {

struct OnnxConversion {
  ImportOptions import;
  std::string policy = "fp32";
  /// The file of ranges that a run recorded, or empty.
  std::string ranges;
  std::vector<PortType> ports;
  /// The scale of f16 gradients. If not set, the policy's; 1 means no scaling.
  std::optional<double> scale;
  /// Whether the scale is an input of the graph, and its next value an output.
  bool hasDynamicScale = false;
};

struct OnnxConversionReport {
  ConvertReport written;
  /// Nodes that were not imported, and so have no decision.
  PartialImport partial;
  /// Nodes that stay wide because an operand or result does not fit the narrow
  /// format, with the reason.
  std::vector<std::string> held;
};

/// Writes the ONNX file at `path` to `output` in the formats that the policy
/// chooses for its nodes. Nodes that cannot be imported are not changed, so
/// that every valid ONNX file can be converted. Errors are reported as
/// diagnostics; nothing is written then.
LogicalResult convertOnnx(StringRef path, const OnnxConversion &conversion,
                          StringRef output, MLIRContext *context,
                          OnnxConversionReport &report);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_CONVERTONNX_H
