//===- Formats.h - Encoding of values on the simulated device ---*- C++ -*-===//

#ifndef BINADE_TEST_CUDA_FORMATS_H
#define BINADE_TEST_CUDA_FORMATS_H

#include "../../../../lib/Runtime/Cuda/CublasLtApi.h"

namespace simulated {

// Types are values of cudaDataType.

int getByteSize(int type);
bool isFp8(int type);
double decode(int type, const char *from);
/// Rounds to nearest, ties to even; FP8 saturates.
void encode(int type, double value, char *to);

} // namespace simulated

#endif // BINADE_TEST_CUDA_FORMATS_H
