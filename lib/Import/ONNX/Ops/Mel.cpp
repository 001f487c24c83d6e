//===- Mel.cpp - Import of MelWeightMatrix --------------------------------===//

#include "../Evaluate.h"
#include "../OpTable.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

static FailureOr<int64_t> readPositive(Node &node, unsigned index,
                                       StringRef what) {
  FailureOr<SmallVector<int64_t>> given = node.getIntegers(index, what);
  if (failed(given))
    return failure();
  if (given->size() == 1 && given->front() >= 1 &&
      given->front() < std::numeric_limits<int32_t>::max())
    return given->front();
  return node.emitError() << "expected one positive " << what << ", got ["
                          << *given << "]";
}

/// Returns a frequency converted to the mel scale.
static FailureOr<double> readMel(Node &node, unsigned index, StringRef what) {
  if (failed(node.requireConstant(index, what)))
    return failure();
  if (node.getType(index).getNumElements() != 1 || !node.hasFloats(index))
    return node.emitError() << "expected one float as " << what << ", got "
                            << node.getType(index);
  double hertz = unpack(node.getConstant(index))[0].f;
  if (!(hertz >= 0.0) || !std::isfinite(hertz))
    return node.emitError()
           << "expected " << what << " to be at least 0, got " << hertz;
  return 2595.0 * std::log10(1.0 + hertz / 700.0);
}

/// Computes the weights of bands of a spectrum, [bins, bands]. Each band is a
/// triangle between the centers of its neighbours; centers are equidistant on
/// the mel scale.
LogicalResult mlir::binade::importer::importMelWeightMatrix(Node &node) {
  FailureOr<int64_t> bands = readPositive(node, 0, "num_mel_bins"),
                     length = readPositive(node, 1, "dft_length"),
                     rate = readPositive(node, 2, "sample_rate");
  FailureOr<double> low = readMel(node, 3, "lower_edge_hertz"),
                    high = readMel(node, 4, "upper_edge_hertz");
  int64_t number = node.getInt("output_datatype", ::onnx::TensorProto::FLOAT);
  Type element = getElementType(node.b.getContext(), number);
  if (failed(bands) || failed(length) || failed(rate) || failed(low) ||
      failed(high))
    return failure();
  if (!element)
    return node.emitUnsupported() << describeElementType(number);
  int64_t bins = *length / 2 + 1;
  Elements matrix{RankedTensorType::get({bins, *bands}, element), {}};
  if (!node.graph.spend(matrix.type.getNumElements()))
    return node.emitUnsupported()
           << "is too large to be computed at import: " << matrix.type;
  // The centers in bins of the spectrum. ONNX divides the range by the number
  // of bands plus two.
  SmallVector<int64_t> centers;
  for (int64_t i = 0; i < *bands + 2; ++i) {
    double step = (*high - *low) / static_cast<double>(*bands + 2);
    double mel = *low + step * static_cast<double>(i);
    double hertz = 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
    double bin = std::floor(static_cast<double>(*length + 1) * hertz /
                            static_cast<double>(*rate));
    if (!(*low <= *high) || !(bin < static_cast<double>(bins)))
      return node.emitUnsupported()
             << "has bands up to " << hertz << " Hz, but its " << bins
             << " bins end below that, or its lower edge is above its upper "
                "edge";
    centers.push_back(static_cast<int64_t>(bin));
  }
  for (int64_t bin = 0; bin < bins; ++bin)
    for (int64_t band = 0; band < *bands; ++band) {
      int64_t left = centers[band], center = centers[band + 1],
              right = centers[band + 2];
      double weight = 0.0;
      if (bin == center)
        weight = 1.0;
      else if (left <= bin && bin < center)
        weight = static_cast<double>(bin - left) /
                 static_cast<double>(center - left);
      else if (center < bin && bin < right)
        weight = static_cast<double>(right - bin) /
                 static_cast<double>(right - center);
      matrix.numbers.push_back(isa<FloatType>(element)
                                   ? Number{.f = weight}
                                   : Number{.i = static_cast<int64_t>(weight)});
    }
  return node.setResult(ConstantOp::create(node.b, pack(matrix)));
}
