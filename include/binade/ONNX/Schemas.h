//===- Schemas.h - What ONNX says of its ops --------------------*- C++ -*-===//

#ifndef BINADE_ONNX_SCHEMAS_H
#define BINADE_ONNX_SCHEMAS_H

#include "mlir/Support/LLVM.h"
#include <map>

namespace mlir::binade {

/// The signature of an ONNX operator since a version of its operator set.
/// `inputs` and `outputs` have a letter for each value; values with the same
/// letter have the same element type. `*` after the last letter stands for any
/// number of values of one type, `+` for any number whose types may differ.
struct OpSchema {
  StringLiteral domain, name;
  int since;
  StringLiteral inputs, outputs;
  /// The element types of each letter, as bits numbered by
  /// TensorProto::DataType.
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

  /// The letter of an input or output; nothing where its type is tied to none.
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

#endif // BINADE_ONNX_SCHEMAS_H
