//===- StateFormats.h - Formats of optimizer states by name -----*- C++ -*-===//

#ifndef BINADE_PRECISION_STATEFORMATS_H
#define BINADE_PRECISION_STATEFORMATS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The formats in which states are stored, by the sign of their values: a float
/// type (as TypeAttr), `#binade.stochastic` or `#binade.quantized`. Null if not
/// set.
struct StateFormats {
  Attribute ofSigned;   ///< For states that may be negative.
  Attribute ofUnsigned; ///< For others, such as second moments.

  explicit operator bool() const { return bool(ofSigned); }
  bool operator==(const StateFormats &) const = default;
};

/// The suffix of a format's name that asks for stochastic rounding.
inline constexpr StringLiteral kStochastic = ":stochastic";

/// A named format, for lists.
struct FormatInfo {
  std::string name, summary;
  /// Bytes per element of a large tensor, including scales.
  double bytes;
  /// Whether states can have the format; others are for tensors in the step.
  bool isOfStates;
};
std::vector<FormatInfo> listFormats(MLIRContext *context);

/// Finds the formats called `name`: f32, bf16, f16, a shipped file, a file that
/// ends in .yaml, or two of these joined by `+`, the first for states that may
/// be negative. Each may end in `:stochastic`, for stochastic rounding. Emits
/// errors at `location`.
FailureOr<StateFormats> findStateFormats(StringRef name, Location location);

/// Finds the quantized format called `name`, a shipped one or a file that ends
/// in .yaml, for tensors that are quantized where they are used. Error messages
/// also offer the names `others`, which the caller accepts.
FailureOr<QuantizedAttr> findTensorFormat(StringRef name, Location location,
                                          ArrayRef<StringLiteral> others = {});

/// Splits "GLOB:FORMAT" or "FORMAT" into the glob, which is empty for all
/// parameters, and the name of the format.
std::pair<StringRef, StringRef> splitStates(StringRef text);
/// Returns the names of the formats in a "GLOB:FORMAT".
SmallVector<StringRef> getFormatNames(StringRef states);

/// The number of elements from which the states of a parameter are quantized,
/// unless a rule selects the parameter by name or role. Smaller states save
/// little memory, and training is often sensitive to their errors.
inline constexpr int64_t kMinQuantized = 4096;

/// Returns the formats of the states of `op` for a decision: f32 instead of
/// quantized `formats` unless `quantizes` is set.
Attribute chooseStates(const StateFormats &formats, OptimizerUpdateOp op,
                       bool quantizes);

/// Returns "f8E4M3FN/128 expanded", "f8E4M3FN per tensor", or the name of a
/// float type.
std::string describeFormat(Attribute format);
/// Describes a list of formats, joined by " + ".
std::string describeState(Attribute format);
std::string describeState(const StateFormats &formats);

} // namespace mlir::binade

#endif // BINADE_PRECISION_STATEFORMATS_H
