"""A type checker accepts the package and sees its types in user code."""

import os
import subprocess
import sys

import pytest
from support.paths import BUILD, ROOT

pytest.importorskip("mypy", reason="mypy is not installed: utils/setup.sh --with wheel")
pytest.importorskip("torch", reason="PyTorch is not installed")

# Modules that users call, except the exporter, whose types are as loose as PyTorch's.
MODULES = ["__init__", "arrays", "batches", "compiled_step", "conversion", "errors",
           "metrics", "models", "options", "policies", "ports", "train_step",
           "torch/__init__", "torch/agreement", "torch/capturing", "torch/clipping", "torch/devices",
           "torch/distributed/batches", "torch/distributed/checkpoints",
           "torch/distributed/identity", "torch/distributed/ranks", "torch/distributed/runs",
           "torch/distributed/step", "torch/distributed/stopping", "torch/distributed/transport",
           "torch/exchange", "torch/gathering", "torch/graphs", "torch/groups", "torch/loading",
           "torch/modules", "torch/monitoring/__init__", "torch/norms", "torch/offload",
           "torch/optimizer", "torch/preparing", "torch/rules", "torch/run_states", "torch/running", "torch/shards", "torch/tensors",
           "torch/update", "torch/wrappers"]  # fmt: skip
USER = """
import numpy as np
import torch
import binade
import binade.torch

step = binade.compile("model.onnx", policy={"name": "mine"}, settings={"lr": 0.1})
metrics = step({"x": np.zeros(3), "y": torch.zeros(3)})
reveal_type(metrics.loss)
reveal_type(step.parameters["w"])
reveal_type(binade.convert(b"", policy="bf16-amp"))
reveal_type(binade.torch.AdamW([torch.zeros(3)], states="dyn8"))
binade.compile("model.onnx", policy=3)
"""

pytestmark = [
    pytest.mark.nightly,  # Half a minute, for PyTorch's types.
    pytest.mark.skipif(
        not (BUILD / "python/binade/py.typed").exists(),
        reason="the package is not built",
    ),
]


def check(folder, *arguments):
    made = subprocess.run(["ninja", "-C", BUILD, "binade-stub"], capture_output=True)
    assert made.returncode == 0, made.stdout
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml",
               "--follow-imports=silent", "--cache-dir", folder / "cache"]  # fmt: skip
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False,
        cwd=BUILD / "python", env=os.environ | {"MYPYPATH": str(BUILD / "python")},
    )  # fmt: skip
    return done.stdout


def test_types_of_the_package_and_of_user_code(tmp_path):
    text = check(tmp_path, *(f"binade/{name}.py" for name in MODULES))
    assert f"Success: no issues found in {len(MODULES)} source files" in text
    (tmp_path / "user.py").write_text(USER)
    text = check(tmp_path, tmp_path / "user.py")
    revealed = [line.split('"')[1] for line in text.splitlines() if "Revealed" in line]
    assert [name.split("[")[0] for name in revealed] == [
        "float", "numpy.ndarray", "onnx.onnx_ml_pb2.ModelProto",
        "binade.torch.rules.AdamW",
    ]  # fmt: skip
    (error,) = [line for line in text.splitlines() if "error:" in line]
    assert 'Argument "policy" to "compile" has incompatible type "int"' in error
