//===- OnnxSchemas.h - What ONNX says of its ops ----------------*- C++ -*-===//

#ifndef BINADE_IR_ONNXSCHEMAS_H
#define BINADE_IR_ONNXSCHEMAS_H

#include "mlir/Support/LLVM.h"
#include <map>

namespace mlir::binade {

/// Inputs and outputs of an op, and which of them have one element type: a
/// letter for each, the same for the same type. `*` and `+` behind the last say
/// that there are any number of it, which with `+` may differ. How many a node
/// may have, and which attributes.
struct OpSchema {
  StringLiteral domain, name;
  int since;
  StringLiteral inputs, outputs;
  /// Element types by letter, a bit for each number of ONNX's.
  uint64_t allowed[5];
  unsigned minInputs, maxInputs, minOutputs, maxOutputs;
  /// `o` for each input that may be left out, and `r` for one that may not.
  StringLiteral presence;
  /// "axis=2 to=2!": names with a number of AttributeProto::AttributeType, `!`
  /// where the attribute is required.
  StringLiteral attributes;

  struct Attribute {
    StringRef name;
    int type;
    bool isRequired;
  };
  SmallVector<Attribute> getAttributes() const;
  /// Whether a node may not leave out input `index`.
  bool needsInput(unsigned index) const {
    return index < presence.size() && presence[index] == 'r';
  }

  /// The letter of an input or output; nothing where its type is its own.
  std::optional<char> getInput(unsigned index) const;
  std::optional<char> getOutput(unsigned index) const;
  bool allows(char letter, int32_t type) const {
    return allowed[letter - 'a'] >> type & 1;
  }
  /// The one type of a letter; 0 where there are several.
  int32_t getOnlyType(char letter) const;
};

/// Versions of operator sets, by domain.
using OperatorSets = std::map<std::string, int64_t>;

/// What the standard says of an op; null for ops that it does not have.
const OpSchema *findSchema(StringRef domain, StringRef name,
                           const OperatorSets &sets);

/// Whether values of `type` are made by `Cast`.
bool canCast(const OperatorSets &sets, int32_t type);

} // namespace mlir::binade

#endif // BINADE_IR_ONNXSCHEMAS_H
