//===- OpenBeneathTest.cpp - Opening of files named by a model ------------===//

#include "Mentions.h"
#include "TemporaryDirectory.h"
#include "binade/Container/ExternalFile.h"
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

using namespace binade;
using test::TemporaryDirectory;

/// Runs each test with openat2 and with one openat per directory.
class OpenBeneath : public ::testing::TestWithParam<bool> {
protected:
  OpenBeneath() {
    ::mkdir((root / "model").c_str(), 0755);
    ::mkdir((root / "model/sub").c_str(), 0755);
    test::writeFile(root / "model/w.bin", "weights");
    test::writeFile(root / "model/sub/v.bin", "more");
    test::writeFile(root / "secret", "secret");
  }

  Result<ExternalFile> open(const std::string &location, bool links = false) {
    return openBeneath(root / "model", location,
                       {.allowHardLinks = links, .walk = GetParam()});
  }

  /// Returns the message of a refusal whose exit code blames the model.
  std::string refuse(const std::string &location) {
    Result<ExternalFile> file = open(location);
    if (file)
      return "accepted";
    EXPECT_EQ(file.error().exitCode, ExitCode::Rejected) << location;
    return file.error().message;
  }

  TemporaryDirectory root;
};
INSTANTIATE_TEST_SUITE_P(Ways, OpenBeneath, ::testing::Bool(), [](auto &info) {
  return info.param ? "Walk" : "Kernel";
});

TEST_P(OpenBeneath, FilesInsideAreOpened) {
  for (const char *location :
       {"w.bin", "./w.bin", "sub/v.bin", "sub//./v.bin", ".//sub/v.bin"}) {
    Result<ExternalFile> file = open(location);
    ASSERT_TRUE(file) << location << ": " << render(file.error());
    EXPECT_EQ(file->getSize(),
              std::string(location).ends_with("w.bin") ? 7u : 4u);
  }
  EXPECT_EQ(open("w.bin")->getPath(), root / "model/w.bin");
  EXPECT_EQ(*readText(*open("sub/v.bin"), 10), "more");
}

TEST_P(OpenBeneath, AnEmptyDirectoryIsTheCurrentOne) {
  std::string old = std::filesystem::current_path();
  ASSERT_EQ(::chdir((root / "model").c_str()), 0);
  Result<ExternalFile> file = openBeneath("", "w.bin", {.walk = GetParam()});
  ASSERT_EQ(::chdir(old.c_str()), 0);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->getPath(), "w.bin");
}

TEST_P(OpenBeneath, PathsOutsideTheDirectoryAreRefused) {
  for (const char *location : {"..", "../secret", "sub/../../secret",
                               "sub/../w.bin", "sub/..", "./../secret"})
    EXPECT_MENTIONS(refuse(location), "'..' component");
  EXPECT_MENTIONS(refuse(root / "secret"), "absolute");
  EXPECT_MENTIONS(refuse("/proc/self/mem"), "absolute");
  EXPECT_MENTIONS(refuse("/dev/zero"), "absolute");
  EXPECT_MENTIONS(refuse(""), "empty");
  EXPECT_MENTIONS(refuse("."), "names a directory");
  EXPECT_MENTIONS(refuse("w.bin/"), "names a directory");
  EXPECT_MENTIONS(refuse("sub/."), "names a directory");
  EXPECT_MENTIONS(refuse("C:w.bin"), "drive letter");
  EXPECT_MENTIONS(refuse("C:\\x"), "backslash");
  EXPECT_MENTIONS(refuse("\\\\host\\x"), "backslash");
  EXPECT_MENTIONS(refuse(std::string("w.bin\0x", 7)), "NUL");
  EXPECT_EQ(refuse("...."), "cannot open: No such file or directory");
}

TEST_P(OpenBeneath, SymbolicLinksAreRefusedEverywhere) {
  namespace fs = std::filesystem;
  fs::create_symlink(root / "secret", root / "model/absolute");
  fs::create_symlink("../secret", root / "model/final");
  fs::create_symlink("w.bin", root / "model/inside");
  fs::create_directory_symlink("..", root / "model/up");
  fs::create_directory_symlink("sub", root / "model/middle");
  fs::create_symlink("nowhere", root / "model/dangling");
  for (const char *location : {"absolute", "final", "inside", "up/secret",
                               "middle/v.bin", "dangling", "middle/none"})
    EXPECT_MENTIONS(refuse(location), "symbolic link");
  // The user names the directory; links in its own path are allowed.
  fs::create_directory_symlink("model", root / "alias");
  EXPECT_TRUE(openBeneath(root / "alias", "w.bin", {.walk = GetParam()}));
}

