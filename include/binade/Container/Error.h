//===- Error.h - What went wrong, where, and the exit code ------*- C++ -*-===//
// Everything that can be rejected is described by one record, so that the
// compiler, the runtime and the tools report it in the same words. Code inside
// `mlir::binade` has to write `::binade::Error`.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_ERROR_H
#define BINADE_CONTAINER_ERROR_H

#include "binade/Container/Printable.h"
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace binade {

/// What a process ends with. Converts to int.
struct ExitCode {
  enum Value : int {
    Ok = 0,
    Difference = 1,   ///< a comparison found one
    Usage = 2,        ///< the command line cannot be understood
    Rejected = 3,     ///< a file, or a name that it should have, is wrong
    NumericGuard = 4, ///< training stopped by its numbers
    IO = 5,           ///< the system refused to read or write
    Device = 6,       ///< no device, or it failed
    Resources = 7,    ///< memory, time or size limit
    Lock = 8,         ///< in use by another process
    Peer = 9,         ///< another rank failed
    Internal = 70,    ///< a bug in Binade
    Interrupted = 130,
    Terminated = 143,
  };
};

/// One diagnostic of severity error (or warning, see `Severity`).
///
/// `where` names the file and `part` the place in it (`tensor 'w'`,
/// `node 'n' (Op)`, `byte 12`; may be empty). Both are free of control
/// characters: names that come from files pass through `printable` or
/// `quote` before they get here.
struct Error {
  std::string where;
  std::string message;
  int exitCode = ExitCode::Rejected;
  std::string part = {};
  std::vector<std::string> notes = {};

  /// Appends a note: the limit, option or command that helps.
  Error withNote(std::string note) &&;

  /// Sets the place inside the file unless a more exact one is known.
  Error withPart(std::string place) &&;

  /// The same failure as seen from a file that refers to this one: `where` and
  /// `part` move into the message.
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

/// A failed system call as an error: `what` is the attempt ("cannot write"),
/// `number` its errno. A path without a file is rejected (3), what memory or a
/// limit forbids is a matter of resources (7), the rest is I/O (5).
Error systemError(std::string where, std::string_view what, int number);

/// A value or the reason why there is none. Reading the value of a failure
/// throws std::bad_variant_access.
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

/// Success (`return {};`) or the reason of failure.
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
