//===- SafetensorsHeaderTest.cpp - Invalid headers ------------------------===//

#include "Mentions.h"
#include "binade/Container/Safetensors.h"

using namespace binade;

/// Returns a file with `header` and `dataBytes` bytes of data.
static std::string fileOf(std::string_view header, std::size_t dataBytes = 0) {
  std::uint64_t length = header.size();
  std::string text(reinterpret_cast<const char *>(&length), 8);
  return text.append(header).append(dataBytes, 'x');
}

static std::string diagnoseFile(std::string_view file) {
  Result<Safetensors> parsed =
      Safetensors::fromMemory(std::as_bytes(std::span(file)), "f");
  if (parsed)
    return "accepted";
  EXPECT_EQ(parsed.error().exitCode, ExitCode::Rejected);
  return render(parsed.error());
}

static std::string diagnose(std::string_view header,
                            std::size_t dataBytes = 0) {
  return diagnoseFile(fileOf(header, dataBytes));
}

/// Returns a header with one tensor "a" with the given keys.
static std::string tensor(std::string_view parts) {
  return "{\"a\":{" + std::string(parts) + "}}";
}

TEST(SafetensorsHeader, TheSmallestFilesAreAccepted) {
  EXPECT_EQ(diagnose("{}"), "accepted");
  EXPECT_EQ(diagnose("{}   "), "accepted");
  EXPECT_EQ(diagnose(R"({"__metadata__":{}})"), "accepted");
  EXPECT_EQ(
      diagnose(tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), 3),
      "accepted");
}

TEST(SafetensorsHeader, ImpossibleLengthsAreRejected) {
  EXPECT_EQ(diagnoseFile(""),
            "f: error: not a safetensors file: it has only 0 bytes");
  EXPECT_EQ(diagnoseFile("1234567"),
            "f: error: not a safetensors file: it has only 7 bytes");
  EXPECT_MENTIONS(diagnoseFile(std::string(8, '\0')), "begin with '{'");
  EXPECT_MENTIONS(diagnoseFile(std::string(8, '\0') + "{}"), "begin with '{'");
  auto withLength = [](std::uint64_t length) {
    return std::string(reinterpret_cast<const char *>(&length), 8) + "{}";
  };
  EXPECT_MENTIONS(diagnoseFile(withLength(3)), "is it cut off?");
  EXPECT_MENTIONS(diagnoseFile(withLength(100'000'000)), "is it cut off?");
  EXPECT_MENTIONS(diagnoseFile(withLength(100'000'001)),
                  "the limit is 100000000");
  EXPECT_MENTIONS(diagnoseFile(withLength(std::uint64_t(1) << 63)),
                  "9223372036854775808 bytes");
  EXPECT_MENTIONS(diagnoseFile(withLength(~std::uint64_t(0))), "the limit");
}

TEST(SafetensorsHeader, InvalidJsonIsRejected) {
  EXPECT_MENTIONS(diagnose("[]"), "begin with '{'");
  EXPECT_MENTIONS(diagnose(" {}"), "begin with '{'");
  EXPECT_MENTIONS(diagnose("{"), "f:header byte 2: error: not valid JSON");
  EXPECT_MENTIONS(diagnose("{}{}"), "not valid JSON");
  EXPECT_MENTIONS(diagnose("{} x"), "not valid JSON");
  EXPECT_MENTIONS(diagnose(std::string_view("{}\0", 3)), "NUL");
  EXPECT_MENTIONS(diagnose("{\"\xff\":1}"), "not valid JSON");
  EXPECT_MENTIONS(diagnose("{\"a\":" + std::string(100000, '[')), "deeper");
  EXPECT_MENTIONS(diagnose(R"({"a":1})"), "f:tensor 'a': error: expected an "
                                          "object");
}

