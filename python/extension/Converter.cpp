//===- Converter.cpp - Conversion of ONNX files for Python ----------------===//

#include "Modules.h"
#include "Reports.h"
#include "binade/Pipelines/ConvertOnnx.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace mlir;
using namespace mlir::binade;
using namespace ::binade::python;

using Ports = std::map<std::string, std::string>;

static std::vector<PortType> readPorts(const Ports &ports, MLIRContext &context,
                                       const std::string &path) {
  Builder b(&context);
  std::vector<PortType> types;
  for (const auto &[glob, name] : ports) {
    auto type = llvm::StringSwitch<FloatType>(name)
                    .Case("f32", b.getF32Type())
                    .Case("f16", b.getF16Type())
                    .Case("bf16", b.getBF16Type())
                    .Default({});
    if (!type)
      throw Failure(
          {path,
           "io_types expects f32, f16 or bf16, got " + ::binade::quote(name),
           ::binade::ExitCode::Usage});
    types.push_back({glob, type});
  }
  return types;
}

static OnnxConversionReport convert(const std::string &path,
                                    const std::string &output,
                                    OnnxConversion conversion,
                                    const Ports &ports) {
  OnnxConversionReport report;
  std::vector<std::string> warnings;
  {
    nb::gil_scoped_release release;
    MLIRContext context;
    Reports reports(context, ::binade::printable(path));
    conversion.ports = readPorts(ports, context, path);
    if (failed(convertOnnx(path, conversion, output, &context, report)))
      reports.raise(report.written.exitCode);
    warnings = std::move(reports.warnings);
  }
  warn(warnings);
  return report;
}

/// Returns the nodes that the compiler could not import, and why.
static std::vector<std::pair<std::string, std::string>>
listLeftOut(const OnnxConversionReport &report) {
  std::vector<std::pair<std::string, std::string>> nodes;
  for (const PartialImport::Node &node : report.partial.nodes)
    if (!node.reason.empty())
      nodes.emplace_back(node.name, node.reason);
  return nodes;
}

void ::binade::python::addConverter(nb::module_ &module) {
  nb::class_<OnnxConversion>(module, "OnnxConversion")
      .def(nb::init<>())
      .def_rw("import_options", &OnnxConversion::import)
      .def_rw("policy", &OnnxConversion::policy)
      .def_rw("ranges", &OnnxConversion::ranges)
      .def_rw("loss_scale", &OnnxConversion::scale)
      .def_rw("dynamic_scale", &OnnxConversion::hasDynamicScale);
  nb::class_<OnnxConversionReport>(module, "OnnxConversionReport")
      .def_prop_ro("nodes",
                   [](const OnnxConversionReport &report) {
                     return report.written.nodes;
                   })
      .def_prop_ro("narrow",
                   [](const OnnxConversionReport &report) {
                     return report.written.narrow;
                   })
      .def_prop_ro("casts",
                   [](const OnnxConversionReport &report) {
                     return report.written.casts;
                   })
      .def_prop_ro("limits",
                   [](const OnnxConversionReport &report) {
                     return report.written.limits;
                   })
      .def_prop_ro("notes",
                   [](const OnnxConversionReport &report) {
                     return report.written.notes;
                   })
      .def_prop_ro(
          "held",
          [](const OnnxConversionReport &report) { return report.held; })
      .def_prop_ro("loss_scale",
                   [](const OnnxConversionReport &report) {
                     const ConvertReport &written = report.written;
                     return written.scaled
                                ? std::pair(written.scale, written.scaleReason)
                                : std::pair(1.0, std::string());
                   })
      .def_prop_ro("left_whole",
                   [](const OnnxConversionReport &report) {
                     return report.partial.everything;
                   })
      .def_prop_ro("left_out", &listLeftOut);
  module.def("convert_model", &convert, "path"_a, "output"_a, "conversion"_a,
             "ports"_a);
}
