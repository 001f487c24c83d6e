"""Encoding with code books: at the midpoints between values, next to them, and over the
whole range of f32."""

import numpy as np
import pytest
from support.codec import load_book, write_book
from support.reference import evaluate, tensor_type

F32 = np.float32
BOOKS = {
    "dynamic-signed": load_book("bnb_dynamic_signed"),
    "dynamic-unsigned": load_book("bnb_dynamic_unsigned"),
    "linear-signed": np.linspace(-1, 1, 256, dtype=F32),
    "linear-unsigned": np.linspace(0, 1, 256, dtype=F32),
    "no zero": np.concatenate([-np.arange(128, 0, -1), np.arange(1, 129)]).astype(F32),
    "crowded": F32(1) + np.arange(256, dtype=F32) * F32(2**-20),
    "crowded, signed": np.concatenate([
        [-1 - i * 2**-20 for i in range(128, 0, -1)], [0],
        [1 + i * 2**-20 for i in range(127)],
    ]).astype(F32),
    "tiny": np.arange(256, dtype=np.uint32).view(F32),
}  # fmt: skip


def find_probes(values, middles):
    ends = F32([0, -0.0, 1e-45, -1e-45, 1e-38, 3e38, -3e38, np.inf, -np.inf])
    cells = (np.arange(0x7F80, dtype=np.uint32) << 16).view(F32)
    around = np.concatenate([middles, values, cells, -cells, ends])
    with np.errstate(over="ignore"):
        neighbors = [np.nextafter(around, F32(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([around, *neighbors])


def expect(x, values, middles):
    """Returns the code of the nearest value, the even one at a tie. If the book has 0 and
    negative values, negative inputs get a negative value."""
    code = np.searchsorted(middles, x, side="left")
    tied = np.isin(x, middles)
    code = np.where(tied & (code % 2 == 1), code + 1, code)
    if (values < 0).any() and (zero := np.flatnonzero(values == 0)).size:
        code = np.where((x < 0) & (code >= zero[0]), zero[0] - 1, code)
        code = np.where((x >= 0) & (code < zero[0]), zero[0], code)
    return code.astype(np.uint8)


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("name", BOOKS)
def test_codes_are_those_of_the_nearest_values(name, backend):
    values = BOOKS[name]
    assert (np.diff(values) > 0).all()
    middles = (values[1:] + values[:-1]) * F32(0.5)
    x = find_probes(values, middles)
    book = write_book("book", values)
    form = f"#binade.quantized<{book}, per_tensor, scale = f32>"
    wide, codes = tensor_type(x.shape, "f32"), tensor_type(x.shape, "i8")
    module = f"""
      func.func @f(%x: {wide}, %scale: tensor<f32>) -> {codes} {{
        %y = binade.encode %x, %scale {{format = {form}}}
            : ({wide}, tensor<f32>) -> {codes}
        return %y : {codes}
      }}"""
    got = evaluate(module, {"arg0": x, "arg1": F32(1)}, "--backend", backend)
    expected = expect(x, values, middles)
    np.testing.assert_array_equal(got["result0"].view(np.uint8), expected)
