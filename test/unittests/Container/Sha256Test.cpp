//===- Sha256Test.cpp - SHA-256 -------------------------------------------===//

#include "binade/Container/Sha256.h"
#include "../../../lib/Container/Sha256Blocks.h"
#include "TemporaryDirectory.h"

using namespace binade;

// The examples of FIPS 180-4 and NIST.
TEST(Sha256, MatchesPublishedVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb924"
                        "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223"
                           "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                   "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Compares with `sha256sum` on files of n bytes i * 7 + 1 (mod 256), for
// lengths around those at which the padding needs another block.
TEST(Sha256, AgreesWithTheSystemsTool) {
  test::TemporaryDirectory directory;
  for (int n : {1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 100003}) {
    std::string text;
    for (int i = 0; i < n; ++i)
      text += static_cast<char>(i * 7 + 1);
    std::string path = directory / std::to_string(n);
    test::writeFile(path, text);
    // A variable, because the path of the temporary directory may have quotes.
    ::setenv("BINADE_TEST_FILE", path.c_str(), /*overwrite=*/1);
    std::unique_ptr<FILE, int (*)(FILE *)> tool(
        ::popen("sha256sum < \"$BINADE_TEST_FILE\"", "r"), ::pclose);
    char expected[65] = {};
    ASSERT_EQ(std::fread(expected, 1, 64, tool.get()), 64u);
    EXPECT_EQ(sha256(text), expected) << n;
    auto file = openFile(path);
    ASSERT_TRUE(file);
    EXPECT_EQ(*sha256(*file, 0, text.size()), expected) << n;
  }
}

TEST(Sha256, HashingInPiecesGivesTheSameHash) {
  std::string text(1000, 'x');
  for (std::size_t piece : {1, 3, 63, 64, 65, 200}) {
    Sha256 hash;
    for (std::size_t i = 0; i < text.size(); i += piece)
      hash.update(std::string_view(text).substr(i, piece));
    EXPECT_EQ(hash.hexDigest(), sha256(text)) << piece;
  }
}

TEST(Sha256, RangesOfAFileAreChecked) {
  test::TemporaryDirectory directory;
  test::writeFile(directory / "f", "xxabcyy");
  auto file = openFile(directory / "f");
  ASSERT_TRUE(file);
  EXPECT_EQ(*sha256(*file, 2, 3), sha256("abc"));
  EXPECT_FALSE(sha256(*file, 5, 3));
  EXPECT_FALSE(sha256(*file, 1, ~std::uint64_t(0)));
}

TEST(Sha256, InstructionsAgreeWithPlainCode) {
  std::uint32_t expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::uint32_t state[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::byte> data(64 * 50 + 1);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(i * i + (i >> 5));
  // Start at an odd address: blocks need no alignment.
  if (!sha256Native(state, data.data() + 1, 50))
    GTEST_SKIP() << "the processor has no SHA instructions";
  sha256Portable(expected, data.data() + 1, 50);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(state[i], expected[i]) << i;
}
