//===- binade-eval.cpp - run a function on given tensors ------------------===//

#include "binade/Reference/RunEval.h"

int main(int argc, char **argv) { return mlir::binade::runEval(argc, argv); }
