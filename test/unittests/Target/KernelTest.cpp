//===- KernelTest.cpp - Compiles kernels and runs them --------------------===//

#include "KernelTest.h"
#include "binade/Codegen/Passes.h"
#include "binade/Simulator/Simulator.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// GuardedBuffer
//===----------------------------------------------------------------------===//

GuardedBuffer::GuardedBuffer(size_t bytes) : size(bytes) {
  size_t page = ::sysconf(_SC_PAGESIZE);
  size_t room = (bytes + page - 1) / page * page;
  mapped = room + page;
  void *memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  mapping = static_cast<char *>(memory);
  EXPECT_EQ(::mprotect(mapping + room, page, PROT_NONE), 0);
  start = mapping + room - bytes;
}

GuardedBuffer::GuardedBuffer(ArrayRef<char> bytes)
    : GuardedBuffer(bytes.size()) {
  llvm::copy(bytes, start);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer &&other) noexcept
    : mapping(std::exchange(other.mapping, nullptr)), start(other.start),
      size(other.size), mapped(other.mapped) {}

GuardedBuffer::~GuardedBuffer() {
  if (mapping)
    ::munmap(mapping, mapped);
}

//===----------------------------------------------------------------------===//
// LoadedKernels
//===----------------------------------------------------------------------===//

LoadedKernels::LoadedKernels(const CompiledKernels &compiled)
    : kernels(compiled.kernels) {
  SmallString<128> path;
  int descriptor;
  EXPECT_FALSE(
      llvm::sys::fs::createTemporaryFile("kernels", "so", descriptor, path));
  {
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << compiled.object;
  }
  handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(handle) << ::dlerror();
  llvm::sys::fs::remove(path);
}

LoadedKernels::~LoadedKernels() {
  if (handle)
    ::dlclose(handle);
}

void *LoadedKernels::find(const std::string &symbol) const {
  void *address = handle ? ::dlsym(handle, symbol.c_str()) : nullptr;
  EXPECT_TRUE(address) << symbol;
  return address;
}

//===----------------------------------------------------------------------===//
// KernelTest
//===----------------------------------------------------------------------===//

KernelTest::KernelTest() {
  context.loadDialect<BinadeDialect, func::FuncDialect, arith::ArithDialect,
                      gpu::GPUDialect, math::MathDialect, memref::MemRefDialect,
                      scf::SCFDialect, vector::VectorDialect>();
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    message += diagnostic.str() + "\n";
    return success();
  });
}

std::vector<CpuLevel> KernelTest::getLevels() {
  std::optional<CpuLevel> host = getHostLevel();
  if (!host)
    return {};
  if (*host == CpuLevel::V4)
    return {CpuLevel::V3, CpuLevel::V4};
  return {CpuLevel::V3};
}

void KernelTest::parse(StringRef text) {
  module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module) << message;
}

TensorRef KernelTest::draw(RankedTensorType type, int64_t limit) {
  Tensor tensor(type);
  std::normal_distribution<double> normal;
  for (double &x : tensor.getFloats())
    x = normal(generator);
  for (int64_t &x : tensor.getIntegers())
    x = generator() % limit;
  tensor.roundElements();
  return std::make_shared<Tensor>(std::move(tensor));
}

std::vector<std::vector<char>> KernelTest::run(const LoadedKernels &loaded,
                                               const KernelInfo &info,
                                               func::FuncOp kernel,
                                               ArrayRef<TensorRef> inputs,
                                               int64_t itemsPerCall) {
  std::vector<GuardedBuffer> buffers;
  for (const TensorRef &input : inputs)
    buffers.emplace_back(ArrayRef<char>(input->toBytes()));
  for (Type type : kernel.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    size_t bytes =
        tensor.getNumElements() * Tensor::getByteWidth(tensor.getElementType());
    buffers.emplace_back(std::vector<char>(bytes, char(0xaa)));
  }
  if (info.workspaceBytes > 0) {
    std::vector<char> garbage(info.workspaceBytes, char(0xaa));
    if (info.hasStatus)
      std::fill_n(garbage.begin(), kStatusBytes, 0);
    buffers.emplace_back(ArrayRef<char>(garbage));
  }
  std::vector<void *> addresses;
  for (GuardedBuffer &buffer : buffers)
    addresses.push_back(buffer.data());

  auto items = reinterpret_cast<LoadedKernels::Items>(loaded.find(info.symbol));
  // Shuffle the items: their order must not matter.
  std::vector<int64_t> begins;
  for (int64_t begin = 0; begin < info.extent; begin += itemsPerCall)
    begins.push_back(begin);
  std::shuffle(begins.begin(), begins.end(), generator);
  for (int64_t begin : begins)
    items(addresses.data(), begin, std::min(begin + itemsPerCall, info.extent));
  if (info.hasFinish) {
    auto finish = reinterpret_cast<LoadedKernels::Finish>(
        loaded.find(info.symbol + "_finish"));
    finish(addresses.data(), llvm::divideCeil(info.extent, info.grain));
  }
  if (info.hasStatus)
    std::memcpy(&status, addresses.back(), sizeof status);
  std::vector<std::vector<char>> results;
  for (unsigned index = 0; index < kernel.getNumResults(); ++index)
    results.push_back(buffers[inputs.size() + index].bytes());
  return results;
}

