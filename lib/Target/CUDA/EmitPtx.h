//===- EmitPtx.h - PTX of one kernel ----------------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_EMITPTX_H
#define BINADE_LIB_TARGET_CUDA_EMITPTX_H

#include "../ObjectCache.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// The parts of a kernel's code in the cache.
enum GpuPart : unsigned { Entries, Ir, Ptx, Cubin };

/// How to launch what `code` has, whose kernel is called `symbol`.
SmallVector<GpuEntry> readEntries(const EmittedCode &code, StringRef symbol);

/// Compiles the kernel of one module to all parts but `Cubin`: `text` is the
/// module (a kernel of binade ops and the functions that it names).
FailureOr<EmittedCode> compilePtx(StringRef text, const CudaChip &chip,
                                  std::string &errors);

/// Machine code of `ptx` by the program `assembler`.
FailureOr<std::string> assemble(StringRef ptx, const CudaChip &chip,
                                StringRef assembler, std::string &error);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_EMITPTX_H
