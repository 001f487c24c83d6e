//===- Subprocess.h - programs that make code, and their files --*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_SUBPROCESS_H
#define BINADE_LIB_TARGET_SUBPROCESS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// A directory for the files of one program, removed with what is in it.
class Scratch {
public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  /// Fails where no directory could be created.
  LogicalResult check(std::string &error) const;
  std::string file(const Twine &name) const;
  LogicalResult write(StringRef path, StringRef bytes,
                      std::string &error) const;

private:
  bool failed;
  std::string path;
};

/// The bytes of `path`.
FailureOr<std::string> readFile(StringRef path, std::string &error);

/// Runs `command`, whose first word is the program's path. `log` is what it
/// printed, or why it did not start; its files lie in `scratch`.
LogicalResult runProgram(ArrayRef<StringRef> command, const Scratch &scratch,
                         std::string &log);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_SUBPROCESS_H
