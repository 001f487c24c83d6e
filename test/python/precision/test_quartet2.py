"""The policy `quartet2`: codes of the operands of both backward products of a compiled step,
compared with numpy, its errors, and a short run."""

import json
import re
import subprocess
import sys

import numpy as np
from support.hadamard import step_signs, transform
from support.nvfp4 import same
from support.paths import ROOT
from support.philox import draw_elements
from support.quantized_products import (
    BACKENDS,
    OPT,
    OUT,
    build_step,
    check,
    draw,
    materialize,
    product,
    return_also,
)
from support.reference import binade, evaluate

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as nvfp4  # noqa: E402
import make_nvfp4_eden as published  # noqa: E402

F32 = np.float32
MINI = ROOT / "examples/char-gpt/mini.onnx"
SEED, STEP, WIDE = 77, 3, 128


def find_codes(module):
    """The parts of the values that MS-EDEN quantizes, in the order of the step, and the streams
    of their random numbers."""
    found = re.findall(
        r"(%\w+):3 = binade\.quantize .*rounded_eden.*stream = (\d+).* -> \((.*), (.*), (.*)\)\n",
        module,
    )
    return [
        ([(f"{name}#{i}", one) for i, one in enumerate(types)], int(stream))
        for name, stream, *types in found
    ]


def quantize(x, stream, isColumn):
    """Codes and scales of transformed values, and the values they represent."""
    x = transform(x, 128, step_signs(128, SEED, STEP), axis=0 if isColumn else 1)
    x = x.T.copy() if isColumn else x
    count, shape = x.size // 16, (x.shape[0], x.shape[1] // 16)
    random = draw_elements(count, SEED, STEP, stream)
    random = random.reshape(shape[::-1]).T if isColumn else random.reshape(shape)
    codes, scales, tensor = published.quantize(x, random)
    values = nvfp4.dequantize(codes, scales, tensor).astype(float)
    if isColumn:
        return (codes.T, scales.T, tensor), values.T
    return (codes, scales, tensor), values


@BACKENDS
def test_codes_of_both_backward_products(backend):
    """Of the activation and the gradient along the samples, and of the gradient and the weight
    along the outputs of the layer."""
    v = draw(23, rows=128)
    random = np.random.default_rng(24)
    for name, shape in (("w", (v["w"].shape[0], WIDE)), ("g", (128, WIDE)),
                        ("b", (WIDE,)), ("last", (WIDE, 1))):  # fmt: skip
        v[name] = random.standard_normal(shape).astype(F32)
    module = materialize("quartet2", build_step(128).replace(f"{OUT}", f"{WIDE}"))
    codes = find_codes(module)
    module = return_also(module, [part for parts, _ in codes for part in parts])
    outputs = evaluate(
        module, v | {"rng": np.array([SEED, STEP])}, "--backend", backend
    )
    operands = {"x": (-v["x"], True), "w": (v["w"], False),
                "g": (-v["g"], False), "gT": (-v["g"], True)}  # fmt: skip
    read = {}
    for i, (parts, stream) in enumerate(codes):
        found = [np.asarray(outputs[f"result{3 * i + part}"]) for part in range(3)]
        blocks = found[1].shape
        (name,) = [key for key, (x, isColumn) in operands.items()
                   if (len(x) == len(found[0]) and x.shape[1] == found[0].shape[1]
                       and isColumn == (blocks[0] < len(x)))]  # fmt: skip
        expected, read[name] = quantize(operands[name][0], stream, operands[name][1])
        same(found, expected)
    assert set(read) == set(operands)
    check(outputs, {"w": product(read["x"].T, read["gT"]),
                    "dx": product(read["g"], read["w"].T)})  # fmt: skip


def assign(policy, rows):
    return subprocess.run(
        [OPT, f"--binade-assign-precision=policy={{{policy}}}"],
        input=build_step(rows), capture_output=True, text=True,
    )  # fmt: skip


def test_products_without_the_rotation_are_not_quantized():
    """Sums over 40 outputs in the gradient of the input; and over 64 samples."""
    process = assign("quartet2", 64)
    assert process.returncode == 0
    warnings = re.findall(r"quartet2\.yaml:\d+:\d+: warning: (.*)", process.stderr)
    assert len(warnings) == 2
    for size, line in zip((40, 64), sorted(warnings, key=lambda line: "64" in line)):
        assert line.startswith(
            "does not quantize 1 product without the transform: matmul"
        )
        assert f"sums over {size} elements" in line
        assert line.endswith(
            "without the transform rule 'rounded_eden' is biased, so that they are not quantized"
        )
    assert "rounded_eden" not in process.stdout
    assert process.stdout.count("rounded_four_six") == 2
    assert "rounded_eden" in assign("quartet2", 128).stdout


def test_explain_shows_the_formats_of_each_product():
    process = binade("explain", MINI, "--policy", "quartet2")
    assert process.returncode == 0, process.stderr
    four, eden = (
        f"f4E2M1FN/1/16 in two levels by {rule}" for rule in ("4 or 6", "MS-EDEN")
    )
    layer = re.search(r"blocks\.1\.mlp\.2/\w+\n(  .*\n){3}", process.stdout)[0]
    assert f"  fprop  bf16, sums f32, operands {four} x {four}, bias bf16\n" in layer
    rotated = f"operands {eden} x {eden}, hadamard 128 with signs drawn in each step\n"
    for name in ("dgrad", "wgrad"):
        assert f"  {name}  bf16, sums f32, {rotated}" in layer


def test_policy_show_prints_the_transforms():
    process = binade("policy", "show", "quartet2")
    assert process.returncode == 0, process.stderr
    for name in ("dgrad", "wgrad"):
        assert (
            f"transform {name} hadamard 128 with signs drawn in each step"
            in process.stdout
        )


def train(folder, policy, steps=12):
    process = binade(
        "train", MINI, "--data", folder / "train.safetensors",
        "--window", "input_ids=tokens[0:128],labels=tokens[1:129]", "--policy", policy,
        "--lr", "1e-3", "--clip", 1, "--warmup", 5, "--schedule", "constant",
        "--steps", steps, "--out", folder / policy,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = (folder / policy / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return np.array(
        [(one["loss"], one["grad_norm"]) for one in records if "loss" in one]
    )


def test_a_short_run_is_close_to_bf16(tmp_path):
    subprocess.run(
        [sys.executable, MINI.parent / "prepare.py", "--out", tmp_path], check=True
    )
    wide, narrow = (train(tmp_path, policy) for policy in ("bf16-amp", "quartet2"))
    assert np.isfinite(narrow).all()
    assert narrow[-1, 0] < narrow[0, 0] - 1
    np.testing.assert_allclose(narrow[:, 0], wide[:, 0], rtol=0.01)
