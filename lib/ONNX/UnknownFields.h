//===- UnknownFields.h - Fields that this version of ONNX lacks -*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_UNKNOWNFIELDS_H
#define BINADE_LIB_ONNX_UNKNOWNFIELDS_H

#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// Returns the first field that the ONNX version of this build does not have,
/// as "field 17 of NodeProto"; empty if there is none.
std::string findUnknownField(const ::onnx::ModelProto &model);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_UNKNOWNFIELDS_H
