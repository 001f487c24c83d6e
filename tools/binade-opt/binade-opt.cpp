//===- binade-opt.cpp - run passes on training graphs ---------------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/Conversion/Passes.h"
#include "binade/IR/Binade.h"
#include "binade/Kernels/Passes.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Precision/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::binade::BinadeDialect, mlir::func::FuncDialect,
                  mlir::arith::ArithDialect, mlir::math::MathDialect,
                  mlir::vector::VectorDialect>();
  mlir::registerTransformsPasses();
  mlir::binade::registerAutodiffPasses();
  mlir::binade::registerConversionPasses();
  mlir::binade::registerKernelsPasses();
  mlir::binade::registerOptimizerPasses();
  mlir::binade::registerPrecisionPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Binade pass driver\n", registry));
}
