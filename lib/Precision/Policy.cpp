//===- Policy.cpp - what a user says about precision ----------------------===//

#include "binade/Precision/Policy.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include <string_view>

namespace mlir::binade {
using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;
const DataFiles &getPolicyFiles();

static constexpr StringLiteral kSuffix = ".yaml";
static constexpr size_t kLargestFile = 8 << 20;

//===----------------------------------------------------------------------===//
// Asking a policy
//===----------------------------------------------------------------------===//

/// Name of the node that `op` came from, as its location says.
static StringRef getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName();
  return "";
}

bool PolicyRule::matches(Operation *op) const {
  return (this->op.empty() || op->getName().stripDialect() == this->op) &&
         (!phase || getPhase(op) == *phase) &&
         (!name || name->match(getNodeName(op)));
}

bool PolicyRule::hasSameSelector(const PolicyRule &other) const {
  return op == other.op && phase == other.phase &&
         name.has_value() == other.name.has_value() &&
         nameText == other.nameText;
}

const PolicyRule *Policy::findRule(Operation *op) const {
  for (const PolicyRule &rule : llvm::reverse(rules))
    if (rule.matches(op))
      return &rule;
  return nullptr;
}

PolicyAttr Policy::toAttribute(MLIRContext *context) const {
  return PolicyAttr::get(context, StringAttr::get(context, name),
                         StringAttr::get(context, hash),
                         StringAttr::get(context, text));
}

//===----------------------------------------------------------------------===//
// Reading a policy
//===----------------------------------------------------------------------===//

namespace {
/// Reads YAML nodes; every failure is a diagnostic at the node.
class PolicyReader {
public:
  PolicyReader(StringRef text, StringRef file, MLIRContext *context)
      : text(text), file(file), context(context), stream(text, sources) {
    sources.setDiagHandler(
        [](const llvm::SMDiagnostic &diagnostic, void *self) {
          auto *reader = static_cast<PolicyReader *>(self);
          emitError(
              reader->at(diagnostic.getLineNo(), diagnostic.getColumnNo() + 1))
              << diagnostic.getMessage();
        },
        this);
  }

  FailureOr<Policy> read() {
    auto document = stream.begin(); // May be asked for once.
    Node *root = document == stream.end() ? nullptr : document->getRoot();
    auto *map = dyn_cast_or_null<llvm::yaml::MappingNode>(root);
    if (!map) {
      if (!stream.failed())
        emitError(at(1, 1)) << "expected a policy: a mapping with name, narrow "
                               "and wide";
      return failure();
    }
    Policy policy;
    policy.text = text.str();
    policy.hash = llvm::toHex(
        llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)), true);
    bool ok = readMap(
        *map, "a policy",
        {{"name", [&](auto &n) { return readString(n, policy.name); }},
         {"narrow", [&](auto &n) { return readFormat(n, policy.narrow); }},
         {"wide", [&](auto &n) { return readFormat(n, policy.wide); }},
         {"rules", [&](auto &n) { return readRules(n, policy.rules); }},
         {"loss_scale",
          [&](auto &n) { return readScaling(n, policy.lossScaling); }}});
    if (!ok || stream.failed())
      return failure();
    for (auto [key, present] : {std::pair("name", !policy.name.empty()),
                                std::pair("narrow", bool(policy.narrow)),
                                std::pair("wide", bool(policy.wide))})
      if (!present)
        return emitError(at(1, 1)) << "policy has no '" << key << "'";
    if (policy.narrow.getFPMantissaWidth() > policy.wide.getFPMantissaWidth())
      return emitError(at(1, 1)) << "narrow format " << policy.narrow
                                 << " is wider than " << policy.wide;
    return policy;
  }

