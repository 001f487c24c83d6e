"""Stochastic rounding of quantized values, states and parameters: bit for bit as defined in
numpy, and without bias."""

import ml_dtypes
import numpy as np
import pytest
from support.codec import FLOATS, formats, load_book, write_book
from support.philox import draw_elements, draw_uniform
from support.reference import BF16, F16, evaluate

F32 = np.float32
SEED, STEP = 0x123456789ABCDE, 41
backends = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])


def round_randomly(x, values, random):
    """Rounds magnitudes to one of the two neighbors among the ascending `values`: to the
    larger one if `random` is less than the fraction of the distance between them."""
    low = np.clip(np.searchsorted(values, np.abs(x), "right") - 1, 0, len(values) - 2)
    way = (np.abs(x) - values[low]) / (values[low + 1] - values[low])
    return np.copysign(values[low + (random < way)], x)


def magnitudes(dtype):
    """All finite, nonnegative values of a format."""
    width = np.dtype(dtype).itemsize
    every = np.arange(2 ** (8 * width - 1), dtype=f"u{width}").view(dtype)
    with np.errstate(invalid="ignore"):
        every = every.astype(np.float64)
    return np.sort(every[np.isfinite(every)])


def check_mean(found, x, spacing, confidence=5):
    """Checks that the mean error is 0 within 5 standard deviations, which an unbiased rounding
    fails with a probability of 6e-7."""
    error = (np.asarray(found, np.float64) - x) / spacing
    assert error.std() > 0.1
    assert abs(error.mean()) < confidence * error.std() / np.sqrt(error.size)


def quantize(x, form, parts, backend, stream=9):
    types = ", ".join(
        f"tensor<{'x'.join(map(str, [*shape, t]))}>" for shape, t in parts
    )
    shape = "x".join(map(str, x.shape))
    module = f"""
      func.func @f(%x: tensor<{shape}xf32>, %rng: tensor<2xi64>) -> ({types}) {{
        %y:{len(parts)} = binade.quantize %x rng(%rng) {{saturate, stream = {stream} : i64,
            format = #binade.quantized<{form}, stochastic>}}
          : (tensor<{shape}xf32>, tensor<2xi64>) -> ({types})
        return {", ".join(f"%y#{i}" for i in range(len(parts)))} : {types}
      }}"""
    inputs = {"arg0": x, "arg1": np.array([SEED, STEP])}
    outputs = evaluate(module, inputs, "--backend", backend)
    return [outputs[f"result{i}"] for i in range(len(parts))]


SHAPES = {  # Of the tensor and of its scales; the last groups and blocks are partial.
    "per_tensor": ((37, 61), ()),
    "per_row": ((37, 61), (37,)),
    "per_group<32>": ((37, 61), (71,)),
    "per_block<16, 8>": ((37, 61), (3, 8)),
}


@backends
@pytest.mark.parametrize("sharing", SHAPES)
@pytest.mark.parametrize("element", FLOATS)
def test_quantized_floats(element, sharing, backend):
    shape, scales = SHAPES[sharing]
    x = np.random.default_rng(1).standard_normal(shape).astype(F32)
    x[3] *= F32(1e-6)  # Below the smallest normal value.
    dtype = FLOATS[element]
    codes, scale = quantize(x, f"{element}, {sharing}, scale = f32",
                            [(shape, element), (scales, "f32")], backend)  # fmt: skip
    row, column = np.indices(shape)
    place = {
        "per_tensor": np.zeros(shape, int), "per_row": row,
        "per_group<32>": (row * shape[1] + column) // 32,
        "per_block<16, 8>": row // 16 * 8 + column // 8,
    }[sharing]  # fmt: skip
    y = (x / np.ravel(scale)[place]).astype(F32).astype(np.float64)
    random = draw_elements(x.size, SEED, STEP, 9).reshape(shape)
    largest = float(ml_dtypes.finfo(dtype).max)
    expected = round_randomly(np.clip(y, -largest, largest), magnitudes(dtype), random)
    np.testing.assert_array_equal(codes.astype(np.float64), expected)
    step = float(ml_dtypes.finfo(dtype).eps)
    check_mean(codes, y, np.abs(y) * step + float(magnitudes(dtype)[1]))


