//===- EmitPtx.h - PTX of one kernel ----------------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_EMITPTX_H
#define BINADE_LIB_TARGET_CUDA_EMITPTX_H

#include "../ObjectCache.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// The parts of a kernel's code in the cache.
enum GpuPart : unsigned { Entries, Ir, Ptx, Cubin };

/// Returns how to launch the kernels in `code`, whose first one is called
/// `symbol`.
SmallVector<GpuEntry> readEntries(const EmittedCode &code, StringRef symbol);

/// Compiles the module `text` to all parts but `Cubin`. It contains a kernel of
/// binade ops and the functions that it refers to, or kernels of the gpu
/// dialect.
FailureOr<EmittedCode> compilePtx(StringRef text, const CudaChip &chip,
                                  std::string &errors);

/// Returns the machine code of `ptx`, by the program `assembler`.
FailureOr<std::string> assemble(StringRef ptx, const CudaChip &chip,
                                StringRef assembler, std::string &error);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_EMITPTX_H
