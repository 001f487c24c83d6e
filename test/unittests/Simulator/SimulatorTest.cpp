//===- SimulatorTest.cpp - Simulation of kernels, reports of errors -------===//

#include "binade/Simulator/Simulator.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace mlir::binade;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {
struct SimulatorTest : testing::Test {
  SimulatorTest() { loadKernelDialects(context); }

  /// Runs the only kernel of `text` on `memories`; returns the errors.
  std::string run(const std::string &text, int64_t grid, int64_t block,
                  std::vector<std::vector<float> *> memories,
                  uint64_t order = 0) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    gpu::GPUFuncOp kernel;
    module->walk([&](gpu::GPUFuncOp found) { kernel = found; });
    SimulatedLaunch launch;
    launch.grid[0] = grid;
    launch.block[0] = block;
    launch.order = order;
    for (std::vector<float> *memory : memories)
      launch.arguments.emplace_back(
          MutableArrayRef(reinterpret_cast<char *>(memory->data()),
                          memory->size() * sizeof(float)));
    return run(kernel, launch);
  }
  /// Runs it by one thread on `memory`.
  std::string run(const std::string &text, MutableArrayRef<char> memory) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    gpu::GPUFuncOp kernel;
    module->walk([&](gpu::GPUFuncOp found) { kernel = found; });
    SimulatedLaunch launch;
    launch.arguments.emplace_back(memory);
    return run(kernel, launch);
  }
  std::string run(gpu::GPUFuncOp kernel, const SimulatedLaunch &launch) {
    std::string said;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      said += diagnostic.str();
      return success();
    });
    bool isDone = succeeded(simulate(kernel, launch));
    EXPECT_EQ(isDone, said.empty()) << said;
    return said;
  }

  /// Wraps `body` in a kernel with %tid, %x and %y (`size` f32 each), and
  /// shared memory %s.
  static std::string wrap(const std::string &body, int64_t size) {
    std::string memory = "memref<" + std::to_string(size) + "xf32>";
    return "gpu.module @m { gpu.func @f(%x: " + memory + ", %y: " + memory +
           ") workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>) "
           "kernel {\n%tid = gpu.thread_id x\n%bid = gpu.block_id x\n"
           "%dim = gpu.block_dim x\n%c0 = arith.constant 0 : index\n"
           "%c1 = arith.constant 1 : index\n" +
           body + "\ngpu.return } }";
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

std::vector<float> count(size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(i);
  return values;
}
} // namespace

TEST_F(SimulatorTest, ThreadsOfSeveralBlocksRun) {
  std::vector<float> x = count(70), y(70);
  std::string text = wrap(R"(
    %n = arith.constant 70 : index
    %b = arith.muli %bid, %dim : index
    %i = arith.addi %b, %tid : index
    %in = arith.cmpi ult, %i, %n : index
    scf.if %in {
      %v = memref.load %x[%i] : memref<70xf32>
      %w = arith.mulf %v, %v : f32
      memref.store %w, %y[%i] : memref<70xf32>
    })",
                          70);
  EXPECT_EQ(run(text, 3, 32, {&x, &y}), "");
  for (size_t i = 0; i < 70; ++i)
    EXPECT_EQ(y[i], static_cast<float>(i * i));
}

TEST_F(SimulatorTest, LoopsCarryVectorsAndBranchesYieldValues) {
  std::vector<float> x = count(16), y(16);
  std::string text = wrap(R"(
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %sum:2 = scf.for %i = %c0 to %c16 step %c4
        iter_args(%a = %zero, %b = %zero) -> (vector<4xf32>, vector<4xf32>) {
      %v = vector.load %x[%i] {alignment = 16 : i64} : memref<16xf32>, vector<4xf32>
      %n = arith.addf %a, %v : vector<4xf32>
      scf.yield %b, %n : vector<4xf32>, vector<4xf32>
    }
    %isFirst = arith.cmpi eq, %tid, %c0 : index
    %r = scf.if %isFirst -> vector<4xf32> {
      scf.yield %sum#0 : vector<4xf32>
    } else {
      scf.yield %sum#1 : vector<4xf32>
    }
    %at = arith.muli %tid, %c4 : index
    vector.store %r, %y[%at] : memref<16xf32>, vector<4xf32>)",
                          16);
  EXPECT_EQ(run(text, 1, 2, {&x, &y}), "");
  // The sums are swapped at each step: rows 0 and 2, and rows 1 and 3.
  EXPECT_THAT(std::vector<float>(y.begin(), y.begin() + 8),
              ElementsAre(8, 10, 12, 14, 16, 18, 20, 22));
}