@backends
@pytest.mark.parametrize("size", [256, 16])
def test_codes_of_code_books(size, backend):
    values = load_book("bnb_dynamic_signed") if size == 256 else np.linspace(-1, 1, 16)
    values = values.astype(F32)
    form = f"{write_book('book', values)}, per_group<64>, scale = f32"
    x = np.random.default_rng(2).standard_normal(5001).astype(F32)
    bytes_of = 5001 if size == 256 else 2501
    codes, scale = quantize(x, form, [((bytes_of,), "i8"), ((79,), "f32")], backend)
    codes = codes.view(np.uint8)
    if size == 16:
        codes = np.stack([codes >> 4, codes & 15], 1).ravel()[:5001]
    y = x / np.repeat(scale, 64)[:5001]
    low = np.clip(np.searchsorted(values, y, "right") - 1, 0, size - 1)
    high = np.minimum(low + 1, size - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        way = (y - values[low]) / (values[high] - values[low])
    random = draw_elements(5001, SEED, STEP, 9)
    np.testing.assert_array_equal(codes, np.where(random < way, high, low))
    inside = high > low
    spacing = (values[high] - values[low])[inside]
    check_mean(values[codes][inside], y[inside], spacing)


@backends
def test_values_of_the_format_are_not_rounded(backend):
    """Values of the format do not change, NaN stays NaN, and larger values saturate."""
    exact = np.tile(magnitudes(FLOATS["f8E4M3FN"])[:127:3], 6).astype(F32)
    exact[::2] *= -1
    form, element = "f8E4M3FN, per_group<16>, scale = f32, rule = floor", "f8E4M3FN"
    rows = np.zeros((len(exact), 16), F32)
    rows[:, 0], rows[:, 1] = 448, exact
    flat = rows.reshape(-1)
    codes, scale = quantize(flat, form, [(flat.shape, element), ((len(rows),), "f32")],
                            backend)  # fmt: skip
    assert (scale == 1).all()
    np.testing.assert_array_equal(codes.astype(F32), flat)
    # 2^9 - 1 has the exponent of 448, so its group has a scale of 1.
    x = np.zeros((4, 16), F32)
    x[0, 0], x[1, 0], x[2, 0], x[3, :] = 511, -511, np.nan, 0
    codes, scale = quantize(x.reshape(-1), form, [((64,), element), ((4,), "f32")],
                            backend)  # fmt: skip
    back = codes.astype(F32).reshape(4, 16) * scale[:, None]
    assert back[0, 0] == 448 and back[1, 0] == -448
    assert np.isnan(back[2, 0]) and (back[3] == 0).all()


def keep_module(size, states, parameter="f32", master="none"):
    """A step whose update replaces the parameter and all `states`, which are given as
    (format, types of parts), by the gradient."""
    count = len(states)
    kept = [(f"s{i}.{j}", f"tensor<{n}x{t}>")
            for i, (_, parts) in enumerate(states) for j, (n, t) in enumerate(parts)]  # fmt: skip
    given = [("p", f"tensor<{size}x{parameter}>"), ("g", f"tensor<{size}xf32>"), *kept,
             ("seed", "tensor<i64>"), ("place", "tensor<i64>")]  # fmt: skip
    results = [given[0], *kept]

    def ports(named):
        return ", ".join(f'{t} {{binade.name = "{n}"}}' for n, t in named)

    arguments = ", ".join(f'%a{i}: {t} {{binade.name = "{n}"}}'
                          for i, (n, t) in enumerate(given))  # fmt: skip
    names = [f"%a{i}" for i in range(len(given))]
    listed = ", ".join(f'#binade.setting<"s{i}" = 0.0>' for i in range(count))
    read = ", ".join(["%p: f32", "%g: f32", *(f"%s{i}: f32" for i in range(count))])
    out = ", ".join(["f32"] * (1 + count))
    states_text = f"states({', '.join(names[2:-2])}) " if kept else ""
    form = ", ".join(form for form, _ in states)
    values = ", ".join(f"%u#{i}" for i in range(len(results))) if kept else "%u"
    return f"""
binade.optimizer @take {{states = [{listed}], hypers = []}}
func.func private @take.update({read}) -> ({out}) {{
  return {", ".join(["%g"] * (1 + count))} : {out}
}}
func.func @step({arguments}) -> ({ports(results)}) {{
  %u{f":{len(results)}" if kept else ""} = binade.optimizer_update @take %a0, %a1
    {states_text}random({", ".join(names[-2:])})
    {{master = #binade.master<{master}>{f", formats = [{form}]" if kept else ""}}}
    : ({", ".join(t for _, t in given)}) -> ({", ".join(t for _, t in results)})
  return {values} : {", ".join(t for _, t in results)}
}}
"""


def run_keep(module, g, start, backend, stream=7):
    place = np.uint64((2**31 + stream << 32) + STEP).view(np.int64)
    inputs = {**start, "g": g, "seed": np.int64(SEED), "place": place}
    return evaluate(module, inputs, "--function", "step", "--backend", backend)


DTYPES = {"bf16": BF16, "f16": F16}


def draw_gradients(size):
    g = np.random.default_rng(5).standard_normal(size).astype(F32)
    g *= np.exp2(np.linspace(-30, 4, size)).astype(
        F32
    )  # Includes subnormal values of f16.
    return g


@backends
@pytest.mark.parametrize("size", [1, 19, 70001])
@pytest.mark.parametrize("dtype", DTYPES)
def test_parameters_and_states_in_16_bits(dtype, size, backend):
    """The parameter is rounded by the first random word, each state by the next one."""
    g, narrow = draw_gradients(size), DTYPES[dtype]
    form = (f"#binade.stochastic<{dtype}>", [(size, dtype)])
    module = keep_module(
        size, [form, ("unit", [(size, "f32")]), form], dtype, "stochastic"
    )
    zeros = np.zeros(size, narrow)
    start = {"p": zeros, "s0.0": zeros, "s1.0": np.zeros(size, F32), "s2.0": zeros}
    found = run_keep(module, g, start, backend)
    words = draw_uniform(size, SEED, STEP, 2**31 + 7)
    np.testing.assert_array_equal(found["s1.0"], g)
    for name, word in [("p", 0), ("s0.0", 1), ("s2.0", 3)]:
        expected = round_randomly(g.astype(np.float64), magnitudes(narrow), words[word])
        assert found[name].dtype == narrow
        np.testing.assert_array_equal(found[name].astype(np.float64), expected)
        if size > 1000:
            unit = float(np.finfo(narrow).smallest_subnormal) if narrow == F16 else 0
            check_mean(found[name], g, np.abs(g) * 2.0**-8 + unit)


@backends
@pytest.mark.parametrize("size", [300, 2501])
@pytest.mark.parametrize("name", ["e4m3", "dyn8", "dyn4"])
def test_quantized_states(name, size, backend):
    form = formats(True)[name]
    parts = form.parts(size)
    attribute = form.attribute()[:-1] + ", stochastic>"
    plain = ("unit", [(size, "f32")])
    module = keep_module(size, [plain, (attribute, parts)])
    g = draw_gradients(size)
    begin = [
        np.zeros(n, np.int8 if t == "i8" else FLOATS.get(t, F32)) for n, t in parts
    ]
    start = {f"s1.{i}": part for i, part in enumerate(begin)}
    start |= {"p": np.zeros(size, F32), "s0.0": np.zeros(size, F32)}
    found = run_keep(module, g, start, backend)
    got = [found[f"s1.{i}"] for i in range(len(parts))]
    np.testing.assert_array_equal(got[1], form.choose(g)[0])
    y = form.scaled(g, got[1:]).astype(np.float64)
    random = draw_uniform(size, SEED, STEP, 2**31 + 7)[2]
    if form.is_book:
        values = form.element
        low = np.clip(np.searchsorted(values, y, "right") - 1, 0, len(values) - 1)
        high = np.minimum(low + 1, len(values) - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            way = (y.astype(F32) - values[low]) / (values[high] - values[low])
        expected = np.where(random < way, high, low)
        np.testing.assert_array_equal(
            form.unpack(got[0].view(np.uint8), size), expected
        )
    else:
        expected = round_randomly(y, magnitudes(FLOATS[form.element]), random)
        np.testing.assert_array_equal(got[0].astype(np.float64), expected)


@backends
def test_infinities_and_nan_are_kept(backend):
    g = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 65504, 65505, 1e30], F32)
    form = ("#binade.stochastic<f16>", [(8, "f16")])
    module = keep_module(8, [form])
    found = run_keep(
        module, g, {"p": np.zeros(8, F32), "s0.0": np.zeros(8, F16)}, backend
    )
    got = found["s0.0"].astype(F32)
    np.testing.assert_array_equal(got[:6], g[:6])
    assert np.signbit(got[4]) and got[6] in (65504, np.inf) and got[7] == np.inf