static gpu::GPUFuncOp findGpuKernel(ModuleOp module, const std::string &name) {
  gpu::GPUFuncOp kernel;
  module.walk([&](gpu::GPUFuncOp found) {
    if (found.getName() == name)
      kernel = found;
  });
  EXPECT_TRUE(kernel) << name;
  return kernel;
}

std::vector<std::vector<char>>
KernelTest::simulate(func::FuncOp kernel, ArrayRef<TensorRef> inputs) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(kernel.getLoc());
  FailureOr<KernelInfo> info = emitGpuKernel(kernel, *kernels);
  PassManager passes(&context);
  buildGpuExpansionPipeline(passes);
  bool isEmitted = succeeded(info) && succeeded(passes.run(*kernels));
  EXPECT_TRUE(isEmitted) << message;
  if (!isEmitted)
    return {};
  constexpr char kGarbage = static_cast<char>(0xaa);
  std::vector<std::vector<char>> memories;
  for (const TensorRef &input : inputs)
    memories.push_back(input->toBytes());
  for (Type type : kernel.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    memories.emplace_back(tensor.getNumElements() *
                              Tensor::getByteWidth(tensor.getElementType()),
                          kGarbage);
  }
  if (info->workspaceBytes > 0)
    memories.emplace_back(info->workspaceBytes, kGarbage);
  if (info->hasStatus)
    std::fill_n(memories.back().begin(), kStatusBytes, 0);
  std::vector<std::string> symbols = {info->symbol + ".items"};
  if (info->hasFinish)
    symbols.push_back(info->symbol + ".finish");
  for (const std::string &symbol : symbols) {
    gpu::GPUFuncOp part = findGpuKernel(*kernels, symbol);
    SimulatedLaunch launch;
    llvm::copy(*part.getKnownGridSize(), launch.grid.begin());
    llvm::copy(*part.getKnownBlockSize(), launch.block.begin());
    for (std::vector<char> &memory : memories)
      launch.arguments.emplace_back(MutableArrayRef<char>(memory));
    launch.order = generator();
    EXPECT_TRUE(succeeded(binade::simulate(part, launch))) << message;
  }
  if (info->hasStatus)
    std::memcpy(&status, memories.back().data(), sizeof status);
  memories.erase(memories.begin(), memories.begin() + inputs.size());
  memories.resize(kernel.getNumResults());
  return memories;
}

void KernelTest::expectNear(func::FuncOp kernel, ArrayRef<TensorRef> inputs,
                            ArrayRef<std::vector<char>> results) {
  NamedTensors named;
  SmallVector<std::string> names = getArgumentNames(kernel);
  for (auto [name, input] : llvm::zip(names, inputs))
    named[name] = input;
  EvaluationOptions options;
  options.bounds = true;
  FailureOr<Outputs> expected =
      evaluate(*module, kernel.getName(), named, options);
  ASSERT_TRUE(succeeded(expected)) << message;
  for (auto [index, name] : llvm::enumerate(getResultNames(kernel))) {
    auto type = cast<RankedTensorType>(kernel.getResultTypes()[index]);
    FailureOr<Tensor> actual = Tensor::fromBytes(type, results[index]);
    ASSERT_TRUE(succeeded(actual));
    auto bound = expected->bounds.find(name);
    Deviation deviation = compare(
        *actual, *expected->values[name],
        bound == expected->bounds.end() ? nullptr : bound->second.get());
    EXPECT_LE(deviation.ratio, 1.0)
        << "result " << index << " element " << deviation.index << " is "
        << actual->getNumber(deviation.index) << ", expected "
        << expected->values[name]->getNumber(deviation.index) << " +- "
        << deviation.bound;
  }
}

int32_t KernelTest::check(StringRef text, std::vector<TensorRef> inputs,
                          int64_t limit) {
  status = 0;
  parse(text);
  if (HasFatalFailure())
    return 0;
  auto kernel = module->lookupSymbol<func::FuncOp>("k");
  if (inputs.empty())
    for (Type type : kernel.getArgumentTypes())
      inputs.push_back(draw(cast<RankedTensorType>(type), limit));
  std::vector<std::vector<char>> first;
  for (CpuLevel level : getLevels()) {
    CpuOptions options;
    options.level = level;
    FailureOr<CompiledKernels> compiled = compileKernels(*module, options);
    EXPECT_TRUE(succeeded(compiled)) << message;
    if (failed(compiled))
      return 0;
    LoadedKernels loaded(*compiled);
    const KernelInfo &info = loaded.kernels.front();
    for (int64_t split : {info.extent, int64_t(1), int64_t(3)}) {
      auto results =
          run(loaded, info, kernel, inputs, std::max<int64_t>(1, split));
      if (first.empty()) {
        first = results;
        expectNear(kernel, inputs, results);
      }
      for (auto [index, pair] : llvm::enumerate(llvm::zip(results, first)))
        EXPECT_TRUE(std::get<0>(pair) == std::get<1>(pair))
            << "result " << index << " has other bits at level "
            << getName(level).str() << " with " << split << " items per call";
    }
  }
  int32_t known = std::exchange(status, 0);
  std::vector<std::vector<char>> simulated = simulate(kernel, inputs);
  if (!simulated.empty())
    expectNear(kernel, inputs, simulated);
  EXPECT_EQ(status, known);
  return status;
}
