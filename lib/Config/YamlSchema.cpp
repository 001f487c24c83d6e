//===- YamlSchema.cpp - Schemas of YAML files -----------------------------===//

#include "binade/Config/YamlSchema.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

//===----------------------------------------------------------------------===//
// YamlReader
//===----------------------------------------------------------------------===//

YamlReader::YamlReader(StringRef text, StringRef file, MLIRContext *context)
    : file(file), context(context), stream(text, sources) {
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic &diagnostic, void *self) {
        auto *reader = static_cast<YamlReader *>(self);
        emitError(FileLineColLoc::get(reader->context, reader->file,
                                      diagnostic.getLineNo(),
                                      diagnostic.getColumnNo() + 1))
            << diagnostic.getMessage();
      },
      this);
  document = stream.begin(); // May be called only once.
  if (document != stream.end())
    root = document->getRoot();
}

LogicalResult YamlReader::finish() {
  if (++document == stream.end())
    return failure(stream.failed());
  Node *second = document->getRoot();
  return second ? error(*second, "a second document, expected one per file")
                : fail();
}

LogicalResult YamlReader::fail() {
  if (stream.failed())
    return failure();
  StringRef text =
      sources.getMemoryBuffer(sources.getMainFileID())->getBuffer();
  unsigned number = 0;
  for (StringRef line : llvm::split(text, '\n')) {
    ++number;
    if (line.starts_with("%") && !line.starts_with("%YAML") &&
        !line.starts_with("%TAG"))
      return emitError(FileLineColLoc::get(context, file, number, 1))
             << "a line that begins with '%' is a YAML directive, expected "
                "%YAML or %TAG";
  }
  return emitError(FileLineColLoc::get(context, file, 1, 1)) << "expected YAML";
}

std::pair<unsigned, unsigned> YamlReader::getPosition(Node &node) {
  llvm::SMLoc start = node.getSourceRange().Start;
  // A value that could not be parsed has no location.
  if (!sources.FindBufferContainingLoc(start))
    return {1, 1};
  return sources.getLineAndColumn(start);
}

LocationAttr YamlReader::getLoc(Node &node) {
  auto [line, column] = getPosition(node);
  return FileLineColLoc::get(context, file, line, column);
}

std::string YamlReader::getOrigin(Node &node) {
  return file + ":" + std::to_string(getPosition(node).first);
}

LogicalResult YamlReader::error(Node &node, const Twine &message) {
  return emitError(getLoc(node)) << message;
}

