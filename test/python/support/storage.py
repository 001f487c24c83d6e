"""Bits of parameters in 16 bits, and what is stored with them."""

import numpy as np
from support.reference import BF16

F32 = np.float32


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def assert_equal_bits(actual, expected):
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(bits(actual), bits(expected))


def start(master, values, parameter=BF16):
    """Parameter and what is beside it for f32 `values`, by the definitions."""
    word = values.view(np.uint32)
    low = (word & 0xFFFF).astype(np.uint16).view(np.int16)
    high = (word >> 16).astype(np.uint16)
    if master == "split_trunc":
        return {"p": high.view(BF16), "b": low}
    if master == "split_round":  # TransformerEngine's: up where the rest is negative.
        return {"p": (high + (low < 0)).astype(np.uint16).view(BF16), "b": low}
    given = {"p": values.astype(parameter)}
    if master == "f32":
        given["b"] = values
    if master == "kahan":
        given["b"] = np.zeros(values.shape, parameter)
    return given


def join(master, found):
    """The f32 that a parameter and what is beside it stand for."""
    if master == "f32":
        return found["b"]
    high, low = bits(found["p"]).astype(np.int64), found["b"].astype(np.int64)
    word = (high << 16) + (low if master == "split_round" else low & 0xFFFF)
    return word.astype(np.uint32).view(F32)
