//===- ConvertCheckpoint.cpp - Checkpoints for another policy -------------===//

#include "binade/Runtime/ConvertCheckpoint.h"
#include "../Execution/Describe.h"
#include "EarlierRun.h"
#include "ParameterStorage.h"
#include "RunDirectory.h"
#include "RunIdentity.h"
#include "binade/Container/Printable.h"
#include "binade/Runtime/TrainedState.h"
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

using namespace binade;
using namespace binade::plan;

namespace {
/// Converts the state of a checkpoint into the formats of a program.
class Conversion {
public:
  Conversion(Program &program, const TrainedState &state,
             const Requantize &requantize, Converted &converted)
      : program(program), state(state), requantize(requantize),
        converted(converted), kept(state.getQuantizedStates()),
        wanted(getQuantizedStates(program.getPlan())) {}

  Result<void> run();

private:
  void check(const Port &port);
  bool has(const std::string &name, const std::string &what,
           const std::vector<std::int64_t> *shape);
  Result<void> convert(const Port &port) const;
  Result<void> read(Requantization &codes) const;
  Result<void> requantizeAll();
  Result<void> store(const Requantization &codes) const;
  void listUnused();

  Program &program;
  const TrainedState &state;
  const Requantize &requantize;
  Converted &converted;
  const QuantizedStateMap &kept;
  const QuantizedStateMap wanted;
  std::map<std::string, const Port *> ports; ///< By their names in files.
  /// Ports that are copied or rounded; states whose old or new format is
  /// quantized are in `quantized`.
  std::vector<const Port *> matches;
  std::vector<Requantization> quantized;
  std::vector<std::string> faults;
};
} // namespace

/// Whether the port is a master weight, remainder or compensation, whose value
/// follows from its parameter.
static bool isCompanion(const Port &port) {
  return std::holds_alternative<CompanionInit>(port.init);
}

/// Returns the quantized state whose codes are tensor `name`, or null.
static const QuantizedState *find(const QuantizedStateMap &states,
                                  std::string_view name) {
  auto found = states.find(name);
  return found == states.end() ? nullptr : &found->second;
}

/// Whether the checkpoint has a tensor, of shape `shape` unless it is null.
/// Otherwise adds a fault.
bool Conversion::has(const std::string &name, const std::string &what,
                     const std::vector<std::int64_t> *shape) {
  const TensorInfo *info = state.findAny(name);
  if (!info)
    faults.push_back(quote(name) + " (" + what + ") is not in the checkpoint");
  else if (shape && info->shape != *shape)
    faults.push_back(quote(name) + " is " + describe(info->dtype, info->shape) +
                     " in the checkpoint, " + what + " in the bundle");
  else
    return true;
  return false;
}

void Conversion::check(const Port &port) {
  std::string name = stateName(port.role, port.name);
  Tensor tensor = *program.find(port.role, port.name);
  bool isNeeded = port.role == Role::Parameter || port.role == Role::Buffer ||
                  port.role == Role::State;
  if (!state.findAny(name) && !isNeeded) {
    converted.initial.push_back(name);
    return;
  }
  const QuantizedState *from = find(kept, name), *to = find(wanted, name);
  std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  if (to)
    shape = to->shape;
  std::string what = to ? "quantized " + describe(shape)
                        : describe(tensor.dtype, tensor.shape);
  if (!from && !to) {
    if (has(name, what, &shape))
      matches.push_back(&port);
    return;
  }
  bool fits = from ? from->shape == shape : has(name, what, &shape);
  if (from && !fits)
    faults.push_back(quote(name) + " is quantized " + describe(from->shape) +
                     " in the checkpoint, " + what + " in the bundle");
  else if (from)
    for (const std::string &part : from->parts)
      fits &= has(part, "part of " + quote(name), nullptr);
  if (fits)
    quantized.push_back({name,
                         from ? from->format : "",
                         to ? to->format : "",
                         std::move(shape),
                         {}});
}

