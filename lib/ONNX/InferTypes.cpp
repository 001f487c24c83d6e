//===- InferTypes.cpp - Types and shapes by ONNX's inference --------------===//
// Calls ONNX's own inference, which is built from the sources of the package
// `onnx`. The importer does not use it: it computes types itself.
//===----------------------------------------------------------------------===//

#include "binade/ONNX/InferTypes.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir::binade;
using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// A limit of processor time; the inference of the largest models takes less.
static constexpr rlim_t kMaxSeconds = 120;

/// Tensors with more bytes are weights, whose values do not determine shapes.
static constexpr size_t kMaxBytes = 4096;

static void copyTensor(const TensorProto &from, TensorProto &to) {
  if (from.ByteSizeLong() <= kMaxBytes) {
    to = from;
    return;
  }
  to.set_name(from.name());
  to.set_data_type(from.data_type());
  *to.mutable_dims() = from.dims();
  // A reader of the data then gets an error instead of an incomplete tensor.
  to.set_data_location(TensorProto::EXTERNAL);
}

static void copyGraph(const GraphProto &from, GraphProto &to);

static void copyAttribute(const AttributeProto &from, AttributeProto &to) {
  bool isPlain = !from.has_t() && !from.has_g() && from.tensors().empty() &&
                 from.graphs().empty();
  if (isPlain) {
    to = from;
    return;
  }
  to.set_name(from.name());
  to.set_type(from.type());
  if (from.has_t())
    copyTensor(from.t(), *to.mutable_t());
  if (from.has_g())
    copyGraph(from.g(), *to.mutable_g());
  for (const TensorProto &tensor : from.tensors())
    copyTensor(tensor, *to.add_tensors());
  for (const GraphProto &graph : from.graphs())
    copyGraph(graph, *to.add_graphs());
}

static void copyNode(const NodeProto &from, NodeProto &to) {
  to.set_name(from.name());
  to.set_op_type(from.op_type());
  to.set_domain(from.domain());
  *to.mutable_input() = from.input();
  *to.mutable_output() = from.output();
  for (const AttributeProto &attribute : from.attribute())
    copyAttribute(attribute, *to.add_attribute());
}

static void copyGraph(const GraphProto &from, GraphProto &to) {
  to.set_name(from.name());
  *to.mutable_input() = from.input();
  *to.mutable_output() = from.output();
  *to.mutable_value_info() = from.value_info();
  for (const TensorProto &tensor : from.initializer())
    copyTensor(tensor, *to.add_initializer());
  for (const NodeProto &node : from.node())
    copyNode(node, *to.add_node());
}

/// Returns `model` with inferred types, serialized.
static std::string infer(::onnx::ModelProto &model) {
  // Values of shapes are not propagated: a few nodes that concatenate shapes
  // repeatedly would produce a shape of any length.
  ::onnx::ShapeInferenceOptions options(/*check_type_val=*/false,
                                        /*strict_mode_val=*/0,
                                        /*data_prop_val=*/false);
  try {
    ::onnx::shape_inference::InferShapes(
        model, ::onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception &) {
    // Types that were inferred before the exception remain.
  }
  return model.SerializeAsString();
}

//===----------------------------------------------------------------------===//
// A child process
//===----------------------------------------------------------------------===//

/// Makes this process end silently after any error.
static void prepareChild() {
  for (int signal :
       {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGTERM, SIGXCPU})
    std::signal(signal, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  rlimit none{0, 0}, time{kMaxSeconds, kMaxSeconds};
  setrlimit(RLIMIT_CORE, &none);
  setrlimit(RLIMIT_CPU, &time);
  if (int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0)
    dup2(nowhere, STDERR_FILENO);
}

static bool writeAll(int file, const std::string &bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR)
      return false;
    done += written < 0 ? 0 : written;
  }
  return true;
}

static bool readAll(int file, std::string &bytes) {
  std::vector<char> piece(1 << 16);
  for (;;) {
    ssize_t size = read(file, piece.data(), piece.size());
    if (size == 0)
      return true;
    if (size < 0 && errno != EINTR)
      return false;
    bytes.append(piece.data(), size < 0 ? 0 : size);
  }
}

/// Calls `infer` in a child process; returns nothing if it crashes or takes too
/// long. ONNX's sources assume valid nodes: for a node with too few inputs, or
/// one that reads the result of an unknown op, they access types that do not
/// exist.
static std::optional<std::string> inferInChild(::onnx::ModelProto &model) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return std::nullopt;
  pid_t child = fork();
  if (child == 0) {
    prepareChild();
    // A last byte marks the output as complete.
    bool isWritten = writeAll(ends[1], infer(model) + '\n');
    _exit(isWritten ? 0 : 1);
  }
  close(ends[1]);
  std::string bytes;
  bool isRead = child > 0 && readAll(ends[0], bytes);
  close(ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  bool isWhole =
      isRead && status == 0 && !bytes.empty() && bytes.back() == '\n';
  if (!isWhole)
    return std::nullopt;
  bytes.pop_back();
  return bytes;
}

std::shared_ptr<const ::onnx::ModelProto>
mlir::binade::inferTypes(const ::onnx::ModelProto &model) {
  auto copy = std::make_shared<::onnx::ModelProto>();
  copy->set_ir_version(model.ir_version());
  *copy->mutable_opset_import() = model.opset_import();
  *copy->mutable_functions() = model.functions();
  copyGraph(model.graph(), *copy->mutable_graph());
  std::optional<std::string> inferred = inferInChild(*copy);
  if (!inferred || !copy->ParseFromString(*inferred))
    return nullptr;
  return copy;
}
