//===- EmitObject.h - object code of one module -----------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CPU_EMITOBJECT_H
#define BINADE_LIB_TARGET_CPU_EMITOBJECT_H

#include "../ObjectCache.h"
#include "binade/Target/CPU.h"

namespace mlir::binade {

enum class CpuOutput { Object, Assembly, LLVM };

/// Compiles the kernel of one module, all the way: `text` is the module (a
/// kernel of binade ops and the functions that it names). The code has one
/// part.
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
