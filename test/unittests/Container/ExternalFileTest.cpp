//===- ExternalFileTest.cpp - Open and read files named by a model --------===//

#include "binade/Container/ExternalFile.h"
#include "TemporaryDirectory.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

using namespace binade;
using test::TemporaryDirectory;

/// Both ways of resolving a path have to decide alike.
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

  /// The message, after checking that the model is to blame.
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

#define EXPECT_MENTIONS(text, word)                                            \
  EXPECT_NE(std::string(text).find(word), std::string::npos) << (text)

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

TEST_P(OpenBeneath, PathsThatLeaveAreRefused) {
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
  // The directory is the user's: how they reach it is their affair.
  fs::create_directory_symlink("model", root / "alias");
  EXPECT_TRUE(openBeneath(root / "alias", "w.bin", {.walk = GetParam()}));
}

TEST_P(OpenBeneath, HardLinksNeedPermission) {
  std::filesystem::create_hard_link(root / "secret", root / "model/hard");
  Result<ExternalFile> file = open("hard");
  ASSERT_FALSE(file);
  EXPECT_EQ(render(file.error()),
            root / "model/hard" +
                ": error: the file has 2 names (hard links), so it may lie "
                "outside of the directory as well\n" +
                (root / "model/hard") +
                ": note: --external-data-links=allow accepts such files");
  file = open("hard", /*links=*/true);
  ASSERT_TRUE(file);
  EXPECT_EQ(*readText(*file, 10), "secret");
}

TEST_P(OpenBeneath, OnlyRegularFilesAreAccepted) {
  // Nobody writes into the FIFO: a blocking open would wait for ever.
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
  // Devices are to be had only by root, who may run these tests or not.
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

// A link takes turns with the file of the same name. Whatever the moment, what
// is read comes from inside.
TEST_P(OpenBeneath, ALinkSwappedInBetweenIsNeverFollowed) {
  std::string target = root / "model/t.bin", link = root / "model/link",
              file = root / "model/file";
  test::writeFile(target, "weights");
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      (void)::symlink("../secret", link.c_str());
      ::rename(link.c_str(), target.c_str());
      test::writeFile(file, "weights");
      ::rename(file.c_str(), target.c_str());
    }
  });
  int opened = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
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
  stop = true;
  swapper.join();
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

TEST(ExternalFile, PermissionIsAMatterOfTheSystem) {
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

TEST(ExternalFile, AUsersFileMayBeALink) {
  TemporaryDirectory root;
  test::writeFile(root / "data", "abc");
  std::filesystem::create_symlink("data", root / "link");
  std::filesystem::create_hard_link(root / "data", root / "hard");
  EXPECT_EQ(*readText(*openFile(root / "link"), 3), "abc");
  EXPECT_TRUE(openFile(root / "hard"));
  EXPECT_MENTIONS(openFile(root.str()).error().message, "found a directory");
  EXPECT_EQ(openFile(root / "none").error().exitCode, ExitCode::Rejected);
}

TEST(ExternalFile, RangesAreChecked) {
  TemporaryDirectory root;
  test::writeFile(root / "w.bin", "0123456789");
  Result<ExternalFile> file = openFile(root / "w.bin");
  ASSERT_TRUE(file);
  char text[4] = {};
  auto bytes = std::as_writable_bytes(std::span(text));
  ASSERT_TRUE(readRange(*file, 6, bytes));
  EXPECT_EQ(std::string_view(text, 4), "6789");
  ASSERT_TRUE(readRange(*file, 3, bytes.first(1))); // Unaligned.
  EXPECT_EQ(text[0], '3');
  EXPECT_TRUE(checkRange(*file, 10, 0));

  constexpr std::uint64_t top = ~std::uint64_t(0);
  struct {
    std::uint64_t offset, length;
  } bad[] = {{7, 4},       {11, 0},      {0, 11},
             {top, 1},     {1, top},     {top, top},
             {top - 3, 4}, {5, top - 4}, {std::uint64_t(1) << 63, 8}};
  for (auto [offset, length] : bad) {
    Result<void> checked = checkRange(*file, offset, length);
    ASSERT_FALSE(checked) << offset << " " << length;
    EXPECT_EQ(checked.error().exitCode, ExitCode::Rejected);
  }
  EXPECT_EQ(readRange(*file, 7, bytes).error().message,
            "4 bytes at offset 7 reach beyond the end of the file, which has "
            "10 bytes");
}

TEST(ExternalFile, AFileThatShrinksIsAnErrorNotAFault) {
  TemporaryDirectory root;
  test::writeFile(root / "w.bin", std::string(100000, 'x'));
  Result<ExternalFile> file = openFile(root / "w.bin");
  ASSERT_TRUE(file);
  ASSERT_EQ(::truncate((root / "w.bin").c_str(), 50000), 0);
  std::vector<std::byte> bytes(100000);
  Result<void> read = readRange(*file, 0, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().exitCode, ExitCode::IO);
  EXPECT_MENTIONS(read.error().message, "ends at byte 50000");
}

TEST(ExternalFile, ALfsPointerIsRecognised) {
  TemporaryDirectory root;
  test::writeFile(root / "w.bin", "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0\nsize 1000000\n");
  Result<ExternalFile> file = openFile(root / "w.bin");
  ASSERT_TRUE(file);
  Result<void> range = checkRange(*file, 0, 1000000);
  ASSERT_FALSE(range);
  ASSERT_EQ(range.error().notes.size(), 1u);
  EXPECT_MENTIONS(range.error().notes[0], "Git LFS pointer");
  EXPECT_MENTIONS(range.error().notes[0], "git lfs pull");
}

TEST(ExternalFile, TextHasALimit) {
  TemporaryDirectory root;
  test::writeFile(root / "t", "12345");
  Result<ExternalFile> file = openFile(root / "t");
  ASSERT_TRUE(file);
  EXPECT_EQ(*readText(*file, 5), "12345");
  EXPECT_EQ(readText(*file, 4).error().exitCode, ExitCode::Resources);
}

TEST(ExternalFile, OffsetsAreDigitsOnly) {
  EXPECT_EQ(parseDecimal("0"), 0u);
  EXPECT_EQ(parseDecimal("0042"), 42u);
  EXPECT_EQ(parseDecimal("18446744073709551615"), ~std::uint64_t(0));
  for (const char *text : {"", "-1", "+1", "1e9", " 12", "12 ", "0x10", "1.0",
                           "18446744073709551616", "1_000", "٣"})
    EXPECT_FALSE(parseDecimal(text)) << text;
}
