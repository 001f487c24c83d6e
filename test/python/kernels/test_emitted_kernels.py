"""The kernels of a model are lowered to valid IR under each policy. Compiling a bundle
does not verify this IR again."""

import subprocess

import pytest
from support.paths import BUILD, ROOT
from support.reference import binade

MINI = ROOT / "examples/char-gpt/mini.onnx"
POLICIES = ["fp32", "bf16-amp", "coat", "fp8-delayed", "mxfp8", "8bit-optimizer"]


@pytest.mark.parametrize("policy", POLICIES)
def test_loops_are_valid(policy, tmp_path):
    done = binade("compile", MINI, "--policy", policy, "--to=kernels",
                  "-o", tmp_path / "kernels.mlir")  # fmt: skip
    assert done.returncode == 0, done.stderr
    process = subprocess.run(
        [BUILD / "bin/binade-opt", tmp_path / "kernels.mlir",
         "--pass-pipeline=builtin.module(binade-conversion-pipeline)"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.stderr == ""
    assert process.returncode == 0 and " = binade." not in process.stdout
