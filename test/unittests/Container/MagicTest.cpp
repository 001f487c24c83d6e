//===- MagicTest.cpp - Recognition of file types --------------------------===//

#include "binade/Container/Magic.h"
#include "gtest/gtest.h"

using namespace binade;

static std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Magic, CommonFileTypesAreNamed) {
  using namespace std::string_view_literals;
  struct {
    std::string_view head, name;
  } rows[] = {
      {"version https://git-lfs.github.com/spec/v1\n"sv, "a Git LFS pointer"},
      {"\x1f\x8b\x08\0"sv, "a gzip file"},
      {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv, "a PNG image"},
      {"\x93NUMPY\x01\0"sv, "a NumPy array"},
      {"\x80\x02}q\0"sv, "a Python pickle"},
      {"\x7f\x45LF\x02\x01"sv, "an ELF object"},
      {"<!DOCTYPE html>"sv, "an HTML page"},
      {"\x10\0\0\0\0\0\0\0{\"a\":{}}"sv, "a safetensors file"},
  };
  for (auto &row : rows)
    EXPECT_EQ(recognizeMagic(bytes(row.head)), row.name);
  EXPECT_NE(recognizeMagic(bytes("PK\x03\x04")).find("zip"),
            std::string_view::npos);
  EXPECT_NE(magicAdvice(bytes(rows[0].head)).find("git lfs pull"),
            std::string_view::npos);
}

TEST(Magic, OtherBytesHaveNoName) {
  for (std::string_view text :
       {"", "v", "\x08\x07\x12\x07pytorch", "P", "{}"}) {
    EXPECT_EQ(recognizeMagic(bytes(text)), "");
    EXPECT_EQ(magicAdvice(bytes(text)), "");
  }
}
