"""PTX of kernels, run: the bits that the simulator has of what it was made from."""

import re

import numpy as np
import pytest
from gpu_code import compile_ptx, parse
from ptx import run
from reference import ELEMENTS, ROOT, evaluate

DATA = ROOT / "test/data"
TEXT = (DATA / "gpu-kernels.mlir").read_text()
KERNELS = {
    re.search(r"@(\w+)", text)[1]: text
    for text in re.findall(r"^func.*?^}", TEXT, re.DOTALL | re.MULTILINE)
}
TENSOR = re.compile(r"tensor<(?:([\dx]+)x)?(\w+)>")


def draw(shape, dtype, random):
    return (random.standard_normal(shape) * 3).astype(ELEMENTS[dtype])


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", KERNELS)
def test_templates(name, chip, tmp_path):
    text = KERNELS[name]
    path = tmp_path / "kernel.mlir"
    path.write_text(text)
    process = compile_ptx(path, chip)
    assert process.returncode == 0, process.stderr
    (entry,) = parse(process.stdout)
    head = text[: text.index("attributes")]
    operands = head.split("->")[0]
    random = np.random.default_rng(7)
    inputs = {}
    for index, (shape, dtype) in enumerate(TENSOR.findall(operands)):
        shape = tuple(int(extent) for extent in shape.split("x"))
        inputs[f"arg{index}"] = draw(shape, dtype, random)
    module = re.sub(r"func.func private @\w+", "func.func @f", text)
    module = re.sub(r"\s*attributes \{binade.kernel[^}]*\}", "", module)
    values = evaluate(module, inputs, "--backend", "simulator")
    expected = [values[name] for name in sorted(values)]
    memories = [x.reshape(-1).view(np.uint8).copy() for x in inputs.values()]
    outputs = [np.full(y.nbytes, 0xFF, np.uint8) for y in expected]
    run(entry, [*memories, *outputs])
    for got, want in zip(outputs, expected):
        assert (got == want.reshape(-1).view(np.uint8)).all()