TEST_F(SimulatorTest, ShufflesReduceAWarp) {
  std::vector<float> x = count(64), y(64);
  std::string text = wrap(R"(
    %w = arith.constant 32 : i32
    %v = memref.load %x[%tid] : memref<64xf32>
    %o16 = arith.constant 16 : i32
    %s0, %p0 = gpu.shuffle xor %v, %o16, %w : f32
    %a0 = arith.addf %v, %s0 : f32
    %o8 = arith.constant 8 : i32
    %s1, %p1 = gpu.shuffle xor %a0, %o8, %w : f32
    %a1 = arith.addf %a0, %s1 : f32
    %o4 = arith.constant 4 : i32
    %s2, %p2 = gpu.shuffle xor %a1, %o4, %w : f32
    %a2 = arith.addf %a1, %s2 : f32
    %o2 = arith.constant 2 : i32
    %s3, %p3 = gpu.shuffle xor %a2, %o2, %w : f32
    %a3 = arith.addf %a2, %s3 : f32
    %o1 = arith.constant 1 : i32
    %s4, %p4 = gpu.shuffle xor %a3, %o1, %w : f32
    %a4 = arith.addf %a3, %s4 : f32
    memref.store %a4, %y[%tid] : memref<64xf32>)",
                          64);
  EXPECT_EQ(run(text, 1, 64, {&x, &y}), "");
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(y[i], i < 32 ? 496.0f : 1520.0f);
}

TEST_F(SimulatorTest, ShufflesOfPartOfAWarpDoNotLeaveIt) {
  std::vector<float> x = count(32), y(32);
  std::string text = wrap(R"(
    %w = arith.constant 8 : i32
    %o = arith.constant 3 : i32
    %v = memref.load %x[%tid] : memref<32xf32>
    %u, %isValid = gpu.shuffle up %v, %o, %w : f32
    %none = arith.constant -1.0 : f32
    %r = arith.select %isValid, %u, %none : f32
    memref.store %r, %y[%tid] : memref<32xf32>)",
                          32);
  EXPECT_EQ(run(text, 1, 32, {&x, &y}), "");
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(y[i], i % 8 < 3 ? -1.0f : static_cast<float>(i - 3));
}

TEST_F(SimulatorTest, BarriersOrderSharedMemory) {
  std::vector<float> x = count(128), y(128);
  std::string body = R"(
    %b = arith.muli %bid, %dim : index
    %i = arith.addi %b, %tid : index
    %v = memref.load %x[%i] : memref<128xf32>
    memref.store %v, %s[%tid] : memref<64xf32, #gpu.address_space<workgroup>>
    BARRIER
    %last = arith.constant 63 : index
    %from = arith.subi %last, %tid : index
    %w = memref.load %s[%from] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %w, %y[%i] : memref<128xf32>)";
  std::string with = body, without = body;
  with.replace(with.find("BARRIER"), 7, "gpu.barrier");
  without.replace(without.find("BARRIER"), 7, "");
  EXPECT_EQ(run(wrap(with, 128), 2, 64, {&x, &y}), "");
  for (size_t i = 0; i < 128; ++i)
    EXPECT_EQ(y[i], static_cast<float>(i / 64 * 64 + 63 - i % 64));
  EXPECT_THAT(run(wrap(without, 128), 2, 64, {&x, &y}),
              HasSubstr("which no thread wrote"));
}

/// The simulator reports no race if two arguments alias; the race shows only in
/// the results, which depend on the order of threads.
TEST_F(SimulatorTest, AnotherOrderOfThreadsRevealsDependences) {
  std::string text = wrap(R"(
      %last = arith.subi %dim, %c1 : index
      %other = arith.subi %last, %tid : index
      %v = memref.load %x[%other] : memref<4xf32>
      memref.store %v, %y[%tid] : memref<4xf32>)",
                          4);
  std::set<std::vector<float>> results;
  for (uint64_t order = 0; order < 8; ++order) {
    std::vector<float> values = count(4);
    EXPECT_EQ(run(text, 1, 4, {&values, &values}, order), "");
    std::vector<float> apart = count(4), result(4);
    EXPECT_EQ(run(text, 1, 4, {&apart, &result}, order), "");
    EXPECT_EQ(result, std::vector<float>(apart.rbegin(), apart.rend()));
    results.insert(values);
  }
  EXPECT_GT(results.size(), 1u);
}

