"""Parameters and states in 16 bits with each kind of master weight, compared with numpy,
ml_dtypes and golden values, in the reference and in compiled code."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.philox import draw_words
from support.reference import BF16, F16, random
from support.storage import (
    COMPANIONS,
    STATES,
    Update,
    assert_equal_bits,
    bits,
    join,
    read_words,
    start,
    write,
)

F32 = np.float32
MISC, HAND = (
    json.loads((ROOT / f"test/data/golden/{name}.json").read_text())
    for name in ("misc", "hand")
)
MISC = MISC["cases"]
BACKENDS = ["reference", "cpu"]
DTYPES = {"f32": F32, "bf16": BF16, "f16": F16, "i16": np.int16}


@pytest.mark.parametrize("backend", BACKENDS)
def test_golden_halves(backend, tmp_path):
    # Values recorded with IPEX (split) and Transformer Engine (remainder).
    recorded, signed = MISC["split_master"], np.uint16(0xCCCD).view(np.int16)
    value = read_words(recorded["w"]["x"] + HAND["split"]["w"]["x"]).view(F32)
    value = np.append(value, F32(0.1))
    high = recorded["hi16"] + HAND["split"]["hi_trunc"] + ["0x3dcc"]
    low = read_words(recorded["lo16"] + ["0x0651", "0x0fdb"], np.uint16).view(np.int16)
    truncated = Update(tmp_path, backend, "take", [], len(value), "split_trunc")
    found = write(truncated, value, "split_trunc")
    np.testing.assert_array_equal(bits(found["p"]), read_words(high))
    np.testing.assert_array_equal(found["b"], np.append(low, signed))
    case = HAND["te_remainder"]
    value = read_words(case["w"]["x"]).view(F32)
    rounded = Update(tmp_path, backend, "take", [], len(value), "split_round")
    found = write(rounded, value, "split_round")
    assert bits(found["p"]).tolist() == read_words([case["hi"]]).tolist()
    assert found["b"].tolist() == [case["rem"]]


#: Random words, ties, neighbors of powers of two, the ends of the range.
WORDS = np.concatenate([
    np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32),
    np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x10000, 0x3F7FFFFF, 0x3F800000,
              0x3F808000, 0x3F818000, 0x3F80FFFF, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF,
              0x7F800000, 0xFF800000, 0x80000000, 0x807FFFFF, 0x00800000], np.uint32),
])  # fmt: skip
WORDS = WORDS[(WORDS & 0x7FFFFFFF) <= 0x7F800000]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("master", ["none", "f32", "split_round", "split_trunc"])
def test_stored_parameters_are_read_as_written(master, backend, tmp_path):
    """Every f32 is stored as defined, and reading it gives the same f32."""
    value = WORDS.view(F32)
    update = Update(tmp_path, backend, "take", [], len(value), master)
    found, expected = write(update, value, master), start(master, value)
    for name in expected:
        assert_equal_bits(found[name], expected[name])
    keep = Update(tmp_path, backend, "keep", [], len(value), master)
    again = keep(g=np.zeros_like(value), step=np.int64(0), **found)
    for name in expected:
        assert_equal_bits(again[name], expected[name])


def sgd(p, g, states, hypers, t):
    lr, momentum, _, decay, _ = map(F32, hypers)
    g = g + decay * p
    m = momentum * states[0] + g
    return p - lr * m, [m]


def adamw(p, g, states, hypers, t):
    lr, beta1, beta2, eps, decay = hypers
    m, v = states
    m = m + F32(1 - beta1) * (g - m)
    v = F32(beta2) * v + F32(1 - beta2) * g * g
    size, root = F32(lr / (1 - beta1**t)), F32(np.sqrt(1 - beta2**t))
    denominator = np.sqrt(v) / root + F32(eps)
    return F32(1 - lr * decay) * p - size * m / denominator, [m, v]


RUNS = {"sgd": (sgd, [0.1, 0.9, 0.0, 0.01, 0.0]),
        "adamw": (adamw, [1e-2, 0.9, 0.999, 1e-8, 0.1])}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", RUNS)
@pytest.mark.parametrize("master", ["f32", "split_round", "split_trunc"])
def test_master_weights_match_f32_training(master, rule, backend, tmp_path):
    formula, hypers = RUNS[rule]
    p, size = random(37, seed=1), 37
    update = Update(tmp_path, backend, rule, hypers, size, master)
    kept = start(master, p)
    states = [np.zeros(size, F32) for _ in STATES[rule]]
    kept |= {f"s{i}": state for i, state in enumerate(states)}
    for t in range(1, 6):
        g = random(size, seed=t + 1)
        p, states = formula(p, g, states, hypers, t)
        kept = update(g=g, step=np.int64(t - 1), **kept)
        assert_equal_bits(join(master, kept), p)
        assert_equal_bits(kept["p"], start(master, p)["p"])
        for i, state in enumerate(states):
            assert_equal_bits(kept[f"s{i}"], state)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_kahan_summation_matches_numpy(dtype, backend, tmp_path):
    formula, hypers = RUNS["sgd"]
    narrow, size = DTYPES[dtype], 53
    p, m, c = random(size, narrow, seed=1), np.zeros(size, F32), np.zeros(size, narrow)
    update = Update(tmp_path, backend, "sgd", hypers, size, "kahan", parameter=dtype)
    for t in range(1, 6):
        g = random(size, seed=t + 1, scale=0.01)
        kept = update(p=p, g=g, s0=m, b=c, step=np.int64(t - 1))
        after, (m,) = formula(p.astype(F32), g, [m], hypers, t)
        change = after - p.astype(F32)
        # ml_dtypes and numpy round a sum of two 16-bit values once.
        y = (change - c.astype(F32)).astype(narrow)
        total = (p + y).astype(narrow)
        c = ((total - p).astype(narrow) - y).astype(narrow)
        p = total
        for name, expected in [("p", p), ("b", c), ("s0", m)]:
            assert_equal_bits(kept[name], expected)


def add_exactly(x, y):
    """The rounded sum of two narrow values, and its rounding error: Fast2Sum."""
    total = x + y  # ml_dtypes and numpy round sums of 16-bit values once.
    return total, y - (total - x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_residuals_match_numpy(dtype, backend, tmp_path):
    """The parameter and its residual grow as in Collage (arXiv 2405.03637)."""
    formula, hypers = RUNS["sgd"]
    narrow, size = DTYPES[dtype], 53
    p, m = random(size, narrow, seed=1), np.zeros(size, F32)
    residual = (random(size, seed=9) * p.astype(F32) * 2.0**-9).astype(narrow)
    update = Update(tmp_path, backend, "sgd", hypers, size, "residual", parameter=dtype)
    for t in range(1, 6):
        g = random(size, seed=t + 1, scale=0.01)
        kept = update(p=p, g=g, s0=m, b=residual, step=np.int64(t - 1))
        after, (m,) = formula(p.astype(F32), g, [m], hypers, t)
        total, lost = add_exactly(p, (after - p.astype(F32)).astype(narrow))
        p, residual = add_exactly(total, residual + lost)
        for name, expected in [("p", p), ("b", residual), ("s0", m)]:
            assert name == "s0" or expected.dtype == narrow
            assert_equal_bits(kept[name], expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_states_are_rounded_to_nearest(dtype, backend, tmp_path):
    narrow, size = DTYPES[dtype], 33
    formula, hypers = RUNS["adamw"]
    states = [random(size, narrow, seed=1), np.abs(random(size, narrow, seed=2))]
    p, g = random(size, seed=3), random(size, seed=4)
    update = Update(tmp_path, backend, "adamw", hypers, size, "none", states=dtype,
                    parameter="f32")  # fmt: skip
    kept = update(p=p, g=g, s0=states[0], s1=states[1], step=np.int64(4))
    expected, new = formula(p, g, [s.astype(F32) for s in states], hypers, 5)
    assert_equal_bits(kept["p"], expected)
    for i, state in enumerate(new):
        assert_equal_bits(kept[f"s{i}"], state.astype(narrow))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "master, name, key",
    [("none", "p", "rne"), ("kahan", "p", "kahan"), ("kahan", "b", "kahan_comp"),
     ("f32", "b", "fp32")],
)  # fmt: skip
def test_updates_below_half_a_unit_match_recorded_ones(
    master, name, key, backend, tmp_path
):
    case = MISC["bf16_stagnation"]
    lr, times = -case["update"]["f"][0], 20
    update = Update(tmp_path, backend, "sgd", [lr, 0, 0, 0, 0], 1, master, times=times)
    kept = {**start(master, np.ones(1, F32)), "s0": np.zeros(1, F32)}
    for _ in range(case["steps"] // times):
        kept = update(g=np.ones(1, F32), step=np.int64(0), **kept)
    assert bits(kept[name]) == read_words(case[key]["x"])


@pytest.mark.parametrize("master", COMPANIONS)
def test_updates_below_half_a_unit(master, tmp_path):
    """Applies 100 updates of -1e-3 to 1. Rounding to nearest in bf16 keeps none of them."""
    size = 500
    times = 1 if master == "stochastic" else 20  # Each update needs other random words.
    update = Update(tmp_path, "reference", "sgd", [1e-3, 0, 0, 0, 0], size, master,
                    times=times)  # fmt: skip
    kept = {**start(master, np.ones(size, F32)), "s0": np.zeros(size, F32)}
    for step in range(100 // times):
        if master == "stochastic":
            kept |= {"seed": np.int64(5), "place": np.int64(step)}
        kept = update(g=np.ones(size, F32), step=np.int64(step), **kept)
    p = kept["p"].astype(np.float64)
    if master == "none":
        assert (p == 1).all()
    elif master == "stochastic":
        # Each update is 2^-8 with a probability of 0.256, which has a variance of 3e-6.
        assert abs(p.mean() - 0.9) < 5 * np.sqrt(100 * 3e-6 / size)
        assert p.std() > 0.005
    else:  # The parameter differs from the exact value by at most one unit of bf16.
        np.testing.assert_allclose(p, 0.9, atol=2**-8)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [1, 17, 70001])
def test_stochastic_rounding(size, backend, tmp_path):
    """Matches the definition bit for bit, and has no bias."""
    value = random(size, seed=3)
    seed, place = 0x123456789ABCDE, (0x80000007 << 32) + 41
    update = Update(tmp_path, backend, "take", [], size, "stochastic")
    found = update(
        p=np.zeros(size, BF16), g=value, step=np.int64(0),
        seed=np.int64(seed), place=np.uint64(place).view(np.int64),
    )["p"]  # fmt: skip
    word = value.view(np.uint32)
    drawn = draw_words(size, seed, place & 0xFFFFFFFF, place >> 32)[0]
    up = (drawn >> np.uint64(16)) < (word & 0xFFFF)
    expected = ((word >> 16) + up).astype(np.uint16)
    np.testing.assert_array_equal(bits(found), expected)
    if size > 1000:
        error = (found.astype(np.float64) - value) / np.abs(value)
        assert abs(error.mean()) < 5 * error.std() / np.sqrt(size)


@pytest.mark.parametrize("backend", BACKENDS)
def test_stochastic_rounding_matches_recorded_values(backend, tmp_path):
    """Places each recorded value at an index where the seed draws the random word with which
    it was recorded."""
    recorded, hand = MISC["sr_bf16"], HAND["sr"]
    words = read_words(recorded["in"]["x"] + 2 * ["0x3f804000"])
    random = np.array([*recorded["rand16"], 16383, 16384])
    wanted = recorded["out"] + hand["rand_16383_up"] + hand["rand_16384_down"]
    seed, place = 11, 3
    drawn = draw_words(1 << 20, seed, place, 0)[0] >> np.uint64(16)
    where = np.array([np.flatnonzero(drawn == number)[0] for number in random])
    value = np.zeros(where.max() + 1, F32)
    value[where] = words.view(F32)
    update = Update(tmp_path, backend, "take", [], len(value), "stochastic")
    found = update(
        p=np.zeros(len(value), BF16), g=value, step=np.int64(0), seed=np.int64(seed),
        place=np.int64(place),
    )["p"]  # fmt: skip
    np.testing.assert_array_equal(bits(found[where]), read_words(wanted))


def test_representable_values_are_not_rounded(tmp_path):
    value = np.array([0, 1, -1.5, 2.0**-133, np.inf, -np.inf, np.nan, 3.3895e38], F32)
    value = value.astype(BF16).astype(F32)
    for backend in BACKENDS:
        update = Update(tmp_path, backend, "take", [], len(value), "stochastic")
        found = write(update, value, "stochastic")["p"].astype(F32)
        np.testing.assert_array_equal(found, value)
