"""Codes and scales that processes exchange are those of ml_dtypes and of Binade's kernels."""

import numpy as np
import pytest
import torch
import yaml
from binade.torch import float8
from support import exchange_truth
from support.paths import BUILD, ROOT
from support.quantization import quantize

NAMES = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
ELEMENTS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}
DTYPES = pytest.mark.parametrize("dtype", NAMES, ids=NAMES.values())
needs_tools = pytest.mark.skipif(
    not (BUILD / "bin/binade-opt").exists(), reason="the tools are not built"
)


def every_value(dtype):
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    return bits.view(dtype).float()


def near_ties(dtype):
    """Returns f32 values around each middle of two values of a format, and random bits."""
    values = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    values = values[values.isfinite()].unique()
    middles = ((values[1:] + values[:-1]) / 2).float()
    around = [
        torch.cat([middles, values.float(), torch.tensor([448.0, 464.0, 61440.0])])
    ]
    for _ in range(3):
        around.append(torch.nextafter(around[-1], torch.tensor(torch.inf)))
    for _ in range(6):
        around.append(torch.nextafter(around[-1], torch.tensor(-torch.inf)))
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (1 << 20,), generator=generator)
    return torch.cat([*around, bits.to(torch.int32).view(torch.float32)])


def special_tensors():
    torch.manual_seed(0)
    usual = torch.randn(1000) * torch.logspace(-6, 0, 1000)
    yield from (usual, usual.bfloat16(), usual.half(), usual * 1e30, torch.zeros(300))
    yield torch.full((130,), 1e-38)  # The factor is limited to the largest f32.
    yield torch.full((130,), 1e-44)
    for value in (torch.inf, -torch.inf, torch.nan):
        changed = usual.clone()
        changed[500] = value
        yield changed


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().ravel()


