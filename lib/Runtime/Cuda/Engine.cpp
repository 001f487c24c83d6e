//===- Engine.cpp - A program on a CUDA device ----------------------------===//

#include "Engine.h"
#include <algorithm>

using namespace binade;
using namespace binade::cuda;
using plan::Role;

Result<std::unique_ptr<Engine>> Engine::create(Setup setup) {
  std::unique_ptr<Engine> engine(new Engine());
  engine->device = std::move(setup.device);
  if (Result<void> done = engine->prepare(setup); !done)
    return done.takeError();
  return engine;
}

template <typename Body>
static bool has(const std::vector<plan::Record> &records) {
  return std::any_of(records.begin(), records.end(),
                     [](const plan::Record &record) {
                       auto *loop = std::get_if<plan::Loop>(&record.body);
                       return loop ? has<Body>(loop->body)
                                   : std::holds_alternative<Body>(record.body);
                     });
}
template <typename Body> static bool has(const Plan &plan) {
  return has<Body>(plan.records) || has<Body>(plan.evaluation);
}

/// What the arena is for, for whoever has too little memory.
static std::vector<NamedBytes> getParts(const Plan &plan) {
  std::vector<NamedBytes> parts;
  for (const auto &[category, bytes] : plan.ledger)
    parts.push_back({std::string(plan::name(category)), bytes});
  return parts;
}

Result<void> Engine::prepareMemory(const Setup &setup) {
  Result<DeviceMemory> memory =
      device->allocate(std::max<std::uint64_t>(setup.plan->arenaBytes, 1),
                       getParts(*setup.plan));
  if (!memory)
    return memory.takeError();
  arena = *std::move(memory);
  return device->fill(arena.get(), std::byte(0), setup.plan->arenaBytes);
}

Result<void> Engine::prepare(const Setup &setup) {
  for (const ModuleImages &images : setup.modules) {
    std::vector<KernelImage> candidates;
    for (const auto &[chip, bytes] : images) {
      std::optional<Chip> parsed = Chip::parse(chip);
      if (parsed)
        candidates.push_back({*parsed, bytes});
    }
    Result<Module> module = Module::load(*device, candidates, setup.where);
    if (!module)
      return module.takeError();
    modules.push_back(*std::move(module));
  }
  if (Result<void> done = prepareMemory(setup); !done)
    return done;
  const Plan &plan = *setup.plan;
  if (Result<void> done = preparePorts(plan, setup.where); !done)
    return done;

  StreamSetup stream;
  stream.device = device.get();
  stream.plan = &plan;
  stream.memory = {reinterpret_cast<std::byte *>(arena.get()), plan.buffers};
  stream.modules = modules;
  stream.where = setup.where;
  // Without libraries the plan's own kernels multiply.
  if (has<plan::Matmul>(plan))
    if (Result<std::shared_ptr<CublasLt>> found = CublasLt::open(*device))
      library = *std::move(found);
  stream.library = library;
  if (has<plan::Convolution>(plan))
    if (Result<std::shared_ptr<Cudnn>> found = Cudnn::open(*device))
      stream.cudnn = *std::move(found);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Result<StreamProgram> program = StreamProgram::create(
        getRecords(plan, static_cast<RecordList>(i)), stream);
    if (!program)
      return program.takeError();
    programs[i] = *std::move(program);
    bytes = std::max(bytes, programs[i].getScratchBytes());
  }
  return bytes > 0 ? provideScratch(bytes) : Result<void>();
}

Result<void> Engine::provideScratch(std::uint64_t bytes) {
  Result<DeviceMemory> memory = device->allocate(bytes);
  if (!memory)
    return memory.takeError();
  scratch = *std::move(memory);
  for (StreamProgram &program : programs)
    program.setScratch(scratch.get());
  return {};
}

/// What the host reads or writes at every step, or is a few bytes.
static bool isSmall(const plan::Port &port) {
  if (port.frozen)
    return false;
  switch (port.role) {
  case Role::Parameter:
  case Role::State:
  case Role::Accumulator:
  case Role::Constant:
  case Role::Output:
  case Role::Gradient:
    return false;
  default:
    return true;
  }
}

