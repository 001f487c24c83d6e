//===- Engine.cpp - Execution of a plan on a CUDA device ------------------===//

#include "Engine.h"
#include "binade/Container/Printable.h"
#include <algorithm>

using namespace binade;
using namespace binade::cuda;

Result<std::unique_ptr<Engine>> Engine::create(Setup setup) {
  std::unique_ptr<Engine> engine(new Engine());
  engine->device = std::move(setup.device);
  if (Result<void> done = engine->prepare(setup); !done)
    return done.takeError();
  return engine;
}

Engine::~Engine() {
  if (hasEnqueued && device->bind())
    (void)device->prepare([&] {
      return device->call(device->getDriver().functions.ctxSynchronize);
    });
}

/// Returns the number of records of kind `Body`, including those in loops.
template <typename Body>
static std::size_t count(const std::vector<plan::Record> &records) {
  std::size_t found = 0;
  for (const plan::Record &record : records)
    if (auto *loop = std::get_if<plan::Loop>(&record.body))
      found += count<Body>(loop->body);
    else
      found += std::holds_alternative<Body>(record.body);
  return found;
}
template <typename Body> static std::size_t count(const Plan &plan) {
  std::size_t found = 0;
  for (const auto *records : plan.getLists())
    found += count<Body>(*records);
  return found;
}

/// Returns the sizes of the arena by category, for out-of-memory errors.
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
  Result<HostPorts> copies =
      HostPorts::create(*device, plan, *setup.bound, arena.get(), setup.where);
  if (!copies)
    return copies.takeError();
  ports = *std::move(copies);
  notify = setup.notify;
  // A graph has the addresses with which it was captured.
  makesGraphs = setup.bound->empty();
  if (Result<void> done = preparePrograms(setup); !done)
    return done;
  // Streams of the caller do not wait for the device's own.
  return setup.bound->empty() ? Result<void>() : device->wait();
}

/// Opens cuBLASLt if the plan has matmuls, and cuDNN if it has convolutions or
/// attention. cuDNN loads cuBLASLt itself, and ends the process if there is
/// none.
void Engine::openLibraries(const Plan &plan, StreamSetup &setup) {
  auto report = [&](const char *what, const Error &why) {
    if (notify)
      notify(std::string(what) + " the bundle's own kernels, which are " +
             "slower: " + why.message);
  };
  bool hasMatmuls = count<plan::Matmul>(plan) > 0,
       hasConvolutions = count<plan::Convolution>(plan) > 0,
       hasAttention = count<plan::Attention>(plan) > 0;
  if (!hasMatmuls && !hasConvolutions && !hasAttention)
    return;
  Result<std::shared_ptr<CublasLt>> blas = CublasLt::open(*device);
  if (hasMatmuls && blas)
    setup.library = library = *blas;
  else if (hasMatmuls)
    report("matmuls use", blas.error());
  if (!hasConvolutions && !hasAttention)
    return;
  Result<std::shared_ptr<Cudnn>> found =
      blas ? Cudnn::open(*device) : blas.takeError();
  if (found)
    setup.cudnn = *std::move(found);
  else
    report(hasConvolutions ? "convolutions use" : "attention uses",
           found.error());
}

/// Reports how many contractions the libraries do not support, and why for the
/// first one.
void Engine::reportRefusals(const Plan &plan) const {
  if (refusals.empty() || !notify)
    return;
  std::size_t all = count<plan::Matmul>(plan) + count<plan::Convolution>(plan) +
                    count<plan::Attention>(plan);
  const auto &[record, why] = refusals.front();
  notify("the bundle's own kernels, which are slower, compute " +
         std::to_string(refusals.size()) + " of " + std::to_string(all) +
         " matmuls, convolutions and attention calls; for " +
         quote(record->label) + ": " + why);
}

Result<void> Engine::preparePrograms(const Setup &setup) {
  const Plan &plan = *setup.plan;
  StreamSetup stream;
  stream.device = device.get();
  stream.plan = &plan;
  stream.memory = {reinterpret_cast<std::byte *>(arena.get()), plan.buffers,
                   setup.bound};
  if (setup.makeExchange)
    stream.exchange = setup.makeExchange(stream.memory);
  stream.modules = modules;
  stream.where = setup.where;
  stream.refusals = &refusals;
  AttentionCache attentions;
  stream.attentions = &attentions;
  stream.prefersLibraries = setup.contraction == Contraction::Library;
  if (setup.contraction != Contraction::Own)
    openLibraries(plan, stream);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Result<StreamProgram> program = StreamProgram::create(
        getRecords(plan, static_cast<RecordList>(i)), stream);
    if (!program)
      return program.takeError();
    programs[i] = *std::move(program);
  }
  reportRefusals(plan);
  return {};
}

Result<void> Engine::clear(std::size_t port) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return ports.clear(port);
}

/// Records that represent transfers in profiles.
static const plan::Record kUpload{"upload ports", plan::Copy()};
static const plan::Record kDownload{"download ports", plan::Copy()};

Result<void> Engine::mark(const plan::Record &transfer) {
  return timer ? timer->end(transfer, timer->getLast()) : Result<void>();
}

/// Enqueues the part of a run that a graph repeats: uploads small ports,
/// executes the records, downloads small ports. The batch is uploaded before,
/// because its two host copies alternate.
Result<void> Engine::enqueue(RecordList list) {
  if (Result<void> done = ports.uploadSmall(); !done)
    return done;
  if (Result<void> done = mark(kUpload); !done)
    return done;
  StreamProgram &program = programs[static_cast<std::size_t>(list)];
  if (Result<void> done = program.run(timer ? &*timer : nullptr); !done)
    return done;
  if (Result<void> done = ports.downloadSmall(); !done)
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
  return download(arena.get() + offset, into);
}

