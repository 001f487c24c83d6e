//===- Einsum.cpp - Import of Einsum --------------------------------------===//
//
// Operands are multiplied from left to right, two at a time, by batched
// matmuls. Axes of both operands that are needed later are batch axes; those
// that are no longer needed are contracted.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// A letter or, from `kEllipsis` on, an axis of the ellipsis, counted from its
/// end.
using Label = int;
constexpr Label kEllipsis = 256;
using Labels = SmallVector<Label>;

/// A tensor with a label for each axis.
struct Term {
  Value value;
  Labels labels;

  ArrayRef<int64_t> getShape() const {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
  int64_t getSize(Label label) const {
    return getShape()[llvm::find(labels, label) - labels.begin()];
  }
  bool has(Label label) const { return llvm::is_contained(labels, label); }
};

class Einsum {
public:
  explicit Einsum(Node &node) : node(node), b(node.b) {}
  LogicalResult import();

private:
  LogicalResult parse();
  FailureOr<Labels> parseLabels(StringRef text, int64_t rank);
  LogicalResult recordSizes();
  bool isNeeded(Label label, size_t after) const;
  Term takeDiagonals(Term term);
  Term order(Term term, const Labels &labels);
  Term sumOut(Term term, llvm::function_ref<bool(Label)> isSummed);
  Term multiply(Term lhs, Term rhs, size_t after);
  Value join(const Term &term, ArrayRef<const Labels *> axes);
  int64_t count(const Labels &labels) const;

  Node &node;
  ImplicitLocOpBuilder &b;
  SmallVector<Term> terms;
  Labels result;
  DenseMap<Label, int64_t> sizes;
  int64_t ellipsis = 0; ///< The maximum number of axes of an ellipsis.
};
} // namespace

/// Parses the labels of an operand of `rank` axes, or of the result if `rank`
/// is -1.
FailureOr<Labels> Einsum::parseLabels(StringRef text, int64_t rank) {
  Labels labels;
  auto letters = llvm::count_if(text, [](char c) { return llvm::isAlpha(c); });
  bool hasEllipsis = false;
  while (!text.empty()) {
    char c = text.front();
    if (text.consume_front("...") && !hasEllipsis) {
      hasEllipsis = true;
      int64_t axes = rank < 0 ? ellipsis : rank - letters;
      for (int64_t axis = std::max<int64_t>(axes, 0); axis-- > 0;)
        labels.push_back(kEllipsis + axis);
      ellipsis = std::max(ellipsis, axes);
      continue;
    }
    if (!llvm::isAlpha(c))
      return node.emitUnsupported()
             << "does not understand " << quote(text) << " in the equation";
    labels.push_back(c);
    text = text.drop_front();
  }
  if (rank >= 0 && static_cast<int64_t>(labels.size()) != rank)
    return node.emitError() << "the equation names " << labels.size()
                            << " axes of a tensor of rank " << rank;
  return labels;
}

LogicalResult Einsum::parse() {
  std::string equation = node.getString("equation", "").str();
  llvm::erase(equation, ' ');
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> operands;
  left.split(operands, ',');
  if (operands.size() != node.getNumInputs())
    return node.emitError() << "the equation has " << operands.size()
                            << " operands, the node " << node.getNumInputs();
  for (auto [index, text] : llvm::enumerate(operands)) {
    FailureOr<Labels> labels = parseLabels(text, node.getRank(index));
    if (failed(labels))
      return failure();
    terms.push_back({node.getInput(index), *labels});
  }
  if (StringRef(equation).contains("->")) {
    FailureOr<Labels> labels = parseLabels(right, -1);
    if (failed(labels))
      return failure();
    result = *labels;
    return success();
  }
  // The implicit result: the axes of the ellipsis, then letters that occur
  // once, in alphabetical order.
  std::map<Label, int> counts;
  for (const Term &term : terms)
    for (Label label : term.labels)
      ++counts[label];
  for (int64_t axis = ellipsis; axis-- > 0;)
    result.push_back(kEllipsis + axis);
  for (auto [label, times] : counts)
    if (times == 1 && label < kEllipsis)
      result.push_back(label);
  return success();
}

LogicalResult Einsum::recordSizes() {
  for (const Term &term : terms)
    for (auto [label, size] : llvm::zip_equal(term.labels, term.getShape())) {
      int64_t &known = sizes.try_emplace(label, size).first->second;
      if (known == 1)
        known = size;
      if (size != known && (size != 1 || label < kEllipsis))
        return node.emitError() << "axes of one name have " << known << " and "
                                << size << " elements";
    }
  Labels seen;
  for (Label label : result) {
    if (!sizes.contains(label) || llvm::is_contained(seen, label))
      return node.emitUnsupported()
             << "the result names an axis twice, or one that "
                "no operand has";
    seen.push_back(label);
  }
  return success();
}