TEST_P(OpenBeneath, HardLinksNeedPermission) {
  std::filesystem::create_hard_link(root / "secret", root / "model/hard");
  Result<ExternalFile> file = open("hard");
  ASSERT_FALSE(file);
  EXPECT_EQ(render(file.error()),
            root / "model/hard" +
                ": error: the file has 2 names (hard links), so it "
                "may lie outside of the directory as well\n" +
                (root / "model/hard") +
                ": note: --allow-links accepts such files");
  file = open("hard", /*links=*/true);
  ASSERT_TRUE(file);
  EXPECT_EQ(*readText(*file, 10), "secret");
}

TEST_P(OpenBeneath, OnlyRegularFilesAreAccepted) {
  // The FIFO has no writer: a blocking open would hang.
  ASSERT_EQ(::mkfifo((root / "model/fifo").c_str(), 0600), 0);
  EXPECT_MENTIONS(refuse("fifo"), "found a FIFO");
  EXPECT_MENTIONS(refuse("sub"), "found a directory");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (root / "model/socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(
      ::bind(socket, reinterpret_cast<sockaddr *>(&address), sizeof(address)),
      0);
  EXPECT_MENTIONS(refuse("socket"), "found a socket");
  ::close(socket);
  // Only root could create a device, so use an existing one.
  Result<ExternalFile> device =
      openBeneath("/dev", "zero", {.walk = GetParam()});
  ASSERT_FALSE(device);
  EXPECT_MENTIONS(device.error().message, "found a device");
}

TEST_P(OpenBeneath, MissingFilesAndDirectoriesAreNamed) {
  EXPECT_MENTIONS(refuse("none.bin"), "No such file");
  EXPECT_MENTIONS(refuse("none/w.bin"), "No such file");
  EXPECT_MENTIONS(refuse("w.bin/x"), "Not a directory");
  EXPECT_MENTIONS(refuse(std::string(300, 'x')), "too long");
  Result<ExternalFile> file =
      openBeneath(root / "none", "w.bin", {.walk = GetParam()});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().where, root / "none");
  EXPECT_MENTIONS(file.error().message, "cannot open the directory");
}

// Another thread alternately renames a link and a file to the same name. At any
// time, either the file in the directory is opened or the open is refused.
TEST_P(OpenBeneath, ALinkSwappedInBetweenIsNeverFollowed) {
  std::string target = root / "model/t.bin", link = root / "model/link",
              file = root / "model/file";
  test::writeFile(target, "weights");
  std::jthread swapper([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      (void)::symlink("../secret", link.c_str());
      ::rename(link.c_str(), target.c_str());
      test::writeFile(file, "weights");
      ::rename(file.c_str(), target.c_str());
    }
  });
  int opened = 0, refused = 0;
  // On a busy machine the other thread may run late.
  auto enough = [&](int i) { return i >= 100000 && opened && refused; };
  for (int i = 0; !enough(i) && i < 5000000; ++i) {
    Result<ExternalFile> result = open("t.bin");
    if (!result) {
      ++refused;
      continue;
    }
    ++opened;
    Result<std::string> text = readText(*result, 100);
    ASSERT_TRUE(text);
    ASSERT_EQ(*text, "weights");
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

TEST(OpenBeneathErrors, MissingPermissionIsAnErrorOfTheSystem) {
  TemporaryDirectory root;
  test::writeFile(root / "w.bin", "weights");
  ::chmod((root / "w.bin").c_str(), 0);
  ::chmod(root.str().c_str(), 0755);
  bool isRoot = ::geteuid() == 0; // Root may read everything.
  if (isRoot && ::seteuid(65534) != 0)
    GTEST_SKIP() << "root cannot become another user here";
  Result<ExternalFile> file = openBeneath(root.str(), "w.bin");
  ASSERT_EQ(::seteuid(isRoot ? 0 : ::geteuid()), 0);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().exitCode, ExitCode::IO);
  EXPECT_MENTIONS(file.error().message, "Permission denied");
}

// Simulates a kernel without openat2, or a sandbox that forbids it, by a filter
// of system calls in a child process.
static bool opensWithoutOpenat2(const std::string &directory, int number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<unsigned>(number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter = {std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return true; // This system has no filters: nothing to test.
  return openBeneath(directory, "sub/w.bin") &&
         !openBeneath(directory, "link/w.bin");
}

TEST(OpenBeneathDeathTest, WithoutTheSystemCallDirectoriesAreOpenedOneByOne) {
  TemporaryDirectory root;
  ::mkdir((root / "sub").c_str(), 0755);
  test::writeFile(root / "sub/w.bin", "weights");
  std::filesystem::create_directory_symlink("sub", root / "link");
  for (int number : {ENOSYS, EPERM})
    EXPECT_EXIT(std::_Exit(opensWithoutOpenat2(root.str(), number) ? 0 : 1),
                ::testing::ExitedWithCode(0), "");
}
