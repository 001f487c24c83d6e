//===- Kernels.cpp - Loading and running of simulated kernels -------------===//

#include "Simulated.h"
#include "binade/Container/Sha256.h"
#include "binade/Simulator/Simulator.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include <atomic>
#include <cstring>
#include <elf.h>
#include <iostream>

struct CUfunc_st {
  mlir::gpu::GPUFuncOp kernel;
};

struct CUmod_st {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, CUfunc_st> functions;
};

using namespace mlir;
using namespace mlir::binade;
using namespace simulated;

/// Returns the size of an image. The driver gets only the address of its first
/// byte.
static size_t measure(const char *image) {
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return std::strlen(image);
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  size_t end = std::max<size_t>(
      {sizeof(header),
       header.e_shoff + size_t(header.e_shnum) * header.e_shentsize,
       header.e_phoff + size_t(header.e_phnum) * header.e_phentsize});
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + i * sizeof(section),
                sizeof(section));
    if (section.sh_type != SHT_NOBITS)
      end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

std::shared_ptr<CUmod_st> simulated::loadModule(const void *image) {
  const char *folder = std::getenv("BINADE_SIMULATED_KERNELS");
  if (!folder) {
    std::cerr << "libcuda.so.1 (simulated): BINADE_SIMULATED_KERNELS names no "
                 "folder\n";
    return nullptr;
  }
  const char *begin = static_cast<const char *>(image);
  std::string path = std::string(folder) + "/" +
                     ::binade::sha256(std::string_view(begin, measure(begin))) +
                     ".mlir";
  auto loaded = std::make_shared<CUmod_st>();
  loadKernelDialects(loaded->context);
  loaded->module = parseSourceFile<ModuleOp>(path, &loaded->context);
  if (!loaded->module)
    return nullptr;
  loaded->module->walk([&](gpu::GPUFuncOp kernel) {
    loaded->functions[kernel.getName().str()] = {kernel};
  });
  return loaded;
}

CUfunc_st *simulated::findFunction(CUmod_st &module, const std::string &name) {
  auto found = module.functions.find(name);
  return found == module.functions.end() ? nullptr : &found->second;
}

namespace {
/// An argument of a launch, copied when it is launched.
struct Argument {
  Address address = 0;
  size_t bytes = 0; ///< The size of memory; 0 for scalars.
  uint64_t bits = 0;
};
} // namespace

static Argument read(Type type, const void *from) {
  Argument argument;
  if (auto memory = dyn_cast<MemRefType>(type)) {
    std::memcpy(&argument.address, from, sizeof(Address));
    argument.bytes = static_cast<size_t>(memory.getNumElements()) *
                     llvm::divideCeil(memory.getElementTypeBitWidth(), 8);
    return argument;
  }
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  std::memcpy(&argument.bits, from, llvm::divideCeil(width, 8));
  return argument;
}

Address simulated::findLast(const CUfunc_st &function, void **arguments) {
  gpu::GPUFuncOp kernel = function.kernel;
  unsigned last = kernel.getNumArguments() - 1;
  return read(kernel.getArgumentTypes()[last], arguments[last]).address;
}

/// Returns the allocation that has the byte at a distance from an argument, and
/// how far from the argument it begins.
static std::optional<SimulatedLaunch::Memory>
findOther(const Argument &argument, int64_t distance) {
  Address address = argument.address + static_cast<Address>(distance), begin;
  std::span<char> bytes = findAllocation(address, begin);
  if (bytes.empty())
    return std::nullopt;
  return SimulatedLaunch::Memory{
      {bytes.data(), bytes.size()},
      static_cast<int64_t>(begin - argument.address)};
}

Task simulated::prepareLaunch(const CUfunc_st &function, const unsigned *grid,
                              const unsigned *block, void **arguments) {
  gpu::GPUFuncOp kernel = function.kernel;
  SimulatedLaunch launch;
  std::copy_n(grid, 3, launch.grid.begin());
  std::copy_n(block, 3, launch.block.begin());
  std::vector<Argument> copied;
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes()))
    copied.push_back(read(type, arguments[index]));
  return [kernel, launch, copied]() mutable {
    SimulatedLaunch shape = launch;
    // Every launch runs its threads in another order.
    static std::atomic<uint64_t> launches = 1;
    shape.order = launches++;
    for (auto [index, argument] : llvm::enumerate(copied)) {
      if (!isa<MemRefType>(kernel.getArgumentTypes()[index])) {
        shape.arguments.emplace_back(argument.bits);
        continue;
      }
      // A size that exceeds every device means the rest of the allocation. The
      // first such argument is the arena, from which a multi-tensor kernel
      // reaches all others.
      if (argument.bytes >= uint64_t(1) << 40) {
        argument.bytes = countRest(argument.address);
        if (!shape.findOther) {
          shape.spansDevice = index;
          shape.findOther = [argument](int64_t distance) {
            return ::findOther(argument, distance);
          };
        }
      }
      char *memory = findMemory(argument.address, argument.bytes);
      if (!memory) {
        std::cerr << "libcuda.so.1 (simulated): argument " << index << " of '"
                  << kernel.getName().str() << "' is no " << argument.bytes
                  << " bytes of the device\n";
        return int(status::IllegalAddress);
      }
      shape.arguments.emplace_back(
          MutableArrayRef<char>(memory, argument.bytes));
    }
    ScopedDiagnosticHandler handler(
        kernel.getContext(), [](Diagnostic &diagnostic) {
          std::cerr << "libcuda.so.1 (simulated): " << diagnostic.str() << "\n";
          return success();
        });
    return succeeded(simulate(kernel, shape)) ? int(status::Success)
                                              : int(status::IllegalAddress);
  };
}
