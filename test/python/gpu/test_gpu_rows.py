"""GPU kernels of rows read a row once, and compute NumPy's values from it."""

import ctypes
import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.counted_kernels import draw, run_rows, write_kernel
from support.gpu_code import TOOLS
from support.reference import tensor_type

F32, BF16, E4M3 = np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
LARGEST = F32(448)  # Of E4M3.
ROWS = 3


def encode(value, count, columns):
    """An op that quantizes rows, and its results."""
    wide, codes = (tensor_type((ROWS, columns), x) for x in ("f32", "f8E4M3FN"))
    text = f"""
      %y{count}, %y{count + 1} = binade.quantize {value} {{saturate,
          format = #binade.quantized<f8E4M3FN, per_row, scale = f32>}}
          : ({wide}) -> ({codes}, tensor<{ROWS}xf32>)"""
    return text, [
        ((ROWS, columns), "f8E4M3FN", np.uint8),
        ((ROWS,), "f32", F32),
    ]


def quantize(x):
    scales = np.abs(x).max(axis=1) / LARGEST
    return (x / scales[:, None]).astype(E4M3), scales


# Rows of a part of a warp, of a warp and of several; of 1280, 5632 and 8200 columns some
# threads have a vector less than others, which they replace by their first.
COLUMNS = [24, 768, 1280, 2048, 4096, 5632, 8200, 16384]


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_quantizer_of_rows_reads_them_once(columns, tmp_path):
    x = draw((ROWS, columns)).astype(BF16)
    wide = tensor_type(x.shape, "f32")
    text, results = encode("%w", 0, columns)
    cast = f"%w = binade.cast %x0 : ({tensor_type(x.shape, 'bf16')}) -> {wide}"
    (codes, scales), loads = run_rows(
        tmp_path / "kernel.mlir", cast + text, [(x, "bf16")], results
    )
    want, want_scales = quantize(x.astype(F32))
    assert (scales == want_scales).all()
    assert (codes == want.view(np.uint8)).all()
    assert loads.min() == 1
    assert loads.max() == (2 if columns in (24, 1280, 5632, 8200) else 1)


def test_a_row_that_registers_cannot_keep_is_read_twice(tmp_path):
    """The values are the same."""
    columns = 16384 + 256
    x = draw((ROWS, columns))
    text, results = encode("%x0", 0, columns)
    (codes, scales), loads = run_rows(
        tmp_path / "kernel.mlir", text, [(x, "f32")], results
    )
    want, want_scales = quantize(x)
    assert (scales == want_scales).all()
    assert (codes == want.view(np.uint8)).all()
    assert np.median(loads) == 2


def test_no_thread_reads_past_a_row_that_needs_many_registers(tmp_path):
    """A row of 96 vectors, of which later passes need six values: too many for 64 threads, while
    128 threads would be more than there are vectors."""
    columns, count = 768, 6
    inputs = [draw((ROWS, columns), seed).astype(BF16) for seed in range(count)]
    narrow, wide = (tensor_type((ROWS, columns), x) for x in ("bf16", "f32"))
    body = "".join(
        f"%w{i} = binade.cast %x{i} : ({narrow}) -> {wide}\n" for i in range(count)
    )
    total = "%w0"
    for i in range(1, count):
        body += f"%s{i} = binade.add {total}, %w{i} : ({wide}, {wide}) -> {wide}\n"
        total = f"%s{i}"
    body += f"""%m = binade.reduce_max {total} {{axes = array<i64: 1>}}
        : ({wide}) -> tensor<{ROWS}xf32>
      %all = binade.broadcast %m {{axes = array<i64: 0>}} : (tensor<{ROWS}xf32>) -> {wide}
      """
    for i in range(count):
        body += f"%y{i} = binade.sub %w{i}, %all : ({wide}, {wide}) -> {wide}\n"
    found, _ = run_rows(
        tmp_path / "kernel.mlir", body, [(x, "bf16") for x in inputs],
        [((ROWS, columns), "f32", F32)] * count,
    )  # fmt: skip
    total = inputs[0].astype(F32)
    for x in inputs[1:]:
        total = total + x.astype(F32)
    for x, y in zip(inputs, found):
        np.testing.assert_array_equal(y, x.astype(F32) - total.max(axis=1)[:, None])