TEST_F(SimulatorTest, RacesAreReported) {
  std::vector<float> x = count(64), y(64);
  // All threads write one element; two blocks write the same element; a thread
  // reads its neighbour's element while the neighbour writes it.
  EXPECT_THAT(run(wrap(R"(
    %v = memref.load %x[%tid] : memref<64xf32>
    memref.store %v, %y[%c0] : memref<64xf32>)",
                       64),
                  1, 2, {&x, &y}),
              HasSubstr("thread 1 of block 0 writes byte 0, which thread 0 of "
                        "block 0 writes without a barrier between"));
  EXPECT_THAT(run(wrap(R"(
    %v = memref.load %x[%tid] : memref<64xf32>
    memref.store %v, %y[%tid] : memref<64xf32>)",
                       64),
                  2, 8, {&x, &y}),
              HasSubstr("block 1 writes byte 0, which thread 0 of block 0"));
  EXPECT_THAT(run(wrap(R"(
    %next = arith.addi %tid, %c1 : index
    %v = memref.load %x[%next] : memref<64xf32>
    memref.store %v, %x[%tid] : memref<64xf32>)",
                       64),
                  1, 8, {&x, &y}),
              HasSubstr("writes byte 4, which thread 0 of block 0 read"));
  // Several threads may read one element.
  EXPECT_EQ(run(wrap(R"(
    %v = memref.load %x[%c0] : memref<64xf32>
    %b = arith.muli %bid, %dim : index
    %i = arith.addi %b, %tid : index
    memref.store %v, %y[%i] : memref<64xf32>)",
                     64),
                2, 32, {&x, &y}),
            "");
}

TEST_F(SimulatorTest, OutOfBoundsAccessesAreReported) {
  std::vector<float> x = count(8), y(8);
  EXPECT_THAT(run(wrap(R"(
    %v = memref.load %x[%tid] : memref<8xf32>
    memref.store %v, %y[%tid] : memref<8xf32>)",
                       8),
                  1, 9, {&x, &y}),
              HasSubstr("thread 8 of block 0 reads 4 bytes at byte 32 of 32"));
  EXPECT_THAT(
      run(wrap(R"(
    %v = vector.load %x[%c1] {alignment = 16 : i64} : memref<8xf32>, vector<4xf32>
    vector.store %v, %y[%c0] : memref<8xf32>, vector<4xf32>)",
               8),
          1, 1, {&x, &y}),
      HasSubstr(
          "accesses byte 4; expected an address that is a multiple of 16"));
}

TEST_F(SimulatorTest, UnalignedVectorAccessesAreReported) {
  alignas(16) char bytes[36] = {};
  auto read = [&](const std::string &alignment, const std::string &ofMemory,
                  size_t shift) {
    return run("gpu.module @m { gpu.func @f(%x: memref<8xf32>" + ofMemory +
                   ") kernel {\n%c0 = arith.constant 0 : index\n"
                   "%v = vector.load %x[%c0] " +
                   alignment +
                   " : memref<8xf32>, vector<4xf32>\ngpu.return } }",
               MutableArrayRef(bytes).slice(shift, 32));
  };
  EXPECT_EQ(read("{alignment = 16 : i64}", " {llvm.align = 16 : i32}", 0), "");
  EXPECT_THAT(read("{alignment = 16 : i64}", "", 4),
              HasSubstr("accesses byte 0 of memory that starts 4 bytes after a "
                        "multiple; expected an address that is a multiple of "
                        "16"));
  EXPECT_THAT(read("", " {llvm.align = 16 : i32}", 4),
              HasSubstr("expects memory at a multiple of 16 as argument 0, got "
                        "memory that starts 4 bytes after one"));
  // Without an alignment, a vector load needs only that of its elements.
  EXPECT_EQ(read("", " {llvm.align = 4 : i32}", 4), "");
  EXPECT_THAT(read("", "", 2), HasSubstr("a multiple of 4"));
}

