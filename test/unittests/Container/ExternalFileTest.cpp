//===- ExternalFileTest.cpp - Reading of external data files --------------===//

#include "binade/Container/ExternalFile.h"
#include "Mentions.h"
#include "TemporaryDirectory.h"
#include <unistd.h>

using namespace binade;
using test::TemporaryDirectory;

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

TEST(ExternalFile, AFileThatShrinksIsAnErrorNotACrash) {
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

TEST(ExternalFile, TextLongerThanTheLimitIsRejected) {
  TemporaryDirectory root;
  test::writeFile(root / "t", "12345");
  Result<ExternalFile> file = openFile(root / "t");
  ASSERT_TRUE(file);
  EXPECT_EQ(*readText(*file, 5), "12345");
  EXPECT_EQ(readText(*file, 4).error().exitCode, ExitCode::Resources);
}

TEST(ExternalFile, OffsetsMayOnlyContainDigits) {
  EXPECT_EQ(parseDecimal("0"), 0u);
  EXPECT_EQ(parseDecimal("0042"), 42u);
  EXPECT_EQ(parseDecimal("18446744073709551615"), ~std::uint64_t(0));
  for (const char *text : {"", "-1", "+1", "1e9", " 12", "12 ", "0x10", "1.0",
                           "18446744073709551616", "1_000", "٣"})
    EXPECT_FALSE(parseDecimal(text)) << text;
}
