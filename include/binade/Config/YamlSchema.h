//===- YamlSchema.h - Schemas of YAML files ---------------------*- C++ -*-===//
//
// A schema describes how a value is written. It parses the value, with
// diagnostics at the line and column of the error, and generates a JSON schema,
// so that editors check the same as the parser.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONFIG_YAMLSCHEMA_H
#define BINADE_CONFIG_YAMLSCHEMA_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include <functional>

namespace mlir::binade {

/// The parser of one file; errors become diagnostics of `context`.
class YamlReader {
public:
  using Node = llvm::yaml::Node;

  YamlReader(StringRef text, StringRef file, MLIRContext *context);

  /// Returns the root of the only document; null if there is none.
  Node *getRoot() { return root; }
  /// Emits an error for a second document. Destroys the nodes of the first.
  LogicalResult finish();
  /// Whether the text is not valid YAML, which is already reported.
  bool hasFailed() { return stream.failed(); }

  MLIRContext *getContext() const { return context; }
  LocationAttr getLoc(Node &node);
  /// Returns "file:line".
  std::string getOrigin(Node &node);
  LogicalResult error(Node &node, const Twine &message);
  /// Returns failure. Emits an error if the parser did not: at a directive that
  /// YAML does not have.
  LogicalResult fail();
  /// Returns the text of a scalar, or emits an error that `expected` was
  /// expected.
  FailureOr<std::string> readScalar(Node &node, StringRef expected);

private:
  std::pair<unsigned, unsigned> getPosition(Node &node);

  std::string file;
  MLIRContext *context;
  llvm::SourceMgr sources;
  llvm::yaml::Stream stream;
  llvm::yaml::document_iterator document;
  Node *root = nullptr;
};

template <typename T> struct YamlSchema {
  std::function<LogicalResult(YamlReader &, YamlReader::Node &, T &)> read;
  llvm::json::Object schema;
};

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

YamlSchema<std::string> yamlString();
YamlSchema<bool> yamlFlag();
/// A number in (low, high) within the range of f32.
YamlSchema<double> yamlNumber(double low, double high);
/// A number in [0, 1].
YamlSchema<double> yamlShare();
YamlSchema<int64_t> yamlCount(int64_t low);

/// One of `words`, as its index.
YamlSchema<size_t> yamlWord(std::vector<std::string> words);

/// One of the words of `Enum`, whose cases are numbered from 0.
template <typename Enum>
YamlSchema<Enum> yamlEnum(StringRef (*print)(Enum), unsigned last) {
  std::vector<std::string> words;
  for (unsigned i = 0; i <= last; ++i)
    words.push_back(print(static_cast<Enum>(i)).str());
  YamlSchema<size_t> word = yamlWord(std::move(words));
  return {[read = word.read](YamlReader &reader, YamlReader::Node &node,
                             Enum &value) -> LogicalResult {
            size_t index;
            if (failed(read(reader, node, index)))
              return failure();
            value = static_cast<Enum>(index);
            return success();
          },
          std::move(word.schema)};
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

template <typename T> YamlSchema<std::vector<T>> yamlList(YamlSchema<T> item) {
  llvm::json::Object schema{{"type", "array"},
                            {"items", std::move(item.schema)}};
  return {[read = item.read](YamlReader &reader, YamlReader::Node &node,
                             std::vector<T> &values) -> LogicalResult {
            auto *list = dyn_cast<llvm::yaml::SequenceNode>(&node);
            if (!list)
              return reader.error(node, "expected a list");
            for (YamlReader::Node &entry : *list)
              if (failed(read(reader, entry, values.emplace_back())))
                return failure();
            return success();
          },
          std::move(schema)};
}

/// One value, or a list of values.
template <typename T>
YamlSchema<std::vector<T>> yamlOneOrMore(YamlSchema<T> item) {
  YamlSchema<std::vector<T>> list = yamlList(item);
  llvm::json::Object schema{
      {"anyOf",
       llvm::json::Array{std::move(item.schema), std::move(list.schema)}}};
  return {[one = item.read,
           many = list.read](YamlReader &reader, YamlReader::Node &node,
                             std::vector<T> &values) -> LogicalResult {
            if (isa<llvm::yaml::SequenceNode>(node))
              return many(reader, node, values);
            return one(reader, node, values.emplace_back());
          },
          std::move(schema)};
}

//===----------------------------------------------------------------------===//
// Mappings
//===----------------------------------------------------------------------===//

/// A key of a mapping that is parsed into a T.
template <typename T> struct YamlKey {
  std::string name;
  std::function<LogicalResult(YamlReader &, YamlReader::Node &, T &)> read;
  llvm::json::Object schema;
};

/// A key whose value, parsed by `form`, is stored in `member`, a U or an
/// optional U.
template <typename T, typename Member, typename U>
YamlKey<T> yamlKey(StringRef name, StringRef help, Member T::*member,
                   YamlSchema<U> form) {
  form.schema["description"] = help;
  return {name.str(),
          [member, read = form.read](YamlReader &reader, YamlReader::Node &node,
                                     T &value) -> LogicalResult {
            U part{};
            if (failed(read(reader, node, part)))
              return failure();
            value.*member = std::move(part);
            return success();
          },
          std::move(form.schema)};
}

/// Calls `read` with the value and the index in `names` of each key of `node`.
/// Emits an error for keys that are unknown or repeated; `what` describes the
/// mapping. The error about an unknown key suggests the nearest key; if none is
/// near, it lists all keys, or names `command`, which lists them.
LogicalResult
readKeys(YamlReader &reader, YamlReader::Node &node, StringRef what,
         ArrayRef<std::string> names,
         llvm::function_ref<LogicalResult(size_t, YamlReader::Node &)> read,
         StringRef command = "");

/// A mapping with some of `keys`. `check` may reject what was parsed.
template <typename T>
YamlSchema<T> yamlMapping(
    StringRef what, std::vector<YamlKey<T>> keys,
    std::function<LogicalResult(YamlReader &, YamlReader::Node &, T &)> check =
        nullptr) {
  llvm::json::Object properties;
  std::vector<std::string> names;
  for (YamlKey<T> &key : keys) {
    properties[key.name] = std::move(key.schema);
    names.push_back(key.name);
  }
  llvm::json::Object schema{{"type", "object"},
                            {"additionalProperties", false},
                            {"properties", std::move(properties)}};
  auto read =
      [what = what.str(), keys = std::move(keys), names = std::move(names),
       check = std::move(check)](YamlReader &reader, YamlReader::Node &node,
                                 T &value) -> LogicalResult {
    auto readKey = [&](size_t index, YamlReader::Node &part) {
      return keys[index].read(reader, part, value);
    };
    if (failed(readKeys(reader, node, what, names, readKey)))
      return failure();
    return check ? check(reader, node, value) : success();
  };
  return {std::move(read), std::move(schema)};
}

} // namespace mlir::binade

#endif // BINADE_CONFIG_YAMLSCHEMA_H
