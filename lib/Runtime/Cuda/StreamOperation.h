//===- StreamOperation.h - A record, ready for a stream ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMOPERATION_H
#define BINADE_RUNTIME_CUDA_STREAMOPERATION_H

#include "../Execution/Operation.h"
#include "CublasLt.h"
#include "Cudnn.h"
#include "Module.h"

namespace binade::cuda {

/// A record that a library might have computed and the plan's kernel does.
struct Refusal {
  const plan::Record *record;
  std::string why;
};

/// What records of one program share.
struct StreamSetup {
  Device *device = nullptr;
  const Plan *plan = nullptr;
  /// The device's: addresses are made of it, and nothing is read through it.
  binade::Memory memory;
  std::span<const Module> modules;
  std::shared_ptr<CublasLt> library; ///< Null where there is none.
  std::shared_ptr<Cudnn> cudnn;      ///< Null where there is none.
  std::string where;
  std::vector<Refusal> *refusals = nullptr; ///< Gets those of a library.
};

/// Memory of the plan that a library may use.
struct LibraryScratch {
  std::uint64_t bytes = 0;
  std::optional<binade::Address> address;

  LibraryScratch(const std::optional<plan::View> &view,
                 const StreamSetup &setup);
  /// 0 where there is none.
  Address at(std::span<const std::int64_t> iteration) const;
};

/// A record that is put on the device's stream, again and again.
class StreamOperation {
public:
  virtual ~StreamOperation() = default;
  /// In this iteration of the loops around it, outermost first.
  virtual Result<void> run(std::span<const std::int64_t> iteration) = 0;
  /// For people.
  virtual std::string getImplementation() const { return {}; }
  /// Tries what the library has, and keeps the fastest.
  virtual Result<void> tune() { return {}; }
  /// That of the library, for plans; empty where none multiplies.
  virtual std::string getAlgorithm() const { return {}; }
};

using MadeOperation = Result<std::unique_ptr<StreamOperation>>;

/// A record by the kernels that the plan has for it.
MadeOperation createKernels(const plan::Record &record,
                            const StreamSetup &setup);
/// A product by the library, or what it does not compute by a kernel.
MadeOperation createMatmul(const plan::Record &record,
                           const StreamSetup &setup);
/// A convolution by the library, or what it does not compute by a kernel.
MadeOperation createConvolution(const plan::Record &record,
                                const StreamSetup &setup);

inline Address toDevice(const std::byte *address) {
  return reinterpret_cast<Address>(address);
}

inline LibraryScratch::LibraryScratch(const std::optional<plan::View> &view,
                                      const StreamSetup &setup) {
  constexpr std::uint64_t kAlignment = 256; // Of the libraries.
  if (!view || setup.plan->buffers[view->buffer].offset % kAlignment != 0)
    return;
  bytes = setup.plan->buffers[view->buffer].bytes;
  address = setup.memory.addressOf(*view);
}

inline Address
LibraryScratch::at(std::span<const std::int64_t> iteration) const {
  return address ? toDevice(address->at(iteration)) : 0;
}

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_STREAMOPERATION_H
