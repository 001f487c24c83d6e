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

/// Behind the name of a format: numbers are rounded to it by chance.
inline constexpr StringLiteral kStochastic = ":stochastic";

/// A format that has a name.
struct FormatInfo {
  std::string name, summary;
  /// Of one element of a large tensor.
  double bytes;
  /// Whether states can have it; the others are of tensors alone.
  bool isOfStates;
};
std::vector<FormatInfo> listFormats(MLIRContext *context);

/// The formats called `name`: f32, bf16, f16, one of the shipped files, a file
/// that ends in .yaml, or two of these with a `+` between them, the first for
/// states that may be negative. Each may end in `:stochastic`, to be rounded to
/// by chance. Errors are reported at `location`.
FailureOr<StateFormats> findStateFormats(StringRef name, Location location);

/// The format called `name`, of the shipped files or a file that ends in .yaml,
/// for tensors that are quantized where they are used. Errors name `others`,
/// too, which the caller knows.
FailureOr<QuantizedAttr> findTensorFormat(StringRef name, Location location,
                                          ArrayRef<StringLiteral> others = {});

/// "GLOB:FORMAT" or "FORMAT" as glob, empty for all parameters, and name.
std::pair<StringRef, StringRef> splitStates(StringRef text);
/// The names in it that formats are found by.
SmallVector<StringRef> getFormatNames(StringRef states);

/// Elements from which on states of a parameter are quantized unless it is
/// meant by name or role: smaller ones save little, and are often what training
/// hangs on.
inline constexpr int64_t kMinQuantized = 4096;

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