Result<void> Engine::preparePorts(const Plan &plan, const std::string &where) {
  constexpr std::uint64_t kAlignment = 64;
  std::uint64_t sizes[2] = {0, 0};
  std::vector<std::uint64_t> offsets;
  auto pad = [](std::uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (const plan::Port &port : plan.ports) {
    std::uint64_t &size = sizes[isSmall(port)];
    offsets.push_back(size);
    std::uint64_t bytes = pad(plan.buffers[port.buffer].bytes);
    size += port.role == Role::Batch ? 2 * bytes : bytes;
  }
  Result<Arena> memory = Arena::allocate(sizes[0], where);
  if (!memory)
    return memory.takeError();
  host = *std::move(memory);
  Result<PinnedMemory> small =
      device->allocatePinned(std::max(sizes[1], kAlignment));
  if (!small)
    return small.takeError();
  pinned = *std::move(small);
  std::fill_n(static_cast<std::byte *>(pinned.get()), sizes[1], std::byte(0));
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const plan::Buffer &buffer = plan.buffers[plan.ports[i].buffer];
    bool small = isSmall(plan.ports[i]);
    std::byte *base =
        small ? static_cast<std::byte *>(pinned.get()) : host.data();
    HostPort &port = ports.emplace_back();
    port.bytes = {base + offsets[i], buffer.bytes};
    port.address = arena.get() + buffer.offset;
    port.isSmall = small;
    port.isBatch = plan.ports[i].role == Role::Batch;
    if (port.isBatch)
      port.next = {port.bytes.data() + pad(buffer.bytes), buffer.bytes};
    port.isConstant =
        plan.ports[i].role == Role::Constant || plan.ports[i].frozen;
  }
  return {};
}

std::span<std::byte> Engine::access(std::size_t index, bool isToBeRead) {
  HostPort &port = ports[index];
  if (port.isSmall)
    return port.bytes;
  if (port.isNewOnDevice) {
    Result<void> done = device->bind();
    if (done)
      done = device->read(port.bytes.data(), port.address, port.bytes.size());
    if (!done && !failure)
      failure = done.takeError();
    port.isNewOnDevice = false;
  }
  port.isNewOnHost |= !isToBeRead;
  return port.bytes;
}

Result<void> Engine::clear(std::size_t index) {
  HostPort &port = ports[index];
  if (Result<void> done = device->bind(); !done)
    return done;
  port.isNewOnHost = false;
  port.isNewOnDevice = true;
  return device->fill(port.address, std::byte(0), port.bytes.size());
}

/// What a run consists of beside the plan's records, for profiles.
static const plan::Record kUpload{"upload ports", plan::Copy()};
static const plan::Record kDownload{"download ports", plan::Copy()};

Result<void> Engine::mark(const plan::Record &transfer) {
  return timer ? timer->end(transfer, timer->getLast()) : Result<void>();
}

void Engine::exchangeBatches() {
  for (HostPort &port : ports)
    if (port.isBatch)
      std::swap(port.bytes, port.next);
}

Result<void> Engine::uploadBatch() {
  for (const HostPort &port : ports)
    if (port.isBatch)
      if (auto done = device->upload(port.address, port.bytes.data(),
                                     port.bytes.size());
          !done)
        return done;
  return {};
}

Result<void> Engine::uploadSmall() {
  for (const HostPort &port : ports)
    if (port.isSmall && !port.isBatch)
      if (auto done = device->upload(port.address, port.bytes.data(),
                                     port.bytes.size());
          !done)
        return done;
  return {};
}

/// Small ports, the records, small ports: what a graph repeats. The batch comes
/// from one of two places and is before it.
Result<void> Engine::enqueue(RecordList list) {
  if (Result<void> done = uploadSmall(); !done)
    return done;
  if (Result<void> done = mark(kUpload); !done)
    return done;
  StreamProgram &program = programs[static_cast<std::size_t>(list)];
  if (Result<void> done = program.run(timer ? &*timer : nullptr); !done)
    return done;
  for (const HostPort &port : ports)
    if (port.isSmall && !port.isBatch)
      if (auto done = device->download(port.bytes.data(), port.address,
                                       port.bytes.size());
          !done)
        return done;
  return mark(kDownload);
}

Result<void> Engine::run(const RecordPlace &place) {
  if (Result<void> done = device->bind(); !done)
    return done;
  StreamProgram &program = programs[static_cast<std::size_t>(place.list)];
  if (Result<void> done = program.run(place.path, place.iteration); !done)
    return done;
  return device->wait();
}

