//===- CpuLevel.cpp - Levels of the x86-64 instruction set ----------------===//

#include "binade/Container/IsaLimit.h"
#include "binade/Target/CPU.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::binade;

StringRef mlir::binade::getName(CpuLevel level) {
  return level == CpuLevel::V4 ? ::binade::kIsaV4 : ::binade::kIsaV3;
}

std::optional<CpuLevel> mlir::binade::parseCpuLevel(StringRef name) {
  for (CpuLevel level : {CpuLevel::V3, CpuLevel::V4})
    if (name == getName(level))
      return level;
  return std::nullopt;
}

std::optional<CpuLevel> mlir::binade::getHostLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto hasAll = [&](std::initializer_list<StringRef> names) {
    return llvm::all_of(names,
                        [&](StringRef name) { return features.lookup(name); });
  };
  if (!hasAll({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}))
    return std::nullopt;
  if (!::binade::leavesOutAvx512() &&
      hasAll({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return CpuLevel::V4;
  return CpuLevel::V3;
}

std::string mlir::binade::getDefaultCacheDirectory() {
  SmallString<128> path;
  if (!llvm::sys::path::cache_directory(path))
    return "";
  llvm::sys::path::append(path, "binade");
  return path.str().str();
}
