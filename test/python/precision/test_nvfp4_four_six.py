"""NVFP4 with the better of two scales for each block (Four Over Six), bit for bit the published
formulas in numpy (test/data/make_nvfp4.py)."""

import re
import sys

import numpy as np
import pytest
from support.nvfp4 import SHAPES, parts_of, quantize_all, same
from support.paths import ROOT
from support.quantization import backends, bits, load, quantize
from support.reference import binade

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

F32 = np.float32
FORM = "f4E2M1FN, per_block<{}, {}>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six"
CASES = load("nvfp4_four_six")
MINI = ROOT / "examples/char-gpt/mini.onnx"


@backends
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_recorded_tensors(case, backend):
    x = bits(case["in"]).view(F32).reshape(case["shape"])
    found, back = quantize(x, FORM.format(1, 16), parts_of(x.shape), backend)
    scales = np.array(case["scales"], np.uint8).reshape(found[1].shape)
    tensor = np.uint32(int(case["tensor_scale"], 16)).view(F32)
    codes = np.array(case["codes"], np.uint8).reshape(x.shape)
    same(found, (codes, scales, tensor))
    np.testing.assert_array_equal(back, published.dequantize(codes, scales, tensor))


def check_random_tensors(rows, backend, batches):
    for batch in range(batches):
        random = np.random.default_rng([batch, rows, 46])
        tensors = [
            published.draw(random, SHAPES[random.integers(len(SHAPES))])
            for _ in range(250)
        ]
        for x, found in zip(tensors, quantize_all(tensors, FORM, backend, rows)):
            same(found, published.quantize_four_six(x, rows))


@backends
@pytest.mark.parametrize("rows", [1, 16])
def test_random_tensors(rows, backend):
    """Of all magnitudes, with blocks of zeros, subnormals, infinities and NaN."""
    check_random_tensors(rows, backend, 20 if backend == "reference" else 1)


@pytest.mark.slow
@pytest.mark.nightly
@backends
@pytest.mark.parametrize("rows", [1, 16])
def test_ten_thousand_random_tensors(rows, backend):
    """On each backend, half of them in blocks of 16 x 16."""
    check_random_tensors(rows, backend, 20)


@backends
@pytest.mark.parametrize("shape", [(32, 5), (40, 16), (16, 1)])
def test_columns_are_quantized_as_rows_of_the_transpose(shape, backend):
    x = np.random.default_rng(8).standard_normal(shape).astype(F32)
    (found,) = quantize_all([x], FORM, backend, 16, 1)
    codes, scales, tensor = published.quantize_four_six(x.T.copy())
    same(found, (codes.T, scales.T, tensor))


def is_four(x, rows):
    """Whether the scale of each block is the one that maps its largest magnitude to 4."""
    blocks = published.cut(x, rows, 16)
    factor = published.tensor_factor(np.abs(x).max(), scale=published.SHARED)
    six = published.store_scale(np.abs(blocks).max((1, 3)) / F32(6) * factor, F32(1))
    return published.quantize_four_six(x, rows)[1] != six[0]


def draw_close(random, rows, count=256):
    """Blocks, one after the other, with errors of both scales that differ by roundings: between
    a block with the one scale and a block with the other."""
    ends = random.uniform(-1, 1, (2, count * rows, 16)).astype(F32)
    ends[:, ::rows, 0] = random.uniform(1, 2, count).astype(F32)
    ends[:, -1, 1] = 2  # The largest magnitude of the tensor.
    choices = [is_four(end, rows)[:, 0] for end in ends]
    kept = np.flatnonzero(choices[0] != choices[1])
    first, second = (
        end.reshape(count, rows, 16)[[*kept, count - 1]].reshape(-1, 16) for end in ends
    )
    low, high = np.zeros(len(kept) + 1), np.ones(len(kept) + 1)

    def mix(way):
        way = np.repeat(way, rows)[:, None]
        return (first + way * (second.astype(float) - first)).astype(F32)

    start = is_four(mix(low), rows)[:, 0]
    for _ in range(40):
        middle = (low + high) / 2
        isFirst = is_four(mix(middle), rows)[:, 0] == start
        low, high = np.where(isFirst, middle, low), np.where(isFirst, high, middle)
    return [mix(low + step * 2.0**-27) for step in range(-6, 7)]


