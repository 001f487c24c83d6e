//===- Data.cpp - Batches from a data file --------------------------------===//

#include "binade/Runtime/Data.h"
#include "../Execution/Describe.h"
#include "../Execution/Integers.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/Printable.h"
#include "binade/Container/TensorFile.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace binade;
using namespace binade::plan;

struct Data::Implementation {
  /// The part of the file that an input is read from: sample i is `length`
  /// elements of the file's tensor from element begin + i * stride on.
  struct Source {
    Tensor input;
    TensorInfo tensor;
    std::int64_t begin = 0, stride = 0, length = 0;
    std::uint64_t numSamples = 0;
  };
  /// An input that has the same bytes in every step.
  struct Constant {
    Tensor input;
    std::vector<std::byte> bytes;
  };

  Implementation(const Program &program, const DataOptions &options,
                 TensorFile file)
      : program(&program), options(options), file(std::move(file)) {}

  Result<void> open();
  Result<void> checkNames() const;
  Result<void> findBatch();
  Result<void> addConstant(const Tensor &input, const std::string &path);
  Result<void> addSource(const Tensor &input);
  Result<void> addWindow(const Tensor &input, const Window &window);
  Result<void> checkType(const TensorFile &from, const TensorInfo &tensor,
                         const Tensor &input) const;
  Result<void> countSamples();
  Result<void> checkRange(const Source &source) const;
  std::uint64_t countOverlaps() const;
  Result<void> fill(const Source &source,
                    std::span<const std::uint64_t> samples);

  const Window *findWindow(std::string_view input) const;
  const std::string *findConstant(std::string_view input) const;
  const IndexCheck *findCheck(const Tensor &input) const;
  Error missing(const std::string &tensor, const Tensor &input) const;
  /// Returns the memory to which the input's next batch is written.
  std::span<std::byte> getMemory(const Tensor &input) const {
    return program->find(Role::Batch, input.name)->bytes;
  }

  const Program *program;
  DataOptions options;
  TensorFile file;
  std::vector<Source> sources;
  std::vector<Constant> constants;
  std::uint64_t numSamples = 0, batch = 0;
  std::vector<std::byte> narrow; ///< Elements before their conversion.
};

Data::Data(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
Data::Data(Data &&) noexcept = default;
Data &Data::operator=(Data &&) noexcept = default;
Data::~Data() = default;

std::uint64_t Data::getNumSamples() const { return implementation->numSamples; }
std::uint64_t Data::getBatch() const { return implementation->batch; }
const std::string &Data::getPath() const {
  return implementation->file.getPath();
}

Result<Data> Data::open(const Program &program, const DataOptions &options) {
  Result<TensorFile> file = TensorFile::open(options.path);
  if (!file)
    return file.takeError();
  auto made =
      std::make_unique<Implementation>(program, options, *std::move(file));
  if (Result<void> done = made->open(); !done)
    return done.takeError();
  return Data(std::move(made));
}

//===----------------------------------------------------------------------===//
// Names and sizes
//===----------------------------------------------------------------------===//

Result<void> Data::Implementation::open() {
  if (Result<void> known = checkNames(); !known)
    return known;
  if (Result<void> known = findBatch(); !known)
    return known;
  for (const Tensor &input : program->tensors(Role::Batch)) {
    const std::string *constant = findConstant(input.name);
    const Window *window = findWindow(input.name);
    Result<void> added = constant ? addConstant(input, *constant)
                         : window ? addWindow(input, *window)
                                  : addSource(input);
    if (!added)
      return added;
  }
  if (Result<void> counted = countSamples(); !counted)
    return counted;
  for (const Source &source : sources)
    if (Result<void> legal = checkRange(source); !legal)
      return legal;
  return {};
}

const Window *Data::Implementation::findWindow(std::string_view input) const {
  auto found =
      std::find_if(options.windows.begin(), options.windows.end(),
                   [&](const Window &window) { return window.input == input; });
  return found == options.windows.end() ? nullptr : &*found;
}

const std::string *
Data::Implementation::findConstant(std::string_view input) const {
  auto found = std::find_if(
      options.constants.begin(), options.constants.end(),
      [&](const auto &constant) { return constant.first == input; });
  return found == options.constants.end() ? nullptr : &found->second;
}

const IndexCheck *Data::Implementation::findCheck(const Tensor &input) const {
  const Port *port = program->getPlan().findPort(Role::Batch, input.name);
  return port->check ? &*port->check : nullptr;
}

static std::string join(const std::vector<std::string> &items) {
  constexpr std::size_t kMax = 20;
  return items.empty() ? "none" : joinFirst(items, kMax);
}

/// Checks that --window and --const name inputs of the program, each once.
Result<void> Data::Implementation::checkNames() const {
  std::vector<std::pair<std::string, const char *>> named;
  for (const Window &window : options.windows)
    named.emplace_back(window.input, "--window");
  for (const auto &[input, path] : options.constants)
    named.emplace_back(input, "--const");
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto &[input, option] = named[i];
    if (!program->find(Role::Batch, input)) {
      std::vector<std::string> inputs;
      for (const Tensor &tensor : program->tensors(Role::Batch))
        inputs.push_back(quote(tensor.name));
      return Error{option, "the program has no batch input " + quote(input) +
                               "; it has " + join(inputs)};
    }
    for (std::size_t j = 0; j < i; ++j)
      if (named[j].first == input)
        return Error{option, "input " + quote(input) + " is given twice",
                     ExitCode::Usage};
  }
  return {};
}

