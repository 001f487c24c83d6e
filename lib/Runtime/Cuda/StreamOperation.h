//===- StreamOperation.h - A record, ready for a stream ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMOPERATION_H
#define BINADE_RUNTIME_CUDA_STREAMOPERATION_H

#include "../Operation.h"
#include "CublasLt.h"
#include "Cudnn.h"
#include "Module.h"

namespace binade::cuda {

/// What a library may have for one product.
inline constexpr std::uint64_t kWorkspaceLimit = 32 << 20;

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
};

/// A record that is put on the device's stream, again and again.
class StreamOperation {
public:
  virtual ~StreamOperation() = default;
  /// In this iteration of the loops around it, outermost first.
  virtual Result<void> run(std::span<const std::int64_t> iteration) = 0;
  /// Scratch memory that `run` needs, given before: a multiple of 256.
  virtual std::uint64_t getScratchBytes() const { return 0; }
  virtual void setScratch(Address) {}
  /// For people.
  virtual std::string getImplementation() const { return {}; }
  /// Tries what the library has, with scratch memory of `kWorkspaceLimit`, and
  /// keeps the fastest.
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

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_STREAMOPERATION_H
