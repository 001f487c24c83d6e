//===- Schemas.h - Signatures of ONNX operators -----------------*- C++ -*-===//

#ifndef BINADE_ONNX_SCHEMAS_H
#define BINADE_ONNX_SCHEMAS_H

#include "mlir/Support/LLVM.h"
#include <map>

namespace mlir::binade {

/// The signature of an ONNX operator since a version of its operator set.
/// `inputs` and `outputs` have a letter for each value; values with the same
/// letter have the same element type. `*` after the last letter means any
/// number of values of one type, `+` any number whose types may differ.
struct OpSchema {
  StringLiteral domain, name;
  int since;
  StringLiteral inputs, outputs;
  /// The element types that each letter allows: bit masks indexed by
  /// TensorProto::DataType.
  uint64_t allowed[5];
  unsigned minInputs, maxInputs, minOutputs, maxOutputs;
  /// `o` for each input that may be left out, and `r` for one that may not.
  StringLiteral presence;
  /// Names and types of attributes, such as "axis=2 to=2!": the number is an
  /// AttributeProto::AttributeType, `!` marks a required attribute.
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

  /// Returns the letter of an input or output; nothing if its type is tied to
  /// no letter.
  std::optional<char> getInput(unsigned index) const;
  std::optional<char> getOutput(unsigned index) const;
  bool allows(char letter, int32_t type) const {
    return allowed[letter - 'a'] >> type & 1;
  }
  /// Returns the only type that a letter allows; 0 if it allows several.
  int32_t getOnlyType(char letter) const;
};

/// Versions of operator sets, by domain.
using OperatorSets = std::map<std::string, int64_t>;

/// Returns the signature of an op in the version of its operator set that
/// `sets` selects; null for an unknown op.
const OpSchema *findSchema(StringRef domain, StringRef name,
                           const OperatorSets &sets);

/// Returns whether `Cast` can produce values of `type`.
bool canCast(const OperatorSets &sets, int32_t type);

} // namespace mlir::binade

#endif // BINADE_ONNX_SCHEMAS_H
