//===- UnknownFields.h - What a file has beyond ONNX ------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_UNKNOWNFIELDS_H
#define BINADE_LIB_IMPORT_ONNX_UNKNOWNFIELDS_H

#include "Model.h"

namespace mlir::binade::importer {

/// The first field that the version of ONNX known here does not have, as
/// "field 17 of NodeProto"; empty if there is none.
std::string findUnknownField(const ::onnx::ModelProto &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_UNKNOWNFIELDS_H
