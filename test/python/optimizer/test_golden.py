"""The reference and compiled kernels reproduce values that were computed by hand or by
the original programs, and COAT's table of errors."""

import itertools
import json

import ml_dtypes
import numpy as np
import pytest
from support.codec import GOLDEN
from support.quantization import apply, backends, floats, quantize
from support.reference import evaluate, safetensors
from support.rules import Rule, update_module

HAND = json.loads((GOLDEN / "hand.json").read_text())
MISC = json.loads((GOLDEN / "misc.json").read_text())["cases"]
F32, E4M3 = np.float32, ml_dtypes.float8_e4m3fn


@backends
@pytest.mark.parametrize("name, rule, hypers", [
    ("adam", "adam", [1e-3, 0.9, 0.999, 1e-8, 0]),
    ("adamw", "adamw", [1e-3, 0.9, 0.999, 1e-8, 0.01]),
    ("sgd_nesterov", "sgd", [0.1, 0.9, 0, 0, 1]),
    ("rmsprop", "rmsprop", [0.01, 0.99, 1e-8, 0]),
    ("adagrad", "adagrad", [0.01, 0, 1e-10, 0]),
])  # fmt: skip
def test_two_updates_of_one_parameter(name, rule, hypers, backend):
    module, p = update_module(rule, hypers, 1), np.ones(1, F32)
    states = {f"s{i}": np.zeros(1, F32) for i in range(len(Rule(rule).states))}
    expected = HAND[f"torch_{name}_p1_g.1_.2"]
    for step, (g, wanted) in enumerate(zip((0.1, 0.2), expected)):
        given = {"p": p, "g": np.full(1, g, F32), "step": np.int64(step), **states}
        outputs = evaluate(module, given, "--function", "step", "--backend", backend)
        p, states = outputs["p"], {s: outputs[s] for s in states}
        np.testing.assert_array_max_ulp(p, floats(wanted), maxulp=1)


EXPANDED = "f8E4M3FN, per_group<4>, scale = f32, expand"
EXPANDED_PARTS = [((4,), "f8E4M3FN"), *3 * [((1,), "f32")]]


@backends
@pytest.mark.parametrize("name, x", [
    ("coat_1_2_4_8", [1, 2, 4, 8]),
    ("coat_zero_in_group", [0, 1e-3, -2e-3, 4e-3]),
    # The power 8.25 underflows f32 if elements are not divided by the group's center.
    ("coat_literal_underflow", [1e-12, 4e-12, 4e-12, 4e-12]),
])  # fmt: skip
def test_four_elements_with_expanded_range(name, x, backend):
    case, x = HAND[name], np.array(x, F32)
    (codes, _, power, _), back = quantize(x, EXPANDED, EXPANDED_PARTS, backend)
    expected = [
        int(code, 16) if isinstance(code, str) else code for code in case["codes"]
    ]
    assert codes.view(np.uint8).tolist() == expected
    assert power == case["k"]
    if "decoded" in case:
        # The error bound of powers of expanded elements: docs/decisions/0021.
        np.testing.assert_allclose(back, case["decoded"], rtol=8e-6)


@backends
def test_four_activations_of_coat(backend):
    case = HAND["coat_act"]
    form = "f8E4M3FN, per_group<4>, scale = bf16, rule = amax_offset"
    (codes, scale), _ = quantize(
        floats(case["in"]), form, [((4,), "f8E4M3FN"), ((1,), "bf16")], backend
    )
    assert [f"{code:#04x}" for code in codes.view(np.uint8)] == case["codes"]
    assert f"{scale.view(np.uint16)[0]:#06x}" == case["scale_bf16"][0]


@backends
def test_eps_in_narrow_formats(backend):
    case = MISC["eps_f16"]
    x = floats(case["eps"])
    (found,) = apply("cast", [(x, "f32")], [(x.shape, "f16")], "", backend)
    assert [f"{bits:#06x}" for bits in found.view(np.uint16)] == case["f16"]
    np.testing.assert_array_equal(found.astype(F32), case["f16_value"])
    (found,) = apply("cast", [(x, "f32")], [(x.shape, "bf16")], "", backend)
    np.testing.assert_array_equal(found.astype(F32), case["bf16_value"])


@backends
def test_updates_that_f16_loses(backend):
    case = HAND["fp16_stagnation"]
    half = np.full(1, 0.5, np.float16)
    for update, key in ((1.2e-4, "0.5-1.2e-4"), (2e-4, "0.5-2e-4")):
        loss = np.full(1, update, np.float16)
        (found,) = apply("sub", [(half, "f16"), (loss, "f16")], [((1,), "f16")], "",
                         backend)  # fmt: skip
        assert f"{found.view(np.uint16)[0]:#06x}" == case[key][0]


@backends
def test_tf32(backend):
    case = HAND["tf32"]
    x = floats(case["in"])
    module = f"""
      func.func @f(%x: tensor<{x.size}xf32>) -> tensor<{x.size}xf32> {{
        %y = binade.round_to %x {{format = tf32}} : tensor<{x.size}xf32>
        return %y : tensor<{x.size}xf32>
      }}"""
    found = evaluate(module, {"arg0": x}, "--backend", backend)["result0"]
    expected = np.array([int(v, 16) for v in case["rne"]], np.uint32).view(F32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(
        found[kept].view(np.uint32), expected[kept].view(np.uint32)
    )


FORMATS = {
    f"{name}{'+X' if expand else ''}":
        (f"{element}, per_group<128>, scale = f32{', expand' if expand else ''}",
         element, expand)
    for name, element in (("E4M3", "f8E4M3FN"), ("E5M2", "f8E5M2"))
    for expand in (False, True)
}  # fmt: skip


@backends
def test_errors_of_pairs_of_formats(backend):
    """Mean squared errors of m / sqrt(v), as in Table 1 of COAT, on smaller tensors."""
    table = json.loads((GOLDEN / "coat.json").read_text())["cases"]["mse_table"][
        "table"
    ]
    states = safetensors.load(GOLDEN / "coat_states.safetensors")

    def read_back(x, name):
        form, element, expand = FORMATS[name]
        parts = [(x.shape, element)] + [((x.size // 128,), "f32")] * (
            3 if expand else 1
        )
        return quantize(x, form, parts, backend)[1]

    def update(m, v):
        return m / (np.sqrt(v) + F32(1e-8))

    m, v = ({name: read_back(states[key], name) for name in FORMATS} for key in "mv")
    exact = update(states["m"], states["v"]).astype(float)
    for first, second in itertools.product(FORMATS, repeat=2):
        error = np.mean((update(m[first], np.abs(v[second])) - exact) ** 2)
        wanted = table[f"m:{first}|v:{second}"]
        assert error == pytest.approx(wanted, rel=0.02), (first, second)
