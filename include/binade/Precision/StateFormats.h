//===- StateFormats.h - formats of optimizer states, by name ----*- C++ -*-===//

#ifndef BINADE_PRECISION_STATEFORMATS_H
#define BINADE_PRECISION_STATEFORMATS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// What states are kept in, by what they hold: a float type (as TypeAttr),
/// `#binade.stochastic` or `#binade.quantized`. Null where nothing is said.
struct StateFormats {
  Attribute ofSigned;   ///< Of states that may be negative.
  Attribute ofUnsigned; ///< Of second moments and the like.

  explicit operator bool() const { return bool(ofSigned); }
  bool operator==(const StateFormats &) const = default;
};

/// A format that `findStateFormats` knows.
struct StateFormatInfo {
  std::string name, summary;
  /// Of one element of a large tensor.
  double bytes;
};
std::vector<StateFormatInfo> listStateFormats(MLIRContext *context);
std::vector<StringRef> getStateFormatNames();

/// The formats called `name`: f32, bf16, f16, one of the shipped files, a file
/// that ends in .yaml, or two of these with a `+` between them, the first for
/// states that may be negative. Each may end in `:stochastic`, to be rounded to
/// by chance. Errors are reported at `location`.
FailureOr<StateFormats> findStateFormats(StringRef name, Location location);

/// The format called `name`, of the shipped files or a file that ends in .yaml,
/// for tensors that are quantized where they are used.
FailureOr<QuantizedAttr> findTensorFormat(StringRef name, Location location);

/// "GLOB:FORMAT" or "FORMAT" as glob, empty for all parameters, and name.
std::pair<StringRef, StringRef> splitStates(StringRef text);
/// The names in it that formats are found by.
SmallVector<StringRef> getFormatNames(StringRef states);

/// Elements from which on states of a parameter are quantized unless it is
/// meant by name or role: smaller ones save little, and are often what training
/// hangs on.
inline constexpr int64_t kLeastQuantized = 4096;

/// What a decision says of the states of `op`: f32 where `formats` are
/// quantized and it is not `quantizes`.
Attribute chooseStates(const StateFormats &formats, OptimizerUpdateOp op,
                       bool quantizes);

/// "f8E4M3FN/128 expanded", "f8E4M3FN per tensor", or the name of a float.
std::string describeFormat(Attribute format);
/// The same of lists, joined by " + ".
std::string describeState(Attribute format);
std::string describeState(const StateFormats &formats);

} // namespace mlir::binade

#endif // BINADE_PRECISION_STATEFORMATS_H
