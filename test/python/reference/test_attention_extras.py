"""Attention with masks, biases, a soft cap and dropout computes what PyTorch does: the reference
in f32, and compiled code within the bounds of the reference."""

import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support.attention import DTYPES, EXAMPLES, F32, RANDOM, STREAM, Example  # noqa: E402
from support.paths import BUILD  # noqa: E402
from support.reference import evaluate, safetensors, type_of  # noqa: E402


def give(operands):
    return {f"arg{index}": array for index, array in enumerate(operands.values())}


def run(module, operands, *flags):
    outputs = evaluate(module, give(operands), *flags)
    return [outputs[f"result{index}"] for index in range(len(outputs))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_reference_is_pytorch(name):
    example = EXAMPLES[name]
    operands = example.draw()
    found = run(example.module(operands), operands)
    expected = example.expect(operands)
    assert len(found) == len(expected)
    for own, other in zip(found, expected):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(own, other, rtol=0, atol=3e-6 * scale)


@pytest.mark.parametrize(
    ("name", "dtype"), DTYPES, ids=[f"{n}-{np.dtype(d).name}" for n, d in DTYPES]
)
def test_compiled_code_is_within_the_bounds(name, dtype, tmp_path):
    example = EXAMPLES[name]
    operands = example.draw(dtype)
    (tmp_path / "module.mlir").write_text(example.module(operands))
    safetensors.save(tmp_path / "in.safetensors", give(operands))
    process = subprocess.run(
        [BUILD / "bin" / "binade", "interpret", tmp_path / "module.mlir", "--inputs",
         tmp_path / "in.safetensors", "--backend", "cpu", "--check"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    if dtype != F32:
        return
    found = run(example.module(operands), operands, "--backend", "cpu")
    for own, other in zip(found, example.expect(operands)):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-5 * scale)


HIDDEN = {
    "nan": ({}, np.nan),
    "finite": ({"fill": -3e38}, None),
    "zero": ({"zero_hidden": True}, 0.0),
}


@pytest.mark.parametrize(
    "backend", [[], ["--backend", "cpu"]], ids=["reference", "cpu"]
)
def test_a_nan_in_a_query_does_not_hide_its_keys(backend):
    example = Example((1, 2, 4, 8), zero_hidden=True, causal=True)
    operands = example.draw()
    operands["q"][0, 1, 2] = np.nan
    y, lse, dq, dk, dv = run(example.module(operands), operands, *backend)
    for rows in (y, lse, dq):
        assert np.isnan(rows[0, 1, 2]).all()
        assert (
            np.isfinite(rows[0, 0]).all() and np.isfinite(rows[0, 1, [0, 1, 3]]).all()
        )
    for rows in (dk, dv):
        assert np.isnan(rows[0, 1, :3]).all() and np.isfinite(rows[0, 0]).all()
    # The gradient of the last key multiplies the query by 0 or skips it.
    assert np.isfinite(dv[0, 1, 3]).all()


@pytest.mark.parametrize(
    "backend", [[], ["--backend", "cpu"]], ids=["reference", "cpu"]
)
@pytest.mark.parametrize("by", ["mask", "bias"])
@pytest.mark.parametrize("kind", HIDDEN)
def test_queries_without_visible_keys(kind, by, backend):
    """They give NaN, or the mean of all values if the mask is a finite number, or 0."""
    options, result = HIDDEN[kind]
    shape = (2, 1, 1, 6)
    if by == "mask":
        example = Example((2, 3, 4, 8), 6, mask=shape, **options)
        operands = example.draw()
        operands["m"][1] = False
    else:
        number = options.get("fill", -np.inf)
        options = {key: value for key, value in options.items() if key != "fill"}
        example = Example((2, 3, 4, 8), 6, biases=(shape,), **options)
        operands = example.draw()
        operands["b0"][1] = number
    found = run(example.module(operands), operands, *backend)
    expected = example.expect(operands)
    if kind == "nan":
        # The logarithm is not used then.
        expected[1] = np.where(np.isinf(expected[1]), np.nan, expected[1])
    if kind == "zero":
        # PyTorch's softmax is NaN there.
        expected = [np.where(np.isnan(x), 0.0, x) for x in expected]
        expected[1] = np.where(expected[1] == 0.0, -np.inf, expected[1])
        for own in (found[0], *found[2:4]):
            np.testing.assert_array_equal(own[1], 0.0)
    if result is not None:
        np.testing.assert_array_equal(found[0][1], np.full((3, 4, 8), result))
    else:
        mean = np.broadcast_to(operands["v"][1].mean(-2, keepdims=True), (3, 4, 8))
        np.testing.assert_allclose(found[0][1], mean, atol=1e-6)
    for own, other in zip(found, expected):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [(2, 3, 16, 16), (9, 2, 16, 16), (1, 1, 512, 512), (3, 4, 160, 160)],
    ids=str,
)
def test_dropout_keeps_the_bits_of_the_op(shape):
    """With equal scores and the identity as values, the result is the dropout of equal
    probabilities, which the op `dropout` computes, too."""
    size = shape[-1]
    example = Example(shape, ratio=0.3)
    identity = np.broadcast_to(np.eye(size, dtype=F32), shape).copy()
    zeros = np.zeros(shape, F32)
    operands = {"q": zeros, "k": zeros, "v": identity, "d": zeros, "r": RANDOM}
    found = run(example.module(operands), operands, "--backend", "cpu")[0]
    kind = type_of(zeros)
    (expected,) = run(
        f"""
func.func @f(%x: {kind}, %r: tensor<2xi64>) -> {kind} {{
  %y = binade.dropout %x, %r {{ratio = 0.3 : f64, stream = {STREAM} : i64}}
    : ({kind}, tensor<2xi64>) -> {kind}
  return %y : {kind}
}}
""",
        {"x": np.full(shape, 1 / size, F32), "r": RANDOM},
        "--backend", "cpu",
    )  # fmt: skip
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found != 0, example.kept())
