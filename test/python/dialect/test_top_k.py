"""TopK of long rows, which has an algorithm of its own, selects the same elements as TopK of
short rows, on every backend: with ties, both zeros, infinities and NaN."""

import subprocess

import numpy as np
import onnx
import onnx.parser
import pytest
from support.paths import BUILD
from support.reference import EVAL, safetensors

NAN, INF = np.nan, np.inf
ROWS = np.array([
    [3, NAN, 3, -INF, 7, NAN, -0.0, 0.0, INF, INF],
    [-INF] * 10,
    [NAN] * 10,
    [1, 1, 0, NAN, -1, -1, 2, 2, 5, -5],
], np.float32)  # fmt: skip


def pick(x, count, largest, folder):
    """Yields the indices that each backend returns."""
    rows, columns = x.shape
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[{rows},{columns}] x) => (float[{rows},{count}] y, int64[{rows},{count}] i)
          <int64[1] k = {{{count}}}> {{ y, i = TopK <largest = {largest}> (x, k) }}"""
    )
    onnx.save(model, folder / "m.onnx")
    command = [BUILD / "bin/binade-translate", "--import-onnx", folder / "m.onnx"]
    subprocess.run([*command, "-o", folder / "m.mlir"], check=True)
    safetensors.save(folder / "in.safetensors", {"x": x})
    for backend in ("reference", "cpu", "simulator"):
        subprocess.run(
            [EVAL, folder / "m.mlir", "--backend", backend, "--inputs",
             folder / "in.safetensors", "--out", folder / "out.safetensors"],
            check=True,
        )  # fmt: skip
        found = safetensors.load(folder / "out.safetensors")
        np.testing.assert_array_equal(found["y"], np.take_along_axis(x, found["i"], 1))
        yield found["i"]


@pytest.mark.parametrize("largest", [0, 1])
def test_long_rows_are_ordered_like_short_rows(largest, tmp_path):
    count = 3
    expected = next(pick(ROWS, count, largest, tmp_path))
    # Elements that are ordered after all others.
    rest = np.full((len(ROWS), 100), -INF if largest else NAN, np.float32)
    many = np.concatenate([ROWS, rest], 1)
    for places in pick(many, count, largest, tmp_path):
        np.testing.assert_array_equal(places, expected)
