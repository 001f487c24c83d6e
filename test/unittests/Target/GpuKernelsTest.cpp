//===- GpuKernelsTest.cpp - Compilation of GPU kernels to modules ---------===//

#include "KernelTest.h"
#include "binade/Target/CUDA.h"
#include "gmock/gmock.h"
#include <filesystem>
#include <fstream>
#include <regex>

using namespace mlir;
using namespace mlir::binade;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

namespace {
class GpuKernelsTest : public KernelTest {
protected:
  GpuKernelsTest() {
    std::string path = testing::TempDir() + "binade-gpu-kernels-XXXXXX";
    directory = ::mkdtemp(path.data());
    options.cacheDirectory = directory + "/cache";
    parse(R"mlir(
      func.func private @one(%x: tensor<3x70xf32>) -> tensor<3xf32>
          attributes {binade.kernel = #binade.schedule<row_reduction>} {
        %y = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<3x70xf32>) -> tensor<3xf32>
        return %y : tensor<3xf32>
      }
      func.func private @other(%x: tensor<8x2048xf32>) -> tensor<8x2048xf32>
          attributes {binade.kernel = #binade.schedule<row_reduction>} {
        %y = binade.softmax %x : (tensor<8x2048xf32>) -> tensor<8x2048xf32>
        return %y : tensor<8x2048xf32>
      }
      func.func private @again(%x: tensor<3x70xf32>) -> tensor<3xf32>
          attributes {binade.kernel = #binade.schedule<row_reduction>} {
        %y = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<3x70xf32>) -> tensor<3xf32>
        return %y : tensor<3xf32>
      })mlir");
  }
  ~GpuKernelsTest() override { std::filesystem::remove_all(directory); }

  /// Writes a fake ptxas that prints its version, otherwise runs `rest`.
  std::string writeProgram(const std::string &rest) const {
    std::string path = directory + "/ptxas";
    std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --version ] && echo 1 && "
                           "exit 0\n"
                        << rest << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  std::string directory;
  CudaOptions options;
};
} // namespace

TEST_F(GpuKernelsTest, EqualKernelsShareAModule) {
  FailureOr<CompiledGpuKernels> compiled = compileGpuKernels(*module, options);
  ASSERT_TRUE(succeeded(compiled)) << message;
  ASSERT_EQ(compiled->kernels.size(), 3u);
  ASSERT_EQ(compiled->codes.size(), 2u);
  const CompiledGpuKernel &one = compiled->kernels[0],
                          &other = compiled->kernels[1],
                          &again = compiled->kernels[2];
  EXPECT_EQ(one.info.symbol, "one");
  EXPECT_EQ(again.info.symbol, "again");
  EXPECT_EQ(one.code, again.code);
  EXPECT_NE(one.code, other.code);
  ASSERT_EQ(one.entries.size(), 1u);
  // A team of 16 threads handles a row, one of 64 threads a longer row.
  EXPECT_THAT(one.entries[0].grid, ElementsAre(1, 1, 1));
  EXPECT_THAT(other.entries[0].grid, ElementsAre(4, 1, 1));
  EXPECT_THAT(other.entries[0].block, ElementsAre(128, 1, 1));
  EXPECT_EQ(one.entries[0].sharedBytes, 0);
  // The four warps of a block have an f32 each for the maximum and for the sum.
  EXPECT_EQ(other.entries[0].sharedBytes, 2 * 4 * 4);
  for (const CompiledGpuKernel &kernel : compiled->kernels)
    EXPECT_THAT(compiled->codes[kernel.code].ptx,
                HasSubstr(".visible .entry " + kernel.entries[0].symbol));
  EXPECT_EQ(compiled->codes[0].cubin, "");
}

TEST_F(GpuKernelsTest, TheCacheReturnsStoredObjects) {
  FailureOr<CompiledGpuKernels> first = compileGpuKernels(*module, options);
  FailureOr<CompiledGpuKernels> second = compileGpuKernels(*module, options);
  ASSERT_TRUE(succeeded(first) && succeeded(second)) << message;
  EXPECT_EQ(first->reused, 0u);
  EXPECT_EQ(second->reused, 2u);
  for (size_t index = 0; index < 3; ++index) {
    const CompiledGpuKernel &a = first->kernels[index],
                            &b = second->kernels[index];
    EXPECT_EQ(first->codes[a.code].ptx, second->codes[b.code].ptx);
    EXPECT_EQ(a.entries[0].symbol, b.entries[0].symbol);
    EXPECT_EQ(a.entries[0].sharedBytes, b.entries[0].sharedBytes);
    EXPECT_EQ(a.info.extent, b.info.extent);
  }
  // Code depends on the features of the chip, which are part of the key.
  options.chip = findCudaChip("sm_80");
  FailureOr<CompiledGpuKernels> older = compileGpuKernels(*module, options);
  ASSERT_TRUE(succeeded(older)) << message;
  EXPECT_EQ(older->reused, 0u);
}

TEST_F(GpuKernelsTest, AssemblesForEveryChip) {
  options.assembler = findPtxas();
  if (options.assembler.empty())
    GTEST_SKIP() << "found no ptxas";
  for (const CudaChip &chip : getCudaChips()) {
    options.chip = &chip;
    FailureOr<CompiledGpuKernels> compiled =
        compileGpuKernels(*module, options);
    ASSERT_TRUE(succeeded(compiled)) << message;
    for (const GpuCode &code : compiled->codes)
      EXPECT_THAT(code.cubin, StartsWith("\x7f"
                                         "ELF"));
  }
}

TEST_F(GpuKernelsTest, ReportsErrorsOfTheAssembler) {
  options.threads = 1;
  options.assembler = writeProgram("echo line 7: no such thing; exit 3");
  EXPECT_TRUE(failed(compileGpuKernels(*module, options)));
  EXPECT_THAT(message, HasSubstr("cannot compile this kernel: assembler '" +
                                 options.assembler + "' fails for sm_90"));
  EXPECT_THAT(message, HasSubstr("line 7: no such thing"));
  // The rejected PTX is kept in a file.
  std::smatch kept;
  ASSERT_TRUE(std::regex_search(message, kept, std::regex("kept in '(.+)'")));
  std::ifstream file(kept[1].str());
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}),
              HasSubstr(".visible .entry"));
  std::filesystem::remove(kept[1].str());
}

TEST_F(GpuKernelsTest, AnAssemblerThatDoesNotRunIsReported) {
  options.assembler = directory + "/nothing";
  EXPECT_TRUE(failed(compileGpuKernels(*module, options)));
  EXPECT_THAT(message, HasSubstr("cannot run assembler '" + options.assembler +
                                 "'; expected CUDA's ptxas"));
}

TEST_F(GpuKernelsTest, AGivenCudaRootIsTheOnlyOneSearched) {
  std::filesystem::create_directory(directory + "/bin");
  std::string program = writeProgram("exit 0");
  ::setenv("BINADE_CUDA_ROOT", directory.c_str(), 1);
  EXPECT_EQ(findPtxas(), "");
  std::filesystem::rename(program, directory + "/bin/ptxas");
  EXPECT_EQ(findPtxas(), directory + "/bin/ptxas");
  ::unsetenv("BINADE_CUDA_ROOT");
}
