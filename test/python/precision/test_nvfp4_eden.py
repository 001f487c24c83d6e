"""NVFP4 with MS-EDEN, whose scales are corrected and rounded stochastically: bit for bit the
published formulas in numpy (test/data/make_nvfp4_eden.py) with the random numbers of Philox, and
errors as published."""

import subprocess
import sys

import numpy as np
import pytest
from support.hadamard import step_signs, transform
from support.nvfp4 import SHAPES, quantize_all, same
from support.paths import ROOT
from support.quantization import backends, bits, load
from support.quantized_products import OPT, build_step
from support.reference import binade

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as nvfp4  # noqa: E402
import make_nvfp4_eden as published  # noqa: E402

F32 = np.float32
FORM = "f4E2M1FN, per_block<{}, {}>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden"
CASES = load("nvfp4_eden")
SEED, STEP, STREAM = RANDOM = published.SEED, published.STEP, published.STREAM
WIDE = [*SHAPES, (3, 256), (5, 150), (2, 384)]


def quantize(tensors, backend, rows=1, columns=16, step=STEP):
    return quantize_all(tensors, FORM, backend, rows, columns, (SEED, step, STREAM))


@backends
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_recorded_tensors(case, backend):
    x = bits(case["in"]).view(F32).reshape(case["shape"])
    (found,) = quantize([x], backend)
    scales = np.array(case["scales"], np.uint8).reshape(found[1].shape)
    tensor = np.uint32(int(case["tensor_scale"], 16)).view(F32)
    same(found, (np.array(case["codes"], np.uint8).reshape(x.shape), scales, tensor))


def draw_tensors(seed, count):
    random = np.random.default_rng(seed)
    return [nvfp4.draw(random, WIDE[random.integers(len(WIDE))]) for _ in range(count)]


@backends
def test_random_tensors(backend):
    """Of all magnitudes, with blocks of zeros, subnormals, infinities and NaN."""
    for batch in range(20 if backend == "reference" else 1):
        tensors = draw_tensors([batch, 51], 250)
        for x, found in zip(tensors, quantize(tensors, backend)):
            same(found, published.quantize(x))


@pytest.mark.parametrize("backend", ["onnx", "onnx-optimized"])
def test_exported_steps_quantize_equally(backend):
    tensors = draw_tensors(52, 24)
    for x, found in zip(tensors, quantize(tensors, backend)):
        same(found, published.quantize(x))
    (x,) = columns = [tensors[0].T.copy()]
    (found,) = quantize(columns, backend, 16, 1)
    same(found, quantize_columns(x, np.arange(found[1].size)))


