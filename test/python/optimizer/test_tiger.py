"""The optimizer Tiger equals recorded traces, values computed by hand, and its formula
in numpy."""

import json

import numpy as np
import pytest
from support.philox import draw_uniform
from support.rules import update_module
from support.tensor_rules import GOLDEN, PLACE, SEED, draw, from_bits, run, start

F32 = np.float32
TIGER = json.loads((GOLDEN / "tiger.json").read_text())["cases"]
HAND = TIGER["by_hand"]
FORMS = {"kernel": "", "embedding": "embedding", "bias": "shift", "gamma": "scale"}
BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
TRACES = [t for t in TIGER["traces"] if t["accum"] == 1]


@BACKENDS
@pytest.mark.parametrize("trace", TRACES, ids=lambda t: f"{t['kind']}-{t['dtype']}")
def test_tiger_follows_its_traces(trace, backend):
    """Traces contain a gradient that is not finite, at which the form `shrink` shrinks
    the parameter. The traces in f16 round after each operation, Binade rounds once per
    step, so that 4 ulp of the largest value are allowed."""
    shape, dtype = tuple(trace["shape"]), np.dtype(trace["dtype"].replace("f", "float"))
    form = ".".join([FORMS[trace["kind"]], "shrink"]).lstrip(".")
    hypers = [trace["lr"], trace["beta"], trace["wd"], 0.0, trace["shrink"], 0.0]
    module = update_module("tiger", hypers, shape, form=form)
    size = "x".join(map(str, shape))
    module = module.replace(f"tensor<{size}xf32>", f"tensor<{size}x{trace['dtype']}>")
    p = from_bits(trace["p0"], dtype).reshape(shape)
    state = {"p": p, "s0": 0 * p}
    for step in trace["steps"]:
        g = from_bits(step["g"], dtype).reshape(shape)
        state = run(module, state, backend, g=g, step=np.int64(step["t"]))
        for name, wanted in [("p", step["p"]), ("s0", step["m"])]:
            wanted = from_bits(wanted, dtype)
            found = state[name].ravel()
            assert found.dtype == dtype
            if dtype == F32:
                np.testing.assert_array_max_ulp(found, wanted, 4)
            else:
                limit = 4 * np.spacing(np.abs(wanted).max())
                np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@BACKENDS
@pytest.mark.parametrize(
    "name, p, m, g, form",
    [
        ("kernel", [[3, 4]], 0, [[0.2, -0.1]], ""),
        ("bias", [0.5], 0, [1.0], "shift"),
        ("nan_kernel", [[3, 4]], [[0.1, -0.1]], [[np.nan, 1]], "shrink"),
        ("nan_gamma", [1.2], 0, [np.nan], "scale.shrink"),
        ("embedding_zero_row", [[3, 4], [0, 0]], 0, [[1, 1], [1, 1]], "embedding"),
    ],
)
def test_tiger_equals_values_computed_by_hand(name, p, m, g, form, backend):
    p, g = np.array(p, F32), np.array(g, F32)
    module = update_module("tiger", [1e-3, 0.965, 0.01, 0, 0.99, 0], p.shape, form=form)
    state = start("tiger", p, form) | {"s0": np.array(m, F32) + np.zeros_like(p)}
    state = run(module, state, backend, g=g, step=np.int64(0))
    np.testing.assert_array_max_ulp(
        state["p"].ravel(), from_bits(HAND[name]["p"]).ravel(), 1
    )
    if "m" in HAND[name]:
        np.testing.assert_array_max_ulp(
            state["s0"].ravel(), from_bits(HAND[name]["m"]).ravel(), 1
        )


@BACKENDS
def test_an_infinite_gradient_shrinks_the_parameter(backend):
    """The authors' code only tests for NaN: an infinity stays in its momentum."""
    p = np.array([[3, 4]], F32)
    module = update_module("tiger", [1e-3, 0.9, 0, 0, 0.5, 0], p.shape, form="shrink")
    g = np.array([[np.inf, 1]], F32)
    state = run(module, start("tiger", p, ""), backend, g=g, step=np.int64(0))
    np.testing.assert_array_equal(state["p"], p / 2)
    np.testing.assert_array_equal(state["s0"], 0 * p)


