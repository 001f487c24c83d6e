"""Kernels of the gpu dialect cast narrow floats exactly: all values and all ties."""

import numpy as np
import pytest
from support.narrow_floats import FORMATS, all_codes, edges, expected_codes, words
from support.reference import evaluate, tensor_type

F32 = np.float32


def cast(x, source, target, backend, attributes=""):
    module = f"""func.func @f(%x: {tensor_type(x.shape, source)}) -> {tensor_type(x.shape, target)} {{
        %y = binade.cast %x {attributes} : ({tensor_type(x.shape, source)}) -> {tensor_type(x.shape, target)}
        return %y : {tensor_type(x.shape, target)}
      }}"""
    (y,) = evaluate(module, {"arg0": x}, "--backend", backend).values()
    return y


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_every_tie_rounds_to_even(name, saturate):
    if saturate and not name.startswith("f8"):
        pytest.skip("16 bits overflow to infinity")
    x = edges(name)
    got = words(cast(x, "f32", name, "simulator", "{saturate}" if saturate else ""))
    expected = expected_codes(x, name, saturate)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, [(x[i], hex(got[i]), hex(expected[i])) for i in wrong[:5]]


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2"])
def test_casts_to_8_bits_equal_those_of_the_cpu(name, saturate):
    x, form = edges(name), "{saturate}" if saturate else ""
    on_cpu = words(cast(x, "f32", name, "cpu", form))
    assert (words(cast(x, "f32", name, "simulator", form)) == on_cpu).all()


@pytest.mark.parametrize("name", FORMATS)
def test_every_narrow_value_is_widened(name):
    codes = all_codes(name)
    got = cast(codes, name, "f32", "simulator")
    expected = codes.astype(F32)
    same = got.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(got) & np.isnan(expected))).all()