FailureOr<std::string> YamlReader::readScalar(Node &node, StringRef expected) {
  if (auto *block = dyn_cast<llvm::yaml::BlockScalarNode>(&node))
    return block->getValue().str();
  auto *scalar = dyn_cast<llvm::yaml::ScalarNode>(&node);
  if (!scalar)
    return error(node, "expected " + expected);
  SmallString<64> storage;
  return scalar->getValue(storage).str();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Returns the schema of a scalar that `parse` converts. The error about a text
/// that it does not accept names `expected`, and suggests the nearest of
/// `words`.
template <typename T>
static YamlSchema<T>
scalar(std::string expected, std::function<bool(StringRef, T &)> parse,
       llvm::json::Object schema, std::vector<std::string> words = {}) {
  auto read = [expected = std::move(expected), parse = std::move(parse),
               words = std::move(words)](YamlReader &reader, Node &node,
                                         T &value) -> LogicalResult {
    FailureOr<std::string> text = reader.readScalar(node, expected);
    if (failed(text))
      return failure();
    if (!parse(*text, value))
      return reader.error(node, "expected " + expected + ", got '" + *text +
                                    "'" + ::binade::suggest(*text, words));
    return success();
  };
  return {std::move(read), std::move(schema)};
}

YamlSchema<std::string> mlir::binade::yamlString() {
  auto parse = [](StringRef text, std::string &value) {
    value = text.str();
    return true;
  };
  return scalar<std::string>("a word", parse,
                             llvm::json::Object{{"type", "string"}});
}

YamlSchema<bool> mlir::binade::yamlFlag() {
  auto parse = [](StringRef text, bool &value) {
    value = text == "true";
    return value || text == "false";
  };
  return scalar<bool>("true or false", parse,
                      llvm::json::Object{{"type", "boolean"}});
}

YamlSchema<double> mlir::binade::yamlNumber(double low, double high) {
  llvm::json::Object schema{{"type", "number"}, {"exclusiveMinimum", low}};
  std::string expected = "a number above " + formatNumber(low);
  if (std::isfinite(high)) {
    expected += " and below " + formatNumber(high);
    schema["exclusiveMaximum"] = high;
  } else {
    expected += " within the range of f32";
  }
  auto parse = [low, high](StringRef text, double &value) {
    return !text.getAsDouble(value) && value > low && value < high &&
           std::isfinite(static_cast<float>(value));
  };
  return scalar<double>(std::move(expected), parse, std::move(schema));
}

YamlSchema<double> mlir::binade::yamlShare() {
  auto parse = [](StringRef text, double &value) {
    return !text.getAsDouble(value) && value >= 0 && value <= 1;
  };
  return scalar<double>(
      "a fraction from 0 to 1", parse,
      llvm::json::Object{{"type", "number"}, {"minimum", 0}, {"maximum", 1}});
}

YamlSchema<int64_t> mlir::binade::yamlCount(int64_t low) {
  auto parse = [low](StringRef text, int64_t &value) {
    return !text.getAsInteger(10, value) && value >= low;
  };
  return scalar<int64_t>(
      "a whole number of at least " + std::to_string(low), parse,
      llvm::json::Object{{"type", "integer"}, {"minimum", low}});
}

YamlSchema<size_t> mlir::binade::yamlWord(std::vector<std::string> words) {
  ArrayRef<std::string> most = ArrayRef(words).drop_back();
  std::string expected =
      llvm::join(most, ", ") + (most.empty() ? "" : " or ") + words.back();
  llvm::json::Object schema{{"enum", llvm::json::Array(words)}};
  auto parse = [words](StringRef text, size_t &index) {
    index = llvm::find(words, text) - words.begin();
    return index < words.size();
  };
  return scalar<size_t>(std::move(expected), parse, std::move(schema),
                        std::move(words));
}

//===----------------------------------------------------------------------===//
// Mappings
//===----------------------------------------------------------------------===//

/// Returns what an error about an unknown key suggests.
static std::string suggestKey(StringRef key, ArrayRef<std::string> names,
                              StringRef command) {
  if (command.empty())
    return ::binade::suggestOrList(key, names);
  std::string near = ::binade::suggest(key, names);
  return near.empty() ? ("; '" + command + "' lists the keys").str() : near;
}

LogicalResult mlir::binade::readKeys(
    YamlReader &reader, Node &node, StringRef what, ArrayRef<std::string> names,
    llvm::function_ref<LogicalResult(size_t, Node &)> read, StringRef command) {
  auto *mapping = dyn_cast<llvm::yaml::MappingNode>(&node);
  if (!mapping && !command.empty())
    return reader.error(node, "expected " + what + ": a mapping, whose keys '" +
                                  command + "' lists");
  if (!mapping)
    return reader.error(node, "expected " + what + ": a mapping with " +
                                  llvm::join(names, ", "));
  llvm::SmallBitVector seen(names.size());
  for (llvm::yaml::KeyValueNode &entry : *mapping) {
    if (!entry.getKey())
      return reader.fail();
    FailureOr<std::string> key = reader.readScalar(*entry.getKey(), "a key");
    if (failed(key))
      return failure();
    size_t index = llvm::find(names, *key) - names.begin();
    if (index == names.size())
      return reader.error(*entry.getKey(),
                          "unknown key '" + *key + "' in " + what +
                              suggestKey(*key, names, command));
    if (seen[index])
      return reader.error(*entry.getKey(), "key '" + *key + "' is repeated");
    seen.set(index);
    if (!entry.getValue())
      return reader.fail();
    if (failed(read(index, *entry.getValue())))
      return failure();
  }
  // A mapping with a syntax error ends as if it were complete; the error is
  // reported.
  return failure(reader.hasFailed());
}
