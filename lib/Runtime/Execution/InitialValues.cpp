//===- InitialValues.cpp - Initial values of ports ------------------------===//

#include "InitialValues.h"
#include "../Runs/ParameterStorage.h"
#include "ProgramImplementation.h"
#include "ThreadTeam.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Container/NonFinite.h"
#include "binade/Container/Philox.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Sha256.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace binade;
using namespace binade::plan;

/// Writes `value`, rounded to the tensor's type, to element `index`.
static void store(const Tensor &tensor, std::size_t index, double value) {
  auto put = [&](auto element) {
    std::memcpy(tensor.bytes.data() + index * sizeof(element), &element,
                sizeof(element));
  };
  switch (tensor.dtype) {
  case DType::F64:
    return put(value);
  case DType::F32:
    return put(static_cast<float>(value));
  case DType::BF16:
    return put(floatToBF16(static_cast<float>(value)));
  case DType::F16:
    return put(floatToF16(static_cast<float>(value)));
  case DType::F8_E4M3:
    return put(floatToByte(static_cast<float>(value), kE4M3));
  case DType::F8_E5M2:
    return put(floatToByte(static_cast<float>(value), kE5M2));
  case DType::U64:
    return put(static_cast<std::uint64_t>(value));
  case DType::I64:
    return put(static_cast<std::int64_t>(value));
  case DType::U32:
    return put(static_cast<std::uint32_t>(value));
  case DType::I32:
    return put(static_cast<std::int32_t>(value));
  case DType::U16:
    return put(static_cast<std::uint16_t>(value));
  case DType::I16:
    return put(static_cast<std::int16_t>(value));
  case DType::U8:
    return put(static_cast<std::uint8_t>(value));
  default:
    return put(static_cast<std::int8_t>(value));
  }
}

/// Whether all bytes are 0. Untouched memory of an arena takes no physical
/// memory, even if it is read.
static bool isZero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte(0) &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

static std::size_t countElements(const Tensor &tensor) {
  return tensor.bytes.size() / byteSize(tensor.dtype);
}

namespace {
/// Draws the random values of one tensor; one Philox call gives four elements.
class InitialValues {
public:
  InitialValues(const RandomInit &random, std::string_view name,
                std::uint64_t seed)
      : random(random), key(philoxKey(seed)) {
    Sha256 hash;
    hash.update(name);
    std::array<std::byte, 32> digest = hash.digest();
    std::memcpy(stream.data(), digest.data(), sizeof(stream));
  }

  /// Returns elements 4 * group to 4 * group + 3.
  std::array<double, 4> draw(std::uint64_t group) const {
    auto words =
        philox({static_cast<std::uint32_t>(group),
                static_cast<std::uint32_t>(group >> 32), stream[0], stream[1]},
               key);
    std::array<double, 4> values;
    if (random.distribution == RandomInit::Normal) {
      std::tie(values[0], values[1]) = philoxNormal(words[0], words[1]);
      std::tie(values[2], values[3]) = philoxNormal(words[2], words[3]);
    } else {
      std::transform(words.begin(), words.end(), values.begin(), philoxUniform);
    }
    for (double &value : values)
      value = random.origin + random.scale * value;
    return values;
  }

private:
  RandomInit random;
  PhiloxKey key;
  std::array<std::uint32_t, 2> stream;
};
} // namespace

double binade::drawInitial(const RandomInit &random, std::string_view name,
                           std::uint64_t seed, std::uint64_t index) {
  return InitialValues(random, name, seed).draw(index / 4)[index % 4];
}

