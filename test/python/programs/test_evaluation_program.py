"""The program `evaluate` of a module must match its step."""

import pytest
from support.reference import binade

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from support.runtime import LIBRARY, Runtime

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

STEP = """
func.func @step(%x: tensor<2xf32> {binade.role = #binade.role<buffer>, binade.name = "x"})
    -> (tensor<2xf32> {binade.role = #binade.role<output>, binade.name = "y"}) {
  %y = binade.neg %x : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
"""
LOSS = '{binade.role = #binade.role<metric>, binade.name = "eval_loss"}'


@pytest.mark.parametrize(
    ("argument", "type_", "attributes", "message"),
    [
        ('{binade.role = #binade.role<buffer>, binade.name = "z"}', "f32", LOSS,
         "expected '@step' to have buffer 'z' of type 'tensor<f32>'"),
        ('{binade.role = #binade.role<buffer>, binade.name = "x"}', "f32", LOSS,
         "expected '@step' to have buffer 'x' of type 'tensor<f32>'"),
        ("", "f32", LOSS, "argument 0 has no role and name"),
        ('{binade.role = #binade.role<buffer>, binade.name = "x"}', "2xf32", LOSS,
         "expected one result, metric 'eval_loss' of type tensor<f32>"),
        ('{binade.role = #binade.role<buffer>, binade.name = "x"}', "2xf32", "",
         "expected one result, metric 'eval_loss' of type tensor<f32>"),
    ],
)  # fmt: skip
def test_evaluation_programs_that_do_not_match_the_step_are_rejected(
    argument, type_, attributes, message, tmp_path
):
    (tmp_path / "step.mlir").write_text(
        f"{STEP}func.func @evaluate(%x: tensor<{type_}> {argument}) "
        f"-> (tensor<{type_}> {attributes}) {{\n  return %x : tensor<{type_}>\n}}\n"
    )
    process = binade(
        "compile", tmp_path / "step.mlir", "--from", "monitor", "-o", tmp_path / "s.bnd"
    )
    assert process.returncode == 3, process.stderr
    assert message in process.stderr
    assert not (tmp_path / "s.bnd").exists()


def test_a_step_without_a_loss_has_no_evaluation(tmp_path):
    (tmp_path / "step.mlir").write_text(STEP)
    process = binade(
        "compile", tmp_path / "step.mlir", "--from", "monitor", "-o", tmp_path / "s.bnd"
    )
    assert process.returncode == 0, process.stderr
    runtime = Runtime()
    code, program = runtime.load(tmp_path / "s.bnd")
    assert code == 0, runtime.error()
    assert program.evaluate()[0] == 2
    assert "the program has no loss to evaluate" in runtime.error()