/// Sets the elements of a port that is not quantized. For a 16-bit port,
/// `bytes` are f32 values, which are rounded.
static void fill(Program &program, const Port &port,
                 std::span<const std::byte> bytes) {
  Tensor tensor = *program.find(port.role, port.name);
  if (!isNarrow(tensor.dtype)) {
    std::ranges::copy(bytes, tensor.bytes.begin());
    return;
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  program.keep(port, values);
}

Result<void> Conversion::convert(const Port &port) const {
  DType dtype = program.find(port.role, port.name)->dtype;
  Result<std::vector<std::byte>> bytes = state.read(
      stateName(port.role, port.name), isNarrow(dtype) ? DType::F32 : dtype);
  if (!bytes)
    return bytes.takeError();
  fill(program, port, *bytes);
  return {};
}

Result<void> Conversion::read(Requantization &codes) const {
  const QuantizedState *from = find(kept, codes.name);
  std::vector<std::string> names = {codes.name};
  for (const std::string &name : from ? from->parts : names) {
    auto bytes =
        state.read(name, from ? state.findAny(name)->dtype : DType::F32);
    if (!bytes)
      return bytes.takeError();
    codes.parts.push_back(*std::move(bytes));
  }
  return {};
}

/// Writes the converted state to the program's ports.
Result<void> Conversion::store(const Requantization &codes) const {
  const QuantizedState *to = find(wanted, codes.name);
  if (!to) {
    fill(program, *ports.at(codes.name), codes.parts.front());
    return {};
  }
  bool fits = codes.parts.size() == to->parts.size();
  for (std::size_t i = 0; fits && i < to->parts.size(); ++i) {
    const Port &port = *ports.at(to->parts[i]);
    std::span<std::byte> memory = program.find(port.role, port.name)->bytes;
    fits = codes.parts[i].size() == memory.size();
    if (fits)
      std::ranges::copy(codes.parts[i], memory.begin());
  }
  if (!fits)
    return Error{state.getPath(), quote(codes.name) +
                                      " has tensors whose sizes do not match "
                                      "its format"};
  return {};
}

Result<void> Conversion::requantizeAll() {
  for (Requantization &codes : quantized)
    if (Result<void> done = read(codes); !done)
      return done;
  // States that keep their format are copied bit by bit.
  auto same = std::ranges::stable_partition(
      quantized, [](const auto &codes) { return codes.from != codes.to; });
  std::span changed(quantized.begin(), same.begin());
  converted.requantized = changed.size();
  if (!changed.empty())
    if (Result<void> done = requantize(changed); !done)
      return done;
  for (const Requantization &codes : quantized)
    if (Result<void> done = store(codes); !done)
      return done;
  return {};
}

/// Lists the tensors of the checkpoint that the program does not use.
void Conversion::listUnused() {
  std::set<std::string> used = state.getCompanionNames();
  for (const Port *port : matches)
    used.insert(stateName(port->role, port->name));
  for (const Requantization &codes : quantized) {
    used.insert(codes.name);
    if (const QuantizedState *from = find(kept, codes.name))
      used.insert(from->parts.begin(), from->parts.end());
  }
  for (const std::string &name : state.getAllNames())
    if (!used.contains(name))
      converted.unused.push_back(name);
}

Result<void> Conversion::run() {
  std::set<std::string_view> factors; // Scales, converted with their codes.
  for (const auto &[name, state] : wanted)
    factors.insert(state.parts.begin() + 1, state.parts.end());
  for (const Port &port : program.getPlan().ports) {
    if (!isTrainingState(port.role))
      continue;
    std::string name = stateName(port.role, port.name);
    ports[name] = &port;
    if (!isCompanion(port) && !factors.contains(name))
      check(port);
  }
  if (!faults.empty()) {
    Error error = withFirstNotes(Error{state.getPath(), faults.front()},
                                 std::span(faults).subspan(1));
    return std::move(error).withNote(
        "the bundle has to be of the same model and optimizer");
  }
  for (const Port *port : matches)
    if (Result<void> done = convert(*port); !done)
      return done;
  if (Result<void> done = requantizeAll(); !done)
    return done;
  listUnused();
  converted.tensors = matches.size() + quantized.size();
  return {};
}

/// Returns the newest checkpoint of the run `from`, or `from` itself if it is
/// not a run with checkpoints.
static Result<std::string> findNewest(const std::string &from) {
  auto found = listCheckpoints(from);
  if (!found)
    return found.takeError();
  return found->empty() ? from : found->rbegin()->second;
}

/// Converts the state of a checkpoint into `program`, and returns the manifest
/// of a checkpoint with the converted state.
static Result<Manifest> convertInto(Program &program,
                                    const std::string &checkpoint,
                                    const Requantize &requantize,
                                    Converted &converted) {
  converted.from = checkpoint;
  Result<Manifest> manifest = readManifest(checkpoint);
  if (!manifest)
    return manifest;
  Result<TrainedState> state = TrainedState::open(checkpoint);
  if (!state)
    return state.takeError();
  if (Result<void> done = program.initialize(0); !done)
    return done.takeError();
  if (Result<void> done =
          Conversion(program, *state, requantize, converted).run();
      !done)
    return done.takeError();
  const Plan &plan = program.getPlan();
  converted.policyFrom = manifest->run["policy"];
  converted.policyTo = plan.policy;
  for (auto &[key, value] : identifyProgram(plan))
    manifest->run[key] = value;
  return manifest;
}

Result<Converted> binade::convertCheckpoint(const std::string &from,
                                            const std::string &bundle,
                                            const std::string &directory,
                                            const Requantize &requantize) {
  Converted converted;
  Result<std::string> checkpoint = findNewest(from);
  if (!checkpoint)
    return checkpoint.takeError();
  Result<Program> program = Program::load(bundle);
  if (!program)
    return program.takeError();
  Result<Manifest> manifest =
      convertInto(*program, *checkpoint, requantize, converted);
  if (!manifest)
    return manifest.takeError();
  manifest->evaluations = {}; // Of the run that it was saved in.
  Result<RunDirectory> run = RunDirectory::open(directory);
  if (!run)
    return run.takeError();
  Result<EarlierRun> earlier = EarlierRun::find(directory);
  if (!earlier)
    return earlier.takeError();
  if (earlier->hasResults())
    return Error{printable(directory), "contains a run: " + earlier->describe()}
        .withNote("a converted checkpoint starts a new run; expected a new "
                  "directory");
  converted.to =
      getCheckpointFolder(directory) + "/" + getCheckpointName(manifest->step);
  if (Result<void> saved = run->save(*program, *manifest, {}, {}); !saved)
    return saved.takeError();
  return converted;
}

Result<Converted> binade::switchRun(Program &program,
                                    const std::string &directory,
                                    std::int64_t keep,
                                    const Requantize &requantize) {
  Converted converted;
  Result<RunDirectory> run = RunDirectory::open(directory);
  if (!run)
    return run.takeError();
  Result<std::string> checkpoint = findNewest(directory);
  if (!checkpoint)
    return checkpoint.takeError();
  Result<Manifest> manifest =
      convertInto(program, *checkpoint, requantize, converted);
  if (!manifest)
    return manifest.takeError();
  converted.to = *checkpoint;
  RunDirectory::Kept kept = {keep, {}};
  std::error_code unknown;
  const auto &lowest = manifest->evaluations.lowest;
  if (lowest && std::filesystem::exists(run->getPath(kBest), unknown))
    kept.steps.insert(lowest->step);
  if (Result<void> saved = run->save(program, *manifest, kept, {}); !saved)
    return saved.takeError();
  return converted;
}
