//===- Subprocess.h - External programs and their files ---------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_SUBPROCESS_H
#define BINADE_LIB_TARGET_SUBPROCESS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// A temporary directory, which is removed with its contents.
class Scratch {
public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  /// Fails if the directory could not be created.
  LogicalResult check(std::string &error) const;
  std::string file(const Twine &name) const;
  LogicalResult write(StringRef path, StringRef bytes,
                      std::string &error) const;

private:
  bool failed;
  std::string path;
};

/// Returns the bytes of the file `path`.
FailureOr<std::string> readFile(StringRef path, std::string &error);

/// Runs `command`, whose first word is the program's path. `log` becomes its
/// output, or the reason why it could not be started. `scratch` is used for its
/// files.
LogicalResult runProgram(ArrayRef<StringRef> command, const Scratch &scratch,
                         std::string &log);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_SUBPROCESS_H
