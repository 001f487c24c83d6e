//===- Contraction.cpp - Choice of contraction kernels --------------------===//

#include "Contraction.h"
#include "../Execution/FloatMode.h"

using namespace binade;
using namespace binade::plan;

std::optional<Contraction> binade::parseContraction(std::string_view text) {
  if (text == "auto")
    return Contraction::Auto;
  if (text == "library")
    return Contraction::Library;
  if (text == "own")
    return Contraction::Own;
  return std::nullopt;
}

std::unique_ptr<Operation> binade::createContraction(const Record &record,
                                                     const Memory &memory,
                                                     unsigned threads,
                                                     Contraction choice) {
  std::unique_ptr<Operation> operation;
  if (auto *matmul = std::get_if<Matmul>(&record.body)) {
    if (matmul->accumulation)
      return createAccumulatedMatmul(*matmul, memory, threads);
    if (choice != Contraction::Own)
      operation = createOneDnnMatmul(*matmul, memory);
    if (choice != Contraction::Own && !operation)
      operation = createHalfMatmul(*matmul, memory, threads);
    return operation ? std::move(operation)
                     : createOwnMatmul(*matmul, memory, threads);
  }
  if (auto *attention = std::get_if<Attention>(&record.body)) {
    operation = createFusedAttention(*attention, memory, threads);
    return operation ? std::move(operation)
                     : createSimpleAttention(*attention, memory);
  }
  const auto &convolution = std::get<Convolution>(record.body);
  if (choice != Contraction::Own)
    operation = createOneDnnConvolution(convolution, memory);
  return operation ? std::move(operation)
                   : createOwnConvolution(convolution, memory, threads);
}

LibraryUse binade::queryLibrary(std::span<const Buffer> buffers,
                                const Record &record, unsigned threads,
                                Contraction choice) {
  if (!std::holds_alternative<Matmul>(record.body) &&
      !std::holds_alternative<Convolution>(record.body) &&
      !std::holds_alternative<Attention>(record.body))
    return {};
  IeeeMode mode;
  OpenMPThreads openMP(threads);
  Memory memory{nullptr, buffers};
  std::unique_ptr<Operation> operation =
      createContraction(record, memory, threads, choice);
  return {operation->getScratchBytes(), operation->getImplementation()};
}