@BACKENDS
@pytest.mark.parametrize("form", ["shrink", "scale.shrink", "embedding.shrink"])
def test_tiger_shrinks_with_noise(form, backend):
    """The noise follows the formula, from random values of seed, step and element."""
    shape = (3001,) if form == "scale.shrink" else (23, 131)
    centre = 1 if form == "scale.shrink" else 0
    noise = 0.25
    module = update_module("tiger", [1e-3, 0.9, 0, 0, 0.5, noise], shape, form=form)
    p = draw(np.random.default_rng(4), *shape)
    g = np.ones(shape, F32)
    calm = run(module, start("tiger", p, form), backend, g=g, step=np.int64(0))
    assert (calm["p"] < p).all()  # Finite gradients cause no noise.
    g.flat[5] = np.nan
    state = run(module, start("tiger", p, form), backend, g=g, step=np.int64(0))
    stream = (PLACE >> 32) % 2**32 + 2**30
    uniform = draw_uniform(p.size, SEED, PLACE % 2**32, stream)[0].reshape(shape)
    wanted = (p - centre) * 0.5 + centre + noise * (2 * uniform - 1)
    np.testing.assert_allclose(state["p"], wanted, rtol=1e-6, atol=1e-6)
    moved = (state["p"] - ((p - centre) * 0.5 + centre)).astype(float)
    assert np.abs(moved).max() <= noise * 1.0001
    # Uniform in [-noise, noise): a variance of noise^2 / 3, a mean of 0.
    assert abs(moved.mean()) < 5 * noise / np.sqrt(3 * moved.size)
    assert abs(moved.var() / (noise**2 / 3) - 1) < 5 * np.sqrt(0.8 / moved.size)
    # Another step draws other values.
    other = run(module, start("tiger", p, form), backend, g=g, step=np.int64(0),
                place=np.int64(PLACE + 1))  # fmt: skip
    assert (other["p"] != state["p"]).mean() > 0.99


@BACKENDS
def test_tiger_by_dimension_and_with_a_floor(backend):
    generator = np.random.default_rng(1)
    p, g = draw(generator, 9, 16), draw(generator, 9, 16)
    module = update_module("tiger", [0.1, 0.5, 0, 0, 1, 0], p.shape, form="dimension")
    state = run(module, start("tiger", p, ""), backend, g=g, step=np.int64(0))
    np.testing.assert_allclose(state["p"], p - 0.1 / 3 * np.sign(g), rtol=1e-6)
    zeros = np.zeros_like(p)
    for floor, moved in ((0.0, 0.0), (0.25, 0.025)):
        module = update_module("tiger", [0.1, 0.5, 0, floor, 1, 0], p.shape, form="")
        state = run(module, start("tiger", zeros, ""), backend, g=g, step=np.int64(0))
        np.testing.assert_allclose(state["p"], -moved * np.sign(g), rtol=1e-6)


@BACKENDS
@pytest.mark.parametrize(
    "case", TIGER["sign_to_sgd"], ids=lambda case: str(case["gamma"])
)
def test_tiger_sgd_raises_magnitudes_to_an_exponent(case, backend):
    """lr is 2, because the step of a vector is half of lr."""
    m = from_bits(case["m"])
    hypers = [2.0, 0.5, 0, case["gamma"]]
    module = update_module("tiger_sgd", hypers, m.shape, form="vector")
    state = start("tiger_sgd", 0 * m, "vector") | {"s0": m}
    state = run(module, state, backend, g=m, step=np.int64(0))
    np.testing.assert_array_max_ulp(-state["p"], from_bits(case["u"]), 2)


@BACKENDS
@pytest.mark.parametrize("rule, hypers, form", [
    ("lion", [1e-3, 0.9, 0.99, 0.1], None),
    ("signum", [1e-3, 0.9, 0.1], None),
    ("tiger", [1e-3, 0.9, 0.1, 0, 0.99, 0], "shift"),
    ("tiger_sgd", [1e-3, 0.9, 0.1, 1.0], "vector"),
])  # fmt: skip
def test_the_sign_of_nan_is_nan(rule, hypers, form, backend):
    """As in numpy, the parameter becomes NaN. It does not move by NaN's sign bit."""
    p, g = np.ones(4, F32), np.array([np.nan, -np.nan, 1, -0.0], F32)
    module = update_module(rule, hypers, p.shape, form=form)
    state = run(module, start(rule, p, form), backend, g=g, step=np.int64(0))
    np.testing.assert_array_equal(np.isnan(state["p"]), np.isnan(np.sign(g)))


@BACKENDS
@pytest.mark.parametrize("form", ["", "embedding"])
def test_tiger_sgd_with_gamma_1_equals_tiger(form, backend):
    generator = np.random.default_rng(8)
    p, g = draw(generator, 8, 40), draw(generator, 8, 40)
    rules = {"tiger": [0.1, 0.9, 0.1, 0, 1, 0], "tiger_sgd": [0.1, 0.9, 0.1, 1]}
    signs, powers = (
        run(update_module(rule, hypers, p.shape, form=form), start(rule, p, form),
            backend, g=g, step=np.int64(0))
        for rule, hypers in rules.items()
    )  # fmt: skip
    for name in signs:
        np.testing.assert_array_equal(powers[name], signs[name])
