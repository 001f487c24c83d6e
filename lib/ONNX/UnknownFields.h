//===- UnknownFields.h - What a file has beyond ONNX ------------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_UNKNOWNFIELDS_H
#define BINADE_LIB_ONNX_UNKNOWNFIELDS_H

#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// The first field that the version of ONNX known here does not have, as
/// "field 17 of NodeProto"; empty if there is none.
std::string findUnknownField(const ::onnx::ModelProto &model);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_UNKNOWNFIELDS_H