TEST(SafetensorsHeader, RepeatedKeysAreRejected) {
  std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_MENTIONS(diagnose("{\"a\":" + entry + ",\"a\":" + entry + "}"),
                  "key 'a' is given twice");
  EXPECT_MENTIONS(diagnose(R"({"__metadata__":{},"__metadata__":{}})"),
                  "key '__metadata__' is given twice");
  EXPECT_MENTIONS(
      diagnose(tensor(
          R"("dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0])")),
      "key 'dtype' is given twice");
}

TEST(SafetensorsHeader, IncompleteEntriesAreRejected) {
  EXPECT_MENTIONS(diagnose(tensor(R"("shape":[],"data_offsets":[0,1])"), 1),
                  "'dtype'");
  EXPECT_MENTIONS(
      diagnose(tensor(R"("dtype":7,"shape":[],"data_offsets":[0,1])"), 1),
      "'dtype'");
  EXPECT_MENTIONS(diagnose(tensor(R"("dtype":"U8","data_offsets":[0,1])"), 1),
                  "'shape'");
  EXPECT_MENTIONS(diagnose(tensor(R"("dtype":"U8","shape":[1])"), 1),
                  "'data_offsets'");
  EXPECT_MENTIONS(
      diagnose(
          tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"more":0)"),
          1),
      "unknown key 'more'");
  for (const char *offsets :
       {"[]", "[0]", "[0,1,2]", "{}", "[-1,0]", "[0.0,1]", "[\"0\",1]",
        "[0,18446744073709551616]", "[0,9223372036854775808]"})
    EXPECT_MENTIONS(diagnose(tensor(R"("dtype":"U8","shape":[1],)"
                                    R"("data_offsets":)" +
                                    std::string(offsets)),
                             1),
                    "two whole numbers");
}

TEST(SafetensorsHeader, UnknownTypesAreRejected) {
  std::string message =
      diagnose(tensor(R"("dtype":"C64","shape":[1],"data_offsets":[0,8])"), 8);
  EXPECT_MENTIONS(message, "f:tensor 'a': error: unknown element type 'C64'\n");
  EXPECT_MENTIONS(message, "note: known types: F64 F32 F16 BF16");
}

TEST(SafetensorsHeader, ShapesThatDoNotMatchTheDataAreRejected) {
  auto shaped = [](std::string_view shape, std::string_view end) {
    return diagnose(tensor("\"dtype\":\"F32\",\"shape\":" + std::string(shape) +
                           ",\"data_offsets\":[0," + std::string(end) + "]"),
                    8);
  };
  EXPECT_EQ(shaped("[2]", "8"), "accepted");
  EXPECT_EQ(shaped("[1,2,1]", "8"), "accepted");
  EXPECT_MENTIONS(shaped("[3]", "8"),
                  "need 12 bytes, but 'data_offsets' span 8");
  EXPECT_MENTIONS(shaped("[]", "8"), "need 4 bytes");
  EXPECT_MENTIONS(shaped("[-2]", "8"), "whole numbers");
  EXPECT_MENTIONS(shaped("[2.0]", "8"), "whole numbers");
  EXPECT_MENTIONS(shaped("[[2]]", "8"), "nested deeper");
  EXPECT_MENTIONS(shaped("[9223372036854775808]", "8"), "whole numbers");
  EXPECT_MENTIONS(shaped("[9223372036854775807]", "8"), "overflows");
  // 2^62 + 2 elements of four bytes are eight bytes modulo 2^64.
  EXPECT_MENTIONS(shaped("[4611686018427387906]", "8"), "overflows");
  EXPECT_MENTIONS(shaped("[4294967296,4294967296]", "8"), "overflows");
  EXPECT_MENTIONS(shaped("[2147483648,2147483648,2]", "8"), "overflows");
}

