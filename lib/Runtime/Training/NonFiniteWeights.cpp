//===- NonFiniteWeights.cpp - Search for non-finite weights ---------------===//

#include "binade/Runtime/NonFiniteWeights.h"

using namespace binade;
using namespace binade::plan;

std::vector<NonFiniteTensor>
binade::findNonFiniteWeights(const Program &program) {
  std::vector<NonFiniteTensor> found;
  for (const Tensor &tensor : program.read(Role::Parameter))
    if (NonFinite wrong = findNonFinite(tensor.dtype, tensor.bytes);
        wrong.count > 0)
      found.push_back({std::string(tensor.name), wrong.count,
                       tensor.bytes.size() / byteSize(tensor.dtype)});
  return found;
}

Result<std::vector<NonFiniteTensor>>
binade::findNonFiniteState(const Safetensors &file) {
  std::vector<NonFiniteTensor> found;
  std::vector<std::byte> bytes;
  for (const TensorInfo &info : file.getTensors()) {
    if (info.name.starts_with("amax"))
      continue;
    bytes.resize(info.bytes);
    if (Result<void> done = file.read(info, bytes); !done)
      return done.takeError();
    NonFinite wrong =
        findNonFinite(info.dtype, bytes, /*countsMinusInfinity=*/false);
    if (wrong.count > 0)
      found.push_back({info.name, wrong.count, info.getNumElements()});
  }
  return found;
}