private:
  using Node = llvm::yaml::Node;
  using Reader = std::function<bool(Node &)>;

  Location at(unsigned line, unsigned column) {
    return FileLineColLoc::get(context, file, line, column);
  }
  std::pair<unsigned, unsigned> position(Node &node) {
    return sources.getLineAndColumn(node.getSourceRange().Start);
  }
  InFlightDiagnostic error(Node &node) {
    auto [line, column] = position(node);
    return emitError(at(line, column));
  }

  /// Reads a mapping whose keys are all among `readers`, each at most once.
  bool readMap(Node &node, StringRef what,
               ArrayRef<std::pair<StringRef, Reader>> readers) {
    auto *map = dyn_cast<llvm::yaml::MappingNode>(&node);
    if (!map)
      return error(node) << "expected a mapping", false;
    llvm::SmallDenseSet<StringRef> seen;
    for (llvm::yaml::KeyValueNode &entry : *map) {
      std::string key;
      if (!entry.getKey() || !readString(*entry.getKey(), key))
        return false;
      const auto *reader = std::find_if(
          readers.begin(), readers.end(),
          [&](const auto &candidate) { return candidate.first == key; });
      if (reader == readers.end()) {
        SmallVector<StringRef> keys;
        for (const auto &candidate : readers)
          keys.push_back(candidate.first);
        return error(*entry.getKey())
                   << "unknown key '" << key << "' in " << what
                   << "; expected one of " << llvm::join(keys, ", "),
               false;
      }
      if (!seen.insert(reader->first).second)
        return error(*entry.getKey()) << "key '" << key << "' stands twice",
               false;
      if (!entry.getValue() || !reader->second(*entry.getValue()))
        return false;
    }
    return true;
  }

  bool readString(Node &node, std::string &value) {
    auto *scalar = dyn_cast<llvm::yaml::ScalarNode>(&node);
    if (!scalar)
      return error(node) << "expected a word", false;
    SmallString<64> storage;
    value = scalar->getValue(storage).str();
    return true;
  }

  /// The word may be anything: MLIR's parser must not print its own diagnostic.
  FloatType parseFormat(StringRef word) {
    ScopedDiagnosticHandler quiet(context,
                                  [](Diagnostic &) { return success(); });
    return dyn_cast_if_present<FloatType>(parseType(word, context));
  }

  bool readFormat(Node &node, FloatType &format) {
    std::string word;
    if (!readString(node, word))
      return false;
    format = parseFormat(word);
    return format
               ? true
               : (error(node) << "expected a float format such as f32, bf16 or "
                                 "f16, got '"
                              << word << "'",
                  false);
  }

  bool readNumber(Node &node, double &value, double low) {
    std::string word;
    if (!readString(node, word))
      return false;
    if (StringRef(word).getAsDouble(value) || !(value > low))
      return error(node) << "expected a number above " << formatNumber(low)
                         << ", got '" << word << "'",
             false;
    if (!std::isfinite(static_cast<float>(value)))
      return error(node) << "expected a number that f32 holds, got '" << word
                         << "'",
             false;
    return true;
  }

  bool readCount(Node &node, int64_t &value) {
    std::string word;
    if (!readString(node, word))
      return false;
    if (StringRef(word).getAsInteger(10, value) || value < 1)
      return error(node) << "expected a whole number of at least 1, got '"
                         << word << "'",
             false;
    return true;
  }

  bool readFlag(Node &node, bool &value) {
    std::string word;
    if (!readString(node, word))
      return false;
    if (word != "true" && word != "false")
      return error(node) << "expected true or false, got '" << word << "'",
             false;
    value = word == "true";
    return true;
  }

  template <typename Enum>
  bool readEnum(Node &node, std::optional<Enum> &value,
                std::optional<Enum> (*parse)(StringRef), StringRef words) {
    std::string word;
    if (!readString(node, word))
      return false;
    value = parse(word);
    if (!value)
      return error(node) << "expected " << words << ", got '" << word << "'",
             false;
    return true;
  }

  bool readScaling(Node &node, std::optional<LossScaling> &scaling) {
    scaling.emplace();
    bool ok = readMap(
        node, "loss_scale",
        {{"init", [&](auto &n) { return readNumber(n, scaling->init, 0.0); }},
         {"growth",
          [&](auto &n) { return readNumber(n, scaling->growth, 1.0); }},
         {"backoff",
          [&](auto &n) { return readNumber(n, scaling->backoff, 0.0); }},
         {"interval",
          [&](auto &n) { return readCount(n, scaling->interval); }}});
    if (ok && scaling->backoff >= 1.0)
      return error(node) << "backoff must be below 1, got "
                         << formatNumber(scaling->backoff),
             false;
    return ok;
  }

  bool readRules(Node &node, std::vector<PolicyRule> &rules) {
    auto *list = dyn_cast<llvm::yaml::SequenceNode>(&node);
    if (!list)
      return error(node) << "expected a list of rules", false;
    for (Node &entry : *list) {
      PolicyRule rule;
      if (!readRule(entry, rule))
        return false;
      for (const PolicyRule &other : rules)
        if (rule.hasSameSelector(other) && rule.settings != other.settings)
          return error(entry) << "matches the same as the rule at "
                              << other.origin << ", with other settings",
                 false;
      rules.push_back(std::move(rule));
    }
    return true;
  }

  bool readRule(Node &node, PolicyRule &rule) {
    auto [line, column] = position(node);
    rule.origin = (file + ":" + Twine(line)).str();
    rule.location = at(line, column);
    PolicySettings &settings = rule.settings;
    return readMap(
        node, "a rule",
        {{"match", [&](auto &n) { return readMatch(n, rule); }},
         {"class",
          [&](auto &n) {
            return readEnum(n, settings.precisionClass, symbolizePrecisionClass,
                            "allow, infer, clear or deny");
          }},
         {"compute", [&](auto &n) { return readFormat(n, settings.compute); }},
         {"accumulate",
          [&](auto &n) { return readFormat(n, settings.accumulate); }},
         {"result", [&](auto &n) { return readFormat(n, settings.result); }},
         {"optional", [&](auto &n) { return readFlag(n, rule.isOptional); }}});
  }

  bool readMatch(Node &node, PolicyRule &rule) {
    return readMap(node, "match",
                   {{"op", [&](auto &n) { return readOp(n, rule.op); }},
                    {"name", [&](auto &n) { return readGlob(n, rule); }},
                    {"phase", [&](auto &n) {
                       return readEnum(n, rule.phase, symbolizePhase,
                                       "forward, backward or optimizer");
                     }}});
  }

  bool readGlob(Node &node, PolicyRule &rule) {
    if (!readString(node, rule.nameText))
      return false;
    auto pattern = llvm::GlobPattern::create(storage(rule.nameText));
    if (!pattern)
      return error(node) << "'" << rule.nameText << "' is not a glob: "
                         << llvm::toString(pattern.takeError()),
             false;
    rule.name = std::move(*pattern);
    return true;
  }

  /// A glob pattern refers to its text, which lives as long as the context.
  StringRef storage(StringRef glob) {
    return StringAttr::get(context, glob).getValue();
  }

  bool readOp(Node &node, std::string &op) {
    if (!readString(node, op))
      return false;
    context->loadDialect<BinadeDialect>();
    OperationName name("binade." + op, context);
    if (!name.isRegistered())
      return error(node) << "no op is called '" << op << "'", false;
    return true;
  }

  StringRef text, file;
  MLIRContext *context;
  llvm::SourceMgr sources;
  llvm::yaml::Stream stream;
};
} // namespace

