//===- MatrixTest.cpp - Matrix instructions of a warp ---------------------===//
//
// This file states which thread holds which element, after the figures of
// the PTX ISA: 9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with floating
// point type", and "Warp-level matrix load instruction: ldmatrix".
//
//===----------------------------------------------------------------------===//

#include "binade/Simulator/Simulator.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace mlir::binade;
using testing::HasSubstr;

namespace {
struct MatrixTest : testing::Test {
  MatrixTest() { loadKernelDialects(context); }

  /// Runs `body` with %tid, %c0 and memory %a (256 f32), %b (128 f32), %c (256
  /// f32), and shared memory %s. Returns the simulator's errors.
  std::string run(const std::string &body, int64_t threads = 32) {
    std::string text =
        "gpu.module @m { gpu.func @f(%a: memref<256xf32>, %b: memref<128xf32>, "
        "%c: memref<256xf32>) workgroup(%s: memref<512xf16, "
        "#gpu.address_space<workgroup>>) kernel {\n%tid = gpu.thread_id x\n"
        "%c0 = arith.constant 0 : index\n%c4 = arith.constant 4 : index\n"
        "%c8 = arith.constant 8 : index\n" +
        body + "\ngpu.return } }";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    gpu::GPUFuncOp kernel;
    module->walk([&](gpu::GPUFuncOp found) { kernel = found; });
    SimulatedLaunch launch;
    launch.block[0] = threads;
    for (std::vector<float> *memory : {&a, &b, &c})
      launch.arguments.emplace_back(
          MutableArrayRef(reinterpret_cast<char *>(memory->data()),
                          memory->size() * sizeof(float)));
    std::string said;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      said += diagnostic.str();
      return success();
    });
    EXPECT_EQ(succeeded(simulate(kernel, launch)), said.empty());
    return said;
  }

  MLIRContext context;
  std::vector<float> a = std::vector<float>(256), b = std::vector<float>(128),
                     c = std::vector<float>(256);
};

/// Each lane loads its fragments from %a and %b, accumulates onto 0.5 and
/// stores the sums in %c.
constexpr const char *kMultiply = R"(
    %ia = arith.muli %tid, %c8 : index
    %ib = arith.muli %tid, %c4 : index
    %wa = vector.load %a[%ia] : memref<256xf32>, vector<8xf32>
    %wb = vector.load %b[%ib] : memref<128xf32>, vector<4xf32>
    %na = arith.truncf %wa : vector<8xf32> to vector<8xFORMAT>
    %nb = arith.truncf %wb : vector<4xf32> to vector<4xFORMAT>
    %ma = vector.shape_cast %na : vector<8xFORMAT> to vector<4x2xFORMAT>
    %mb = vector.shape_cast %nb : vector<4xFORMAT> to vector<2x2xFORMAT>
    %mc = arith.constant dense<0.5> : vector<2x2xf32>
    %md = nvgpu.mma.sync (%ma, %mb, %mc) {mmaShape = [16, 8, 16]}
        : (vector<4x2xFORMAT>, vector<2x2xFORMAT>, vector<2x2xf32>)
        -> vector<2x2xf32>
    %d = vector.shape_cast %md : vector<2x2xf32> to vector<4xf32>
    vector.store %d, %c[%ib] : memref<256xf32>, vector<4xf32>)";

std::string multiply(const std::string &format) {
  std::string text = kMultiply;
  for (size_t at; (at = text.find("FORMAT")) != std::string::npos;)
    text.replace(at, 6, format);
  return text;
}
} // namespace

TEST_F(MatrixTest, MultipliesFragments) {
  for (const char *format : {"f16", "bf16"}) {
    // Small integers are exact in both.
    std::mt19937 generator(3);
    std::uniform_int_distribution<int> draw(-9, 9);
    int x[16][16], y[16][8];
    for (auto &row : x)
      for (int &element : row)
        element = draw(generator);
    for (auto &row : y)
      for (int &element : row)
        element = draw(generator);
    for (int lane = 0; lane < 32; ++lane) {
      int group = lane >> 2, member = lane & 3;
      for (int i = 0; i < 8; ++i) {
        int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
        int column = member * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        a[lane * 8 + i] = static_cast<float>(x[row][column]);
      }
      for (int i = 0; i < 4; ++i) {
        int row = member * 2 + (i & 1) + (i >= 2 ? 8 : 0);
        b[lane * 4 + i] = static_cast<float>(y[row][group]);
      }
    }
    EXPECT_EQ(run(multiply(format)), "");
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        int row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
        int column = (lane & 3) * 2 + (i & 1), sum = 0;
        for (int l = 0; l < 16; ++l)
          sum += x[row][l] * y[l][column];
        EXPECT_EQ(c[lane * 4 + i], static_cast<float>(sum) + 0.5f)
            << format << " lane " << lane;
      }
  }
}

TEST_F(MatrixTest, LoadsMatricesAndTransposes) {
  // Element e of shared memory is e; lane l names row l, of 8 elements.
  const std::string fill = R"(
    %is = arith.muli %tid, %c8 : index
    %v = vector.load %a[%is] : memref<256xf32>, vector<8xf32>
    %n = arith.truncf %v : vector<8xf32> to vector<8xf16>
    vector.store %n, %s[%is] : memref<512xf16, #gpu.address_space<workgroup>>, vector<8xf16>
    gpu.barrier
    %m = nvgpu.ldmatrix %s[%is] {numTiles = 4 : i32, transpose = TRANSPOSE}
        : memref<512xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
    %f = vector.shape_cast %m : vector<4x2xf16> to vector<8xf16>
    %w = arith.extf %f : vector<8xf16> to vector<8xf32>
    vector.store %w, %c[%is] : memref<256xf32>, vector<8xf32>)";
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i);
  for (bool transpose : {false, true}) {
    std::string text = fill;
    text.replace(text.find("TRANSPOSE"), 9, transpose ? "true" : "false");
    EXPECT_EQ(run(text), "");
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 8; ++i) {
        int matrix = i / 2, row = lane / 4, column = lane % 4 * 2 + i % 2;
        if (transpose)
          std::swap(row, column);
        EXPECT_EQ(c[lane * 8 + i],
                  static_cast<float>(matrix * 64 + row * 8 + column))
            << "lane " << lane;
      }
  }
}

TEST_F(MatrixTest, PartialAndDivergentWarpsAreReported) {
  EXPECT_THAT(run(multiply("f16"), 24),
              HasSubstr("needs a warp of 32 threads, but has 24"));
  EXPECT_THAT(
      run("%isFirst = arith.cmpi eq, %tid, %c0 : index\n"
          "scf.if %isFirst {" +
          multiply("f16") + "}"),
      HasSubstr("waits for its warp, but thread 1 of the warp does not"));
  EXPECT_THAT(run(R"(
    %m = nvgpu.ldmatrix %s[%tid] {numTiles = 1 : i32, transpose = false}
        : memref<512xf16, #gpu.address_space<workgroup>> -> vector<1x2xf16>)"),
              HasSubstr("no thread wrote"));
  EXPECT_THAT(
      run(R"(
    %is = arith.muli %tid, %c4 : index
    %v = arith.constant dense<0.0> : vector<4xf16>
    vector.store %v, %s[%is] : memref<512xf16, #gpu.address_space<workgroup>>, vector<4xf16>
    gpu.barrier
    %m = nvgpu.ldmatrix %s[%is] {numTiles = 1 : i32, transpose = false}
        : memref<512xf16, #gpu.address_space<workgroup>> -> vector<1x2xf16>)"),
      HasSubstr(
          "accesses byte 8; expected an address that is a multiple of 16"));
}