TEST_F(SimulatorTest, BarriersAndShufflesThatSomeThreadsMissAreReported) {
  std::vector<float> x = count(64), y(64);
  EXPECT_THAT(run(wrap(R"(
    %isFirst = arith.cmpi eq, %tid, %c0 : index
    scf.if %isFirst {
      gpu.barrier
    })",
                       64),
                  1, 64, {&x, &y}),
              HasSubstr("waits at a barrier, but thread 1 does not"));
  EXPECT_THAT(
      run(wrap(R"(
    %isFirst = arith.cmpi eq, %tid, %c0 : index
    scf.if %isFirst {
      %v = memref.load %x[%tid] : memref<64xf32>
      %o = arith.constant 1 : i32
      %w = arith.constant 32 : i32
      %u, %p = gpu.shuffle xor %v, %o, %w : f32
    })",
               64),
          1, 64, {&x, &y}),
      HasSubstr("waits for its warp, but thread 1 of the warp does not"));
}

TEST_F(SimulatorTest, ConversionsRoundAsTheFormatsDo) {
  std::vector<float> x = {1.0f, 448.0f, 3.14159274f, -0.0f}, y(4);
  EXPECT_EQ(run(wrap(R"(
    %v = vector.load %x[%c0] : memref<4xf32>, vector<4xf32>
    %n = arith.truncf %v : vector<4xf32> to vector<4xbf16>
    %w = arith.extf %n : vector<4xbf16> to vector<4xf32>
    %i = arith.bitcast %w : vector<4xf32> to vector<4xi32>
    %c = arith.constant dense<[1, 2, 4, 8]> : vector<4xi32>
    %j = arith.addi %i, %c : vector<4xi32>
    %z = arith.bitcast %j : vector<4xi32> to vector<4xf32>
    vector.store %z, %y[%c0] : memref<4xf32>, vector<4xf32>)",
                     4),
                1, 1, {&x, &y}),
            "");
  std::vector<uint32_t> bits(4);
  std::memcpy(bits.data(), y.data(), 16);
  EXPECT_THAT(bits,
              ElementsAre(0x3f800001, 0x43e00002, 0x40490004, 0x80000008));
}

TEST_F(SimulatorTest, UnsupportedOpsAreReported) {
  std::vector<float> x = count(4), y(4);
  EXPECT_THAT(run(wrap(R"(
    %v = memref.load %x[%c0] : memref<4xf32>
    %w = math.erf %v : f32
    memref.store %w, %y[%c0] : memref<4xf32>)",
                       4),
                  1, 1, {&x, &y}),
              HasSubstr("is not simulated"));
}

static std::string updateFirst(const std::string &rest) {
  return R"(
    %one = arith.constant 1 : i32
    %word = memref.view %bytes[%c0][] : memref<8xi8> to memref<2xi32>
    %before = memref.atomic_rmw addi %one, %word[%c0] : (i32, memref<2xi32>) -> i32
)" + rest;
}

static std::string wrapBytes(const std::string &body) {
  return "gpu.module @m { gpu.func @f(%bytes: memref<8xi8>) kernel {\n"
         "%tid = gpu.thread_id x\n%c0 = arith.constant 0 : index\n" +
         body + "\ngpu.return } }";
}

TEST_F(SimulatorTest, AtomicUpdatesOfOneElementDoNotRace) {
  std::vector<float> bytes(2);
  EXPECT_EQ(run(wrapBytes(updateFirst("")), 3, 40, {&bytes}), "");
  int32_t total;
  std::memcpy(&total, bytes.data(), sizeof total);
  EXPECT_EQ(total, 120);
}

TEST_F(SimulatorTest, ReadingAnElementThatOthersUpdateIsARace) {
  std::vector<float> bytes(2);
  std::string read = "%now = memref.load %word[%c0] : memref<2xi32>";
  EXPECT_THAT(run(wrapBytes(updateFirst(read)), 1, 2, {&bytes}),
              HasSubstr("without a barrier between"));
  EXPECT_THAT(
      run(wrapBytes(updateFirst("gpu.barrier\n" + read)), 2, 2, {&bytes}),
      HasSubstr("without a barrier between"));
  EXPECT_EQ(run(wrapBytes(updateFirst("gpu.barrier\n" + read)), 1, 2, {&bytes}),
            "");
}

