//===- LoadVerification.cpp - Loading of both programs --------------------===//

#include "CpuReferenceRun.h"
#include "SimulatedRunner.h"
#include "VerificationImplementation.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Target.h"
#include "binade/Target/CUDA.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Bundle;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::LoadOptions;
using ::binade::Plan;
using ::binade::Program;
using ::binade::RecordList;
using ::binade::Result;
using ::binade::Safetensors;

/// Reads the initial values in the bundle.
static Result<std::vector<::binade::StoredTensor>>
readInitial(const Safetensors &file, const Plan &plan) {
  std::vector<::binade::StoredTensor> stored;
  for (const plan::Port &port : plan.ports) {
    auto *init = std::get_if<plan::BundleInit>(&port.init);
    const ::binade::TensorInfo *tensor =
        init ? file.find(init->tensor) : nullptr;
    if (!tensor)
      continue;
    ::binade::StoredTensor &copy = stored.emplace_back();
    copy.name = tensor->name;
    copy.dtype = tensor->dtype;
    copy.shape = tensor->shape;
    copy.bytes.resize(tensor->bytes);
    if (Result<void> done = file.read(*tensor, copy.bytes); !done)
      return done.takeError();
  }
  return stored;
}

static std::string getDirectory(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

Result<void>
Verification::Implementation::loadCpuReference(const Safetensors &file,
                                               MLIRContext &context) {
  DiagnosticCollector diagnostics(&context);
  FailureOr<Bundle> reference = makeCpuReference(*source, plan);
  if (failed(reference))
    return diagnostics.takeError(where, "cannot be compiled for the CPU");
  auto stored = readInitial(file, plan);
  if (!stored)
    return stored.takeError();
  reference->init = *std::move(stored);
  Result<Program> program = Program::load(
      std::move(*reference), where, getDirectory(where), getLoadOptions());
  if (!program)
    return program.takeError();
  cpu = *std::move(program);
  return {};
}

/// Adds the names of the kernels in module `index` to `names`.
static void addKernels(const Plan &plan, size_t index,
                       std::vector<std::string> &names) {
  for (const plan::DeviceKernel &kernel : plan.deviceKernels)
    if (kernel.module == index)
      names.push_back(kernel.name);
}

Result<void> Verification::Implementation::compareModules(
    const std::vector<::binade::ModuleImages> &images, MLIRContext &context) {
  CompileOptions compile;
  compile.target = getTargetName(plan);
  compile.onGpuCode = [&](const GpuCode &made) { code.push_back(made.ir); };
  DiagnosticCollector diagnostics(&context);
  FailureOr<Bundle> again = recompile(*source, plan, compile);
  if (failed(again))
    return diagnostics.takeError(where, "cannot be compiled again");
  auto getEntries = [](const Plan &plan) {
    std::vector<std::string> entries;
    for (const plan::DeviceKernel &kernel : plan.deviceKernels)
      for (const plan::DeviceKernel::Entry &entry : kernel.entries)
        entries.push_back(entry.symbol);
    return entries;
  };
  // The names of entries depend on the kernel's text and the compiler.
  if (getEntries(plan) != getEntries(again->plan) ||
      images.size() != again->modules.size())
    return Error{where, "its kernels differ from those that this compiler "
                        "generates from its source"}
        .withNote("it was compiled by another version of Binade, or edited: "
                  "compile it again");
  ModuleReport &report = modules.emplace();
  report.modules = images.size();
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip(images, again->modules))) {
    auto &[found, made] = pair;
    for (const auto &[chip, image] : made) {
      bool isPtx = llvm::StringRef(chip).starts_with("compute_");
      auto own = found.find(chip);
      if (own == found.end() && !isPtx)
        continue;
      report.machineCode += !isPtx;
      if (own == found.end() || own->second != image)
        addKernels(plan, index,
                   isPtx ? report.otherPtx : report.otherMachineCode);
    }
  }
  return {};
}

