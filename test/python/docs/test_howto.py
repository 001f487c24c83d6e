"""Follows docs/howto to the letter: adds an op and an optimizer."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import EVAL, run

OPT = BUILD / "bin" / "binade-opt"

pytestmark = pytest.mark.skipif(not OPT.exists(), reason=f"{OPT} is not built")

X = np.array([0.5, -1.25, 0.0, 3.0, -0.75, 2.5], np.float32)
FORWARD = """
func.func @forward(
    %w: tensor<6xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %x: tensor<6xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"}) {
  BODY
  %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
"""
PRODUCT = "%0 = binade.mul %w, %x : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>"


def read_block(page, language):
    """The first block of code of a page, without the indent of its list."""
    text = (ROOT / "docs/howto" / page).read_text()
    block = re.search(rf"^ *```{language}\n(.*?)^ *```", text, re.M | re.S).group(1)
    return re.sub(r"^   ", "", block, flags=re.MULTILINE)


def build_step(tmp_path, body, optimizer, opt=OPT):
    source = tmp_path / "forward.mlir"
    source.write_text(FORWARD.replace("BODY", body))
    pipeline = f"--binade-optimizer-pipeline=optimizer={{{optimizer}}}"
    command = [opt, source, "--binade-autodiff-pipeline", pipeline]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_step(module, **inputs):
    inputs = {"step": np.array(0, np.int64), "x": X, **inputs}
    process, values = run(module, inputs, "--function", "step")
    assert process.returncode == 0, process.stderr
    return values


def test_an_optimizer_is_one_file(tmp_path):
    rule = tmp_path / "sign_sgd.mlir"
    rule.write_text(read_block("add-an-optimizer.md", "mlir"))
    module = build_step(tmp_path, PRODUCT, rule)
    w = np.arange(6, dtype=np.float32)
    values = run_step(module, w=w, lr=np.array(0.25, np.float64))
    # The gradient of the sum of w x is x.
    np.testing.assert_array_equal(values["w"], w - np.float32(0.25) * np.sign(X))
    assert values["step"] == 1


def test_an_optimizer_file_has_the_functions_that_its_op_needs(tmp_path):
    rule = tmp_path / "sign_sgd.mlir"
    text = read_block("add-an-optimizer.md", "mlir")
    rule.write_text(text.replace("@sign_sgd.update", "@sign_sgd.other"))
    with pytest.raises(AssertionError, match="update"):
        build_step(tmp_path, PRODUCT, rule)


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A build of a copy of the sources, with the op and the optimizer added."""
    root = tmp_path_factory.mktemp("source")
    for name in ("include", "lib", "tools", "python", "test", "utils", "cmake", "docs"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, root / name, ignore=skip)
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(ROOT / name, root)
    if (ROOT / ".venv").exists():
        (root / ".venv").symlink_to(ROOT / ".venv")

    record = read_block("add-an-op.md", "tablegen")
    add_before(root / "include/binade/IR/Ops/Elementwise.td", "#endif", record)
    function = read_block("add-an-op.md", "cpp")
    add_before(
        root / "lib/Reference/Elementwise.cpp", "  reference.add<ExpOp>", function
    )
    rule = read_block("add-an-optimizer.md", "mlir")
    (root / "lib/Optimizer/Rules/sign_sgd.mlir").write_text(rule)

    environment = dict(os.environ, CCACHE_BASEDIR=str(root), CCACHE_NOHASHDIR="1")
    for command in (
        ["cmake", "--preset", "release"],
        ["ninja", "-C", "build/release", "binade-opt", "binade-interpret"],
    ):
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return root / "build/release/bin"


def add_before(path, anchor, text):
    head, found, tail = path.read_text().rpartition(anchor)
    assert found, f"{path} has no '{anchor}'"
    path.write_text(f"{head}{text}\n{found}{tail}")


@pytest.mark.nightly
def test_an_op_is_a_record_and_a_function(extended, tmp_path, monkeypatch):
    monkeypatch.setattr("support.reference.EVAL", extended / EVAL.name)
    body = "%y = binade.exp2 %w : (tensor<6xf32>) -> tensor<6xf32>\n"
    body += PRODUCT.replace("%w", "%y")
    # The optimizer of the other page, by its name: it was built in.
    module = build_step(tmp_path, body, "sign_sgd", extended / OPT.name)
    w = np.array([0.0, 1.0, -2.0, 0.5, 3.0, -0.25], np.float32)
    values = run_step(module, w=w, lr=np.array(0.25, np.float64))
    loss = np.sum(np.exp2(w.astype(np.float64)) * X)
    np.testing.assert_allclose(values["loss"], loss, rtol=1e-6)
    norm = np.linalg.norm(np.log(2.0) * np.exp2(w.astype(np.float64)) * X)
    np.testing.assert_allclose(values["grad_norm"], norm, rtol=1e-6)
    np.testing.assert_array_equal(values["w"], w - np.float32(0.25) * np.sign(X))


@pytest.mark.nightly
def test_an_added_op_becomes_part_of_kernels(extended, tmp_path):
    body = "%y = binade.exp2 %w : (tensor<6xf32>) -> tensor<6xf32>\n"
    body += PRODUCT.replace("%w", "%y")
    step = tmp_path / "step.mlir"
    step.write_text(build_step(tmp_path, body, "sgd", extended / OPT.name))
    command = [extended / OPT.name, step, "--binade-kernels-pipeline"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    kernels = re.findall(r"func.func private @\S+\(.*?\n  \}", done.stdout, re.S)
    assert any("binade.exp2" in kernel and "binade.mul" in kernel for kernel in kernels)