def quantize_columns(x, index):
    """Quantizes the transpose, where `index` are the positions of the scales of `x`."""
    random = published.draw(index.max() + 1)[index].reshape(-(-x.shape[0] // 16), -1)
    codes, scales, tensor = published.quantize(x.T.copy(), random.T)
    return codes.T, scales.T, tensor


@backends
@pytest.mark.parametrize("shape", [(256, 5), (150, 16), (40, 3), (16, 1), (1, 40)])
def test_columns_are_quantized_as_rows_of_the_transpose(shape, backend):
    """The random numbers are those of the scales in their own order."""
    x = np.random.default_rng(8).standard_normal(shape).astype(F32)
    (found,) = quantize([x], backend, 16, 1)
    same(found, quantize_columns(x, np.arange(found[1].size)))


@backends
@pytest.mark.parametrize("rows, columns", [(1, 16), (16, 1)])
def test_matrices_of_a_batch_are_quantized_separately(rows, columns, backend):
    """Their blocks do not share a correction; the scale of the tensor is one."""
    x = np.random.default_rng(9).standard_normal((3, 160, 32)).astype(F32)
    x[:, 0, 0] = 8  # The largest magnitude of each matrix.
    ((codes, scales, tensor),) = quantize([x], backend, rows, columns)
    for i, matrix in enumerate(x):
        index = np.arange(scales.size).reshape(scales.shape)[i]
        if rows == 1:
            random = published.draw(scales.size)[index]
            expected = published.quantize(matrix, random)
        else:
            expected = quantize_columns(matrix, index.ravel())
        same((codes[i], scales[i].copy(), tensor), expected)


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator", "onnx"])
@pytest.mark.parametrize("shape", [(), (300,), (2, 3, 7, 40)])
def test_tensors_of_other_ranks_are_quantized_as_matrices(shape, backend):
    x = np.random.default_rng(12).standard_normal(shape).astype(F32)
    ((codes, scales, tensor),) = quantize([x], backend)
    columns = shape[-1] if shape else 1
    expected = published.quantize(x.reshape(-1, columns))
    scales = np.asarray(scales).reshape(expected[1].shape)
    same((np.asarray(codes).reshape(-1, columns), scales, tensor), expected)


def draw_close(count=256):
    """Rows of 128 elements for which a scale is about to be rounded to the other neighbor,
    because its quotient passes its random number: all codes of the elements are equal."""
    random = np.random.default_rng(10)
    first = random.uniform(-1, 1, (count, 128)).astype(F32)
    first[-1, 0] = 2  # The largest magnitude of the tensor.
    second = first * F32(1.002)
    second[-1] = first[-1]
    ends = [published.quantize(x) for x in (first, second)]
    kept = (ends[0][0] == ends[1][0]).all(1) & (ends[0][1] != ends[1][1]).any(1)
    assert kept.sum() > 8

    def mix(way):
        way = np.where(kept, way, 0)[:, None]
        return (first + way * (second.astype(float) - first)).astype(F32)

    low, high = np.zeros(count), np.ones(count)
    for _ in range(40):
        middle = (low + high) / 2
        isFirst = (published.quantize(mix(middle))[1] == ends[0][1]).all(1)
        low, high = np.where(isFirst, middle, low), np.where(isFirst, high, middle)
    return [mix(low + step * 2.0**-22) for step in range(-6, 7)]


@backends
def test_order_of_the_sums(backend, monkeypatch):
    """Other orders would choose other scales for some of these blocks."""
    tensors = draw_close()
    expected = [published.quantize(x) for x in tensors]
    for found, parts in zip(quantize(tensors, backend), expected):
        same(found, parts)

    def in_order(products):
        total = np.zeros(len(products), F32)
        for column in products.reshape(len(products), -1).T:
            total = total + column
        return total[:, None]

    def by_halves(products):
        return published.add_halves(products.reshape(len(products), 1, -1))

    for order in (in_order, by_halves):
        monkeypatch.setattr(published, "sum_groups", order)
        others = [published.quantize(x)[1] for x in tensors]
        assert any((a != b[1]).any() for a, b in zip(others, expected))


def test_scales_are_drawn_again_in_each_step():
    x = np.random.default_rng(11).standard_normal((64, 128)).astype(F32)
    (first,), (second,) = (quantize([x], "cpu", step=step) for step in (1, 2))
    np.testing.assert_array_equal(first[0], second[0])
    assert (first[1] != second[1]).mean() > 0.2


COUNTS = 4 ** np.arange(6)


def measure(rows, counts, form=FORM, random=RANDOM):
    """Mean squared errors of N(0, 1), times 1000: of the means of so many draws. Each draw
    rotates the values by signs of its own, quantizes them, and rotates them back."""
    x = np.random.default_rng(5).standard_normal((rows, 512)).astype(F32)
    signs = [step_signs(128, SEED, step) for step in range(counts[-1])]
    rotated = np.concatenate([transform(x, 128, one) for one in signs])
    ((codes, scales, tensor),) = quantize_all([rotated], form, "cpu", random=random)
    parts = codes.view(np.uint8), scales.view(np.uint8), tensor
    values = nvfp4.dequantize(*parts).reshape(-1, *x.shape)
    total, errors = np.zeros(x.shape), []
    for n, (one, value) in enumerate(zip(signs, values), 1):
        total += transform(value, 128) * np.tile(one, 4)
        if n in counts:
            errors.append(1e3 * np.square(total / n - x).mean())
    return np.array(errors)


def find_slope(errors):
    return np.polyfit(np.log(COUNTS[: len(errors)]), np.log(errors), 1)[0]


def test_the_error_is_as_published():
    """Quartet II (arXiv 2601.22813) reports 9.8."""
    assert measure(1024, [1]) == pytest.approx(9.8, rel=0.01)


def test_the_error_of_a_mean_falls_with_the_number_of_draws():
    assert find_slope(measure(64, COUNTS)) == pytest.approx(-1, abs=0.01)


def test_rounding_to_nearest_is_biased_after_a_rotation():
    """The rotation alone does not make the mean exact."""
    form = FORM.replace("rounded_eden", "rounded_inverse")
    assert find_slope(measure(16, COUNTS, form, None)) > -0.9


HEAD = "name: mine\nextends: bf16-amp\nrules:\n- match: { op: matmul, role: weight }\n"
EDEN = "activation: nvfp4, gradient: nvfp4-eden"


@pytest.mark.parametrize("text, line, message", [
    ("  quantize: { wgrad: { %s } }\n" % EDEN, 5,
     "expected fprop, dgrad or wgrad with transform: { hadamard: 128, signs: step }"),
    ("  quantize: { wgrad: { %s, transform: { hadamard: 64, signs: step } } }\n" % EDEN, 5,
     "is unbiased only if both operands of its product are rotated at random"),
    ("  quantize: { wgrad: { %s, transform: { hadamard: 128 } } }\n" % EDEN, 5,
     "is unbiased only if both operands of its product are rotated at random"),
    ("  quantize: { weight: nvfp4, activation: nvfp4, gradient: nvfp4-eden }\n", 5,
     "expected fprop, dgrad or wgrad with transform"),
    ("  quantize:\n    wgrad: { activation: nvfp4,\n"
     '      gradient: "nvfp4-eden:stochastic" }\n', 7,
     "format 'nvfp4-eden' rounds its scales stochastically, and cannot be ':stochastic'"),
    ("  saved: nvfp4-eden\n", 5,
     "format 'nvfp4-eden' is unbiased only for values that were rotated at random"),
])  # fmt: skip
def test_wrong_use_is_an_error(tmp_path, text, line, message):
    policy = tmp_path / "mine.yaml"
    policy.write_text(HEAD + text)
    process = binade("policy", "show", policy)
    assert process.returncode == 3
    assert f"mine.yaml:{line}:" in process.stderr and message in process.stderr


def test_the_group_must_divide_the_sum(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        HEAD
        + "  quantize: { wgrad: { %s,\n    transform: { hadamard: 128, signs: step } } }\n"
        % EDEN
    )
    process = subprocess.run(
        [OPT, f"--binade-assign-precision=policy={{{policy}}}"],
        input=build_step(64), capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode != 0
    assert "mine.yaml:6:" in process.stderr
    assert "sums over 64 elements" in process.stderr
    assert "sizes that divide it: 4, 8, 16, 32, 64" in process.stderr
