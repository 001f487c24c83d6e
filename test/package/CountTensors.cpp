//===- CountTensors.cpp - a file read without MLIR ------------------------===//

#include "binade/Container/Safetensors.h"
#include <cstdio>

int main(int argc, char **argv) {
  auto file = binade::Safetensors::open(argv[1]);
  if (!file)
    return 3;
  std::printf("%zu\n", file->getTensors().size());
  return 0;
}
