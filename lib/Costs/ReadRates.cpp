//===- ReadRates.cpp - Files of the rates of GPUs -------------------------===//

#include "binade/Config/DataFiles.h"
#include "binade/Costs/GpuCosts.h"
#include "llvm/ADT/StringMap.h"
#include <mutex>

using namespace mlir;
using namespace mlir::binade;

namespace mlir::binade {
const DataFiles &getChipFiles();
} // namespace mlir::binade

static YamlSchema<double> nonNegative() {
  return yamlNumber(0, std::numeric_limits<double>::infinity());
}

static YamlSchema<MatmulLaw> lawSchema() {
  return yamlMapping<MatmulLaw>(
      "the law of a matmul",
      {yamlKey("rate", "Operations per second of the GPU in large tiles",
               &MatmulLaw::rate, nonNegative()),
       yamlKey("wave", "Seconds from one wave of tiles to the next",
               &MatmulLaw::wave, nonNegative()),
       yamlKey("start", "Seconds to start", &MatmulLaw::start, nonNegative()),
       yamlKey("edge", "Loss of rate of a tile, in elements of its sides",
               &MatmulLaw::edge, nonNegative())});
}

static YamlSchema<MatmulEpilogue> epilogueSchema() {
  return yamlMapping<MatmulEpilogue>(
      "the epilogue of a matmul",
      {yamlKey("exposed", "Share of the time to write f32 that is not hidden",
               &MatmulEpilogue::exposed, yamlShare()),
       yamlKey("accumulate_rate", "Bytes per second of reading the addend",
               &MatmulEpilogue::accumulateRate, nonNegative())});
}

static YamlSchema<AttentionGradientLaw> attentionSchema() {
  using Law = AttentionGradientLaw;
  auto check = [](YamlReader &reader, YamlReader::Node &node, Law &law) {
    for (double constant : {law.score, law.column, law.query, law.part,
                            law.kernelScore, law.kernelColumn})
      if (constant <= 0)
        return reader.error(node, "expected all constants of the law");
    return success();
  };
  return yamlMapping<Law>(
      "the law of the gradients of attention",
      {yamlKey("score", "Seconds of a score, by cuDNN", &Law::score,
               nonNegative()),
       yamlKey("column", "Seconds of a score and a column of a head, by cuDNN",
               &Law::column, nonNegative()),
       yamlKey("query", "Seconds of a query of a head, by cuDNN", &Law::query,
               nonNegative()),
       yamlKey("part", "Seconds of each part after the first, by cuDNN",
               &Law::part, nonNegative()),
       yamlKey("kernel_score", "Seconds of a score, by the bundle's kernels",
               &Law::kernelScore, nonNegative()),
       yamlKey("kernel_column",
               "Seconds of a score and a column, by the bundle's kernels",
               &Law::kernelColumn, nonNegative())},
      check);
}

static YamlSchema<MeasuredMatmul> measuredSchema() {
  return yamlMapping<MeasuredMatmul>(
      "a measured matmul",
      {yamlKey("m", "Rows of the result", &MeasuredMatmul::m, yamlCount(1)),
       yamlKey("n", "Columns of the result", &MeasuredMatmul::n, yamlCount(1)),
       yamlKey("k", "Contracted elements", &MeasuredMatmul::k, yamlCount(1)),
       yamlKey("bytes", "Bytes of an element of the operands",
               &MeasuredMatmul::bytes, yamlCount(1)),
       yamlKey("us", "Microseconds", &MeasuredMatmul::us, nonNegative())});
}

static YamlSchema<GpuRates> ratesSchema() {
  auto check = [](YamlReader &reader, YamlReader::Node &node, GpuRates &rates) {
    bool isWhole = rates.multiprocessors && rates.start > 0 &&
                   rates.memory > 0 && rates.bf16.rate > 0 &&
                   rates.fp8.rate > 0 && rates.f32.rate > 0 &&
                   rates.epilogue.accumulateRate > 0;
    return isWhole ? success()
                   : reader.error(node, "expected all rates of a GPU");
  };
  return yamlMapping<GpuRates>(
      "the rates of a GPU",
      {yamlKey("name", "The GPU", &GpuRates::name, yamlString()),
       yamlKey("multiprocessors", "How many it has", &GpuRates::multiprocessors,
               yamlCount(1)),
       yamlKey("start", "Seconds of an empty kernel in a graph",
               &GpuRates::start, nonNegative()),
       yamlKey("memory", "Bytes per second, read and written",
               &GpuRates::memory, nonNegative()),
       yamlKey("bf16", "Matmuls of 16-bit operands", &GpuRates::bf16,
               lawSchema()),
       yamlKey("fp8", "Matmuls of 8-bit operands", &GpuRates::fp8, lawSchema()),
       yamlKey("f32", "Matmuls of f32 operands", &GpuRates::f32, lawSchema()),
       yamlKey("epilogue", "Results in f32", &GpuRates::epilogue,
               epilogueSchema()),
       yamlKey("attention_gradients",
               "Gradients of attention; missing if cuDNN has no deterministic "
               "engine for them",
               &GpuRates::attentionGradients, attentionSchema()),
       yamlKey("matmuls", "Measured matmuls", &GpuRates::matmuls,
               yamlList(measuredSchema()))},
      check);
}

std::vector<StringRef> GpuCosts::getNames() {
  return mlir::binade::getNames(getChipFiles());
}

const GpuCosts *GpuCosts::find(StringRef chip, MLIRContext *context) {
  static std::mutex mutex;
  static llvm::StringMap<std::unique_ptr<GpuCosts>> known;
  std::scoped_lock lock(mutex);
  auto [entry, isNew] = known.try_emplace(chip);
  if (!isNew)
    return entry->second.get();
  for (auto [file, text] : getChipFiles()) {
    if (StringRef(file) != (chip + kDataSuffix).str())
      continue;
    FailureOr<GpuRates> rates =
        parseFile({std::string(file), std::string(text), /*isUser=*/false},
                  "the rates of a GPU", ratesSchema(), context);
    if (succeeded(rates))
      entry->second = std::make_unique<GpuCosts>(std::move(*rates));
  }
  return entry->second.get();
}
