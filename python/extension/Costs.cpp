//===- Costs.cpp - Predicted times on GPUs --------------------------------===//

#include "Failure.h"
#include "Modules.h"
#include "binade/Costs/GpuCosts.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;
using mlir::binade::AttentionShape;
using mlir::binade::GpuCosts;
using mlir::binade::MatmulShape;

/// Returns the workspace with which cuDNN computes the gradients of attention
/// at once, in bytes.
static std::uint64_t countAttentionWorkspace(std::int64_t heads,
                                             std::int64_t queries,
                                             std::int64_t keys,
                                             std::int64_t depth,
                                             std::int64_t width, bool grouped) {
  AttentionShape shape{.heads = heads,
                       .queries = queries,
                       .keys = keys,
                       .depth = depth,
                       .width = width,
                       .grouped = grouped};
  return shape.countWorkspaceBytes();
}

/// Returns the seconds that a chip, such as "sm_90", takes for a matmul.
static double predictMatmul(const char *chip, std::int64_t m, std::int64_t n,
                            std::int64_t k, std::int64_t batch, unsigned bytes,
                            unsigned outBytes, bool accumulates) {
  static mlir::MLIRContext context;
  const GpuCosts *costs = GpuCosts::find(chip, &context);
  if (!costs)
    throw Failure(
        Error{quote(chip), "no rates of this chip are known", ExitCode::Usage});
  return costs->predictMatmul({m, n, k, batch, bytes, outBytes, accumulates});
}

void python::addCosts(nb::module_ &module) {
  module.def("count_attention_workspace", &countAttentionWorkspace, "heads"_a,
             "queries"_a, "keys"_a, "depth"_a, "width"_a, "grouped"_a);
  module.def("predict_matmul", &predictMatmul, "chip"_a, "m"_a, "n"_a, "k"_a,
             "batch"_a, "bytes"_a, "out_bytes"_a, "accumulates"_a);
}
