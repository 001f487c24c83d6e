"""Training steps of one parameter, built by the passes, and recorded settings."""

import json
import subprocess

import numpy as np
from support.golden import from_bits
from support.paths import BUILD, ROOT
from support.reference import evaluate

OPT = BUILD / "bin" / "binade-opt"
F32 = np.float32
GOLDEN = ROOT / "test/data/golden"
OPTIM = json.loads((GOLDEN / "optim.json").read_text())["cases"]
# Settings that PyTorch was called with, as recorded with the values.
SETTINGS = {
    "torch_sgd": ("sgd", "lr=0.1"),
    "torch_sgd_mom": ("sgd", "lr=0.1,momentum=0.9"),
    "torch_sgd_nesterov_wd": (
        "sgd", "lr=0.1,momentum=0.9,weight_decay=0.01,nesterov=1",
    ),
    "torch_sgd_damp": ("sgd", "lr=0.1,momentum=0.9,dampening=0.5"),
    "torch_adam": ("adam", "lr=1e-2"),
    "torch_adam_l2": ("adam", "lr=1e-2,weight_decay=0.1"),
    "torch_adamw": ("adamw", "lr=1e-2,weight_decay=0.1"),
    "torch_rmsprop": ("rmsprop", "lr=1e-2"),
    "torch_rmsprop_centered_mom": ("rmsprop_centered", "lr=1e-2,momentum=0.9"),
    "lion": ("lion", "lr=1e-3,weight_decay=0.1"),
}  # fmt: skip
FORWARD = """
func.func @forward(
    %w: tensor<6xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
    %v: tensor<2x3xf32> {binade.name = "v", binade.role = #binade.role<parameter>},
    %gw: tensor<6xf32> {binade.name = "gw", binade.role = #binade.role<batch>},
    %gv: tensor<2x3xf32> {binade.name = "gv", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %0 = binade.mul %w, %gw : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %1 = binade.mul %v, %gv : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %3 = binade.reduce_sum %1 {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
  %loss = binade.add %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
"""


class Step:
    """A compiled step, which keeps its state between calls."""

    def __init__(self, folder, optimizer, policy=None):
        source = folder / "forward.mlir"
        source.write_text(FORWARD)
        flags = [
            "--binade-autodiff-pipeline",
            f"--binade-optimizer-pipeline={optimizer}",
        ]
        if policy:
            flags += [
                f"--binade-assign-pipeline=policy={{{policy}}}",
                "--binade-materialize-pipeline",
            ]
        self.module = subprocess.run(
            [OPT, source, *flags],
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        ).stdout
        arguments = self.module.split("func.func @step(")[1].split(") -> (")[0]
        self.arguments = arguments
        self.state = {}

    def __call__(self, w, v, gw, gv):
        """Runs once; parameters of the first call stay afterwards."""
        inputs = {"w": w, "v": v} | self.state | {"gw": gw, "gv": gv}
        outputs = evaluate(self.module, inputs, "--function", "step")
        self.state = {
            n: x for n, x in outputs.items() if f'binade.name = "{n}"' in self.arguments
        }
        return outputs


P0 = from_bits(OPTIM["param0"])
