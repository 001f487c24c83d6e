//===- Error.h - Errors, exit codes and Result ------------------*- C++ -*-===//
// The compiler, the runtime and the tools describe errors by the same class, so
// that they report them in the same way. Code in `mlir::binade` has to write
// `::binade::Error`.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_ERROR_H
#define BINADE_CONTAINER_ERROR_H

#include "binade/Container/Printable.h"
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace binade {

/// The exit code of a process. Converts to int.
struct ExitCode {
  enum Value : int {
    Ok = 0,
    Difference = 1, ///< A comparison found a difference.
    Usage = 2,      ///< Invalid command line.
    Rejected = 3,   ///< Invalid file, or a name that a file does not have.
    NumericGuard =
        4,         ///< Training stopped due to non-finite values or an alarm.
    IO = 5,        ///< The system failed to read or write.
    Device = 6,    ///< The device is missing or failed.
    Resources = 7, ///< A limit of memory, time or size was exceeded.
    Lock = 8,      ///< In use by another process.
    Peer = 9,      ///< Another rank failed.
    Internal = 70, ///< A bug in Binade.
    Interrupted = 130,
    Terminated = 143,
  };
};

/// A diagnostic, which is an error unless it is rendered as a warning.
///
/// `where` names the file and `part` the place in it (`tensor 'w'`,
/// `node 'n' (Op)`, `byte 12`; may be empty). Both must not contain control
/// characters, so names from files have to be escaped by `printable` or
/// `quote`.
struct Error {
  std::string where;
  std::string message;
  int exitCode = ExitCode::Rejected;
  std::string part = {};
  std::vector<std::string> notes = {};

  /// Appends a note, such as the option or command that helps.
  Error withNote(std::string note) &&;

  /// Sets the place in the file, unless it is already set.
  Error withPart(std::string place) &&;

  /// Returns the error as an error of a file that refers to this one: `where`
  /// and `part` become part of the message.
  Error seenFrom(std::string referrer, std::string place) &&;
};

enum class Severity { Error, Warning, Note };
enum class DiagnosticFormat { Text, Json };

/// Renders without a final newline. Text: `where[:part]: error: message`, then
/// one line `where[:part]: note: ...` per note. Json: one object in one line
/// with `severity`, `file`, `part`, `message`, `notes` and `exit_code`.
std::string render(const Error &error,
                   DiagnosticFormat format = DiagnosticFormat::Text,
                   Severity severity = Severity::Error);

/// Returns an error for a failed system call: `what` describes the attempt
/// ("cannot write"), `number` is its errno. The exit code is 3 if the path does
/// not exist, 7 if memory or descriptors ran out, else 5.
Error systemError(std::string where, std::string_view what, int number);

/// A value or an error. Reading the value of an error throws
/// std::bad_variant_access.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() & { return std::get<0>(state); }
  const T &operator*() const & { return std::get<0>(state); }
  T &&operator*() && { return std::get<0>(std::move(state)); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }

  const Error &error() const { return std::get<1>(state); }
  Error takeError() { return std::get<1>(std::move(state)); }

private:
  std::variant<T, Error> state;
};

/// Success (`return {};`) or an error.
template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failure(std::move(error)) {}

  explicit operator bool() const { return !failure; }
  const Error &error() const { return failure.value(); }
  Error takeError() { return std::move(failure.value()); }

private:
  std::optional<Error> failure;
};

} // namespace binade

#endif // BINADE_CONTAINER_ERROR_H
