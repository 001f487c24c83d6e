"""Elementwise ops of ONNX that take integers, too."""

import numpy as np
import onnx
import pytest
from support.onnx_nodes import BinadeBackend

EXPECTED = {"Sign": np.sign, "Relu": lambda x: np.maximum(x, 0)}
CASES = [
    *(("Sign", name) for name in ("int8", "int32", "int64", "uint8", "uint64")),
    *(("Relu", name) for name in ("int8", "int32", "int64")),
]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("op, name", CASES)
def test_integers(op, name, backend):
    limits = np.iinfo(name)
    x = np.array([limits.min, limits.max, 0, 1, 2, limits.max - 1], dtype=name)
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> '
        f"g ({name}[{len(x)}] x) => ({name}[{len(x)}] y) {{ y = {op}(x) }}"
    )
    found = BinadeBackend.prepare(model, backend).run([x])[0]
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, EXPECTED[op](x))
