//===- SafetensorsWriterTest.cpp - Writing of safetensors files -----------===//

#include "TemporaryDirectory.h"
#include "binade/Container/Safetensors.h"
#include "nlohmann/json.hpp"
#include <cstring>
#include <sys/stat.h>

using namespace binade;
using test::TemporaryDirectory;

static std::span<const std::byte> bytesOf(const auto &values) {
  return std::as_bytes(std::span(values));
}

static std::string dataOf(const Safetensors &file, std::string_view name) {
  const TensorInfo *tensor = file.find(name);
  if (!tensor)
    return "missing";
  std::string data(tensor->bytes, '\0');
  EXPECT_TRUE(file.read(*tensor, std::as_writable_bytes(std::span(data))));
  return data;
}

TEST(SafetensorsWriter, WrittenTensorsAreReadBack) {
  TemporaryDirectory directory;
  std::string path = directory / "out.safetensors";
  std::vector<std::uint8_t> bytes = {1, 2, 3};
  std::vector<double> doubles = {0.5, -1.5};
  std::vector<std::uint16_t> halves = {0x3c00};
  TensorBytes tensors[] = {
      {"a", DType::U8, {3}, bytesOf(bytes)},
      {"größe \"\n\x01", DType::F64, {2, 1}, bytesOf(doubles)},
      {"scalar", DType::BF16, {}, bytesOf(halves)},
      {"empty", DType::F32, {0, 7}, {}},
  };
  SafetensorsMetadata metadata = {{"k", "v\u00e9\n"}, {"", ""}};
  Result<void> written = writeSafetensors(path, tensors, metadata);
  ASSERT_TRUE(written) << render(written.error());
  EXPECT_EQ(directory.list(), std::vector<std::string>{"out.safetensors"});
  Result<Safetensors> file = Safetensors::open(path);
  ASSERT_TRUE(file) << render(file.error());
  EXPECT_EQ(file->getMetadata(), metadata);
  ASSERT_EQ(file->getTensors().size(), 4u);
  for (const TensorBytes &tensor : tensors) {
    const TensorInfo *info = file->find(tensor.name);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->dtype, tensor.dtype);
    EXPECT_EQ(info->shape, tensor.shape);
    std::string data = dataOf(*file, tensor.name);
    EXPECT_TRUE(std::ranges::equal(bytesOf(data), tensor.bytes,
                                   [](auto a, auto b) { return a == b; }));
  }
}

// Checks the bytes directly, without Safetensors::open.
TEST(SafetensorsWriter, TheHeaderIsPaddedAndTensorsAreAligned) {
  TemporaryDirectory directory;
  std::string path = directory / "out";
  for (std::size_t nameLength = 1; nameLength < 70; ++nameLength) {
    std::vector<std::uint8_t> bytes(3, 0xab);
    std::vector<float> floats = {1.0f};
    TensorBytes tensors[] = {
        {std::string(nameLength, 'n'), DType::U8, {3}, bytesOf(bytes)},
        {"f", DType::F32, {1}, bytesOf(floats)}};
    ASSERT_TRUE(writeSafetensors(path, tensors));
    std::string text = test::readFile(path);
    std::uint64_t length;
    std::memcpy(&length, text.data(), 8);
    EXPECT_EQ((8 + length) % 64, 0u);
    ASSERT_EQ(text.size(), 8 + length + 7);
    std::string header = text.substr(8, length);
    EXPECT_EQ(header.front(), '{');
    EXPECT_EQ(header.find_last_not_of(' '), header.rfind('}'));
    auto root = nlohmann::json::parse(header);
    EXPECT_EQ(root.size(), 2u);
    EXPECT_EQ(root["f"],
              nlohmann::json::parse(
                  R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"));
    EXPECT_EQ(root[tensors[0].name]["data_offsets"],
              nlohmann::json::parse("[4,7]"));
    EXPECT_EQ(text.substr(8 + length),
              std::string("\0\0\x80\x3f\xab\xab\xab", 7));
  }
}

TEST(SafetensorsWriter, PiecesMayComeInAnyOrder) {
  TemporaryDirectory directory;
  std::string path = directory / "out";
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(
      path, {{"a", DType::U8, {4}}, {"b", DType::U8, {2}}}, {});
  ASSERT_TRUE(writer);
  std::string text = "abcd";
  ASSERT_TRUE(writer->append(1, bytesOf(text).first(1)));
  ASSERT_TRUE(writer->append(0, bytesOf(text).first(3)));
  ASSERT_TRUE(writer->append(1, bytesOf(text).last(1)));
  EXPECT_FALSE(std::filesystem::exists(path));
  Result<void> early = writer->finish();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().exitCode, ExitCode::Internal);
  EXPECT_EQ(early.error().part, "tensor 'a'");
  EXPECT_EQ(early.error().message, "only 3 of 4 bytes have been given");
  EXPECT_FALSE(writer->append(0, bytesOf(text).first(2)));
  ASSERT_TRUE(writer->append(0, bytesOf(text).last(1)));
  ASSERT_TRUE(writer->finish());
  Result<Safetensors> file = Safetensors::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(dataOf(*file, "a"), "abcd");
  EXPECT_EQ(dataOf(*file, "b"), "ad");
}

TEST(SafetensorsWriter, InvalidTensorsAreRefused) {
  TemporaryDirectory directory;
  auto refuse = [&](std::vector<TensorInfo> tensors,
                    const SafetensorsMetadata &metadata = {}) {
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(
        directory / "out", std::move(tensors), metadata);
    return writer ? std::string("accepted") : writer.error().message;
  };
  EXPECT_EQ(refuse({{"a", DType::U8, {1}}, {"a", DType::U8, {1}}}),
            "the name is given twice");
  EXPECT_EQ(refuse({{"__metadata__", DType::U8, {1}}}),
            "this name is reserved for metadata");
  EXPECT_EQ(refuse({{"\xff", DType::U8, {1}}}), "the name is not UTF-8");
  EXPECT_EQ(refuse({{"a", DType::U8, {1}}}, {{"k", "\xff"}}),
            "metadata 'k' is not UTF-8");
  for (std::vector<std::int64_t> shape :
       {std::vector<std::int64_t>{-1}, {1l << 62}, {1l << 32, 1l << 32}})
    EXPECT_EQ(refuse({{"a", DType::F32, shape}}),
              "the shape has a negative size or is too large");
  EXPECT_EQ(
      refuse({{"a", DType::U8, {1l << 61}}, {"b", DType::U8, {1l << 62}}}),
      "the shape has a negative size or is too large");
  EXPECT_TRUE(directory.list().empty());
}

TEST(SafetensorsWriter, AnAbandonedFileLeavesNothing) {
  TemporaryDirectory directory;
  test::writeFile(directory / "out", "old");
  {
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(
        directory / "out", {{"a", DType::U8, {4}}}, {});
    ASSERT_TRUE(writer);
    EXPECT_EQ(directory.list().size(), 2u);
  }
  EXPECT_EQ(directory.list(), std::vector<std::string>{"out"});
  EXPECT_EQ(test::readFile(directory / "out"), "old");
}
