//===- ParseModule.cpp - Parsing of untrusted modules ---------------------===//

#include "binade/IR/ParseModule.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Magic.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Limits.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::Result;

static constexpr uint64_t kMaxTextBytes = uint64_t(1) << 31;

static char getCloser(char opener) {
  switch (opener) {
  case '(':
    return ')';
  case '[':
    return ']';
  case '{':
    return '}';
  default:
    return '>';
  }
}

/// Closes the innermost bracket that matches `closer`. Comparison operators
/// look like angle brackets: an unclosed `<` inside was one, and so is a `>`
/// without `<`.
static void closeBracket(SmallVectorImpl<char> &expected, char closer) {
  size_t open = expected.size();
  while (open > 0 && expected[open - 1] == '>' && closer != '>')
    --open;
  if (open > 0 && expected[open - 1] == closer)
    expected.resize(open - 1);
}

std::optional<std::pair<unsigned, unsigned>>
mlir::binade::findDeepNesting(StringRef text) {
  SmallVector<char> expected; // Closing brackets of the open ones.
  unsigned minuses = 0;       // Since the last other token.
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (isspace(static_cast<unsigned char>(c)))
      continue;
    if (c == '/' && next == '/') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    bool isOperator =
        (c == '-' && next == '>') || ((c == '<' || c == '>') && next == '=');
    minuses = c == '-' && !isOperator ? minuses + 1 : 0;
    if (isOperator) {
      ++i;
    } else if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
    } else if (StringRef("([{<").contains(c)) {
      expected.push_back(getCloser(c));
    } else if (StringRef(")]}>").contains(c)) {
      closeBracket(expected, c);
    }
    if (expected.size() + minuses <= kMaxNesting)
      continue;
    StringRef before = text.take_front(i);
    size_t lineStart = before.rfind('\n') + 1; // 0 on the first line.
    return std::pair(static_cast<unsigned>(before.count('\n') + 1),
                     static_cast<unsigned>(i - lineStart + 1));
  }
  return std::nullopt;
}

/// Returns an error that names the kind of file if it is not text; none
/// otherwise.
static std::optional<Error> recognizeOther(StringRef text,
                                           const std::string &where) {
  auto head = std::as_bytes(std::span(text.data(), text.size()))
                  .first(std::min(text.size(), ::binade::kMagicBytes));
  std::string_view kind = ::binade::recognizeMagic(head);
  if (kind.empty() && text.contains("stablehlo."))
    return Error{where, "expected a module of Binade, this is a StableHLO "
                        "module"}
        .withNote("export the function to ONNX, for example with "
                  "binade.jax.export");
  if (kind.empty())
    return std::nullopt;
  Error error{where,
              "expected a textual MLIR module, this is " + std::string(kind)};
  std::string advice(::binade::magicAdvice(head));
  return advice.empty() ? error : std::move(error).withNote(advice);
}

/// Returns the first op with a tensor that has too many elements.
static Operation *findHugeTensor(ModuleOp module) {
  auto isHuge = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && shaped.hasStaticShape() && !isCountable(shaped.getShape());
  };
  Operation *huge = nullptr;
  module.walk([&](Operation *op) {
    bool isFound = llvm::any_of(op->getResultTypes(), isHuge);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        isFound |= llvm::any_of(block.getArgumentTypes(), isHuge);
    if (isFound)
      huge = op;
    return isFound ? WalkResult::interrupt() : WalkResult::advance();
  });
  return huge;
}

/// Returns the first constant whose elements are neither in its text nor in a
/// file that is checked when it is read. A resource may be shorter than its
/// type requires, and tools omit it when they print.
static ConstantOp findUncheckedConstant(ModuleOp module) {
  ConstantOp found;
  module.walk([&](ConstantOp op) {
    if (isa<DenseElementsAttr, ExternalAttr>(op.getValue()))
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

Result<OwningOpRef<ModuleOp>>
mlir::binade::parseModuleFile(const std::string &path, MLIRContext &context) {
  Result<::binade::ExternalFile> file = ::binade::openFile(path);
  if (!file)
    return file.takeError();
  Result<std::string> text = ::binade::readText(*file, kMaxTextBytes);
  if (!text)
    return text.takeError();
  const std::string &where = file->getPath();
  if (std::optional<Error> other = recognizeOther(*text, where))
    return std::move(*other);
  return parseModuleText(*text, where, context);
}

Result<OwningOpRef<ModuleOp>>
mlir::binade::parseModuleText(const std::string &text, const std::string &where,
                              MLIRContext &context) {
  if (auto place = findDeepNesting(text))
    return Error{where,
                 llvm::formatv("nesting deeper than {0} levels", kMaxNesting)}
        .withPart(llvm::formatv("{0}:{1}", place->first, place->second));

  context.loadDialect<BinadeDialect>();
  DiagnosticCollector diagnostics(&context);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, where),
                             llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return diagnostics.takeError(where, "cannot be parsed");
  if (Operation *op = findHugeTensor(*module)) {
    op->emitError("has a tensor of more than 2^48 elements");
    return diagnostics.takeError(where, "has a tensor that is too large");
  }
  if (ConstantOp op = findUncheckedConstant(*module)) {
    op.emitError("expected elements as dense<...> or #binade.external, got ")
        << op.getValue().getAbstractAttribute().getName();
    return diagnostics.takeError(where, "has a constant of another kind");
  }
  return module;
}
