//===- Library.h - Choice of the contraction library ------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_LIBRARY_H
#define BINADE_RUNTIME_LIBRARY_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// The implementation of matmuls, convolutions and attention.
enum class Contraction {
  /// A library where it is found: oneDNN, or cuBLASLt and cuDNN on a device;
  /// Binade's own kernels for gradients of attention that these compute as
  /// fast.
  Auto,
  /// A library for all that it supports. On a CPU, oneDNN is required. On a
  /// device, workspace is allocated outside of the arena.
  Library,
  Own, ///< Binade's own kernels.
};

/// Parses `auto`, `library` or `own`, the value of the environment variable
/// BINADE_CONTRACTION or of an option.
std::optional<Contraction> parseContraction(std::string_view text);

/// Returns the version of oneDNN that was found ("2.6.3"); empty without
/// oneDNN.
std::string oneDnnVersion();

/// Returns the version of cuBLASLt that was found ("12.9.1"), and of cuDNN;
/// empty without the library.
std::string cublasLtVersion();
std::string cudnnVersion();

struct LibraryUse {
  std::uint64_t scratchBytes = 0;
  /// Name for reports: `onednn brg:avx512_core_bf16`, `own avx512`.
  std::string implementation;
};

/// Returns the implementation and the scratch memory of a matmul, convolution
/// or attention record on this machine; 0 bytes for all other records. The
/// compiler reserves that much as the record's `scratch`. If a bundle runs with
/// another machine, library or thread count and needs more, the runtime
/// allocates it. `buffers` give the types of the record's operands; their
/// offsets are not used.
LibraryUse queryLibrary(std::span<const plan::Buffer> buffers,
                        const plan::Record &record, unsigned threads,
                        Contraction contraction = Contraction::Auto);

/// Returns the number of physical cores that this process may use, at least 1:
/// those of its affinity mask, hyper-threads not counted, limited by the CPU
/// quota of its control group.
unsigned defaultThreadCount();

/// Returns the name of the processor, or "unknown".
std::string getProcessorName();

/// Returns the name of the processor, the widest instructions that the runtime
/// uses of it, and the environment variables that limit these: "AMD EPYC with
/// AVX-512 BF16".
std::string describeProcessor();

} // namespace binade

#endif // BINADE_RUNTIME_LIBRARY_H