LoadOptions Verification::Implementation::getLoadOptions() const {
  LoadOptions load;
  load.threads = options.threads;
  load.notify = options.notify;
  return load;
}

Result<void> Verification::Implementation::readSource(const Safetensors &file,
                                                      MLIRContext &context) {
  Result<std::string> text = readBundleSource(file);
  if (!text)
    return text.takeError();
  if (text->empty())
    return Error{where, "the bundle does not contain the source of its "
                        "kernels"}
        .withNote("compile it again, with this version of Binade");
  auto parsed = parseModuleText(*text, where, context);
  if (!parsed)
    return std::move(parsed).takeError().withPart("tensor 'source'");
  source = *std::move(parsed);
  return {};
}

Result<void> Verification::Implementation::loadForCpu(const std::string &path) {
  if (options.simulate)
    return Error{where, "its kernels are for the CPU, which is not simulated",
                 ExitCode::Device}
        .withNote("compile with --target cuda:sm_90");
  if (options.keepsExpectations)
    return Error{where, "its kernels are for the CPU: no device will run them",
                 ExitCode::Usage}
        .withNote("compile with --target cuda:sm_90");
  LoadOptions load = getLoadOptions();
  load.device = options.device;
  Result<Program> program = Program::load(path, load);
  if (!program)
    return program.takeError();
  cpu = *std::move(program);
  cpuRunner = cpu->createRecordRunner();
  return {};
}

Result<void> Verification::Implementation::loadForDevice(
    const Safetensors &file, const std::string &path, MLIRContext &context) {
  auto images = readBundleModules(file);
  if (!images)
    return images.takeError();
  if (Result<void> done = loadCpuReference(file, context); !done)
    return done;
  cpuRunner = cpu->createRecordRunner();
  if (options.keepsExpectations) {
    expectations.emplace();
    return {};
  }
  if (Result<void> done = compareModules(*images, context); !done)
    return done;
  if (options.simulate) {
    auto made = createSimulatedRunner(plan, code, where);
    if (!made)
      return made.takeError();
    deviceRunner = *std::move(made);
    return {};
  }
  LoadOptions load = getLoadOptions();
  load.device = options.device;
  Result<Program> program = Program::load(path, load);
  if (!program)
    return program.takeError();
  device = *std::move(program);
  deviceRunner = device->createRecordRunner();
  return {};
}

Result<void> Verification::Implementation::load(const std::string &path,
                                                MLIRContext &context) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  where = file->getPath();
  Result<Plan> read = readBundlePlan(*file);
  if (!read)
    return read.takeError();
  plan = *std::move(read);
  for (const plan::Port &port : plan.ports)
    if (port.role == plan::Role::Metric &&
        StringRef(port.name).starts_with("out_of_range/"))
      statuses.push_back(port.buffer);
  if (Result<void> done = checkOnly(); !done)
    return done;
  if (Result<void> done = readSource(*file, context); !done)
    return done;
  return plan.chip.empty() ? loadForCpu(path)
                           : loadForDevice(*file, path, context);
}

static bool hasLabel(const std::vector<plan::Record> &records, StringRef text) {
  return llvm::any_of(records, [&](const plan::Record &record) {
    auto *loop = std::get_if<plan::Loop>(&record.body);
    return loop ? hasLabel(loop->body, text)
                : StringRef(record.label).contains(text);
  });
}

Result<void> Verification::Implementation::checkOnly() const {
  for (RecordList list : ::binade::kRecordLists)
    if (hasLabel(::binade::getRecords(plan, list), options.only))
      return {};
  return Error{where, "no record's label has " + ::binade::quote(options.only)}
      .withNote("'binade inspect' lists them");
}

Result<Verification> Verification::create(const std::string &path,
                                          const VerifyOptions &options,
                                          MLIRContext &context) {
  auto made = std::make_unique<Implementation>();
  made->options = options;
  if (Result<void> done = made->load(path, context); !done)
    return done.takeError();
  return Verification(std::move(made));
}
