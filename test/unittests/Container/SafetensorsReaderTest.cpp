//===- SafetensorsReaderTest.cpp - Reading of safetensors files -----------===//

#include "TemporaryDirectory.h"
#include "binade/Container/Safetensors.h"
#include <cstring>

using namespace binade;
using test::TemporaryDirectory;

/// Reads a tensor into a vector of `T`.
template <typename T>
static std::vector<T> load(const Safetensors &file, std::string_view name) {
  const TensorInfo *tensor = file.find(name);
  if (!tensor)
    throw std::runtime_error("missing " + std::string(name));
  std::vector<T> values(tensor->bytes / sizeof(T));
  Result<void> read =
      file.read(*tensor, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read) << render(read.error());
  return values;
}

// The Python package wrote the file; see Inputs/README.md.
static void checkAllDTypes(const Safetensors &file) {
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(file.getTensors().size(), 19u);
  EXPECT_EQ(file.getMetadata(),
            (SafetensorsMetadata{{"format", "np"}, {"quote", "\"\n"}}));
  EXPECT_EQ(load<double>(file, "f64"), (std::vector{0.0, 1.0, -2.0, 0.5}));
  EXPECT_EQ(load<float>(file, "f32"), (std::vector{0.0f, 1.0f, -2.0f, 0.5f}));
  EXPECT_EQ(file.find("f32")->shape, (Shape{2, 2}));
  EXPECT_EQ(load<std::uint16_t>(file, "f16"),
            (std::vector<std::uint16_t>{0, 0x3c00, 0xc000, 0x3800}));
  EXPECT_EQ(file.find("f16")->shape, (Shape{1, 4, 1}));
  EXPECT_EQ(load<std::uint16_t>(file, "bf16"),
            (std::vector<std::uint16_t>{0, 0x3f80, 0xc000, 0x3f00}));
  EXPECT_EQ(load<std::uint8_t>(file, "f8_e4m3"),
            (std::vector<std::uint8_t>{0, 0x38, 0xc0, 0x30}));
  EXPECT_EQ(load<std::uint8_t>(file, "f8_e5m2"),
            (std::vector<std::uint8_t>{0, 0x3c, 0xc0, 0x38}));
  EXPECT_EQ(load<std::uint8_t>(file, "f8_e8m0"),
            (std::vector<std::uint8_t>{127, 128, 129, 126}));
  EXPECT_EQ(load<std::int64_t>(file, "i64"),
            (std::vector<std::int64_t>{0, 1, -2, 100}));
  EXPECT_EQ(load<std::int8_t>(file, "i8"),
            (std::vector<std::int8_t>{0, 1, -2, 100}));
  EXPECT_EQ(load<std::uint32_t>(file, "u32"),
            (std::vector<std::uint32_t>{0, 1, 200, 100}));
  EXPECT_EQ(load<std::uint8_t>(file, "bool"),
            (std::vector<std::uint8_t>{0, 1, 1, 0}));
  EXPECT_EQ(load<std::uint8_t>(file, "größe/重み"),
            std::vector<std::uint8_t>{7});
  EXPECT_EQ(file.find("scalar")->shape, Shape{});
  EXPECT_EQ(file.find("scalar")->getNumElements(), 1u);
  EXPECT_EQ(load<float>(file, "scalar"), std::vector{3.5f});
  EXPECT_EQ(file.find("empty")->shape, (Shape{2, 0, 3}));
  EXPECT_EQ(load<float>(file, "empty"), std::vector<float>{});
  EXPECT_EQ(file.find("none"), nullptr);
  for (const char *name :
       {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "I64",
        "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}) {
    std::string lower(name);
    for (char &c : lower)
      c = static_cast<char>(std::tolower(c));
    ASSERT_NE(file.find(lower), nullptr) << lower;
    EXPECT_EQ(file.find(lower)->dtype, parseDType(name));
  }
}

static const char *const fixture = BINADE_TEST_INPUTS "/all_dtypes.safetensors";

TEST(SafetensorsReader, ReadsFilesOfThePythonPackage) {
  Result<Safetensors> file = Safetensors::open(std::string(fixture));
  ASSERT_TRUE(file) << render(file.error());
  EXPECT_EQ(file->getPath(), fixture);
  checkAllDTypes(*file);
}

TEST(SafetensorsReader, ReadsFromMemoryAndFromOpenFiles) {
  std::string text = test::readFile(fixture);
  Result<Safetensors> inMemory =
      Safetensors::fromMemory(std::as_bytes(std::span(text)), "bundle");
  ASSERT_TRUE(inMemory) << render(inMemory.error());
  checkAllDTypes(*inMemory);
  EXPECT_EQ(inMemory->getPath(), "bundle");
  Result<ExternalFile> external =
      openBeneath(BINADE_TEST_INPUTS, "all_dtypes.safetensors");
  ASSERT_TRUE(external) << render(external.error());
  Result<Safetensors> opened = Safetensors::open(std::move(*external));
  ASSERT_TRUE(opened);
  checkAllDTypes(*opened);
}

TEST(SafetensorsReader, TensorsComeInFileOrderWithFileOffsets) {
  std::string text = test::readFile(fixture);
  Result<Safetensors> file = Safetensors::open(std::string(fixture));
  ASSERT_TRUE(file);
  std::uint64_t end = 0;
  for (const TensorInfo &tensor : file->getTensors()) {
    EXPECT_TRUE(end == 0 || tensor.offset == end) << tensor.name;
    end = tensor.offset + tensor.bytes;
  }
  EXPECT_EQ(end, text.size());
  EXPECT_EQ(file->getTensors().front().name, "u64");
  std::uint32_t bits;
  std::memcpy(&bits, text.data() + file->find("scalar")->offset, 4);
  EXPECT_EQ(bits, 0x40600000u);
}

TEST(SafetensorsReader, PartsOfATensorCanBeRead) {
  Result<Safetensors> file = Safetensors::open(std::string(fixture));
  ASSERT_TRUE(file);
  const TensorInfo &tensor = *file->find("f32");
  float values[2];
  auto bytes = std::as_writable_bytes(std::span(values));
  ASSERT_TRUE(file->read(tensor, 4, bytes));
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  ASSERT_TRUE(file->read(tensor, 16, bytes.first(0)));
  // Reading outside the tensor is an error of the program, not of the file.
  for (std::uint64_t start : {9ul, 17ul, ~0ul}) {
    Result<void> read = file->read(tensor, start, bytes);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().exitCode, ExitCode::Internal);
  }
  EXPECT_FALSE(file->read(tensor, bytes));
}

