//===- Context.h - An MLIR context that checks its errors -------*- C++ -*-===//

#ifndef BINADE_TEST_FUZZ_CONTEXT_H
#define BINADE_TEST_FUZZ_CONTEXT_H

#include "Targets.h"
#include "mlir/IR/MLIRContext.h"

namespace binade::fuzz {

/// An MLIR context that reads many files in sequence. It never frees types and
/// attributes, so `get` replaces it after some files.
class Context {
public:
  Context();

  static Context &get();

  /// Checks that an error was reported if the input was rejected.
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
