//===- KernelBundle.h - Programs with the kernels of Kernels.c --*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_RUNTIME_KERNELBUNDLE_H
#define BINADE_TEST_UNITTESTS_RUNTIME_KERNELBUNDLE_H

#include "binade/Runtime/Program.h"
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace binade {

/// Returns the bytes of a file.
inline std::vector<std::byte> bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  auto *start = reinterpret_cast<const std::byte *>(text.data());
  return {start, start + text.size()};
}

inline Bundle bundleWithKernels(Plan plan,
                                const std::string &object = BINADE_KERNELS_42) {
  Bundle bundle;
  bundle.plan = std::move(plan);
  bundle.kernels["x86-64-v3"] = bytesOf(object);
  return bundle;
}

inline Program loadWithKernels(Plan plan, unsigned threads) {
  LoadOptions options;
  options.threads = threads;
  Result<Program> program =
      Program::load(bundleWithKernels(std::move(plan)), "test", "", options);
  if (!program)
    throw std::runtime_error(render(program.error()));
  return *std::move(program);
}

} // namespace binade

#endif // BINADE_TEST_UNITTESTS_RUNTIME_KERNELBUNDLE_H