/// Fills `tensor` with random values, which are rounded to f32, then to the
/// tensor's type.
static void fillRandomly(const Tensor &tensor, const RandomInit &random,
                         std::uint64_t seed) {
  constexpr std::size_t kPart = 1 << 16; // Elements of one parallel task.
  InitialValues values(random, tensor.name, seed);
  std::size_t count = countElements(tensor);
  auto fill = [&](std::int64_t part, unsigned) {
    std::size_t begin = static_cast<std::size_t>(part) * kPart;
    std::size_t end = std::min(begin + kPart, count);
    for (std::size_t start = begin; start < end; start += 4) {
      std::array<double, 4> four = values.draw(start / 4);
      for (std::size_t i = 0; i < std::min<std::size_t>(4, end - start); ++i)
        store(tensor, start + i, static_cast<float>(four[i]));
    }
  };
  auto parts = static_cast<std::int64_t>((count + kPart - 1) / kPart);
  ThreadTeam::get().parallelFor(defaultThreadCount(), parts, fill);
}

/// Reads the tensor `name` from the bundle file, or from tensors in memory.
static Result<void> readStored(const Tensor &tensor, const std::string &name,
                               const InitialTensors &initial,
                               const std::string &where) {
  const auto &[file, stored] = initial;
  auto matches = [&](DType dtype, const std::vector<std::int64_t> &shape) {
    return dtype == tensor.dtype &&
           std::equal(shape.begin(), shape.end(), tensor.shape.begin(),
                      tensor.shape.end());
  };
  if (file) {
    const TensorInfo *info = file->find(name);
    if (info && matches(info->dtype, info->shape))
      return file->read(*info, tensor.bytes);
  }
  for (const StoredTensor &candidate : stored)
    if (candidate.name == name && matches(candidate.dtype, candidate.shape) &&
        candidate.bytes.size() == tensor.bytes.size()) {
      std::memcpy(tensor.bytes.data(), candidate.bytes.data(),
                  tensor.bytes.size());
      return {};
    }
  return Error{where,
               "no tensor " + quote(name) + " of the port's type and shape"};
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

/// Writes the initial value of `port` to `tensor`, which has its shape, and its
/// type or F32.
Result<void> Program::Implementation::fill(const Port &port,
                                           const Tensor &tensor,
                                           std::uint64_t seed) const {
  if (auto *external = std::get_if<ExternalInit>(&port.init))
    return readExternal(*external, directory, [&] { return tensor.bytes; });
  if (auto *bundled = std::get_if<BundleInit>(&port.init))
    return readStored(tensor, bundled->tensor, *initial, where);
  if (auto *random = std::get_if<RandomInit>(&port.init))
    fillRandomly(tensor, *random, seed);
  else if (auto *fill = std::get_if<FillInit>(&port.init)) {
    bool isDone =
        std::bit_cast<std::uint64_t>(fill->value) == 0 && isZero(tensor.bytes);
    for (std::size_t i = 0; !isDone && i < countElements(tensor); ++i)
      store(tensor, i, fill->value);
  } else if (port.role == Role::Rng)
    std::memset(tensor.bytes.data(), 0, tensor.bytes.size());
  return {};
}

/// Whether the initial value of the port is stored or drawn as F32, whatever
/// its own type.
bool Program::Implementation::startsWide(const Port &port) const {
  const Buffer &buffer = plan.buffers[port.buffer];
  if (auto *external = std::get_if<ExternalInit>(&port.init))
    return external->bytes != buffer.bytes;
  if (auto *bundled = std::get_if<BundleInit>(&port.init)) {
    const auto &[file, stored] = *initial;
    if (const TensorInfo *info = file ? file->find(bundled->tensor) : nullptr)
      return info->dtype == DType::F32;
    return std::any_of(
        stored.begin(), stored.end(), [&](const StoredTensor &tensor) {
          return tensor.name == bundled->tensor && tensor.dtype == DType::F32;
        });
  }
  return !std::holds_alternative<NoInit>(port.init);
}

bool Program::Implementation::isGiven(const Port &port) const {
  return bound.contains(port.buffer) &&
         (port.role == Role::Parameter || port.role == Role::Buffer);
}

/// Returns the initial value of a 16-bit port before rounding.
Result<std::vector<float>>
Program::Implementation::readWide(const Port &port, std::uint64_t seed) const {
  Tensor tensor = tensorOf(port);
  std::vector<std::byte> narrow;
  if (isGiven(port) && isOnDevice(port)) {
    narrow.resize(plan.buffers[port.buffer].bytes);
    tensor.bytes = narrow;
    if (Result<void> done = download(port, narrow); !done)
      return done.takeError();
  }
  if (isGiven(port))
    return widen(tensor);
  std::size_t count = countElements(tensor);
  std::vector<float> values(count);
  if (startsWide(port)) {
    tensor.dtype = DType::F32;
    tensor.bytes = std::as_writable_bytes(std::span(values));
  } else {
    narrow.resize(tensor.bytes.size());
    tensor.bytes = narrow;
  }
  if (Result<void> done = fill(port, tensor, seed); !done)
    return std::move(done).takeError();
  return narrow.empty() ? values : widen(tensor);
}

void Program::Implementation::keep(const Port &parameter,
                                   std::span<const float> values) const {
  storeRounded(values, plan.findMaster(parameter), tensorOf(parameter));
  if (const Port *companion = plan.findCompanionPort(parameter))
    storeCompanion(takePart(values, *companion),
                   std::get<CompanionInit>(companion->init).master,
                   tensorOf(*companion));
}

std::span<const float>
Program::Implementation::takePart(std::span<const float> values,
                                  const Port &port) const {
  const Buffer &buffer = plan.buffers[port.buffer];
  if (!buffer.shard)
    return values;
  return values.subspan(static_cast<std::size_t>(buffer.shard->first),
                        buffer.bytes / byteSize(buffer.dtype));
}

Result<void> Program::Implementation::start(const Port &port,
                                            const Tensor &tensor,
                                            std::uint64_t seed) const {
  auto *companion = std::get_if<CompanionInit>(&port.init);
  if (!companion && !(isNarrow(tensor.dtype) && startsWide(port)))
    return fill(port, tensor, seed);
  const Port &parameter =
      companion ? *plan.findPort(Role::Parameter, companion->parameter) : port;
  Result<std::vector<float>> values = readWide(parameter, seed);
  if (!values)
    return values.takeError();
  if (companion)
    storeCompanion(takePart(*values, port), companion->master, tensor);
  else
    storeRounded(*values, plan.findMaster(port), tensor);
  return {};
}

Result<void>
Program::Implementation::checkFinite(const Port &port,
                                     const std::string &from) const {
  if (port.role != Role::Parameter && port.role != Role::Buffer)
    return {};
  Tensor tensor = tensorOf(port);
  NonFinite found = findNonFinite(tensor.dtype, tensor.bytes);
  if (found.count == 0)
    return {};
  Error error{from, "starts with " + found.describe()};
  error.part = std::string(name(port.role)) + " " + quote(port.name);
  if (options.failOnNonfinite)
    return error;
  notify("warning: " + error.where + ": " + error.part + " " + error.message);
  return {};
}

Result<void> Program::Implementation::initialize(const Port &port,
                                                 std::uint64_t seed) const {
  Tensor tensor = tensorOf(port);
  std::vector<std::byte> copy;
  if (isOnDevice(port)) {
    copy.resize(plan.buffers[port.buffer].bytes);
    tensor.bytes = copy;
  }
  if (Result<void> done = start(port, tensor, seed); !done)
    return done;
  if (port.role == Role::Rng)
    tensor.as<std::int64_t>()[0] = std::bit_cast<std::int64_t>(seed);
  return isOnDevice(port) ? upload(port, copy) : Result<void>();
}

Result<void> Program::initialize(std::uint64_t seed) {
  if (Result<void> done = implementation->checkBound(); !done)
    return done;
  for (const Port &port : implementation->plan.ports) {
    if (implementation->isGiven(port))
      continue;
    Result<void> done = implementation->initialize(port, seed);
    std::string place = std::string(name(port.role)) + " " + quote(port.name);
    if (!done)
      return std::move(done).takeError().withPart(place);
    if (Result<void> checked =
            implementation->checkFinite(port, implementation->where);
        !checked)
      return checked;
  }
  return {};
}
