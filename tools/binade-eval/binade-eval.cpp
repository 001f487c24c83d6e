//===- binade-eval.cpp - run a function on given tensors ------------------===//

#include "CpuBackend.h"

int main(int argc, char **argv) {
  return mlir::binade::runEval(argc, argv, {{"cpu", evaluateOnCpu}});
}
