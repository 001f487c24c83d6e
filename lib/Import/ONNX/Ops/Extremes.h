//===- Extremes.h - Import of Max and Min -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_EXTREMES_H
#define BINADE_LIB_IMPORT_ONNX_OPS_EXTREMES_H

#include "../Node.h"

namespace mlir::binade::importer {

LogicalResult importMax(Node &node);
LogicalResult importMin(Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_EXTREMES_H