int64_t Einsum::count(const Labels &labels) const {
  int64_t product = 1;
  for (Label label : labels)
    product *= sizes.lookup(label);
  return product;
}

bool Einsum::isNeeded(Label label, size_t after) const {
  return llvm::is_contained(result, label) ||
         llvm::any_of(ArrayRef(terms).drop_front(after),
                      [&](const Term &term) { return term.has(label); });
}

/// Takes the diagonal of axes with the same label, and broadcasts axes of an
/// ellipsis to their full length.
Term Einsum::takeDiagonals(Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i)
    for (size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[i] != term.labels[j])
        continue;
      int64_t rank = term.labels.size(), size = term.getShape()[i];
      SmallVector<int64_t> first = {static_cast<int64_t>(i),
                                    static_cast<int64_t>(j)},
                           shape = {size * size}, places;
      for (int64_t axis = 0; axis < rank; ++axis)
        if (!llvm::is_contained(first, axis))
          first.push_back(axis);
      Value moved = buildTranspose(b, term.value, first);
      for (int64_t axis : ArrayRef(first).drop_front(2))
        shape.push_back(term.getShape()[axis]);
      for (int64_t k = 0; k < size; ++k)
        places.push_back(k * (size + 1));
      auto type = RankedTensorType::get(size, b.getI64Type());
      Value diagonal =
          ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(places)));
      Labels labels = {term.labels[i]};
      for (int64_t axis : ArrayRef(first).drop_front(2))
        labels.push_back(term.labels[axis]);
      term = {GatherOp::create(b, buildReshape(b, moved, shape), diagonal,
                               PrecisionAttr()),
              labels};
      return takeDiagonals(term);
    }
  SmallVector<int64_t> shape;
  for (Label label : term.labels)
    shape.push_back(sizes.lookup(label));
  return {broadcastTo(b, term.value, shape), term.labels};
}

/// Transposes the axes of `term` to the order of `labels`.
Term Einsum::order(Term term, const Labels &labels) {
  SmallVector<int64_t> permutation;
  for (Label label : labels)
    permutation.push_back(llvm::find(term.labels, label) - term.labels.begin());
  return {buildTranspose(b, term.value, permutation), labels};
}

Term Einsum::sumOut(Term term, llvm::function_ref<bool(Label)> isSummed) {
  SmallVector<int64_t> axes;
  Labels kept;
  for (auto [axis, label] : llvm::enumerate(term.labels)) {
    if (isSummed(label))
      axes.push_back(axis);
    else
      kept.push_back(label);
  }
  if (axes.empty())
    return term;
  return {ReduceSumOp::create(b, term.value, axes), kept};
}

/// Merges the axes of each list of labels into one axis.
Value Einsum::join(const Term &term, ArrayRef<const Labels *> axes) {
  Labels all;
  SmallVector<int64_t> shape;
  for (const Labels *labels : axes) {
    llvm::append_range(all, *labels);
    shape.push_back(count(*labels));
  }
  return buildReshape(b, order(term, all).value, shape);
}

Term Einsum::multiply(Term lhs, Term rhs, size_t after) {
  Labels batch, summed, left, right;
  for (Label label : lhs.labels) {
    if (!rhs.has(label))
      left.push_back(label);
    else if (isNeeded(label, after))
      batch.push_back(label);
    else
      summed.push_back(label);
  }
  for (Label label : rhs.labels)
    if (!lhs.has(label))
      right.push_back(label);
  Term product;
  product.value = MatmulOp::create(b, join(lhs, {&batch, &left, &summed}),
                                   join(rhs, {&batch, &summed, &right}),
                                   Value(), false, false, PrecisionAttr());
  SmallVector<int64_t> shape;
  for (const Labels *labels : {&batch, &left, &right})
    for (Label label : *labels) {
      product.labels.push_back(label);
      shape.push_back(sizes.lookup(label));
    }
  product.value = buildReshape(b, product.value, shape);
  return product;
}

LogicalResult Einsum::import() {
  if (failed(parse()) || failed(recordSizes()))
    return failure();
  for (unsigned index = 0; index < node.getNumInputs(); ++index)
    if (failed(requireFloats(node, index)))
      return failure();
  for (Term &term : terms)
    term = takeDiagonals(term);
  auto prepare = [&](size_t index, ArrayRef<const Term *> others) {
    return sumOut(terms[index], [&](Label label) {
      return !isNeeded(label, index + 1) &&
             llvm::none_of(others,
                           [&](const Term *t) { return t->has(label); });
    });
  };
  Term product = prepare(0, {});
  for (size_t index = 1; index < terms.size(); ++index)
    product = multiply(product, prepare(index, {&product}), index + 1);
  return node.setResult(order(product, result).value);
}

LogicalResult mlir::binade::importer::importEinsum(Node &node) {
  return Einsum(node).import();
}
