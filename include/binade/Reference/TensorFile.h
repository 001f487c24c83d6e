//===- TensorFile.h - Tensors in safetensors files --------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_TENSORFILE_H
#define BINADE_REFERENCE_TENSORFILE_H

#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

namespace mlir::binade {

/// Reads all tensors of a file. Those in `types` are read as elements of that
/// type: signless integers from signed or unsigned ones, floats narrower than a
/// byte from U8. Returns an error at a tensor that does not fit its type. Other
/// tensors get the type of their dtype.
::binade::Result<NamedTensors>
readTensors(const std::string &path, MLIRContext *context,
            const std::map<std::string, RankedTensorType> &types = {});

::binade::Result<void> writeTensors(const std::string &path,
                                    const NamedTensors &tensors);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_TENSORFILE_H
