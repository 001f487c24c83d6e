//===- Library.h - What a contraction needs of its library ------*- C++ -*-===//

#ifndef BINADE_RUNTIME_LIBRARY_H
#define BINADE_RUNTIME_LIBRARY_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// Who computes matrix products and convolutions.
enum class Contraction {
  Auto,   ///< oneDNN where it is found and has a fast primitive, else Own
  OneDnn, ///< oneDNN has to be there; what it lacks is computed by Own
  Own,
};

/// `text` of the environment variable BINADE_CONTRACTION or of a flag:
/// `auto`, `onednn` or `own`.
std::optional<Contraction> parseContraction(std::string_view text);

/// The version of oneDNN that was found ("2.6.3"); empty where there is none.
std::string oneDnnVersion();

struct LibraryUse {
  std::uint64_t scratchBytes = 0;
  /// For people: `onednn brg:avx512_core_bf16`, `own avx512`.
  std::string implementation;
};

/// Asks for the scratch memory of one matmul or convolution record (0 for all
/// others) on this machine. The compiler calls it while it plans and reserves
/// that much under the record's `scratch`; where a bundle meets another
/// machine, library or thread count, the runtime allocates what is lacking.
/// `buffers` give the types of the record's operands; offsets do not matter.
LibraryUse queryLibrary(std::span<const plan::Buffer> buffers,
                        const plan::Record &record, unsigned threads,
                        Contraction contraction = Contraction::Auto);

/// Physical cores that this process may run on, at least 1: the affinity mask
/// without hyper-threads, and no more than the control group's quota.
unsigned defaultThreadCount();

} // namespace binade

#endif // BINADE_RUNTIME_LIBRARY_H
