//===- Context.h - An MLIR context that checks its errors -------*- C++ -*-===//

#ifndef BINADE_TEST_FUZZ_CONTEXT_H
#define BINADE_TEST_FUZZ_CONTEXT_H

#include "Targets.h"
#include "mlir/IR/MLIRContext.h"

namespace binade::fuzz {

/// A context for one file after the other. It keeps all types and attributes
/// that it has seen: after some files there is a new one.
class Context {
public:
  Context();

  static Context &get();

  /// What is rejected has an error.
  void checkResult(bool isRejected) const;

  mlir::MLIRContext mlir;

private:
  unsigned errors = 0;
};

inline llvm::StringRef toText(Bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

} // namespace binade::fuzz

#endif // BINADE_TEST_FUZZ_CONTEXT_H