@pytest.mark.parametrize("columns", [768, 1280, 4096])
def test_a_norm_and_its_quantizer_read_rows_once(columns, tmp_path):
    x, weight = draw((ROWS, columns)), draw((columns,), seed=4)
    wide, row = tensor_type(x.shape, "f32"), f"tensor<{ROWS}xf32>"
    text, results = encode("%y0", 2, columns)
    norm = f"""
      %y0, %y1 = binade.rms_norm %x0, %x1 {{epsilon = 1.0e-5}}
          : ({wide}, tensor<{columns}xf32>) -> ({wide}, {row})"""
    results = [(x.shape, "f32", F32), ((ROWS,), "f32", F32), *results]
    (y, inverse, codes, scales), loads = run_rows(
        tmp_path / "kernel.mlir", norm + text, [(x, "f32"), (weight, "f32")], results
    )
    wide = x.astype(np.float64)
    want = 1 / np.sqrt((wide**2).mean(axis=1) + 1e-5)
    np.testing.assert_allclose(inverse, want, rtol=1e-6)
    np.testing.assert_allclose(y, wide * want[:, None] * weight, rtol=2e-6)
    want_codes, want_scales = quantize(y)
    assert (scales == want_scales).all()
    assert (codes == want_codes.view(np.uint8)).all()
    assert loads.min() == 1 and loads.max() == (2 if columns == 1280 else 1)


@pytest.mark.parametrize("columns", [768, 1280, 4096])
def test_layer_norm_and_softmax_read_rows_once(columns, tmp_path):
    x, weight, bias = draw((ROWS, columns)), draw((columns,), 4), draw((columns,), 5)
    wide, row = tensor_type(x.shape, "f32"), f"tensor<{ROWS}xf32>"
    body = f"""
      %y0, %y1, %y2 = binade.layer_norm %x0, %x1, %x2 {{epsilon = 1.0e-5}} : ({wide},
          tensor<{columns}xf32>, tensor<{columns}xf32>) -> ({wide}, {row}, {row})
      %y3 = binade.softmax %y0 : ({wide}) -> {wide}"""
    (y, mean, inverse, p), loads = run_rows(
        tmp_path / "kernel.mlir", body, [(x, "f32"), (weight, "f32"), (bias, "f32")],
        [(x.shape, "f32", F32), ((ROWS,), "f32", F32), ((ROWS,), "f32", F32),
         (x.shape, "f32", F32)],
    )  # fmt: skip
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axis=1), rtol=1e-5, atol=1e-6)
    want = 1 / np.sqrt(wide.var(axis=1) + 1e-5)
    np.testing.assert_allclose(inverse, want, rtol=1e-6)
    want = (wide - wide.mean(axis=1)[:, None]) * want[:, None] * weight + bias
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    want = np.exp(y.astype(np.float64) - y.max(axis=1)[:, None])
    want /= want.sum(axis=1)[:, None]
    np.testing.assert_allclose(p, want, rtol=1e-5, atol=1e-12)
    assert loads.min() == 1 and loads.max() == (2 if columns == 1280 else 1)