Result<void> Engine::read(std::uint64_t offset, std::span<std::byte> into) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return device->read(into.data(), arena.get() + offset, into.size());
}

Result<void> Engine::write(std::uint64_t offset,
                           std::span<const std::byte> bytes) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return device->upload(arena.get() + offset, bytes.data(), bytes.size());
}

Result<void> Engine::uploadLarge() {
  for (HostPort &port : ports) {
    if (port.isSmall || !port.isNewOnHost)
      continue;
    if (auto done =
            device->upload(port.address, port.bytes.data(), port.bytes.size());
        !done)
      return done;
    port.isNewOnHost = false;
  }
  return {};
}

Result<void> Engine::start(RecordList list) {
  if (Result<void> done = uploadLarge(); !done)
    return done;
  if (Result<void> done = uploadBatch(); !done)
    return done;
  if (profiler)
    return enqueue(list);
  // The first time shows that it runs, and lets libraries make what they need.
  auto number = static_cast<std::size_t>(list);
  std::optional<Graph> &graph = graphs[number];
  bool isCaptured = hasRun[number] && !device->getOptions().blocking;
  if (isCaptured && !graph) {
    Result<Graph> captured =
        Graph::capture(*device, [&] { return enqueue(list); });
    if (!captured)
      return captured.takeError();
    graph.emplace(*std::move(captured));
  }
  hasRun[number] = true;
  return graph ? graph->launch() : enqueue(list);
}

Result<void> Engine::run(RecordList list,
                         const std::function<void()> &fillNext) {
  if (failure)
    return *failure;
  if (hasNextBatch && list != RecordList::Evaluation) {
    exchangeBatches();
    hasNextBatch = false;
  }
  if (Result<void> done = device->bind(); !done)
    return done;
  double begin = profiler ? profiler->now() : 0;
  if (timer)
    if (Result<void> done = timer->begin(); !done)
      return done;
  if (Result<void> done = start(list); !done)
    return done;
  if (fillNext && !profiler) {
    exchangeBatches();
    fillNext();
    exchangeBatches();
    hasNextBatch = true;
  }
  if (Result<void> done = device->wait(); !done)
    return done;
  for (HostPort &port : ports)
    if (!port.isSmall && !port.isConstant)
      port.isNewOnDevice = true;
  return timer ? timer->report(*profiler, begin) : Result<void>();
}

Result<void> Engine::run(const std::function<bool(std::size_t)> &after) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return programs[static_cast<std::size_t>(RecordList::Step)].run(after);
}

Result<void> Engine::upload() {
  if (failure)
    return *failure;
  if (Result<void> done = device->bind(); !done)
    return done;
  if (Result<void> done = uploadLarge(); !done)
    return done;
  if (Result<void> done = uploadBatch(); !done)
    return done;
  return uploadSmall();
}

Result<void> Engine::fill(ArenaRange range, std::byte value) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return device->fill(arena.get() + range.begin, value, range.size());
}

void Engine::setProfiler(Profiler *to) {
  profiler = to;
  timer.reset();
  if (profiler)
    timer.emplace(*device);
}

Profiler::Implementations Engine::getImplementations() const {
  Profiler::Implementations all;
  for (const StreamProgram &program : programs)
    all.merge(program.getImplementations());
  return all;
}

Result<void> Engine::tune() {
  if (!library)
    return Error{"cuda",
                 "no library multiplies here: there is nothing to choose from",
                 ExitCode::Device}
        .withNote("install libcublasLt of CUDA 12 or 13");
  if (Result<void> done = device->bind(); !done)
    return done;
  if (Result<void> done = provideScratch(kWorkspaceLimit); !done)
    return done;
  for (StreamProgram &program : programs)
    if (Result<void> done = program.tune(); !done)
      return done;
  return {};
}

std::map<const plan::Record *, std::string> Engine::getAlgorithms() const {
  std::map<const plan::Record *, std::string> all;
  for (const StreamProgram &program : programs)
    all.merge(program.getAlgorithms());
  return all;
}

Result<Ceilings> Engine::measureCeilings() {
  if (Result<void> done = device->bind(); !done)
    return done.takeError();
  return cuda::measureCeilings(*device);
}
