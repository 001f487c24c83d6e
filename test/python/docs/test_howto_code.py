"""Follows pages of docs/howto to the letter: adds an op of ONNX, a target, a call of a
library and an option."""

import json
import math
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.overlay import Overlay, read_blocks
from support.paths import BUILD
from support.reference import run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not (BUILD / "bin/binade").exists(), reason="not built"),
]


@pytest.fixture(scope="module")
def binade(tmp_path_factory):
    """A program with all but the option."""
    overlay = Overlay(tmp_path_factory.mktemp("source"))
    row, declaration, function = read_blocks("add-an-onnx-op.md")
    folder = "lib/Import/ONNX"
    overlay.insert(f"{folder}/OpTable.cpp", '{"ConcatTraining"', row)
    overlay.insert(f"{folder}/OpTable.h", "LogicalResult importFastGelu(", declaration)
    overlay.insert(
        f"{folder}/Ops/Microsoft.cpp",
        "LogicalResult mlir::binade::importer::importFastGelu(",
        function,
    )
    folder = "lib/Pipelines/Targets"
    target, line = read_blocks("add-a-target.md")
    overlay.write(f"{folder}/Portable/PortableTarget.cpp", target)
    overlay.insert(f"{folder}/Targets.cpp", "  KIND(Cuda)", line)
    for path in ("lib/Import/ONNX/OpTable.cpp", "lib/Import/ONNX/Ops/Microsoft.cpp"):
        overlay.compile(path)
    overlay.compile(f"{folder}/Targets.cpp")
    overlay.compile(
        f"{folder}/Portable/PortableTarget.cpp", f"{folder}/CPU/CpuTarget.cpp"
    )
    schedule, function, case = read_blocks("add-a-library-call.md")
    overlay.replace(
        "lib/IR/Ops/Shape.cpp",
        r"Schedule TransposeOp::getSchedule\(\) \{\n.*\n\}\n",
        schedule,
    )
    path = "lib/Kernels/Plan/LibraryCalls.cpp"
    overlay.insert(path, "FailureOr<plan::Record> mlir::binade::buildLibrary", function)
    overlay.insert(path, "          .Default(false)", case)
    for changed in (path, "lib/IR/Ops/Shape.cpp"):
        overlay.compile(changed)
    return overlay.link("bin/binade")


def save_model(path):
    """loss = sum of BiasGelu(x, bias), where bias is trained."""
    info = helper.make_tensor_value_info
    bias = np.array([0.5, -1.0, 0.0], np.float32)
    nodes = [
        helper.make_node("BiasGelu", ["x", "bias"], ["y"], domain="com.microsoft"),
        helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "gelu",
        [info("x", TensorProto.FLOAT, [2, 3])],
        [info("loss", TensorProto.FLOAT, [])],
        [onnx.numpy_helper.from_array(bias, "bias")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return bias


def call(*command):
    return subprocess.run(
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_an_op_of_onnx_is_a_row_and_a_function(binade, tmp_path):
    bias = save_model(tmp_path / "model.onnx")
    module = tmp_path / "forward.mlir"
    command = ["compile", tmp_path / "model.onnx", "--loss-output", "loss"]
    command += ["--train", "bias", "--to=import", "-o", module]
    done = call(BUILD / "bin/binade", *command)
    assert "BiasGelu" in done.stderr and done.returncode != 0
    done = call(binade, *command)
    assert done.returncode == 0, done.stderr
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    process, values = run(
        module.read_text(), {"x": x, "bias": bias}, "--function", "forward"
    )
    assert process.returncode == 0, process.stderr
    s = (x + bias).astype(np.float64)
    expected = 0.5 * s * (1 + np.vectorize(math.erf)(s / math.sqrt(2)))
    np.testing.assert_allclose(values["loss"], expected.sum(), rtol=1e-6)


def test_a_target_is_a_folder_and_a_line(binade, tmp_path):
    done = call(binade, "list", "targets")
    assert "portable:avx2  AVX2 and FMA on every machine\n" in done.stdout
    save_model(tmp_path / "model.onnx")
    command = ["compile", tmp_path / "model.onnx", "--loss-output", "loss"]
    command += ["--train", "bias", "--optimizer", "sgd"]
    command += ["--target", "portable:avx2", "-o", tmp_path / "step.bnd"]
    done = call(BUILD / "bin/binade", *command)
    assert "no target is called 'portable:avx2'" in done.stderr
    done = call(binade, *command)
    assert done.returncode == 0, done.stderr
    header = (tmp_path / "step.bnd").read_bytes()[:100000]
    assert b"x86-64-v3" in header and b"x86-64-v4" not in header


def save_transpose(path):
    """loss = sum of the transposed x times w"""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("Mul", ["t", "w"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "transpose",
        [info("x", TensorProto.FLOAT, [2, 3])],
        [info("loss", TensorProto.FLOAT, [])],
        [onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def list_records(program, model, plan):
    command = ["compile", model, "--loss-output", "loss", "--train", "*"]
    done = call(program, *command, "--optimizer", "sgd", "--to=plan", "-o", plan)
    assert done.returncode == 0, done.stderr
    return json.loads(plan.read_text())["records"]


def test_a_library_call_is_a_schedule_and_a_record(binade, tmp_path):
    model = tmp_path / "model.onnx"
    save_transpose(model)
    before = list_records(BUILD / "bin/binade", model, tmp_path / "before.json")
    assert not any(record["kind"] == "copy" for record in before)
    after = list_records(binade, model, tmp_path / "after.json")
    copies = [record for record in after if record["kind"] == "copy"]
    assert copies and all("turn" in copy["label"] for copy in copies)
    for copy in copies:
        assert copy["sizes"] == [3, 2]
        assert copy["from"]["strides"] == [1, 3]
        assert copy["to"]["strides"] == [2, 1]


def test_an_option_is_a_field_that_compiles(tmp_path):
    overlay = Overlay(tmp_path)
    field, use, declared, filled, option = read_blocks("add-an-option.md")
    overlay.insert(
        "include/binade/Pipelines/Pipelines.h",
        "  /// The directory for IR, PTX and cubins of kernels",
        field,
    )
    pipelines, registration = (
        f"lib/Pipelines/{name}.cpp" for name in ("Pipelines", "Registration")
    )
    overlay.insert(pipelines, "    pm.addPass(createChooseLayoutsPass", use)
    overlay.insert(registration, "};\n\nstruct MonitorPipelineOptions", declared)
    overlay.insert(registration, "        options.target = parsed.target;", filled)
    options = "tools/binade/Options.cpp"
    overlay.insert(options, '  command.add_flag("--strict"', option)
    for path in (pipelines, registration, options):
        overlay.compile(path, None, "-fsyntax-only")