@pytest.mark.parametrize(("columns", "group"), [(768, 16), (1280, 128), (4096, 128)])
def test_groups_and_rows_are_quantized_in_one_read(columns, group, tmp_path):
    x = draw((ROWS, columns)).astype(BF16)
    narrow, wide = (tensor_type(x.shape, element) for element in ("bf16", "f32"))
    codes, groups = (
        tensor_type(shape, element)
        for shape, element in [(x.shape, "f8E4M3FN"), ((ROWS, columns // group), "f32")]
    )
    text, results = encode("%w", 2, columns)
    body = f"""
      %w = binade.cast %x0 : ({narrow}) -> {wide}
      %y0, %y1 = binade.quantize %w {{saturate, format = #binade.quantized<f8E4M3FN,
          per_block<1, {group}>, scale = f32>}} : ({wide}) -> ({codes}, {groups})"""
    results = [
        (x.shape, "f8E4M3FN", np.uint8),
        ((ROWS, columns // group), "f32", F32),
        *results,
    ]
    (first, small, second, scales), loads = run_rows(
        tmp_path / "kernel.mlir", body + text, [(x, "bf16")], results
    )
    want, want_scales = quantize(x.astype(F32))
    assert (scales == want_scales).all()
    assert (second == want.view(np.uint8)).all()
    want, want_scales = quantize(x.astype(F32).reshape(-1, group))
    assert (small.reshape(-1) == want_scales).all()
    assert (first.reshape(-1, group) == want.view(np.uint8)).all()
    assert loads.min() == 1 and loads.max() == (2 if columns == 1280 else 1)


def softmax_statistics(x):
    """Maxima, and logarithms of the sums of exponentials relative to them."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        largest = wide.max(axis=1)
        return largest, np.log(np.exp(wide - largest[:, None]).sum(axis=1))


def draw_logits(columns):
    """Rows whose maximum is anywhere, found again and again, shared, or infinite."""
    x = draw((10, columns))
    x[0, 0], x[1, -1], x[2, :] = 40, 40, -7
    x[3, :] = np.linspace(-200, 80, columns)
    x[4, :] = np.linspace(80, -200, columns)
    x[5, : columns // 2] = -np.inf  # All elements of some threads.
    x[6, :] = -np.inf
    x[7, columns // 3], x[8, 5] = np.inf, np.nan
    x[9, :] = np.finfo(F32).min
    return x


# Rows in registers, and longer ones with vectors of eight elements and of one.
@pytest.mark.parametrize("columns", [2048, 32000, 20008, 16411])
def test_cross_entropy_reads_rows_once(columns, tmp_path):
    x = draw_logits(columns).astype(BF16)
    rows = len(x)
    labels = np.array([0, columns - 1, -100, 7, 8, 9, 10, 11, 12, 13])
    narrow, wide, row = (
        tensor_type(x.shape, "bf16"),
        tensor_type(x.shape, "f32"),
        f"tensor<{rows}xf32>",
    )
    body = f"""
      %w = binade.cast %x0 : ({narrow}) -> {wide}
      %y0, %y1, %y2 = binade.cross_entropy %w, %x1 {{ignore_index = -100 : i64}}
          : ({wide}, tensor<{rows}xi64>) -> ({row}, {row}, {row})"""
    (losses, largest, logarithm), loads = run_rows(
        tmp_path / "kernel.mlir", body, [(x, "bf16"), (labels, "i64")],
        [((rows,), "f32", F32)] * 3,
    )  # fmt: skip
    want, want_logarithm = softmax_statistics(x.astype(F32))
    np.testing.assert_array_equal(largest, want)
    np.testing.assert_allclose(logarithm, want_logarithm, rtol=2e-6, atol=2e-6)
    picked = x[np.arange(rows), labels.clip(0)].astype(np.float64)
    with np.errstate(all="ignore"):
        want = np.where(labels < 0, 0, want_logarithm - (picked - want))
    np.testing.assert_allclose(losses, want, rtol=2e-6, atol=2e-6)
    loads[:2] -= 1  # The label's.
    assert loads.min() == 1 and loads.max() == (1 if columns % 2048 == 0 else 2)


def test_softmax_reads_long_rows_twice(tmp_path):
    columns = 20008
    x = draw_logits(columns)[:6]
    kind = tensor_type(x.shape, "f32")
    (p,), loads = run_rows(
        tmp_path / "kernel.mlir", f"%y0 = binade.softmax %x0 : ({kind}) -> {kind}",
        [(x, "f32")], [(x.shape, "f32", F32)],
    )  # fmt: skip
    largest, logarithm = softmax_statistics(x)
    below = x.astype(np.float64) - largest[:, None]
    want = np.exp(below - logarithm[:, None])
    # The difference to the maximum is rounded before it is an exponent.
    with np.errstate(invalid="ignore"):
        bound = want * (2e-6 - np.maximum(below, -1000) * 2.0**-24) + 1e-37
    assert (np.abs(p - want) <= bound).all()
    assert np.median(loads) == 2


def parameter_gradients(rows, columns):
    """A kernel of the gradients of a norm: its body, operands and results, and a function
    that checks the values of the results."""
    dy, x, other = (draw((rows, columns), seed).astype(BF16) for seed in (3, 4, 5))
    scale, mean, inverse = draw((columns,), 6), draw((rows,), 7), draw((rows,), 8)
    narrow, wide = tensor_type(x.shape, "bf16"), tensor_type(x.shape, "f32")
    row, column = f"tensor<{rows}xf32>", f"tensor<{columns}xf32>"
    body = f"""
      %dy = binade.cast %x0 : ({narrow}) -> {wide}
      %x = binade.cast %x1 : ({narrow}) -> {wide}
      %other = binade.cast %x5 : ({narrow}) -> {wide}
      %d = binade.layer_norm_grad %dy, %x, %x2, %x3, %x4
          : ({wide}, {wide}, {column}, {row}, {row}) -> {wide}
      %y0 = binade.add %d, %other : ({wide}, {wide}) -> {wide}
      %y1, %y2 = binade.layer_norm_param_grad %dy, %x, %x3, %x4
          : ({wide}, {wide}, {row}, {row}) -> ({column}, {column})
      %sum = binade.reduce_sum %y0 {{axes = array<i64: 0>}} : ({wide}) -> {column}
      %y3 = binade.neg %sum : ({column}) -> {column}"""
    operands = [(dy, "bf16"), (x, "bf16"), (scale, "f32"), (mean, "f32"),
                (inverse, "f32"), (other, "bf16")]  # fmt: skip
    results = [(x.shape, "f32", F32), *[((columns,), "f32", F32)] * 3]

    def check(dx, dscale, dbias, negative):
        d, normal = dy.astype(np.float64), x.astype(np.float64) - mean[:, None]
        normal *= inverse[:, None]
        means = [a.mean(axis=1)[:, None] for a in (d * scale, d * scale * normal)]
        want = d * scale - means[0] - normal * means[1]
        want = inverse[:, None] * want + other.astype(np.float64)
        bound = 1e-5 * np.abs(inverse[:, None] * normal * means[1]).max()
        np.testing.assert_allclose(dx, want, rtol=1e-5, atol=bound)
        np.testing.assert_allclose(dbias, d.sum(axis=0), rtol=1e-5, atol=1e-3)
        bound = 1e-6 * np.abs(d * normal).sum(axis=0).max()
        np.testing.assert_allclose(dscale, (d * normal).sum(axis=0), atol=bound)
        bound = 1e-5 * np.abs(want).sum(axis=0).max()
        np.testing.assert_allclose(-negative, want.sum(axis=0), atol=bound)

    return body, operands, results, check


# Blocks of one turn and of several, teams of less than a warp, of a warp and of several.
@pytest.mark.parametrize(
    ("rows", "columns"), [(3, 768), (70, 1280), (600, 24), (100, 40), (9, 4096)]
)
def test_parameter_gradients_of_a_norm_take_no_other_read(rows, columns, tmp_path):
    body, operands, results, check = parameter_gradients(rows, columns)
    values, loads = run_rows(tmp_path / "kernel.mlir", body, operands, results)
    check(*values)
    assert np.median(loads) == 1


def test_a_cpu_computes_parameter_gradients_with_their_rows(tmp_path):
    """As it does to verify the records of a bundle for a GPU."""
    body, operands, results, check = parameter_gradients(70, 1280)
    path = tmp_path / "kernel.mlir"
    path.write_text(write_kernel(body, operands, results))
    command = [TOOLS / "binade-translate", path, "--kernels-to-object", "-o"]
    subprocess.run([*command, tmp_path / "kernel.so"], check=True)
    arrays = [np.zeros(shape, dtype) for shape, _, dtype in results]
    memories = [*[x for x, _ in operands], *arrays, np.zeros(1 << 20, np.uint8)]
    pointers = (ctypes.c_void_p * len(memories))(*[x.ctypes.data for x in memories])
    kernel = ctypes.CDLL(str(tmp_path / "kernel.so")).rows
    kernel(pointers, ctypes.c_int64(0), ctypes.c_int64(1))
    check(*arrays)