// As in PTX, converting any NaN to a narrow format gives the canonical NaN.
TEST_F(SimulatorTest, NaNOfNarrowFormatsIsCanonical) {
  std::vector<float> x = {-std::nanf("5"), 3.0f}, y(2);
  std::string text = wrap(R"(
    %v = memref.load %x[%tid] : memref<2xf32>
    %a = arith.truncf %v : f32 to f8E4M3FN
    %b = arith.truncf %v : f32 to bf16
    %p = arith.bitcast %a : f8E4M3FN to i8
    %q = arith.bitcast %b : bf16 to i16
    %r = arith.extui %p : i8 to i16
    %s0 = arith.xori %q, %r : i16
    %w = arith.uitofp %s0 : i16 to f32
    memref.store %w, %y[%tid] : memref<2xf32>)",
                          2);
  EXPECT_EQ(run(text, 1, 2, {&x, &y}), "");
  // The value 3 is 0x44 and 0x4040.
  EXPECT_THAT(y, ElementsAre(0x7fff ^ 0x7f, 0x4040 ^ 0x44));
}

/// Each thread copies four values to shared memory, and stores one that another
/// thread copied.
static std::string copyAsynchronously(const std::string &wait) {
  return R"(
    %c4 = arith.constant 4 : index
    %c3 = arith.constant 3 : index
    %c15 = arith.constant 15 : index
    %i = arith.muli %tid, %c4 : index
    %copy = nvgpu.device_async_copy %x[%i], %s[%i], 4, %c3
      : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
)" + wait +
         R"(
    %other = arith.subi %c15, %tid : index
    %j = arith.muli %other, %c4 : index
    %v = vector.load %s[%j] : memref<64xf32, #gpu.address_space<workgroup>>,
                              vector<4xf32>
    vector.store %v, %y[%i] : memref<64xf32>, vector<4xf32>)";
}

static constexpr const char *kWait = R"(
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
)";

TEST_F(SimulatorTest, AsynchronousCopiesAreCompleteAfterTheWait) {
  std::vector<float> x = count(64), y(64);
  std::string text = copyAsynchronously(std::string(kWait) + "gpu.barrier");
  EXPECT_EQ(run(wrap(text, 64), 1, 16, {&x, &y}), "");
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(y[i], i % 4 == 3 ? 0.0f : x[60 - i / 4 * 4 + i % 4]) << i;
}

TEST_F(SimulatorTest, AsynchronousCopiesBeforeTheWaitAreNaN) {
  std::vector<float> x = count(64), y(64);
  std::string early = "gpu.barrier", late = "gpu.barrier\n";
  EXPECT_EQ(run(wrap(copyAsynchronously(early), 64), 1, 16, {&x, &y}), "");
  for (float value : y)
    EXPECT_TRUE(std::isnan(value));
  // Another thread may read a copy only after a barrier that follows the wait.
  EXPECT_THAT(run(wrap(copyAsynchronously(late + kWait), 64), 1, 16, {&x, &y}),
              HasSubstr("without a barrier between"));
}

TEST_F(SimulatorTest, ApproximatePowersOfTwoAreNearlyExact) {
  std::vector<float> x, y(4096);
  for (size_t i = 0; i < y.size(); ++i)
    x.push_back(static_cast<float>(i) / 16 - 128);
  x[0] = -INFINITY;
  x[1] = INFINITY;
  x[2] = std::nanf("");
  std::string text = wrap(R"(
    %v = memref.load %x[%tid] : memref<4096xf32>
    %w = math.exp2 %v fastmath<afn> : f32
    memref.store %w, %y[%tid] : memref<4096xf32>)",
                          4096);
  EXPECT_EQ(run(text, 1, 4096, {&x, &y}), "");
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
  double largest = 0;
  for (size_t i = 3; i < y.size(); ++i) {
    double exact = std::exp2(static_cast<double>(x[i]));
    if (x[i] < -126) {
      EXPECT_EQ(y[i], 0.0f) << x[i];
    } else if (x[i] < 128) {
      largest = std::max(largest, std::fabs(y[i] / exact - 1));
    } else {
      EXPECT_EQ(y[i], INFINITY) << x[i];
    }
  }
  EXPECT_EQ(y[128 * 16], 1.0f);
  EXPECT_LE(largest, 2.5 * 0x1p-23);
  EXPECT_GE(largest, 0x1p-23);
}