def assert_same(found, expected):
    """Equal bits; NaN of any bits equals NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    kept = ~np.isnan(expected)
    word = {1: np.uint8, 4: np.uint32}[found.itemsize]
    np.testing.assert_array_equal(found[kept].view(word), expected[kept].view(word))


@DTYPES
@pytest.mark.parametrize("kind", ["bfloat16", "float16", "ties"])
def test_casts_are_those_of_ml_dtypes(dtype, kind):
    """All values of 16 bits; f32 values near all ties; a million random f32 values."""
    x = near_ties(dtype) if kind == "ties" else every_value(getattr(torch, kind))
    element = exchange_truth.ELEMENTS[NAMES[dtype]]
    expected = exchange_truth.saturate(x.numpy(), element)
    found = bits(float8.cast(x.clone(), dtype)).view(element)
    assert_same(found.astype(np.float32), expected.astype(np.float32))
    assert np.isfinite(found.astype(np.float32)[~x.isnan().numpy()]).all()


def quantize_whole(x, name):
    form = float8.TENSOR_FORMATS[name]
    factor, scale = float8.choose_factors(x.abs().amax().float(), form)
    codes = torch.empty(x.shape, dtype=form.dtype)
    float8.quantize_tensor(x, factor, codes)
    values = torch.empty(x.shape)
    float8.dequantize_tensor(codes, scale, values)
    return codes, scale, values


@pytest.mark.parametrize("name", float8.TENSOR_FORMATS)
@pytest.mark.parametrize("case", range(10))
def test_tensors_are_quantized_as_specified(name, case):
    x = [*special_tensors()][case]
    codes, scale, values = quantize_whole(x, name)
    expected = exchange_truth.quantize_tensor(x.float().numpy(), name)
    found = bits(codes).view(expected[0].dtype)
    assert_same(found.astype(np.float32), expected[0].astype(np.float32))
    assert_same(scale.numpy(), expected[1])
    whole = exchange_truth.round_trip(x, name)
    assert_same(values.numpy(), whole.numpy())
    narrow = torch.empty(x.shape, dtype=torch.bfloat16)
    float8.dequantize_tensor(codes, scale, narrow)
    assert_same(narrow.float().numpy(), whole.bfloat16().float().numpy())


def round_groups(x, dtype):
    groups = -(-x.numel() // 128)
    codes, scales = torch.empty(groups * 128, dtype=dtype), torch.empty(groups)
    float8.quantize_groups(x, codes, scales)
    return float8.dequantize_groups(codes, scales, x.numel())


@DTYPES
@pytest.mark.parametrize("size", [65535, 65536, 65537, 200001])
def test_long_tensors_are_quantized_in_blocks(dtype, size):
    torch.manual_seed(0)
    x = torch.randn(size)
    name = NAMES[dtype]
    for found, form in (
        (quantize_whole(x, f"{name}-tensor")[2], f"{name}-tensor"),
        (round_groups(x, dtype), name),
    ):  # fmt: skip
        assert_same(found.numpy(), exchange_truth.round_trip(x, form).numpy())


@pytest.mark.parametrize("name", float8.TENSOR_FORMATS)
def test_scales_round_once(name):
    """PyTorch divides numbers by tensors in two roundings."""
    torch.manual_seed(0)
    amax = torch.randn(4000).abs() * torch.logspace(-30, 30, 4000)
    form = float8.TENSOR_FORMATS[name]
    _, scales = float8.choose_factors(amax, form)
    for one, scale in zip(amax, scales, strict=True):
        _, expected = exchange_truth.quantize_tensor(one.reshape(1).numpy(), name)
        assert scale.item() == expected
    scales = float8.choose_group_scales(amax, form.dtype)
    largest = np.float32(torch.finfo(form.dtype).max)
    np.testing.assert_array_equal(scales.numpy(), amax.numpy() / largest)


@DTYPES
@pytest.mark.parametrize("case", range(10))
def test_groups_are_quantized_as_specified(dtype, case):
    x = [*special_tensors()][case]
    values = round_groups(x, dtype)
    assert_same(values.numpy(), exchange_truth.round_trip(x, NAMES[dtype]).numpy())
    if not x.isfinite().all():
        groups = values[384:512]
        assert groups.isnan().all() and values[:384].isfinite().all()


@needs_tools
@pytest.mark.parametrize("name", float8.TENSOR_FORMATS)
@pytest.mark.parametrize("case", range(10))
def test_tensors_have_the_bits_of_binade_quantize(name, case):
    x = [*special_tensors()][case].float()
    chosen = float8.TENSOR_FORMATS[name]
    element = ELEMENTS[NAMES[chosen.dtype]]
    rule = "inverse_power" if chosen.isPower else "inverse"
    form = f"{element}, per_tensor, scale = f32, rule = {rule}"
    parts = [(x.shape, element), ((), "f32")]
    (codes, scale), back = quantize(x.numpy(), form, parts, "cpu")
    found = quantize_whole(x, name)
    assert_same(found[0].float().numpy(), codes.astype(np.float32))
    assert_same(found[1].numpy(), scale)
    assert_same(found[2].numpy(), back)


@needs_tools
@DTYPES
@pytest.mark.parametrize("case", range(10))
def test_groups_have_the_bits_of_binade_quantize(dtype, case):
    x = [*special_tensors()][case].float()
    x = x[: x.numel() // 128 * 128]
    element = ELEMENTS[NAMES[dtype]]
    form = f"{element}, per_group<128>, scale = f32"
    parts = [(x.shape, element), ((x.numel() // 128,), "f32")]
    _, back = quantize(x.numpy(), form, parts, "cpu")
    assert_same(round_groups(x, dtype).numpy(), back)


def test_the_formats_are_those_of_the_compiler():
    def read(name):
        return yaml.safe_load((ROOT / f"lib/Precision/Formats/{name}.yaml").read_text())

    for name, (dtype, isPower) in float8.TENSOR_FORMATS.items():
        form = read(name)
        assert form["element"] == ELEMENTS[NAMES[dtype]]
        rule = "inverse_power" if isPower else "inverse"
        assert (form["per"], form["rule"]) == ("per_tensor", rule)
    for name, dtype in float8.GROUP_FORMATS.items():
        form = read(name)
        assert form["element"] == ELEMENTS[NAMES[dtype]]
        assert form["group"] == float8.GROUP and "rule" not in form
