//===- Check.cpp - Checks that hold for every input -----------------------===//

#include "Check.h"
#include <cstdio>
#include <cstdlib>

using namespace binade;

void fuzz::check(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

void fuzz::checkError(const Error &error) {
  check(!error.where.empty(), "an error names its file");
  check(!error.message.empty(), "an error says what is wrong");
  check(error.exitCode == ExitCode::Rejected ||
            error.exitCode == ExitCode::IO ||
            error.exitCode == ExitCode::Resources,
        "an error about a file has exit code 3, 5 or 7");
  for (char c : render(error))
    check(c == '\n' || static_cast<unsigned char>(c) >= 0x20,
          "an error can be printed on a terminal");
}