/// Sets `batch` to the first dimension of the inputs, which has to be the same
/// for all.
Result<void> Data::Implementation::findBatch() {
  std::optional<Tensor> first;
  for (const Tensor &input : program->tensors(Role::Batch)) {
    if (findConstant(input.name))
      continue;
    std::string described =
        "input " + quote(input.name) + " " + describe(input.shape);
    constexpr const char *kAdvice =
        "--const NAME=FILE gives an input that is the same for all samples";
    if (input.shape.empty())
      return Error{file.getPath(), described + " has no axis that counts "
                                               "samples"}
          .withNote(kAdvice);
    if (!first)
      first = input;
    else if (input.shape[0] != first->shape[0])
      return Error{file.getPath(), described + " and input " +
                                       quote(first->name) + " " +
                                       describe(first->shape) +
                                       " differ in the number of samples"}
          .withNote(kAdvice);
  }
  if (!first)
    return Error{file.getPath(),
                 "no input of the program changes from step to step"};
  std::int64_t size = first->shape[0];
  if (options.batch && *options.batch != size)
    return Error{"--batch", "the program's batch is " + std::to_string(size) +
                                " (input " + quote(first->name) + " " +
                                describe(first->shape) + "), not " +
                                std::to_string(*options.batch)}
        .withNote(
            "leave --batch out; --dim NAME=" + std::to_string(*options.batch) +
            " sets the size of a named axis when a model is compiled; an "
            "axis without a name has the size of the export");
  batch = static_cast<std::uint64_t>(size);
  return {};
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

Error Data::Implementation::missing(const std::string &tensor,
                                    const Tensor &input) const {
  std::vector<std::string> found;
  for (const TensorInfo &info : file.getTensors())
    found.push_back(quote(info.name) + " " + describe(info.dtype, info.shape));
  return Error{file.getPath(), "no tensor " + quote(tensor) + " for input " +
                                   quote(input.name) + " " +
                                   describe(input.dtype, input.shape) +
                                   "; the file has " + join(found)}
      .withNote("inputs are found by name; --window cuts them from a stream, "
                "--const NAME=FILE gives one that never changes");
}

Result<void> Data::Implementation::checkType(const TensorFile &from,
                                             const TensorInfo &tensor,
                                             const Tensor &input) const {
  if (holdsAll(input.dtype, tensor.dtype) ||
      mayRepresent(input.dtype, tensor.dtype))
    return {};
  std::string expected(name(input.dtype));
  if (isFloat(input.dtype))
    expected += " or a type whose values it holds exactly";
  else if (input.dtype != DType::BOOL)
    expected += " or another integer type";
  return from.errorAt(tensor, "type " + std::string(name(tensor.dtype)) +
                                  ", but input " + quote(input.name) +
                                  " needs " + expected);
}

static std::string explainUnrepresentable(const Unrepresentable &found,
                                          const Tensor &input) {
  return "element " + std::to_string(found.index) + " is " + found.value +
         ", which input " + quote(input.name) + " of type " +
         std::string(name(input.dtype)) + " does not hold";
}

Result<void> Data::Implementation::addConstant(const Tensor &input,
                                               const std::string &path) {
  Result<TensorFile> opened = TensorFile::open(path);
  if (!opened)
    return opened.takeError();
  const TensorInfo *info = opened->find(input.name);
  if (!info && opened->getTensors().size() == 1)
    info = &opened->getTensors().front();
  if (!info)
    return Error{opened->getPath(), "no tensor " + quote(input.name)};
  if (!std::equal(info->shape.begin(), info->shape.end(), input.shape.begin(),
                  input.shape.end()))
    return opened->errorAt(*info, "shape " + describe(info->shape) +
                                      ", but input " + quote(input.name) +
                                      " is " + describe(input.shape));
  if (Result<void> fits = checkType(*opened, *info, input); !fits)
    return fits;
  std::vector<std::byte> bytes(info->bytes);
  if (Result<void> done = opened->read(*info, 0, bytes); !done)
    return done;
  if (!holdsAll(input.dtype, info->dtype))
    if (auto found = findUnrepresentable(info->dtype, bytes, input.dtype))
      return opened->errorAt(*info, explainUnrepresentable(*found, input));
  if (const IndexCheck *check = findCheck(input))
    if (auto found = findOutOfRange(info->dtype, bytes, 0, *check))
      return opened->errorAt(*info, "element " + std::to_string(found->index) +
                                        " is " + std::to_string(found->value) +
                                        ", not in [" +
                                        std::to_string(check->low) + ", " +
                                        std::to_string(check->high) + ")");
  if (info->dtype != input.dtype) {
    std::vector<std::byte> wide(input.bytes.size());
    widen(info->dtype, bytes, input.dtype, wide);
    bytes = std::move(wide);
  }
  constants.push_back({input, std::move(bytes)});
  return {};
}

Result<void> Data::Implementation::addSource(const Tensor &input) {
  const TensorInfo *info = file.find(input.name);
  if (!info)
    return missing(std::string(input.name), input);
  std::span<const std::int64_t> sample = input.shape.subspan(1);
  if (info->shape.empty() ||
      !std::equal(info->shape.begin() + 1, info->shape.end(), sample.begin(),
                  sample.end())) {
    std::string expected = "[samples";
    for (std::int64_t size : sample)
      expected += ", " + std::to_string(size);
    return file.errorAt(*info, "shape " + describe(info->shape) +
                                   ", but input " + quote(input.name) +
                                   " needs " + expected + "]");
  }
  if (Result<void> fits = checkType(file, *info, input); !fits)
    return fits;
  std::int64_t length = 1;
  for (std::int64_t size : sample)
    length *= size;
  sources.push_back({input, *info, 0, length, length,
                     static_cast<std::uint64_t>(info->shape[0])});
  return {};
}

Result<void> Data::Implementation::addWindow(const Tensor &input,
                                             const Window &window) {
  const TensorInfo *info = file.find(window.tensor);
  if (!info)
    return missing(window.tensor, input);
  if (info->shape.size() != 1)
    return file.errorAt(*info, "shape " + describe(info->shape) +
                                   ", but windows are cut from one axis");
  std::int64_t length = window.end - window.begin;
  if (input.shape.size() != 2 || input.shape[1] != length)
    return Error{"--window", "input " + quote(input.name) + " is " +
                                 describe(input.shape) + ", its window [" +
                                 std::to_string(window.begin) + ":" +
                                 std::to_string(window.end) + "] has " +
                                 std::to_string(length) + " elements"};
  if (Result<void> fits = checkType(file, *info, input); !fits)
    return fits;
  std::int64_t stride = options.stride, reach = 0;
  for (const Window &other : options.windows) {
    if (options.stride == 0)
      stride = std::max(stride, other.end - other.begin);
    if (other.tensor == window.tensor)
      reach = std::max(reach, other.end);
  }
  std::int64_t elements = info->shape[0];
  std::uint64_t count = elements < reach ? 0 : (elements - reach) / stride + 1;
  sources.push_back({input, *info, window.begin, stride, length, count});
  return {};
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

Result<void> Data::Implementation::countSamples() {
  const Source &first = sources.front();
  for (const Source &source : sources)
    if (source.numSamples != first.numSamples)
      return file.errorAt(source.tensor, std::to_string(source.numSamples) +
                                             " samples, but tensor " +
                                             quote(first.tensor.name) +
                                             " has " +
                                             std::to_string(first.numSamples));
  numSamples = first.numSamples;
  if (batch == 0)
    return file.errorAt(first.tensor,
                        "a batch of the model takes 0 samples of it: the first "
                        "axis of this input has length 0, expected 1 or more");
  if (numSamples < batch)
    return file.errorAt(
        first.tensor, "the file has " + std::to_string(numSamples) +
                          " samples, one batch needs " + std::to_string(batch));
  return {};
}

/// Checks that all elements of samples are in the range of the input and can be
/// converted to its type. Indices out of range are accepted in elements that
/// belong to no sample.
Result<void> Data::Implementation::checkRange(const Source &source) const {
  const IndexCheck *check = findCheck(source.input);
  bool holds = holdsAll(source.input.dtype, source.tensor.dtype);
  if (!check && holds)
    return {};
  constexpr std::uint64_t kPiece = 1 << 20;
  std::uint64_t size = byteSize(source.tensor.dtype);
  std::vector<std::byte> piece(kPiece * size);
  std::uint64_t total = source.tensor.getNumElements();
  for (std::uint64_t start = 0; start < total; start += kPiece) {
    std::span<std::byte> part(piece.data(),
                              std::min(kPiece, total - start) * size);
    if (Result<void> done = file.read(source.tensor, start * size, part); !done)
      return done;
    if (!holds)
      if (auto found = findUnrepresentable(source.tensor.dtype, part,
                                           source.input.dtype)) {
        found->index += start;
        return file.errorAt(source.tensor,
                            explainUnrepresentable(*found, source.input));
      }
    if (!check)
      continue;
    std::uint64_t next = 0;
    while (auto found =
               findOutOfRange(source.tensor.dtype, part, next, *check)) {
      next = found->index + 1;
      // The first sample that ends after the element, if it contains it.
      std::int64_t element = static_cast<std::int64_t>(start + found->index);
      std::int64_t place = element - source.begin;
      std::int64_t sample = place < source.length
                                ? 0
                                : (place - source.length) / source.stride + 1;
      std::int64_t inside = place - sample * source.stride;
      if (inside < 0 || static_cast<std::uint64_t>(sample) >= numSamples)
        continue;
      std::string text =
          "sample " + std::to_string(sample) + ", element " +
          std::to_string(inside) + " is " + std::to_string(found->value) +
          "; input " + quote(source.input.name) + " allows " +
          std::to_string(check->low) + " to " + std::to_string(check->high - 1);
      if (check->ignored)
        text += " and " + std::to_string(*check->ignored) + " (ignored)";
      return file.errorAt(source.tensor, std::move(text));
    }
  }
  return {};
}

/// Returns how many samples directly before a sample share elements with it.
std::uint64_t Data::Implementation::countOverlaps() const {
  std::uint64_t overlaps = 0;
  for (const Source &source : sources) {
    std::int64_t low = source.begin, high = source.begin + source.length;
    for (const Source &other : sources)
      if (other.tensor.name == source.tensor.name) {
        low = std::min(low, other.begin);
        high = std::max(high, other.begin + other.length);
      }
    overlaps =
        std::max<std::uint64_t>(overlaps, (high - low - 1) / source.stride);
  }
  return overlaps;
}

Result<Data::Split> Data::split(double fraction) const {
  std::uint64_t samples = getNumSamples();
  auto count = static_cast<std::uint64_t>(
      std::llround(fraction * static_cast<double>(samples)));
  Split split{0, samples - std::min(count, samples)};
  std::uint64_t overlaps = implementation->countOverlaps();
  split.training = split.heldOut - std::min(overlaps, split.heldOut);
  auto fail = [&](std::uint64_t found, const char *what) {
    return Error{getPath(), "held out " + std::to_string(count) + " of " +
                                std::to_string(samples) + " samples, which " +
                                "leaves " + std::to_string(found) + " for " +
                                what + "; one batch needs " +
                                std::to_string(getBatch())};
  };
  if (count < getBatch())
    return fail(count, "evaluation");
  if (split.training < getBatch())
    return fail(split.training, "training");
  return split;
}

Result<void>
Data::Implementation::fill(const Source &source,
                           std::span<const std::uint64_t> samples) {
  std::uint64_t size = byteSize(source.tensor.dtype);
  std::uint64_t bytes = source.length * size;
  bool same = source.tensor.dtype == source.input.dtype;
  std::span<std::byte> memory = getMemory(source.input), into = memory;
  if (!same) {
    narrow.resize(bytes * samples.size());
    into = narrow;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::uint64_t start = source.begin + samples[i] * source.stride;
    if (Result<void> done = file.read(source.tensor, start * size,
                                      into.subspan(i * bytes, bytes));
        !done)
      return done;
  }
  if (!same)
    widen(source.tensor.dtype, narrow, source.input.dtype, memory);
  return {};
}

Result<void> Data::fill(std::span<const std::uint64_t> samples) const {
  for (const Implementation::Constant &constant : implementation->constants)
    std::memcpy(implementation->getMemory(constant.input).data(),
                constant.bytes.data(), constant.bytes.size());
  for (const Implementation::Source &source : implementation->sources)
    if (Result<void> done = implementation->fill(source, samples); !done)
      return done;
  return {};
}
