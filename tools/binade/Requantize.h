//===- Requantize.h - states from one format into another -------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_REQUANTIZE_H
#define BINADE_TOOLS_BINADE_REQUANTIZE_H

#include "binade/Runtime/ConvertCheckpoint.h"

/// Compiles and runs a program of `dequantize` and `quantize` ops.
::binade::Result<void> requantize(std::span<::binade::Requantization> states);

#endif // BINADE_TOOLS_BINADE_REQUANTIZE_H
