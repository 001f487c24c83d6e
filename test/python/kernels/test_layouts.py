"""Convolutions run with the channel last, and the ops around them use the same layout.

Values are compared with the reference, which ignores layouts. Every axis has a length of
its own, so that a wrong axis causes an error or other values.
"""

import re
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, MODELS
from support.reference import BF16, safetensors, without_evaluation

RNG = np.random.default_rng(7)

GEOMETRY = (
    "strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, "
    "padding_low = array<i64: 1, 0>, padding_high = array<i64: 1, 2>"
)
X, W, Y = "tensor<2x3x5x7xT>", "tensor<4x3x3x3xT>", "tensor<2x4x5x7xT>"
C = "tensor<4xf32>"
PARAMETERS = {"x": X, "w": W, "d": Y, "c": C, "e": "tensor<4x5xT>"}

# Name: (ops that compute %r from the convolution %a and from %x, %w, %d, %c, %e, the type
# of %r).
READERS = {
    "elementwise": (f"%r = binade.mul %a, %d : ({Y}, {Y}) -> {Y}", Y),
    "save_and_broadcast": (
        f"""%s = binade.save %a : ({Y}) -> {Y}
        %b = binade.broadcast %e {{axes = array<i64: 1, 2>}} : (tensor<4x5xT>) -> {Y}
        %r = binade.sub %s, %b : ({Y}, {Y}) -> {Y}""",
        Y,
    ),
    "reduce": (
        f"""%s = binade.reduce_sum %a {{axes = array<i64: 0>}} : ({Y}) -> tensor<4x5x7xT>
        %r = binade.reduce_max %s {{axes = array<i64: 1>}}
          : (tensor<4x5x7xT>) -> tensor<4x7xT>""",
        "tensor<4x7xT>",
    ),
    "reduce_positions": (
        f"%r = binade.reduce_mean %a {{axes = array<i64: 2, 3>}} : ({Y}) -> tensor<2x4xT>",
        "tensor<2x4xT>",
    ),
    "movement": (
        f"""%s = binade.slice %a {{offsets = array<i64: 0, 1, 0, 2>,
          strides = array<i64: 1, 2, 1, 3>}} : ({Y}) -> tensor<2x2x5x2xT>
        %p = binade.pad %s {{offsets = array<i64: 0, 1, 0, 3>,
          strides = array<i64: 1, 1, 1, 2>}} : (tensor<2x2x5x2xT>) -> tensor<2x3x5x7xT>
        %r = binade.concat %p, %a {{axis = 1 : i64}}
          : (tensor<2x3x5x7xT>, {Y}) -> tensor<2x7x5x7xT>""",
        "tensor<2x7x5x7xT>",
    ),
    "transpose_and_reshape": (
        f"""%s = binade.transpose %a {{permutation = array<i64: 2, 0, 3, 1>}}
          : ({Y}) -> tensor<5x2x7x4xT>
        %r = binade.reshape %s : (tensor<5x2x7x4xT>) -> tensor<10x28xT>""",
        "tensor<10x28xT>",
    ),
    "rows": (f"%r = binade.softmax %a : ({Y}) -> {Y}", Y),
    "statistics": (
        f"""%r, %v = binade.batch_norm_statistics %a {{axis = 1 : i64}}
          : ({Y}) -> ({C}, {C})""",
        C,
    ),
    "batch_norm": (
        f"""%v = binade.abs %c : ({C}) -> {C}
        %n = binade.batch_norm %a, %c, %c, %c, %v {{axis = 1 : i64, epsilon = 1.0e-1 : f64}}
          : ({Y}, {C}, {C}, {C}, {C}) -> {Y}
        %r = binade.batch_norm_grad %d, %n, %c, %c, %v, %c, %c {{axis = 1 : i64,
          epsilon = 1.0e-1 : f64, training}}
          : ({Y}, {Y}, {C}, {C}, {C}, {C}, {C}) -> {Y}""",
        Y,
    ),
    "batch_norm_param_grad": (
        f"""%v = binade.abs %c : ({C}) -> {C}
        %r, %s = binade.batch_norm_param_grad %a, %d, %c, %v {{axis = 1 : i64,
          epsilon = 1.0e-1 : f64}} : ({Y}, {Y}, {C}, {C}) -> ({C}, {C})""",
        C,
    ),
    "input_grad": (
        f"%r = binade.conv_input_grad %a, %w {{{GEOMETRY}}} : ({Y}, {W}) -> {X}",
        X,
    ),
    "weight_grad": (
        f"%r = binade.conv_weight_grad %a, %x {{{GEOMETRY}}} : ({Y}, {X}) -> {W}",
        W,
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["f32", "bf16"])
@pytest.mark.parametrize("reader", READERS)
def test_values_do_not_depend_on_the_layout(reader, dtype, tmp_path):
    body, result = READERS[reader]
    arguments = ", ".join(f"%{name}: {type}" for name, type in PARAMETERS.items())
    module = f"""
      func.func @f({arguments}) -> {result} {{
        %a = binade.conv %x, %w {{{GEOMETRY}}} : ({X}, {W}) -> {Y}
        {body}
        return %r : {result}
      }}"""
    element = "f32" if dtype is np.float32 else "bf16"
    (tmp_path / "f.mlir").write_text(module.replace("xT>", f"x{element}>"))
    inputs = {}
    for index, type in enumerate(PARAMETERS.values()):
        shape = [int(size) for size in re.findall(r"(\d+)x", type)]
        kind = np.float32 if "f32" in type else dtype
        inputs[f"arg{index}"] = RNG.standard_normal(shape).astype(kind)
    safetensors.save(tmp_path / "in.safetensors", inputs)
    process = subprocess.run(
        [BUILD / "bin" / "binade", "interpret", tmp_path / "f.mlir", "--inputs",
         tmp_path / "in.safetensors", "--backend", "cpu", "--check"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "fp16-amp"])
def test_a_resnet_has_one_transpose(policy):
    """The only transpose is that of the image. All 59 convolutions have channels last."""
    model = MODELS / "resnet18-cifar-w8" / "loss.onnx"
    if not model.exists():
        pytest.skip(f"{model} is absent; BINADE_MODELS names the models' folder")
    process = subprocess.run(
        [BUILD / "bin" / "binade", "compile", model, "--policy", policy, "--to",
         "kernels", "-o", "-"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    module = without_evaluation(process.stdout)
    convolutions = re.findall(r"binade\.conv.*", module)
    assert len(convolutions) == 59
    assert all("channels_last" in line for line in convolutions)
    kernels = re.findall(r"func\.func private @(\w+)(.*?)\n  }", module, re.DOTALL)
    moving = [name for name, body in kernels if "binade.transpose" in body]
    launches = re.findall(rf"launch \[@(?:{'|'.join(moving)})\].*", module)
    assert len(launches) == 1 and "-> tensor<8x32x32x3x" in launches[0], launches
