//===- CrashReport.cpp - Report of crashes --------------------------------===//
// Functions that the signal handler calls are async-signal-safe: they read data
// that was prepared before the signal, and write with write(2).
//===----------------------------------------------------------------------===//

#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/DiagnosticArgument.h"
#include "binade/Container/Activity.h"
#include <array>
#include <csignal>
#include <iostream>
#include <unistd.h>

using namespace binade;

namespace {
struct CaughtSignal {
  int number;
  std::string_view name, meaning;
  struct sigaction before = {};
};

/// Writes to standard error through a fixed buffer, with async-signal-safe
/// calls only.
class SignalSafeWriter {
public:
  ~SignalSafeWriter() { flush(); }

  void put(char byte) {
    if (size == buffer.size())
      flush();
    buffer[size++] = byte;
  }
  void put(std::string_view text) {
    for (char byte : text)
      put(byte);
  }
  void put(unsigned number) {
    if (number > 9)
      put(number / 10);
    put(static_cast<char>('0' + number % 10));
  }
  /// Writes a name from a file or a command line: control characters become
  /// '?', and in JSON quotes and backslashes are escaped.
  void putName(std::string_view name, bool isJson) {
    for (char byte : name) {
      if (isJson && (byte == '"' || byte == '\\'))
        put('\\');
      auto code = static_cast<unsigned char>(byte);
      bool isControl = code < 0x20 || code == 0x7f;
      put(isControl || (isJson && code > 0x7f) ? '?' : byte);
    }
  }

private:
  void flush() {
    const char *next = buffer.data();
    while (size > 0) {
      ssize_t written = write(STDERR_FILENO, next, size);
      if (written <= 0)
        break;
      next += written;
      size -= static_cast<std::size_t>(written);
    }
    size = 0;
  }

  std::array<char, 512> buffer;
  std::size_t size = 0;
};
} // namespace

static std::array<CaughtSignal, 5> caught = {{
    {SIGSEGV, "SIGSEGV", "invalid memory access"},
    {SIGBUS, "SIGBUS", "bus error"},
    {SIGFPE, "SIGFPE", "arithmetic error"},
    {SIGILL, "SIGILL", "illegal instruction"},
    {SIGABRT, "SIGABRT", "abort"},
}};
/// With AddressSanitizer no signals are caught, because its own report has more
/// detail.
#if defined(__SANITIZE_ADDRESS__)
static constexpr bool kHasSanitizer = true;
#elif defined(__has_feature)
static constexpr bool kHasSanitizer = __has_feature(address_sanitizer);
#else
static constexpr bool kHasSanitizer = false;
#endif

static std::string_view programName = "binade";
static std::string commandText;
static bool reportsJson = false;

static void putMessage(SignalSafeWriter &out, const CaughtSignal &signal) {
  out.put("signal ");
  out.put(static_cast<unsigned>(signal.number));
  out.put(" (");
  out.put(signal.name);
  out.put(", ");
  out.put(signal.meaning);
  out.put("), which is a bug in Binade");
}

static void putActivity(SignalSafeWriter &out, const Activity &activity) {
  out.put("while in ");
  out.put(activity.getKind());
  out.put(" '");
  out.putName(activity.getName(), reportsJson);
  out.put("'");
}

static constexpr std::string_view kAdvice =
    "please report it with the command and its files: ";

/// Maximum number of reported activities, innermost first. Another thread may
/// be changing the list, so it must not be followed without a limit.
static constexpr int kMaxActivities = 8;

static void putText(SignalSafeWriter &out, const CaughtSignal &signal) {
  auto begin = [&](std::string_view severity) {
    out.put(programName);
    out.put(": ");
    out.put(severity);
    out.put(": ");
  };
  begin("error");
  putMessage(out, signal);
  out.put("\n");
  const Activity *activity = Activity::getInnermost();
  for (int i = 0; activity && i < kMaxActivities; ++i) {
    begin("note");
    putActivity(out, *activity);
    out.put("\n");
    activity = activity->getOuter();
  }
  begin("note");
  out.put(kAdvice);
  out.putName(commandText, false);
  out.put("\n");
}

static void putJson(SignalSafeWriter &out, const CaughtSignal &signal) {
  out.put(R"({"severity":"error","file":")");
  out.put(programName);
  out.put(R"(","part":"","message":")");
  putMessage(out, signal);
  out.put(R"(","notes":[)");
  const Activity *activity = Activity::getInnermost();
  for (int i = 0; activity && i < kMaxActivities; ++i) {
    out.put("\"");
    putActivity(out, *activity);
    out.put("\",");
    activity = activity->getOuter();
  }
  out.put("\"");
  out.put(kAdvice);
  out.putName(commandText, true);
  out.put(R"("],"exit_code":)");
  out.put(128U + static_cast<unsigned>(signal.number));
  out.put("}\n");
}

/// Reports the signal and restores the previous handler, which then gets the
/// signal: a faulting instruction raises it again when this handler returns,
/// any other signal is raised here.
static void handleSignal(int number, siginfo_t *info, void *) {
  for (const CaughtSignal &signal : caught) {
    if (signal.number != number)
      continue;
    sigaction(number, &signal.before, nullptr);
    SignalSafeWriter out;
    if (reportsJson)
      putJson(out, signal);
    else
      putText(out, signal);
  }
  bool isOfInstruction = info && info->si_code > 0;
  if (!isOfInstruction)
    raise(number);
}

/// Quotes `word` for a shell if necessary.
static std::string quoteForShell(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "-_./=:,+@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos)
    return std::string(word);
  std::string quoted = "'";
  for (char byte : word)
    quoted += byte == '\'' ? "'\\''" : std::string(1, byte);
  return quoted + "'";
}

void binade::reportCrashes(std::string_view program, int argc, char **argv) {
  programName = program;
  reportsJson = findDiagnosticFormat(argc, argv) == DiagnosticFormat::Json;
  commandText.clear();
  for (int i = 0; i < argc; ++i)
    commandText += (i ? " " : "") + quoteForShell(argv[i]);
  Activity::followThread();

  if (kHasSanitizer)
    return;
  for (CaughtSignal &signal : caught) {
    struct sigaction action = {};
    action.sa_sigaction = handleSignal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal.number, &action, &signal.before);
  }
}

int binade::runCommand(std::string_view program, DiagnosticFormat format,
                       const std::function<int()> &body) {
  std::string name(program);
  try {
    return body();
  } catch (const std::bad_alloc &) {
    // The full report would allocate memory.
    std::fputs((name + ": error: out of memory\n").c_str(), stderr);
    return ExitCode::Resources;
  } catch (const std::exception &exception) {
    Error error{
        name, printable(exception.what(), 1000) + ", which is a bug in Binade",
        ExitCode::Internal};
    std::cerr << render(std::move(error).withNote(std::string(kAdvice) +
                                                  printable(commandText, 1000)),
                        format)
              << "\n";
    return ExitCode::Internal;
  }
}
