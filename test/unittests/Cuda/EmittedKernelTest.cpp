//===- EmittedKernelTest.cpp - Kernels of the compiler on a device --------===//

#include "SimulatedDevice.h"
#include "binade/Codegen/Passes.h"
#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <cmath>

using namespace binade;
using namespace binade::cuda;

namespace {
struct EmittedKernelTest : SimulatedDevice {
  /// Compiles the function in `text` to a kernel and runs it on the device. The
  /// arguments are the operands, the results, then the kernel's workspaces; all
  /// are f32.
  std::vector<float> run(const std::string &text,
                         const std::vector<std::vector<float>> &operands,
                         std::size_t count) {
    mlir::DialectRegistry registry;
    registry.insert<mlir::binade::BinadeDialect, mlir::func::FuncDialect>();
    mlir::MLIRContext context(registry);
    context.loadAllAvailableDialects();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    mlir::PassManager passes(&context);
    mlir::binade::buildGpuConversionPipeline(passes);
    EXPECT_TRUE(mlir::succeeded(passes.run(*module)));
    mlir::gpu::GPUFuncOp kernel;
    module->walk([&](mlir::gpu::GPUFuncOp found) { kernel = found; });
    std::string emitted;
    llvm::raw_string_ostream(emitted) << *module;

    open();
    Module kernels = load(emitted);
    std::vector<DeviceMemory> memories;
    for (const std::vector<float> &operand : operands)
      memories.push_back(put(operand));
    memories.push_back(put(std::vector<float>(count, NAN)));
    for (mlir::Type type :
         kernel.getArgumentTypes().drop_front(memories.size())) {
      auto bytes = static_cast<std::uint64_t>(
          mlir::cast<mlir::MemRefType>(type).getNumElements());
      memories.push_back(*device->allocate(bytes));
      EXPECT_TRUE(device->fill(memories.back().get(), {}, bytes));
    }
    std::vector<Address> addresses;
    std::vector<void *> arguments;
    for (const DeviceMemory &memory : memories)
      addresses.push_back(memory.get());
    for (Address &address : addresses)
      arguments.push_back(&address);
    LaunchShape shape;
    llvm::copy(*kernel.getKnownGridSize(), shape.grid.begin());
    llvm::copy(*kernel.getKnownBlockSize(), shape.block.begin());
    std::string name = kernel.getName().str();
    auto found = kernels.find(name);
    EXPECT_TRUE(found);
    EXPECT_TRUE(device->launch(*found, shape, arguments, {name, ""}));
    return get(memories[operands.size()], count);
  }

  static std::vector<float> draw(std::size_t count, unsigned seed) {
    std::vector<float> values(count);
    for (float &value : values) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(seed >> 8) * 0x1p-22f - 2;
    }
    return values;
  }
};
} // namespace

TEST_F(EmittedKernelTest, Elements) {
  std::vector<float> x = draw(1003, 1), y = draw(1003, 2);
  std::vector<float> z = run(R"(
    func.func private @k(%x: tensor<1003xf32>, %y: tensor<1003xf32>)
        -> tensor<1003xf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %p = binade.mul %x, %y : (tensor<1003xf32>, tensor<1003xf32>)
          -> tensor<1003xf32>
      %z = binade.sub %p, %x : (tensor<1003xf32>, tensor<1003xf32>)
          -> tensor<1003xf32>
      return %z : tensor<1003xf32>
    })",
                             {x, y}, 1003);
  for (std::size_t i = 0; i < z.size(); ++i) {
    volatile float product = x[i] * y[i]; // Rounded, as the IR says.
    ASSERT_EQ(z[i], product - x[i]) << i;
  }
}

TEST_F(EmittedKernelTest, Rows) {
  constexpr std::size_t rows = 33, columns = 129;
  std::vector<float> x = draw(rows * columns, 3);
  std::vector<float> y = run(R"(
    func.func private @k(%x: tensor<33x129xf32>) -> tensor<33x129xf32>
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %y = binade.softmax %x : (tensor<33x129xf32>) -> tensor<33x129xf32>
      return %y : tensor<33x129xf32>
    })",
                             {x}, x.size());
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < columns; ++i)
      sum += std::exp(double(x[row * columns + i]));
    for (std::size_t i = 0; i < columns; ++i)
      ASSERT_NEAR(y[row * columns + i],
                  std::exp(double(x[row * columns + i])) / sum, 1e-7)
          << row << ", " << i;
  }
}
