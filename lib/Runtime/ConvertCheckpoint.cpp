//===- ConvertCheckpoint.cpp - A run under another policy -----------------===//

#include "binade/Runtime/ConvertCheckpoint.h"
#include "Describe.h"
#include "ParameterStorage.h"
#include "RunDirectory.h"
#include "RunIdentity.h"
#include "binade/Container/Printable.h"
#include "binade/Runtime/TrainedState.h"
#include <algorithm>
#include <cstring>
#include <set>

using namespace binade;
using namespace binade::plan;

namespace {
/// One conversion: what the program has, and what it takes from where.
class Conversion {
public:
  Conversion(Program &program, const TrainedState &state, Converted &converted)
      : program(program), state(state), converted(converted) {}

  Result<void> run();

private:
  void check(const Port &port);
  Result<void> convert(const Port &port) const;
  void findLeftOut();

  Program &program;
  const TrainedState &state;
  Converted &converted;
  std::vector<const Port *> matches;
  std::vector<std::string> faults;
};
} // namespace

/// What is kept beside a parameter follows from the parameter.
static bool isKeptBeside(const Port &port) {
  return std::holds_alternative<BesideInit>(port.init);
}

void Conversion::check(const Port &port) {
  std::string name = stateName(port.role, port.name);
  Tensor tensor = *program.find(port.role, port.name);
  const TensorInfo *info = state.findAny(name);
  bool isNeeded = port.role == Role::Parameter || port.role == Role::Buffer ||
                  port.role == Role::State;
  if (!info && !isNeeded) {
    converted.initial.push_back(name);
    return;
  }
  auto has = describe(tensor.dtype, tensor.shape);
  if (!info)
    faults.push_back(quote(name) + " (" + has + ") is not in the checkpoint");
  else if (!std::ranges::equal(info->shape, tensor.shape))
    faults.push_back(quote(name) + " is " + describe(info->dtype, info->shape) +
                     " in the checkpoint, " + has + " in the bundle");
  else
    matches.push_back(&port);
}

Result<void> Conversion::convert(const Port &port) const {
  Tensor tensor = *program.find(port.role, port.name);
  std::string name = stateName(port.role, port.name);
  const bool isRounded = isNarrow(tensor.dtype);
  Result<std::vector<std::byte>> bytes =
      state.read(name, isRounded ? DType::F32 : tensor.dtype);
  if (!bytes)
    return bytes.takeError();
  if (!isRounded) {
    std::ranges::copy(*bytes, tensor.bytes.begin());
    return {};
  }
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  program.keep(port, values);
  return {};
}

/// Tensors of the checkpoint that say nothing to the program.
void Conversion::findLeftOut() {
  std::set<std::string> used = state.getNamesBeside();
  for (const Port *port : matches)
    used.insert(stateName(port->role, port->name));
  for (const std::string &name : state.getAllNames())
    if (!used.contains(name))
      converted.leftOut.push_back(name);
}

Result<void> Conversion::run() {
  for (const Port &port : program.getPlan().ports)
    if (isTrainingState(port.role) && !isKeptBeside(port))
      check(port);
  if (!faults.empty()) {
    Error error = withFirst(Error{state.getPath(), faults.front()},
                            std::span(faults).subspan(1));
    return std::move(error).withNote(
        "the bundle has to be of the same model and optimizer");
  }
  for (const Port *port : matches)
    if (Result<void> done = convert(*port); !done)
      return done;
  findLeftOut();
  converted.tensors = matches.size();
  return {};
}

/// The checkpoint that `from` is, or the newest of the run.
static Result<std::string> findNewest(const std::string &from) {
  auto found = listCheckpoints(from);
  if (!found)
    return found.takeError();
  return found->empty() ? from : found->rbegin()->second;
}

Result<Converted> binade::convertCheckpoint(const std::string &from,
                                            const std::string &bundle,
                                            const std::string &directory) {
  Converted converted;
  Result<std::string> checkpoint = findNewest(from);
  if (!checkpoint)
    return checkpoint.takeError();
  converted.from = *checkpoint;
  Result<Manifest> manifest = readManifest(*checkpoint);
  if (!manifest)
    return manifest.takeError();
  Result<TrainedState> state = TrainedState::open(*checkpoint);
  if (!state)
    return state.takeError();
  Result<Program> program = Program::load(bundle);
  if (!program)
    return program.takeError();
  if (Result<void> done = program->initialize(0); !done)
    return done.takeError();
  if (Result<void> done = Conversion(*program, *state, converted).run(); !done)
    return done.takeError();

  Result<RunDirectory> run = RunDirectory::open(directory);
  if (!run)
    return run.takeError();
  Result<bool> isUsed = run->hasCheckpoints();
  if (!isUsed)
    return isUsed.takeError();
  if (*isUsed)
    return Error{printable(directory), "has checkpoints already"}.withNote(
        "a converted checkpoint begins a run of its own");
  const Plan &plan = program->getPlan();
  converted.policyFrom = manifest->run["policy"];
  converted.policyTo = plan.policy;
  manifest->run["model"] = plan.model;
  manifest->run["policy"] = plan.policy;
  manifest->run["policy hash"] = plan.policyHash;
  manifest->run["computation"] = hashComputation(plan);
  converted.to =
      getCheckpointFolder(directory) + "/" + getCheckpointName(manifest->step);
  if (Result<void> saved = run->save(*program, *manifest, 1, {}); !saved)
    return saved.takeError();
  return converted;
}