FailureOr<Policy> parsePolicy(StringRef text, StringRef file,
                              MLIRContext *context) {
  if (text.size() > kLargestFile)
    return emitError(FileLineColLoc::get(context, file, 1, 1))
           << "a policy of " << text.size() << " bytes; at most "
           << kLargestFile << " are read";
  return PolicyReader(text, file, context).read();
}

std::vector<StringRef> getPolicyNames() {
  std::vector<StringRef> names;
  for (auto [file, text] : getPolicyFiles())
    names.push_back(StringRef(file).drop_back(kSuffix.size()));
  return names;
}

FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context) {
  if (name.ends_with(kSuffix)) {
    auto buffer = llvm::MemoryBuffer::getFile(name, /*IsText=*/true);
    if (!buffer)
      return emitError(UnknownLoc::get(context))
             << "cannot read policy file '" << name
             << "': " << buffer.getError().message();
    FailureOr<Policy> policy =
        parsePolicy((*buffer)->getBuffer(), name, context);
    if (succeeded(policy))
      policy->isFile = true;
    return policy;
  }
  for (auto [file, text] : getPolicyFiles())
    if (StringRef(file).drop_back(kSuffix.size()) == name)
      return parsePolicy(StringRef(text), StringRef(file), context);
  return emitError(UnknownLoc::get(context))
         << "unknown policy '" << name << "'; expected one of "
         << llvm::join(getPolicyNames(), ", ") << ", or a file ending in "
         << kSuffix;
}

} // namespace mlir::binade