TEST(SafetensorsReader, AFileThatShrinksNamesTheTensor) {
  TemporaryDirectory directory;
  std::string path = directory / "f";
  test::writeFile(path, test::readFile(fixture));
  Result<Safetensors> file = Safetensors::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, file->find("i16")->offset + 1);
  std::vector<std::byte> bytes(8);
  Result<void> read = file->read(*file->find("i16"), bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().exitCode, ExitCode::IO);
  EXPECT_EQ(read.error().part, "tensor 'i16'");
}

// No prefix of a file is valid, and no read goes beyond its end.
TEST(SafetensorsReader, EveryTruncationIsRejected) {
  std::string text = test::readFile(fixture);
  for (std::size_t size = 0; size < text.size(); ++size) {
    // A separate copy, so that a sanitizer detects reads beyond the end.
    auto whole = std::as_bytes(std::span(text));
    std::vector<std::byte> prefix(whole.begin(), whole.begin() + size);
    Result<Safetensors> file = Safetensors::fromMemory(prefix, "prefix");
    ASSERT_FALSE(file) << size;
    EXPECT_EQ(file.error().exitCode, ExitCode::Rejected);
    EXPECT_EQ(file.error().where, "prefix");
    EXPECT_FALSE(file.error().message.empty());
  }
}

TEST(SafetensorsReader, ChangedBytesAreRejectedOrHarmless) {
  std::string text = test::readFile(fixture);
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int change : {0x01, 0x02, 0x80, 0xff, -1}) {
      std::string changed = text;
      changed[i] = static_cast<char>(change < 0 ? 0 : changed[i] ^ change);
      Result<Safetensors> file =
          Safetensors::fromMemory(std::as_bytes(std::span(changed)), "changed");
      if (!file) {
        EXPECT_EQ(file.error().exitCode, ExitCode::Rejected);
        continue;
      }
      std::uint64_t bytes = 0;
      for (const TensorInfo &tensor : file->getTensors()) {
        std::vector<std::byte> data(tensor.bytes);
        EXPECT_TRUE(file->read(tensor, data));
        bytes += tensor.bytes;
      }
      EXPECT_EQ(bytes, 205u);
    }
}

// The published weights of the shared models.
TEST(SafetensorsReader, ReadsSharedModels) {
  const char *models = std::getenv("BINADE_MODELS");
  std::filesystem::path root =
      models ? models : BINADE_SOURCE_DIR "/../shared/models";
  if (!std::filesystem::is_directory(root))
    GTEST_SKIP() << "no shared models at " << root;
  int count = 0;
  for (auto &entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".safetensors")
      continue;
    Result<Safetensors> file = Safetensors::open(entry.path().string());
    ASSERT_TRUE(file) << render(file.error());
    EXPECT_FALSE(file->getTensors().empty());
    ++count;
  }
  EXPECT_GT(count, 0);
}
