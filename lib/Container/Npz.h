//===- Npz.h - Archives of NumPy arrays -------------------------*- C++ -*-===//

#ifndef BINADE_LIB_CONTAINER_NPZ_H
#define BINADE_LIB_CONTAINER_NPZ_H

#include "binade/Container/TensorFile.h"

namespace binade {

/// Tensors with their reader.
struct OpenedTensors {
  std::vector<TensorInfo> tensors;
  std::unique_ptr<TensorFile::Reader> reader;
};

/// Opens what numpy.savez or numpy.savez_compressed wrote. Checks the CRC of
/// compressed arrays, but not of those that stay in the file.
Result<OpenedTensors> openNpz(ExternalFile file);

} // namespace binade

#endif // BINADE_LIB_CONTAINER_NPZ_H
