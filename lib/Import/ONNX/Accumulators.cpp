//===- Accumulators.cpp - Gradients of in-place accumulators --------------===//

#include "Accumulators.h"
#include "binade/ONNX/Order.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

void mlir::binade::importer::exposeGradients(Model &model) {
  ::onnx::GraphProto &graph = *model.getProto().mutable_graph();
  llvm::StringMap<unsigned> uses;
  llvm::StringMap<::onnx::ValueInfoProto *> outputs;
  llvm::StringMap<const ::onnx::ValueInfoProto *> inputs;
  for (const auto &node : graph.node())
    forEachRead(node, [&](const std::string &name) { ++uses[name]; });
  for (const auto &input : graph.input())
    inputs[input.name()] = &input;
  for (auto &output : *graph.mutable_output()) {
    ++uses[output.name()];
    outputs[output.name()] = &output;
  }
  llvm::StringSet<> read;
  for (auto &node : *graph.mutable_node()) {
    if (node.domain() != "com.microsoft" ||
        node.op_type() != "InPlaceAccumulatorV2" || node.input_size() < 2 ||
        node.output_size() != 1)
      continue;
    const ::onnx::ValueInfoProto *buffer = inputs.lookup(node.input(0));
    ::onnx::ValueInfoProto *output = outputs.lookup(node.output(0));
    if (!buffer || !output || uses.lookup(node.input(0)) != 1 ||
        uses.lookup(node.output(0)) != 1)
      continue;
    *output->mutable_type() = buffer->type();
    std::string gradient = node.input(1);
    for (const std::string &name : node.input())
      read.insert(name);
    node.set_op_type("Identity");
    node.clear_domain();
    node.clear_input();
    node.add_input(gradient);
  }
  // Remove inputs of the graph that only accumulators read.
  for (const auto &node : graph.node())
    forEachRead(node, [&](const std::string &name) { read.erase(name); });
  auto *all = graph.mutable_input();
  all->erase(std::remove_if(all->begin(), all->end(),
                            [&](const ::onnx::ValueInfoProto &input) {
                              return read.contains(input.name());
                            }),
             all->end());
}
