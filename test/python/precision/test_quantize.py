"""Quantization on the reference and on compiled kernels against recorded values."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from support.codec import GOLDEN, load_book, write_book
from support.paths import ROOT
from support.quantization import apply, backends, bits, floats, quantize

ELEMENTS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "e2m1": "f4E2M1FN"}
F32 = np.float32
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m1": 6.0}
E4M3, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu


def load(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def book(name):
    return write_book(name, load_book(name))


GROUPS = load("coat")["groups"]


@backends
@pytest.mark.parametrize("case", GROUPS, ids=[case["name"] for case in GROUPS])
def test_expanded_groups_of_coat(case, backend):
    x = floats(case["in"])
    form = "f8E4M3FN, per_group<128>, scale = f32, expand"
    parts = [((128,), "f8E4M3FN"), *3 * [((1,), "f32")]]
    (codes, scale, power, centre), back = quantize(x, form, parts, backend)
    assert power == floats(case["k"])
    np.testing.assert_allclose(centre, floats(case["gm"]), rtol=2**-23)
    np.testing.assert_allclose(scale, floats(case["scale"]), rtol=1e-6)
    codes = codes.view(np.uint8)
    expected = np.array(case["codes"], np.uint8)
    # A code may be the next one where rounding is a matter of the last bits.
    numbers = np.array(case["prequant"])
    exact = np.ones(128, bool)
    for shift in (1 - 2e-5, 1 + 2e-5):
        exact &= (numbers * shift).astype(E4M3) == numbers.astype(E4M3)
    np.testing.assert_array_equal(codes[exact], expected[exact])
    assert np.abs(codes.astype(int) - expected).max() <= 1
    assert exact.mean() > 0.9
    np.testing.assert_allclose(back[exact], floats(case["decoded"])[exact], rtol=2e-5)


@backends
def test_groups_of_activations_of_coat(backend):
    case = load("coat")["activation"]
    x = floats(case["in"]).reshape(case["shape"])
    form = "f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset"
    parts = [(x.shape, "f8E4M3FN"), ((x.size // 16,), "bf16")]
    (codes, scale), back = quantize(x, form, parts, backend)
    np.testing.assert_array_equal(codes.view(np.uint8).ravel(), case["codes"])
    np.testing.assert_array_equal(
        scale.view(np.uint16), bits(case["scale_bf16"], np.uint16)
    )
    np.testing.assert_array_equal(back.ravel(), floats(case["decoded"]))


@backends
def test_whole_activations_of_coat(backend):
    """In the format that the policy names: codes are by the scale as it is kept."""
    text = (ROOT / "lib/Precision/Formats/coat-tensor.yaml").read_text()
    keys = dict(re.findall(r"^(\w+): (.*)$", text, re.M))
    rule = keys.get("rule", "amax")
    form = f"{keys['element']}, {keys['per']}, scale = {keys['scale']}, rule = {rule}"
    case = load("coat")["activation"]
    x = floats(case["in"]).reshape(case["shape"])
    (codes, scale), _ = quantize(
        x, form, [(x.shape, "f8E4M3FN"), ((), "bf16")], backend
    )
    np.testing.assert_array_equal(
        codes.view(np.uint8).ravel(), case["per_tensor_codes"]
    )
    assert scale.view(np.uint16) == bits(case["per_tensor_scale_bf16"], np.uint16)


CASTS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "e2m1": "f4E2M1FN", "e3m2": "f6E3M2FN",
         "e2m3": "f6E2M3FN"}  # fmt: skip


@backends
@pytest.mark.parametrize("name", CASTS)
def test_codes_are_recorded_casts(name, backend):
    """By a scale of 1; with formats below 8 bits, which only codes have in kernels."""
    case = load("casts")[name]
    x, expected = floats(case["in"]), bits(case["rne_satfinite"], np.uint8)
    codes = (x.shape, CASTS[name] if name in ("e4m3", "e5m2") else "i8")
    form = f"format = #binade.quantized<{CASTS[name]}, per_tensor, scale = f32>"
    one = (np.ones((), F32), "f32")
    (found,) = apply("encode", [(x, "f32"), one], [codes], form + ", saturate", backend)
    np.testing.assert_array_equal(found.view(np.uint8), expected)
    (back,) = apply(
        "dequantize", [(found, codes[1]), one], [(x.shape, "f32")], form, backend
    )
    np.testing.assert_array_equal(back, np.array(case["decoded_sat"], F32))


SCALES = load("mx")["scale"]


@backends
@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("key, rule", [("ocp_floor", "floor"), ("rceil", "round_up")])
def test_scales_of_powers_of_two(name, key, rule, backend):
    amax = floats(SCALES[name]["amax"])
    form = f"{ELEMENTS[name]}, per_row, scale = f8E8M0FNU, rule = {rule}"
    scale, factor = apply(
        "choose_scale", [(amax, "f32")],
        [(amax.shape, "f8E8M0FNU"), (amax.shape, "f32")],
        f"format = #binade.quantized<{form}>", backend,
    )  # fmt: skip
    expected = np.array(SCALES[name][key], np.uint8)
    np.testing.assert_array_equal(scale.view(np.uint8), expected)
    np.testing.assert_array_equal(factor, expected.view(E8M0).astype(np.float32))


@backends
def test_blocks_of_powers_of_two(backend):
    rules = {"ocp_floor": "floor", "rceil": "round_up"}
    for case in load("mx")["blocks"]:
        x = floats(case["in"])
        element = ELEMENTS[case["fmt"]]
        form = f"{element}, per_block<1, 32>, scale = f8E8M0FNU, rule = {rules[case['mode']]}"
        code_type = element if element.startswith("f8") else "i8"
        (codes, scale), back = quantize(
            x, form, [((32,), code_type), ((1,), "f8E8M0FNU")], backend
        )
        assert scale.view(np.uint8) == case["e8m0"]
        np.testing.assert_array_equal(codes.view(np.uint8), case["codes"])
        np.testing.assert_array_equal(back, case["decoded"])


ROWS = load("fp8_scales")["rows"]


@backends
@pytest.mark.parametrize("key, element, rule", [
    ("te_e4m3", "f8E4M3FN", "inverse"), ("te_e5m2", "f8E5M2", "inverse"),
    ("te_e4m3_pow2", "f8E4M3FN", "inverse_power"),
    ("torchao_e4m3", "f8E4M3FN", "inverse"),
    ("torchao_e4m3_pow2", "f8E4M3FN", "inverse_power"),
    ("msamp_e4m3", "f8E4M3FN", "inverse_power"),
])  # fmt: skip
def test_inverse_scales(key, element, rule, backend):
    rows = [row for row in ROWS if row[key] is not None]
    amax = np.array([floats(row["amax"])[0] for row in rows], np.float32)
    expected = np.array([floats(row[key])[0] for row in rows], np.float32)
    # MS-AMP's factor of the smallest magnitudes overflows; torchao has a least one.
    least = {"te": -1.0, "msamp": 0.0, "torchao": F32(1e-12)}[key.split("_")[0]]
    usable = np.isfinite(expected) & ~(amax <= least)
    scale, factor = apply(
        "choose_scale", [(amax, "f32")], 2 * [(amax.shape, "f32")],
        f"format = #binade.quantized<{element}, per_row, scale = f32, rule = {rule}>",
        backend,
    )  # fmt: skip
    assert usable.any()
    np.testing.assert_array_equal(factor[usable], expected[usable])
    np.testing.assert_array_equal(scale[usable], (1 / expected)[usable])


@backends
@pytest.mark.parametrize("signed", [True, False])
def test_codes_of_dynamic_books(signed, backend):
    case = load("bnb8")
    x = floats(case["x"])
    expected = np.array(case["bnb_signed" if signed else "bnb_unsigned_abs"], np.uint8)
    if signed:
        # What is negative stays so: -2.75e-7 is nearest to 0.
        expected[(expected == 127) & (x < 0)] = 126
        x = np.concatenate([x, floats(case["ties"])])
        expected = np.concatenate([expected, np.uint8(case["ties_bnb"])])
    else:
        x = np.abs(x)
    name = "bnb_dynamic_signed" if signed else "bnb_dynamic_unsigned"
    form = f"{book(name)}, per_tensor, scale = f32"
    (codes,) = apply(
        "encode", [(x, "f32"), (np.float32(1), "f32")], [(x.shape, "i8")],
        f"format = #binade.quantized<{form}>", backend,
    )  # fmt: skip
    np.testing.assert_array_equal(codes.view(np.uint8), expected)


@backends
@pytest.mark.parametrize("width", [8, 4])
@pytest.mark.parametrize("signed", [True, False])
def test_codes_are_those_of_torchao_but_for_ties(signed, width, backend):
    """Half way it takes the upper one or what its differences round to, and it lets
    negative numbers become 0."""
    case, sign = load("bnb8"), "signed" if signed else "unsigned"
    x = floats(case["x"]) if signed else np.abs(floats(case["x"]))
    program = "torchao" if width == 8 else "torchao4"
    expected = np.array(case[f"{program}_{sign}" + "_abs" * (not signed)])
    if width == 8:
        values = load_book(f"bnb_dynamic_{sign}")
        if signed:
            x = np.concatenate([x, floats(case["ties"])])
            expected = np.concatenate([expected, case["ties_torchao"]])
    else:
        values = floats(case[f"map4_{sign}"])
    count = x.size * width // 8
    form = f"{write_book('book', values)}, per_tensor, scale = f32"
    (codes, scale), _ = quantize(x, form, [((count,), "i8"), ((), "f32")], backend)
    assert scale == 1
    codes = codes.view(np.uint8)
    if width == 4:
        codes = np.stack([codes >> 4, codes & 15], 1).ravel()
    expected -= (x < 0) & (values[expected] == 0)
    tie = np.isin(x, (values[1:] + values[:-1]) * F32(0.5))
    np.testing.assert_array_equal(codes[~tie], expected[~tie])
    assert (codes[tie] % 2 == 0).all()
    assert np.abs(codes[tie].astype(int) - expected[tie]).max(initial=0) <= 1


SHAPES = {
    "per_tensor": ((5, 12), ()),
    "per_row": ((5, 12), (5,)),
    "per_group<16>": ((5, 12), (4,)),
    "per_group<64>": ((4, 64), (4,)),
    "per_block<1, 8>": ((2, 3, 12), (2, 3, 2)),
    "per_block<2, 8>": ((2, 3, 12), (2, 2, 2)),
    "per_block<128, 128>": ((256, 128), (2, 1)),
    # Groups that are larger than the tensor take no more memory.
    "per_group<99999999>": ((5, 12), (1,)),
    "per_block<1, 99999999>": ((5, 12), (5, 1)),
    "per_block<99999999, 1>": ((5, 12), (1, 12)),
    "per_block<999999, 999999>": ((40, 24), (1, 1)),
}


def share(x, granularity):
    """For each element which scale it has."""
    index = np.indices(x.shape)
    if granularity.startswith("per_block"):
        high, wide = (int(n) for n in granularity[10:-1].split(", "))
        rows, columns = x.shape[-2:]
        down, across = -(-rows // high), -(-columns // wide)
        outer = index[0] if x.ndim == 3 else 0
        return (outer * down + index[-2] // high) * across + index[-1] // wide
    flat = np.arange(x.size).reshape(x.shape)
    if granularity.startswith("per_group"):
        return flat // int(granularity[10:-1])
    return flat // x.shape[-1] if granularity == "per_row" else flat * 0


@backends
@pytest.mark.parametrize("granularity", SHAPES)
def test_granularities(granularity, backend):
    shape, scale_shape = SHAPES[granularity]
    generator = np.random.default_rng(7)
    x = generator.standard_normal(shape).astype(np.float32)
    x *= np.exp(generator.standard_normal(shape)).astype(np.float32)
    (codes, scale), back = quantize(
        x, f"f8E4M3FN, {granularity}, scale = f32",
        [(shape, "f8E4M3FN"), (scale_shape, "f32")], backend,
    )  # fmt: skip
    which = share(x, granularity)
    amax = np.zeros(which.max() + 1, np.float32)
    np.maximum.at(amax, which.ravel(), np.abs(x).ravel())
    expected = amax / np.float32(448)
    np.testing.assert_array_equal(scale.ravel(), expected)
    quotient = np.clip(x / expected[which], -448, 448)
    np.testing.assert_array_equal(codes, quotient.astype(E4M3))
    np.testing.assert_array_equal(back, codes.astype(np.float32) * expected[which])


@backends
@pytest.mark.parametrize("count", [32, 33])
def test_two_codes_in_a_byte(count, backend):
    case = load("bnb8")
    values = floats(case["map4_signed"])
    x = floats(case["x"])[:count]
    form = f"{write_book('four', values)}, per_group<32>, scale = f32"
    (codes, scale), back = quantize(
        x, form, [((-(-count // 2),), "i8"), ((-(-count // 32),), "f32")], backend
    )
    groups = [x[i : i + 32] for i in range(0, count, 32)]
    expected = np.array([np.abs(group).max() for group in groups], np.float32)
    np.testing.assert_array_equal(scale, expected)
    relative = x / np.repeat(expected, 32)[:count]
    nearest = np.abs(relative[:, None] - values).argmin(1)
    nearest[(values[nearest] == 0) & (relative < 0)] -= 1
    unpacked = np.stack([codes.view(np.uint8) >> 4, codes.view(np.uint8) & 15], 1)
    np.testing.assert_array_equal(unpacked.ravel()[:count], nearest)
    np.testing.assert_array_equal(
        back, values[nearest] * np.repeat(expected, 32)[:count]
    )


@backends
@pytest.mark.parametrize("element, largest", [("f8E4M3FN", 448), ("f8E5M2", 57344)])
@pytest.mark.parametrize("rule", ["inverse", "inverse_power"])
def test_infinities_by_the_rules_of_transformer_engine(element, largest, rule, backend):
    """A scale of 1, as its compute_scale_from_amax gives, and codes that saturate."""
    x = np.array([[1.0, -np.inf, 2.0, 1e9], [1.0, -3.5, 2.0, 0.5]], F32)
    form = f"{element}, per_row, scale = f32, rule = {rule}"
    parts = [(x.shape, element), ((2,), "f32")]
    (_, scale), back = quantize(x, form, parts, backend)
    assert scale[0] == 1
    np.testing.assert_array_equal(back[0], [1, -largest, 2, largest])
    np.testing.assert_allclose(back[1], x[1], rtol=0.08)


HARD = [
    ("nan", [1.0, np.nan, -2.0, 0.5]), ("infinity", [1.0, -np.inf, 2.0, 0.5]),
    ("zeros", [0.0, -0.0, 0.0, 0.0]), ("subnormal", [1e-44, 0.0, -3e-45, 1e-42]),
]  # fmt: skip


@backends
@pytest.mark.parametrize("name, row", HARD, ids=[name for name, _ in HARD])
@pytest.mark.parametrize("form, parts", [
    ("f8E4M3FN, per_row, scale = f32", ["f8E4M3FN", "f32"]),
    ("f8E5M2, per_row, scale = f32", ["f8E5M2", "f32"]),
    ("f8E4M3FN, per_row, scale = f32, rule = inverse", ["f8E4M3FN", "f32"]),
    ("f8E4M3FN, per_row, scale = bf16, rule = amax_offset", ["f8E4M3FN", "bf16"]),
    ("f8E4M3FN, per_row, scale = f8E8M0FNU, rule = round_up", ["f8E4M3FN", "f8E8M0FNU"]),
    ("f4E2M1FN, per_row, scale = f8E8M0FNU, rule = floor", ["i8", "f8E8M0FNU"]),
    ("f8E4M3FN, per_row, scale = f32, expand", ["f8E4M3FN", "f32", "f32", "f32"]),
    ("BOOK, per_row, scale = f32", ["i8", "f32"]),
])  # fmt: skip
def test_what_is_not_finite_is_never_stored_as_finite(name, row, form, parts, backend):
    x = np.array([row, [1.0, 2.0, -3.0, 4.0]], np.float32)
    form = form.replace("BOOK", book("bnb_dynamic_signed"))
    shapes = [x.shape] + [(2,)] * (len(parts) - 1)
    _, back = quantize(x, form, list(zip(shapes, parts)), backend)
    # Saturation keeps infinities finite where scales do not see them.
    if name == "infinity" and ("inverse" in form):
        assert np.isfinite(back[0, [0, 2, 3]]).all()
    elif name in ("nan", "infinity"):
        assert not np.isfinite(back[0, 1])
    else:
        # Scales are no subnormals but powers of two: a subnormal may become 0.
        np.testing.assert_allclose(back[0], x[0], rtol=0, atol=2.0**-127)
    np.testing.assert_allclose(back[1], x[1], rtol=0.15)
