//===- Dimensions.cpp - Symbolic dimensions and their values --------------===//

#include "binade/ONNX/Dimensions.h"
#include "binade/ONNX/Tensors.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::ValueInfoProto;

/// Returns nothing if the dimension has neither a length nor a bound name.
static std::optional<int64_t>
getLength(const ::onnx::TensorShapeProto::Dimension &dimension,
          const llvm::StringMap<int64_t> &values) {
  if (dimension.has_dim_value())
    return dimension.dim_value();
  auto found = values.find(dimension.dim_param());
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

LogicalResult Dimensions::bind(const Model &model,
                               const llvm::StringMap<int64_t> &given,
                               const llvm::StringMap<int64_t> &defaults) {
  values = given;
  llvm::MapVector<StringRef, StringRef> missing; // Name, first input with it.
  llvm::StringSet<> known;
  for (const ValueInfoProto &input : model.getGraph().input())
    for (const auto &dimension : input.type().tensor_type().shape().dim()) {
      if (dimension.dim_param().empty())
        continue;
      known.insert(dimension.dim_param());
      if (auto found = defaults.find(dimension.dim_param());
          found != defaults.end())
        values.insert({dimension.dim_param(), found->second});
      if (!values.contains(dimension.dim_param()))
        missing.insert({dimension.dim_param(), input.name()});
    }
  std::string names = llvm::join(
      llvm::map_range(known.keys(), [](StringRef name) { return quote(name); }),
      ", ");
  for (const auto &entry : given) {
    if (!known.contains(entry.getKey()))
      return model.emitError()
             << "--dim " << quote(entry.getKey()) << ": no input has such a "
             << "dimension; the model's are: "
             << (names.empty() ? "none" : names);
    if (entry.getValue() < 1)
      return model.emitError()
             << "--dim " << quote(entry.getKey()) << " has to be positive, got "
             << entry.getValue();
  }
  if (missing.empty())
    return success();
  InFlightDiagnostic error = model.emitError();
  error << "has symbolic dimensions without a value: ";
  llvm::interleaveComma(missing, error, [&](auto &entry) {
    error << quote(entry.first) << " (of input " << quote(entry.second) << ")";
  });
  error.attachNote() << "give each a number: --dim "
                     << ::binade::printable(missing.front().first, 60)
                     << "=NUMBER";
  return error;
}

std::map<std::string, int64_t> Dimensions::getBound() const {
  std::map<std::string, int64_t> bound;
  for (const auto &entry : values)
    bound[entry.getKey().str()] = entry.getValue();
  return bound;
}

FailureOr<RankedTensorType>
Dimensions::getType(const Model &model, const ValueInfoProto &input) const {
  Location loc = model.getLoc("input " + quote(input.name()));
  const auto &type = input.type().tensor_type();
  if (!input.type().has_tensor_type() || !type.has_shape())
    return emitUnsupported(loc) << "expected a tensor of known rank";
  Type element = getElementType(model.getContext(), type.elem_type());
  if (!element)
    return emitUnsupported(loc) << describeElementType(type.elem_type());
  SmallVector<int64_t> shape;
  for (const auto &dimension : type.shape().dim()) {
    std::optional<int64_t> length = getLength(dimension, values);
    if (!length)
      return emitUnsupported(loc)
             << "axis " << shape.size()
             << " has neither a length nor a name; export the model with one";
    shape.push_back(*length);
  }
  return getTensorType(loc, shape, element);
}

LogicalResult Dimensions::check(const Model &model, StringRef part,
                                const ValueInfoProto &output,
                                RankedTensorType type, StringRef how,
                                bool isAssumed) const {
  const auto &declared = output.type().tensor_type();
  if (!output.type().has_tensor_type())
    return success();
  bool isSame = getElementType(model.getContext(), declared.elem_type()) ==
                type.getElementType();
  if (declared.has_shape() && !isAssumed) {
    isSame &= declared.shape().dim_size() == type.getRank();
    if (isSame)
      for (auto [dimension, size] :
           llvm::zip(declared.shape().dim(), type.getShape()))
        isSame &= getLength(dimension, values).value_or(size) == size;
  }
  if (isSame)
    return success();
  InFlightDiagnostic error = model.emitError(part + " " + quote(output.name()));
  error << how << " " << type << ", but declared as "
        << ::binade::printable(::onnx::TensorProto::DataType_Name(
               static_cast<::onnx::TensorProto::DataType>(
                   declared.elem_type())))
        << " [";
  llvm::interleaveComma(declared.shape().dim(), error, [&](auto &dimension) {
    if (std::optional<int64_t> length = getLength(dimension, values))
      error << *length;
    else
      error << "?";
  });
  return error << "]";
}
