//===- EmitObject.h - object code of one module -----------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CPU_EMITOBJECT_H
#define BINADE_LIB_TARGET_CPU_EMITOBJECT_H

#include "binade/Target/CPU.h"

namespace mlir::binade {

enum class CpuOutput { Object, Assembly, LLVM };

/// Compiles kernels of one module, all the way: `text` is the module (kernels
/// of binade ops and the functions that they name), parsed in a context of its
/// own, so that several threads can do it. Diagnostics are appended to
/// `errors`, one per line.
struct EmittedCode {
  std::string code;
  SmallVector<KernelInfo> kernels;
};
FailureOr<EmittedCode> emitCode(StringRef text, CpuLevel level,
                                CpuOutput output, std::string &errors);

/// Links objects to a shared object. Each pair of `names` gives a symbol of
/// the objects (second) another name (first).
FailureOr<std::string>
linkObjects(ArrayRef<std::string> objects,
            ArrayRef<std::pair<std::string, std::string>> names,
            std::string &error);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CPU_EMITOBJECT_H
