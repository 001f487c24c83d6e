//===- KernelTest.h - Compiles kernels and runs them ------------*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_TARGET_KERNELTEST_H
#define BINADE_TEST_UNITTESTS_TARGET_KERNELTEST_H

#include "binade/IR/Binade.h"
#include "binade/Reference/Interpreter.h"
#include "binade/Target/CPU.h"
#include "gtest/gtest.h"
#include <random>

namespace mlir::binade {

/// Memory that is followed by an inaccessible page, so that overruns crash.
class GuardedBuffer {
public:
  explicit GuardedBuffer(size_t bytes);
  GuardedBuffer(ArrayRef<char> bytes);
  GuardedBuffer(GuardedBuffer &&other) noexcept;
  GuardedBuffer &operator=(GuardedBuffer &&) = delete;
  ~GuardedBuffer();
  char *data() const { return start; }
  std::vector<char> bytes() const { return {start, start + size}; }

private:
  char *mapping = nullptr, *start = nullptr;
  size_t size = 0, mapped = 0;
};

/// The shared object of compiled kernels, loaded into this process.
class LoadedKernels {
public:
  explicit LoadedKernels(const CompiledKernels &compiled);
  LoadedKernels(LoadedKernels &&other) noexcept
      : kernels(std::move(other.kernels)), handle(other.handle) {
    other.handle = nullptr;
  }
  ~LoadedKernels();
  void *find(const std::string &symbol) const;

  using Items = void (*)(void *const *, int64_t, int64_t);
  using Finish = void (*)(void *const *, int64_t);

  SmallVector<KernelInfo> kernels;

private:
  void *handle = nullptr;
};

class KernelTest : public ::testing::Test {
protected:
  KernelTest();

  /// Returns the ISA levels that this machine supports.
  static std::vector<CpuLevel> getLevels();

  void parse(StringRef text);

  /// Draws an operand: floats from the standard normal distribution, integers
  /// from [0, limit).
  TensorRef draw(RankedTensorType type, int64_t limit = 2);

  /// Compiles the kernel `@k` of `text` and runs it on `inputs`, which are
  /// drawn if empty, at every ISA level, with 1, 3 and all items per call.
  /// Expects equal bits from all runs, and values within the reference's
  /// bounds, also from the simulated GPU. Returns the status word.
  int32_t check(StringRef text, std::vector<TensorRef> inputs = {},
                int64_t limit = 2);

  /// Runs the kernel once; returns the bytes of the results.
  std::vector<std::vector<char>>
  run(const LoadedKernels &loaded, const KernelInfo &info, func::FuncOp kernel,
      ArrayRef<TensorRef> inputs, int64_t itemsPerCall);

  /// Runs the kernel in the simulator of a GPU; returns the bytes of the
  /// results.
  std::vector<std::vector<char>> simulate(func::FuncOp kernel,
                                          ArrayRef<TensorRef> inputs);

  void expectNear(func::FuncOp kernel, ArrayRef<TensorRef> inputs,
                  ArrayRef<std::vector<char>> results);

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string message;
  std::mt19937_64 generator{7};
  int32_t status = 0;
};

} // namespace mlir::binade

#endif // BINADE_TEST_UNITTESTS_TARGET_KERNELTEST_H
