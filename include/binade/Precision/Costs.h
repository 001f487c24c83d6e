//===- Costs.h - Measured costs of formats on a target ----------*- C++ -*-===//

#ifndef BINADE_PRECISION_COSTS_H
#define BINADE_PRECISION_COSTS_H

#include "binade/Costs/GpuCosts.h"
#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::binade {

/// The speed of a target in one format.
struct FormatRates {
  FloatType format;
  /// Multiply-adds per second in a large matmul.
  double products = 0;
  /// Elements per second that an elementwise kernel reads or writes in memory.
  double elements = 0;
};

/// The speed of a target with operands in one quantized format.
struct QuantizedRates {
  /// The name of the format in lib/Precision/Formats.
  std::string name;
  QuantizedAttr format;
  /// Multiply-adds per second in a large matmul of two quantized operands,
  /// without the time to dequantize them.
  double products = 0;
  /// Elements per second that are quantized, scales included, and dequantized
  /// for a matmul.
  double quantize = 0, dequantize = 0;
};

/// The speed of a target, as `binade costs` measures it or lib/Costs has it.
struct TargetCosts {
  std::string target;
  /// The processor that was measured; empty if the file does not name it.
  std::string processor;
  /// The name of a GPU in lib/Costs, which predicts matmuls by their shapes;
  /// empty for other targets.
  std::string chip;
  const GpuCosts *gpu = nullptr; ///< Those of `chip`.
  /// Seconds to start a kernel.
  double launch = 0;
  std::vector<FormatRates> formats;
  /// Empty if no quantized format was measured.
  std::vector<QuantizedRates> quantized;

  /// Returns the costs of a GPU. Formats of equal width are equally fast.
  static TargetCosts ofChip(StringRef chip, const GpuCosts &gpu,
                            MLIRContext *context);

  /// Returns the rates of `format`, or null if they were not measured.
  const FormatRates *find(FloatType format) const {
    auto found = llvm::find_if(formats, [&](const FormatRates &rates) {
      return rates.format == format;
    });
    return found == formats.end() ? nullptr : &*found;
  }

  /// Returns the rates of `format`. If it was not measured, returns those of
  /// the measured format that is most similar: whose scales are shared in the
  /// same way, and then whose elements have the same format. Null if no
  /// quantized format was measured.
  const QuantizedRates *find(QuantizedAttr format) const;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_COSTS_H
