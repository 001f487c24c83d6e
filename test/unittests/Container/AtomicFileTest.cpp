//===- AtomicFileTest.cpp - Atomic writes of files ------------------------===//
// Each system call of a write fails in turn. The failed write must leave no
// files and must not change an older file.
//===----------------------------------------------------------------------===//

#include "binade/Container/AtomicFile.h"
#include "TemporaryDirectory.h"
#include "binade/Container/Safetensors.h"
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace binade;
using test::TemporaryDirectory;

namespace {
/// Injects one fault: the system call after `countdown` others fails.
struct Fault {
  int countdown = -1;
  int number = 0;
  std::string failed; ///< The name of the call that failed.

  bool strikes(const char *name) {
    if (countdown < 0 || countdown-- > 0)
      return false;
    failed = name;
    errno = number;
    return true;
  }
};
Fault fault;

template <typename F> F *original(const char *name) {
  return reinterpret_cast<F *>(::dlsym(RTLD_NEXT, name));
}
} // namespace

// These replace the functions of the C library in this program.
extern "C" {
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  if (fault.strikes("pwrite"))
    return -1;
  // The system may write less than requested.
  static auto *next = original<decltype(pwrite)>("pwrite");
  return next(fd, data, size > 7 ? size / 2 : size, offset);
}
int fsync(int fd) {
  struct stat info;
  const char *name = ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)
                         ? "fsync directory"
                         : "fsync";
  static auto *next = original<decltype(fsync)>("fsync");
  return fault.strikes(name) ? -1 : next(fd);
}
int rename(const char *from, const char *to) noexcept {
  static auto *next = original<int(const char *, const char *)>("rename");
  return fault.strikes("rename") ? -1 : next(from, to);
}
}

static Result<void> writeExample(const std::string &path) {
  std::string data(300, 'x');
  TensorBytes tensors[] = {
      {"a", DType::U8, {100}, std::as_bytes(std::span(data)).first(100)},
      {"b", DType::F32, {50}, std::as_bytes(std::span(data)).first(200)}};
  return writeSafetensors(path, tensors);
}

TEST(AtomicFile, AFailedCallLeavesNoFilesBehind) {
  for (int number : {ENOSPC, EIO, EDQUOT, EFBIG}) {
    TemporaryDirectory directory;
    std::string path = directory / "out";
    std::set<std::string> seen;
    int n = 0;
    for (;; ++n) {
      test::writeFile(path, "old");
      fault = {n, number, ""};
      Result<void> written = writeExample(path);
      bool struck = fault.countdown < 0;
      std::string failed = fault.failed;
      fault = {};
      EXPECT_EQ(directory.list(), std::vector<std::string>{"out"}) << n;
      if (!struck) {
        EXPECT_TRUE(written);
        break;
      }
      seen.insert(failed);
      ASSERT_FALSE(written) << failed << " " << n;
      Error error = written.takeError();
      EXPECT_EQ(error.exitCode, ExitCode::IO);
      EXPECT_EQ(error.where, path);
      EXPECT_NE(error.message.find(std::strerror(number)), std::string::npos)
          << error.message;
      EXPECT_EQ(error.notes.size(),
                number == ENOSPC || number == EDQUOT ? 1u : 0u);
      if (failed == "fsync directory") // The new file is complete.
        EXPECT_TRUE(Safetensors::open(path));
      else
        EXPECT_EQ(test::readFile(path), "old") << failed;
    }
    EXPECT_EQ(seen, (std::set<std::string>{"fsync", "fsync directory", "pwrite",
                                           "rename"}));
    EXPECT_GT(n, 10);
  }
}

TEST(AtomicFile, InterruptedWritesContinue) {
  TemporaryDirectory directory;
  for (int n = 0; n < 3; ++n) {
    fault = {n, EINTR, ""};
    ASSERT_TRUE(writeTextFile(directory / "f", "some text that is longer"));
    EXPECT_EQ(fault.failed, "pwrite");
    fault = {};
    EXPECT_EQ(test::readFile(directory / "f"), "some text that is longer");
  }
}

TEST(AtomicFile, FileSystemsThatCannotSyncDirectoriesAreAccepted) {
  TemporaryDirectory directory;
  ASSERT_TRUE(writeTextFile(directory / "f", ""));
  fault = {2, EINVAL, ""}; // The third call syncs the directory.
  EXPECT_TRUE(writeTextFile(directory / "f", ""));
  EXPECT_EQ(fault.failed, "fsync directory");
  fault = {};
}

TEST(AtomicFile, PathsThatCannotBeWrittenAreReported) {
  TemporaryDirectory directory;
  Result<void> missing = writeTextFile(directory / "none/f", "x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exitCode, ExitCode::IO);
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  ::mkdir((directory / "d").c_str(), 0755);
  Result<void> onto = writeTextFile(directory / "d", "x");
  ASSERT_FALSE(onto);
  EXPECT_EQ(onto.error().exitCode, ExitCode::IO);
  EXPECT_EQ(directory.list(), std::vector<std::string>{"d"});
  EXPECT_TRUE(std::filesystem::is_empty(directory / "d"));
}

TEST(AtomicFile, NamesOfAnyLengthAreWritten) {
  TemporaryDirectory directory;
  std::string name(255, 'n'); // The limit of file systems.
  ASSERT_TRUE(writeTextFile(directory / name, "x"));
  EXPECT_EQ(directory.list(), std::vector<std::string>{name});
}

TEST(AtomicFile, ThePermissionsOfAnOlderFileAreKept) {
  TemporaryDirectory directory;
  auto modeOf = [&](const std::string &path) {
    struct stat info;
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  };
  mode_t mask = ::umask(022);
  ASSERT_TRUE(writeTextFile(directory / "new", "x"));
  EXPECT_EQ(modeOf(directory / "new"), 0644u);
  for (mode_t mode : {0600, 0666}) {
    ::chmod((directory / "new").c_str(), mode);
    ASSERT_TRUE(writeTextFile(directory / "new", "y"));
    EXPECT_EQ(modeOf(directory / "new"), mode);
  }
  ::umask(mask);
}

TEST(AtomicFile, TheCurrentDirectoryIsTheDefault) {
  TemporaryDirectory directory;
  std::string old = std::filesystem::current_path();
  ASSERT_EQ(::chdir(directory.str().c_str()), 0);
  Result<void> written = writeTextFile("f", "x");
  ASSERT_EQ(::chdir(old.c_str()), 0);
  EXPECT_TRUE(written);
  EXPECT_EQ(test::readFile(directory / "f"), "x");
}

TEST(AtomicFile, WritesToADeviceOrPipeThatExists) {
  EXPECT_TRUE(writeExample("/dev/null"));
  TemporaryDirectory directory;
  std::string pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Opened for reading and writing, so that no call waits for the other end.
  Descriptor end(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writeTextFile(pipe, "twelve bytes"));
  char bytes[100];
  ssize_t count = ::read(end.get(), bytes, sizeof(bytes));
  ASSERT_EQ(count, 12);
  EXPECT_EQ(std::string_view(bytes, 12), "twelve bytes");
  EXPECT_EQ(directory.list(), std::vector<std::string>{"pipe"});
}
