//===- ParseFormat.h - Words of attributes in text --------------*- C++ -*-===//

#ifndef BINADE_LIB_IR_PARSEFORMAT_H
#define BINADE_LIB_IR_PARSEFORMAT_H

#include "mlir/IR/OpImplementation.h"

namespace mlir::binade {

/// Parses the name of a float format. An error lists the formats, and suggests
/// the nearest one.
ParseResult parseFormat(AsmParser &parser, FloatType &format);

/// The same, if there is a word.
OptionalParseResult parseOptionalFormat(AsmParser &parser, FloatType &format);

/// Parses one of the words `names` and returns its index.
FailureOr<size_t> parseWord(AsmParser &parser, ArrayRef<std::string> names);

/// Parses a case of an enumeration with the values 0 to `last`.
template <typename Enum>
ParseResult parseEnum(AsmParser &parser, unsigned last, Enum &value) {
  std::vector<std::string> names;
  for (unsigned i = 0; i <= last; ++i)
    names.push_back(stringifyEnum(Enum(i)).str());
  FailureOr<size_t> index = parseWord(parser, names);
  if (failed(index))
    return failure();
  value = Enum(*index);
  return success();
}

} // namespace mlir::binade

#endif // BINADE_LIB_IR_PARSEFORMAT_H
