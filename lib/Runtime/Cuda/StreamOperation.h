//===- StreamOperation.h - Plan records prepared for a stream ---*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMOPERATION_H
#define BINADE_RUNTIME_CUDA_STREAMOPERATION_H

#include "../Execution/Operation.h"
#include "CublasLt.h"
#include "CudnnAttention.h"
#include "Module.h"

namespace binade::exchange {
class Group;
}

namespace binade::cuda {

/// A record that the bundle's own kernel computes because a library does not
/// support it.
struct Refusal {
  const plan::Record *record;
  std::string why;
};

/// cuDNN's attention, and workspace for it that the plan does not reserve.
struct SharedAttention {
  CudnnAttention attention;
  DeviceMemory extraWorkspace;
};

struct StreamSetup;

/// Attention of cuDNN that records of a plan share.
class AttentionCache {
public:
  /// Returns cuDNN's attention for a problem, or why there is none. It needs at
  /// most the workspace that the plan reserves, `reserved` bytes; if libraries
  /// are preferred, what it needs beyond is allocated.
  std::shared_ptr<const Result<SharedAttention>>
  find(const StreamSetup &setup, const AttentionProblem &problem,
       std::uint64_t reserved);

private:
  struct Entry {
    AttentionProblem problem;
    std::uint64_t reserved;
    std::shared_ptr<const Result<SharedAttention>> attention;
  };
  std::vector<Entry> entries;
};

/// The context in which the operations of a record list are created.
struct StreamSetup {
  Device *device = nullptr;
  const Plan *plan = nullptr;
  /// The device's arena, of which only addresses are computed.
  binade::Memory memory;
  std::span<const Module> modules;
  std::shared_ptr<CublasLt> library;    ///< Null without cuBLASLt.
  std::shared_ptr<Cudnn> cudnn;         ///< Null without cuDNN.
  AttentionCache *attentions = nullptr; ///< Not null if there is cuDNN.
  exchange::Group *exchange = nullptr;  ///< Not null if the plan exchanges.
  /// Whether cuDNN computes attention even where the plan reserves too little
  /// workspace or none, with memory that the runtime allocates.
  bool prefersLibraries = false;
  std::string where;
  std::vector<Refusal> *refusals = nullptr; ///< Receives the refusals.
};

/// The scratch memory that the plan reserves for a library.
struct LibraryScratch {
  std::uint64_t bytes = 0;
  std::optional<binade::Address> address;

  LibraryScratch(const std::optional<plan::View> &view,
                 const StreamSetup &setup);
  /// Returns its address; 0 without scratch memory.
  Address at(std::span<const std::int64_t> iteration) const;
};

/// A record, prepared for execution on the device's stream.
class StreamOperation {
public:
  virtual ~StreamOperation() = default;
  /// Enqueues the record. `iteration` is that of the loops around it, outermost
  /// first.
  virtual Result<void> run(std::span<const std::int64_t> iteration) = 0;
  /// Returns the name of the implementation for reports.
  virtual std::string getImplementation() const { return {}; }
  /// Measures the algorithms of the library, and selects the fastest.
  virtual Result<void> tune() { return {}; }
  /// Returns the library's algorithm as plans record it; empty without one.
  virtual std::string getAlgorithm() const { return {}; }
};

using MadeOperation = Result<std::unique_ptr<StreamOperation>>;

/// Creates the operation of a record with the bundle's own kernels.
MadeOperation createKernels(const plan::Record &record,
                            const StreamSetup &setup);

/// Returns `made`, the operation of a library. If the library refuses the
/// record and the bundle has `deviceKernel` for it, stores the refusal in
/// `setup` and creates the operation with the bundle's own kernels.
MadeOperation fallBackToKernels(MadeOperation made, const plan::Record &record,
                                std::string_view deviceKernel,
                                const StreamSetup &setup);

/// Creates a matmul with cuBLASLt, or with the bundle's kernel if cuBLASLt does
/// not support it.
MadeOperation createMatmul(const plan::Record &record,
                           const StreamSetup &setup);
/// Creates a convolution with cuDNN, or with the bundle's kernel if cuDNN does
/// not support it.
MadeOperation createConvolution(const plan::Record &record,
                                const StreamSetup &setup);

/// Creates an attention with cuDNN, or with the bundle's kernels if cuDNN does
/// not support it.
MadeOperation createAttention(const plan::Record &record,
                              const StreamSetup &setup);

/// Creates the start or the join of exchanges.
MadeOperation createExchange(const plan::Record &record,
                             const StreamSetup &setup);

inline Address toDevice(const std::byte *address) {
  return reinterpret_cast<Address>(address);
}

inline LibraryScratch::LibraryScratch(const std::optional<plan::View> &view,
                                      const StreamSetup &setup) {
  constexpr std::uint64_t kAlignment = 256; // Required by the libraries.
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
