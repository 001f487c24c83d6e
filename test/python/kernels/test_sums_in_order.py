"""Sums in a fixed order have the bits of numpy's additions on all backends."""

import numpy as np
import pytest
from support.paths import ROOT
from support.quantization import backends
from support.reference import binade, evaluate, tensor_type

F32 = np.float32


def add(x, axis, by_halves, backend):
    result = tensor_type([1 if a == axis else n for a, n in enumerate(x.shape)], "f32")
    attributes = f"axis = {axis} : i64{', by_halves' if by_halves else ''}"
    module = f"""
      func.func @f(%x: {tensor_type(x.shape, "f32")}) -> {result} {{
        %y = binade.sum_in_order %x {{{attributes}}}
           : ({tensor_type(x.shape, "f32")}) -> {result}
        return %y : {result}
      }}"""
    return evaluate(module, {"arg0": x}, "--backend", backend)["result0"]


def add_terms(terms, by_halves):
    terms = list(terms)
    if not by_halves:
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total
    while len(terms) > 1:
        half = 1 << (len(terms) - 1).bit_length() - 1
        high = terms[half:] + [np.zeros_like(terms[0])] * (2 * half - len(terms))
        terms = [x + y for x, y in zip(terms[:half], high)]
    return terms[0]


SHAPES = [((3, 16), 1), ((16, 5), 0), ((4, 13, 33), 1), ((7, 128), 1), ((1, 9), 0),
          ((128,), 0), ((0, 16), 1), ((2, 3, 8, 5), 2)]  # fmt: skip


@backends
@pytest.mark.parametrize("by_halves", [False, True])
def test_bits(by_halves, backend):
    random = np.random.default_rng(3)
    for shape, axis in SHAPES:
        x = random.standard_normal(shape).astype(F32)
        x *= np.exp2(random.integers(-12, 12, shape)).astype(F32)
        if x.size:
            x.flat[random.integers(x.size, size=3)] = -0.0, np.inf, np.nan
        found = add(x, axis, by_halves, backend)
        with np.errstate(invalid="ignore"):
            expected = add_terms(np.moveaxis(x, axis, 0), by_halves)
        expected = np.expand_dims(expected, axis)
        both = np.isnan(found) & np.isnan(expected)
        np.testing.assert_array_equal(
            np.where(both, 0, found.view(np.uint32)),
            np.where(both, 0, expected.view(np.uint32)),
        )


@pytest.mark.parametrize(
    ("policy", "most"), [("nvfp4-four-six", 200), ("quartet2", 260)]
)
def test_steps_need_few_kernels(policy, most):
    """A kernel adds all terms, instead of one for each slice and addition."""
    done = binade(
        "compile", ROOT / "examples/char-gpt/mini.onnx", "--policy", policy,
        "--optimizer", "adamw", "--to=kernels", "-o", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kernels = done.stdout.count("attributes {binade.kernel")
    assert 50 < kernels <= most
    assert "sum_in_order" in done.stdout