TEST(SafetensorsHeader, GapsAndOverlapsOfDataAreRejected) {
  auto two = [](int a, int b, int c, int d, std::size_t bytes) {
    auto entry = [](int begin, int end) {
      return R"({"dtype":"U8","shape":[)" + std::to_string(end - begin) +
             R"(],"data_offsets":[)" + std::to_string(begin) + "," +
             std::to_string(end) + "]}";
    };
    return diagnose("{\"b\":" + entry(a, b) + ",\"a\":" + entry(c, d) + "}",
                    bytes);
  };
  EXPECT_EQ(two(0, 4, 4, 6, 6), "accepted");
  EXPECT_EQ(two(4, 6, 0, 4, 6), "accepted");
  EXPECT_EQ(two(0, 0, 0, 6, 6), "accepted");
  EXPECT_EQ(two(6, 6, 0, 6, 6), "accepted");
  EXPECT_MENTIONS(two(0, 4, 3, 6, 6), "tensor 'a': error: data begins at byte "
                                      "3, but the tensors before it end at "
                                      "byte 4: they overlap");
  EXPECT_MENTIONS(two(0, 4, 0, 4, 4), "they overlap");
  EXPECT_MENTIONS(two(0, 6, 2, 4, 6), "they overlap");
  EXPECT_MENTIONS(two(0, 4, 5, 6, 6), "there is a hole");
  EXPECT_MENTIONS(two(1, 4, 4, 6, 6), "there is a hole");
  EXPECT_MENTIONS(two(0, 4, 4, 6, 5), "is it cut off?");
  EXPECT_MENTIONS(
      two(0, 4, 4, 6, 7),
      "f: error: 1 bytes after the last tensor belong to no tensor");
  EXPECT_MENTIONS(diagnose("{}", 1), "1 bytes after");
  EXPECT_MENTIONS(
      diagnose(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[2,1])"), 2),
      "end before they begin: [2,1]");
  // Offsets near 2^63 whose sum would wrap.
  EXPECT_MENTIONS(
      diagnose(R"({"a":{"dtype":"U8","shape":[9223372036854775807],)"
               R"("data_offsets":[0,9223372036854775807]},)"
               R"("b":{"dtype":"U8","shape":[0],)"
               R"("data_offsets":[9223372036854775807,9223372036854775807]}})"),
      "is it cut off?");
}

TEST(SafetensorsHeader, MetadataMustBeStrings) {
  EXPECT_EQ(diagnose(R"({"__metadata__":{"a":"b","":""}})"), "accepted");
  for (const char *value : {"1", "null", "[]", "{}", "true"})
    EXPECT_MENTIONS(
        diagnose("{\"__metadata__\":{\"a\":" + std::string(value) + "}}"),
        "value of 'a' in '__metadata__' to be a string");
  for (const char *value : {"1", "null", "[]", "\"a\""})
    EXPECT_MENTIONS(diagnose("{\"__metadata__\":" + std::string(value) + "}"),
                    "expected '__metadata__' to be an object");
}

TEST(SafetensorsHeader, OtherFilesAreRecognised) {
  EXPECT_EQ(diagnoseFile("version https://git-lfs.github.com/spec/v1\n"
                         "oid sha256:00\nsize 7\n"),
            "f: error: not a safetensors file but a Git LFS pointer\n"
            "f: note: run 'git lfs pull' to fetch the data that it refers to");
  EXPECT_MENTIONS(diagnoseFile("PK\x03\x04" + std::string(60, 'x')), "zip");
  EXPECT_MENTIONS(diagnoseFile("\x89PNG\r\n\x1a\n" + std::string(60, 'x')),
                  "a PNG image");
}

TEST(SafetensorsHeader, NamesAreEscapedAndCut) {
  std::string header = "{\"\\u001b[31m" + std::string(300, 'n') + "\":1}";
  std::string message = diagnose(header);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_MENTIONS(message, "tensor '\\x1b[31mnnn");
  EXPECT_MENTIONS(message, "nnn...'");
  EXPECT_LT(message.size(), 320u);
}

// Parsing must not need much more memory than the header has bytes.
TEST(SafetensorsHeader, ManyTinyValuesAreRefused) {
  std::string header = "{\"a\":{\"shape\":[";
  while (header.size() < 20'000'000)
    header += "0,";
  header += "0]}}";
  EXPECT_MENTIONS(diagnose(header), "more than 4194304 values");
}
