//===- RecordKernelsTest.h - GPU kernels of records of a plan ---*- C++ -*-===//

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

  /// Runs all entries of the only kernel of `compiled` in sequence.
  void run(FailureOr<CompiledGpuKernels> compiled,
           std::vector<std::vector<char>> &memories);

  /// Returns the bytes of `count` values from the standard normal distribution,
  /// rounded to `dtype`. `read` decodes such bytes.
  std::vector<char> draw(int64_t count, ::binade::DType dtype);
  static std::vector<double> read(const std::vector<char> &bytes,
                                  ::binade::DType dtype);
  /// Returns the unit roundoff of `dtype`.
  static double getUnit(::binade::DType dtype);

  MLIRContext context;
  std::mt19937 generator{11};
};

} // namespace mlir::binade

#endif // BINADE_TEST_UNITTESTS_TARGET_RECORDKERNELSTEST_H