@backends
@pytest.mark.parametrize("rows", [1, 16])
def test_order_of_the_sums(rows, backend, monkeypatch):
    """Other orders would choose other scales for some of these blocks."""
    tensors = draw_close(np.random.default_rng(9), rows)
    expected = [published.quantize_four_six(x, rows) for x in tensors]
    for x, parts in zip(tensors, quantize_all(tensors, FORM, backend, rows)):
        same(parts, published.quantize_four_six(x, rows))
    for order in ((1, 3), (3, 1)):
        monkeypatch.setattr(
            published, "sum_squares", lambda x: x.sum(order[0], F32, keepdims=True).sum(
                order[1], F32, keepdims=True)[:, 0, :, 0])  # fmt: skip
        others = [published.quantize_four_six(x, rows)[1] for x in tensors]
        assert any((a != b[1]).any() for a, b in zip(others, expected))


@pytest.mark.parametrize("rows, published_error", [(1, 7.6), (16, 12.4)])
def test_the_error_of_normal_values_is_as_published(rows, published_error):
    """Quartet II (arXiv 2601.22813) reports the mean squared error of N(0, 1), times 1e-3."""
    x = np.random.default_rng(5).standard_normal((512, 512)).astype(F32)
    _, back = quantize(x, FORM.format(rows, 16), parts_of(x.shape, rows), "cpu")
    error = 1e3 * np.square(back.astype(float) - x).mean()
    assert error == pytest.approx(published_error, rel=0.01)


@pytest.mark.parametrize("backend", ["onnx", "onnx-optimized"])
@pytest.mark.parametrize("rows, columns", [(1, 16), (16, 16), (16, 1)])
def test_exported_steps_quantize_equally(rows, columns, backend):
    random = np.random.default_rng(6)
    for shape in SHAPES:
        x = published.draw(random, shape)
        (found,) = quantize_all([x], FORM, backend, rows, columns)
        if columns == 1:
            codes, scales, tensor = published.quantize_four_six(x.T.copy())
            same(found, (codes.T, scales.T, tensor))
        else:
            same(found, published.quantize_four_six(x, rows))


def test_a_scalar_is_exported():
    """It is a block of its own."""
    (parts,) = quantize_all([np.array(3, F32)], FORM, "onnx")
    codes, scales, tensor = (np.asarray(part) for part in parts)
    expected = published.quantize_four_six(np.array([[3]], F32))
    same((codes.reshape(1, 1), scales.reshape(1, 1), tensor), expected)


def test_the_policy_compares_scales_of_values_rounded_to_nearest():
    process = binade("explain", MINI, "--policy", "nvfp4-four-six")
    assert process.returncode == 0, process.stderr
    row, block = (f"f4E2M1FN/{size}/16 in two levels by 4 or 6" for size in (1, 16))
    random = "f4E2M1FN/1/16 in two levels stochastic"
    layer = re.search(r"blocks\.1\.mlp\.2/\w+\n(  .*\n){3}", process.stdout)[0]
    assert f"  fprop  bf16, sums f32, operands {row} x {block}" in layer
    assert f"  dgrad  bf16, sums f32, operands {random} x {block}" in layer
    assert f"  wgrad  bf16, sums f32, operands {random} x {row}" in layer


HEAD = "name: mine\nextends: bf16-amp\nrules:\n- match: { op: matmul, role: weight }\n"


def test_the_better_scale_is_not_for_stochastic_rounding(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        HEAD + "  quantize: { activation: nvfp4, weight: nvfp4,\n"
        '    gradient: "nvfp4-four-six:stochastic" }\n'
    )
    process = binade("policy", "show", policy)
    assert process.returncode == 3
    assert "mine.yaml:6:" in process.stderr
    assert "'nvfp4-four-six' chooses scales by the errors of rounding" in process.stderr
