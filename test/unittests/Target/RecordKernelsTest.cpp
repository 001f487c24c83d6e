//===- RecordKernelsTest.cpp - GPU kernels of records of a plan -----------===//

#include "RecordKernelsTest.h"
#include "binade/Simulator/Simulator.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

RecordKernelsTest::RecordKernelsTest() { loadKernelDialects(context); }

void RecordKernelsTest::run(FailureOr<CompiledGpuKernels> compiled,
                            std::vector<std::vector<char>> &memories) {
  ASSERT_TRUE(succeeded(compiled));
  ASSERT_EQ(compiled->kernels.size(), 1u);
  const CompiledGpuKernel &kernel = compiled->kernels.front();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(compiled->codes[kernel.code].ir, &context);
  ASSERT_TRUE(module);
  SmallVector<gpu::GPUFuncOp> functions;
  module->walk([&](gpu::GPUFuncOp found) { functions.push_back(found); });
  ASSERT_EQ(functions.size(), kernel.entries.size());
  for (auto [function, entry] : llvm::zip(functions, kernel.entries)) {
    EXPECT_EQ(function.getName(), entry.symbol);
    SimulatedLaunch launch;
    launch.grid = entry.grid;
    launch.block = entry.block;
    for (std::vector<char> &memory : memories)
      launch.arguments.emplace_back(MutableArrayRef<char>(memory));
    launch.order = 1 + memories.front().size();
    ASSERT_TRUE(succeeded(simulate(function, launch)));
  }
}

static const llvm::fltSemantics &getSemantics(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return APFloat::BFloat();
  case DType::F16:
    return APFloat::IEEEhalf();
  case DType::F8_E4M3:
    return APFloat::Float8E4M3FN();
  case DType::F8_E5M2:
    return APFloat::Float8E5M2();
  default:
    return APFloat::IEEEsingle();
  }
}

std::vector<char> RecordKernelsTest::draw(int64_t count, DType dtype) {
  std::normal_distribution<float> normal;
  std::vector<char> bytes;
  for (int64_t i = 0; i < count; ++i) {
    APFloat number(normal(generator));
    bool isExact;
    number.convert(getSemantics(dtype), APFloat::rmNearestTiesToEven, &isExact);
    uint64_t bits = number.bitcastToAPInt().getZExtValue();
    const char *start = reinterpret_cast<const char *>(&bits);
    bytes.insert(bytes.end(), start, start + byteSize(dtype));
  }
  return bytes;
}

std::vector<double> RecordKernelsTest::read(const std::vector<char> &bytes,
                                            DType dtype) {
  size_t size = byteSize(dtype);
  std::vector<double> numbers;
  for (size_t i = 0; i < bytes.size(); i += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i, size);
    auto width = static_cast<unsigned>(8 * size);
    numbers.push_back(
        APFloat(getSemantics(dtype), APInt(width, bits)).convertToDouble());
  }
  return numbers;
}

double RecordKernelsTest::getUnit(DType dtype) {
  auto digits =
      static_cast<int>(APFloat::semanticsPrecision(getSemantics(dtype)));
  return std::ldexp(1.0, -digits);
}

TEST_F(RecordKernelsTest, CopiesWithStrides) {
  // [2, 5, 300] to [300, 2, 5], 2-byte elements, with a source stride of 2.
  GpuCopy copy{2, {2, 5, 300}, {3000, 600, 2}, {5, 1, 10}};
  std::vector<int16_t> from(6000), to(3000, -1);
  std::iota(from.begin(), from.end(), 0);
  auto bytesOf = [](const std::vector<int16_t> &x) {
    const char *start = reinterpret_cast<const char *>(x.data());
    return std::vector<char>(start, start + x.size() * sizeof(int16_t));
  };
  std::vector<std::vector<char>> memories = {bytesOf(from), bytesOf(to)};
  memories[0].resize(2 * 5999); // Nothing after the last element is read.
  run(compileGpuCopies(UnknownLoc::get(&context), copy, CudaOptions()),
      memories);
  std::memcpy(to.data(), memories[1].data(), memories[1].size());
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 5; ++b)
      for (int64_t c = 0; c < 300; ++c)
        ASSERT_EQ(to[c * 10 + a * 5 + b], a * 3000 + b * 600 + c * 2);
}