Result<void> Engine::write(std::uint64_t offset,
                           std::span<const std::byte> bytes) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return device->upload(arena.get() + offset, bytes.data(), bytes.size());
}

Result<void> Engine::download(Address from, std::span<std::byte> into) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return device->read(into.data(), from, into.size());
}

Result<void> Engine::upload(Address to, std::span<const std::byte> bytes) {
  if (Result<void> done = device->bind(); !done)
    return done;
  if (Result<void> done = device->upload(to, bytes.data(), bytes.size()); !done)
    return done;
  return device->wait();
}

/// Captures a list of records into a graph, or several with exchanges between
/// them. If that fails, as with a library call that blocks or allocates,
/// notifies the user once and uses no graphs.
Result<void> Engine::captureGraphs(RecordList list) {
  auto number = static_cast<std::size_t>(list);
  StreamProgram &program = programs[number];
  std::vector<std::size_t> ends = program.listExchanges();
  ends.push_back(program.size());
  std::size_t begin = 0;
  for (std::size_t end : ends) {
    bool isFirst = end == ends.front(), isLast = end == program.size();
    std::optional<Graph> &graph = graphs[number].emplace_back();
    if (begin < end || isFirst || isLast) {
      Result<Graph> captured = Graph::capture(*device, [&]() -> Result<void> {
        if (isFirst)
          if (Result<void> done = ports.uploadSmall(); !done)
            return done;
        if (Result<void> done = program.run(begin, end); !done)
          return done;
        return isLast ? ports.downloadSmall() : Result<void>();
      });
      if (!captured) {
        graphs[number].clear();
        if (device->hasFailed())
          return captured.takeError();
        makesGraphs = false;
        if (notify)
          notify("kernels are launched one by one, which is slower: the step "
                 "cannot be put into a graph: " +
                 captured.error().message);
        return {};
      }
      graph.emplace(*std::move(captured));
    }
    begin = end + 1;
  }
  return {};
}

Result<void> Engine::launchGraphs(RecordList list) {
  auto number = static_cast<std::size_t>(list);
  std::vector<std::size_t> exchanges = programs[number].listExchanges();
  for (std::size_t part = 0; part < graphs[number].size(); ++part) {
    if (const std::optional<Graph> &graph = graphs[number][part])
      if (Result<void> done = graph->launch(); !done)
        return done;
    if (part == exchanges.size())
      break;
    if (Result<void> done =
            programs[number].run(exchanges[part], exchanges[part] + 1);
        !done)
      return done;
  }
  return {};
}

Result<void> Engine::start(RecordList list) {
  if (Result<void> done = ports.uploadLarge(); !done)
    return done;
  if (Result<void> done = ports.uploadBatch(); !done)
    return done;
  if (profiler)
    return enqueue(list);
  // The first run is not captured, so that errors are found and libraries can
  // initialize.
  auto number = static_cast<std::size_t>(list);
  bool isWanted =
      hasRun[number] && makesGraphs && !device->getOptions().blocking;
  if (isWanted && graphs[number].empty())
    if (Result<void> done = captureGraphs(list); !done)
      return done;
  hasRun[number] = true;
  return graphs[number].empty() ? enqueue(list) : launchGraphs(list);
}

Result<void> Engine::run(RecordList list,
                         const std::function<void()> &fillNext) {
  if (ports.getFailure())
    return *ports.getFailure();
  if (hasNextBatch && list != RecordList::Evaluation) {
    ports.exchangeBatches();
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
    ports.exchangeBatches();
    fillNext();
    ports.exchangeBatches();
    hasNextBatch = true;
  }
  if (Result<void> done = device->wait(); !done)
    return done;
  ports.noteRun();
  return timer ? timer->report(*profiler, begin) : Result<void>();
}

Result<void> Engine::enqueue(RecordList list, CUstream_st *stream) {
  if (ports.getFailure())
    return *ports.getFailure();
  if (Result<void> done = device->bind(); !done)
    return done;
  if (ports.hasUploads())
    if (Result<void> done = device->prepare([&] {
          Result<void> uploaded = ports.uploadLarge();
          return uploaded ? device->wait() : uploaded;
        });
        !done)
      return done;
  hasEnqueued = true;
  Result<void> done = device->enqueueOn(stream, [&] {
    return programs[static_cast<std::size_t>(list)].run(nullptr);
  });
  ports.noteRun();
  return done;
}

Result<void> Engine::run(const std::function<bool(std::size_t)> &after) {
  if (Result<void> done = device->bind(); !done)
    return done;
  return programs[static_cast<std::size_t>(RecordList::Step)].run(after);
}

Result<void> Engine::upload() {
  if (ports.getFailure())
    return *ports.getFailure();
  if (Result<void> done = device->bind(); !done)
    return done;
  if (Result<void> done = ports.uploadLarge(); !done)
    return done;
  if (Result<void> done = ports.uploadBatch(); !done)
    return done;
  return ports.uploadSmall();
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
                 "cuBLASLt is not in use, so there are no algorithms to choose "
                 "from",
                 ExitCode::Device}
        .withNote("install libcublasLt of CUDA 12 or 13");
  if (Result<void> done = device->bind(); !done)
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
