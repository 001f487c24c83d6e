//===- Processor.cpp - Name and instructions of the processor -------------===//

#include "../Attention/Kernels.h"
#include "KernelObject.h"
#include "binade/Container/IsaLimit.h"
#include "binade/Runtime/Library.h"
#include <cstdlib>
#include <fstream>

using namespace binade;

std::string binade::getProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (std::size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown";
}

static std::string_view findInstructions() {
  std::span<const std::string_view> levels = supportedIsaLevels();
  if (levels.empty())
    return "no AVX2";
  if (levels.front() != kIsaV4)
    return "AVX2";
  if (attention::getHighestLevel() == attention::Level::Amx)
    return "AMX";
  return !isLimitedTo(kIsaV4) && __builtin_cpu_supports("avx512bf16")
             ? "AVX-512 BF16"
             : "AVX-512";
}

std::string binade::describeProcessor() {
  std::string text =
      getProcessorName() + " with " + std::string(findInstructions());
  for (const char *name :
       {"BINADE_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char *limit = std::getenv(name))
      text += std::string(", ") + name + "=" + limit;
  return text;
}
