//===- EmitObject.h - Code of one kernel for CPUs ---------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CPU_EMITOBJECT_H
#define BINADE_LIB_TARGET_CPU_EMITOBJECT_H

#include "../ObjectCache.h"
#include "binade/Target/CPU.h"

namespace mlir::binade {

enum class CpuOutput { Object, Assembly, LLVM };

/// Compiles the module `text`, which contains a kernel of binade ops and the
/// functions that it refers to. The resulting code has one part.
FailureOr<EmittedCode> emitCode(StringRef text, CpuLevel level,
                                CpuOutput output, std::string &errors);

/// Links objects to a shared object. Each pair of `names` is an additional name
/// (first) for a symbol of the objects (second).
FailureOr<std::string>
linkObjects(ArrayRef<std::string> objects,
            ArrayRef<std::pair<std::string, std::string>> names,
            std::string &error);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CPU_EMITOBJECT_H
