//===- YamlSchema.h - what may stand in a YAML file -------------*- C++ -*-===//
//
// A form says how one kind of value is written. It reads the value, with a
// diagnostic at the line and column of what is wrong, and describes itself as
// JSON schema, so that editors check what the reader checks.
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

/// One file; what goes wrong becomes a diagnostic of `context`.
class YamlReader {
public:
  using Node = llvm::yaml::Node;

  YamlReader(StringRef text, StringRef file, MLIRContext *context);

  /// The root of the only document; null where there is none.
  Node *getRoot() { return root; }
  /// Reports a second document. The nodes of the first are gone afterwards.
  LogicalResult finish();
  /// Whether the text is not YAML, which was reported.
  bool hasFailed() { return stream.failed(); }

  MLIRContext *getContext() const { return context; }
  LocationAttr getLoc(Node &node);
  /// "file:line".
  std::string getOrigin(Node &node);
  LogicalResult error(Node &node, const Twine &message);
  /// Fails, and says why where the parser ended without a word: at a directive
  /// that is not YAML's.
  LogicalResult fail();
  /// The text of a scalar.
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
/// A finite number that f32 holds, in (low, high).
YamlSchema<double> yamlNumber(double low, double high);
/// A number in [0, 1].
YamlSchema<double> yamlShare();
YamlSchema<int64_t> yamlCount(int64_t low);

/// One of `words`, as an index.
YamlSchema<size_t> yamlWord(std::vector<std::string> words);

/// One of the words of `Enum`, whose cases count from 0.
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

/// One key of a mapping that is read into a T.
template <typename T> struct YamlKey {
  std::string name;
  std::function<LogicalResult(YamlReader &, YamlReader::Node &, T &)> read;
  llvm::json::Object schema;
};

/// A key whose value, of `form`, becomes `member`, a U or an optional of it.
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

/// Calls `read` with the index in `names` of each key of `node` and its value.
/// Keys are among `names`, and stand once each; `what` names the mapping.
LogicalResult
readKeys(YamlReader &reader, YamlReader::Node &node, StringRef what,
         ArrayRef<std::string> names,
         llvm::function_ref<LogicalResult(size_t, YamlReader::Node &)> read);

/// A mapping with some of `keys`. `check` sees what was read, and may refuse
/// it.
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
