//===- RecordKernelsTest.h - kernels for records of a plan ------*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_TARGET_RECORDKERNELSTEST_H
#define BINADE_TEST_UNITTESTS_TARGET_RECORDKERNELSTEST_H

#include "binade/Target/CUDA.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"
#include <random>

namespace mlir::binade {

class RecordKernelsTest : public ::testing::Test {
protected:
  RecordKernelsTest();

  /// Runs the only kernel of `compiled`, all its entries one after the other.
  void run(FailureOr<CompiledGpuKernels> compiled,
           std::vector<std::vector<char>> &memories);

  /// Of the standard normal distribution, rounded to `dtype`: the bytes of a
  /// tensor, and their values.
  std::vector<char> draw(int64_t count, ::binade::DType dtype);
  static std::vector<double> read(const std::vector<char> &bytes,
                                  ::binade::DType dtype);
  /// By how much rounding to `dtype` may change 1.
  static double getUnit(::binade::DType dtype);

  MLIRContext context;
  std::mt19937 generator{11};
};

} // namespace mlir::binade

#endif // BINADE_TEST_UNITTESTS_TARGET_RECORDKERNELSTEST_H
