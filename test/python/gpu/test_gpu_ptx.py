"""PTX, run in an interpreter, computes the same bits as its gpu dialect source."""

import math
import re

import numpy as np
import pytest
from support.gpu_code import compile_ptx, identify, parse, read_kernels
from support.paths import ROOT
from support.ptx import run
from support.reference import ELEMENTS, evaluate

DATA = ROOT / "test/data"
TEXT = (DATA / "gpu-kernels.mlir").read_text()
KERNELS = {
    re.search(r"@(\w+)", text)[1]: text
    for text in re.findall(r"^func.*?^}", TEXT, re.DOTALL | re.MULTILINE)
}
# The byte that fills memory before it is written.
POISON = 0xFF
TENSOR = re.compile(r"tensor<(?:([\dx]+)x)?(\w+)>")


def draw(shape, dtype, random):
    if not dtype.startswith(("f", "bf")):  # Indices and labels, all in range.
        return random.integers(0, 2, shape).astype(ELEMENTS[dtype])
    return (random.standard_normal(shape) * 3).astype(ELEMENTS[dtype])


def check(text, chip, path, ends=False):
    """Runs the PTX of one kernel and compares its results with the simulator's. With
    `ends`, runs only the first and last block. Returns False if it cannot be run."""
    path.write_text(text)
    process = compile_ptx(path, chip)
    if "has no schedule for a GPU" in process.stderr:
        return False
    assert process.returncode == 0, process.stderr
    entries = parse(process.stdout)
    if any(entry.grid == 0 for entry in entries):  # Multi-tensor kernels need a table.
        return False
    operands = text[: text.index("attributes")].split("->")[0]
    random = np.random.default_rng(7)
    inputs = {}
    for index, (shape, dtype) in enumerate(TENSOR.findall(operands)):
        shape = tuple(int(extent) for extent in shape.split("x") if extent)
        inputs[f"arg{index}"] = draw(shape, dtype, random)
    module = re.sub(r"func.func private @\w+", "func.func @f", text)
    module = re.sub(r"\s*attributes \{binade.kernel[^}]*\}", "", module)
    values = evaluate(module, inputs, "--backend", "simulator")
    expected = [
        values[name]
        for name in sorted(values, key=lambda name: int(name.removeprefix("result")))
    ]
    memories = [x.reshape(-1).view(np.uint8).copy() for x in inputs.values()]
    outputs = [np.full(y.nbytes, POISON, np.uint8) for y in expected]
    workspace = np.zeros(entries[0].workspace, np.uint8)
    ends &= len(entries) == 1
    for entry in entries:
        blocks = {0, entry.grid - 1} if ends else None
        run(entry, [*memories, *outputs, workspace], blocks)
    for got, want in zip(outputs, expected):
        want = want.reshape(-1).view(np.uint8)
        written = got != POISON if ends else np.full(len(got), True)
        assert written.any() and (got == want)[written].all()
    return True


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", KERNELS)
def test_templates(name, chip, tmp_path):
    assert check(KERNELS[name], chip, tmp_path / "kernel.mlir")


@pytest.fixture(scope="module")
def compared():
    """The results of `check` for kernels of policies, by `identify`."""
    return {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        "bf16-amp",
        "coat",
        *(pytest.param(p, marks=pytest.mark.nightly) for p in ["fp32", "fp8-block"]),
    ],
)
def test_kernels_of_policies(policy, compared, tmp_path):
    """Kernels that policies share are compared once."""
    ran = 0
    for name, text in read_kernels(policy).items():
        if "optimizer" in text:
            continue
        key = identify(name, text)
        if key not in compared:
            compared[key] = check(text, "sm_90", tmp_path / "kernel.mlir", ends=True)
        ran += compared[key]
    assert ran > 20


def test_scalars_of_adamw(tmp_path):
    (text,) = [
        text
        for name, text in read_kernels("fp32").items()
        if name.startswith("optimizer_scalars")
    ]
    path = tmp_path / "kernel.mlir"
    path.write_text(text)
    process = compile_ptx(path)
    assert process.returncode == 0, process.stderr
    (entry,) = parse(process.stdout)
    hypers = {"lr": 3e-4, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.1}
    for t in [1, 2, 1000, 54321]:  # The input is the number of completed steps.
        memories = [
            np.array([t - 1], np.int64),
            *(np.array([v]) for v in hypers.values()),
        ]
        memories = [x.view(np.uint8) for x in memories]
        results = [np.zeros(4, np.uint8) for _ in range(7)]
        run(entry, [*memories, *results])
        lr, beta1, beta2, epsilon, decay = hypers.values()
        expected = [
            1 - lr * decay, 1 - beta1, beta2, 1 - beta2,
            lr / (1 - beta1**t), math.sqrt(1 - beta2**t), epsilon,
        ]  # fmt: skip
        got = [float(x.view(np.float32)[0]) for x in results]
        assert got == [float(np.float32(x)) for x in expected]
