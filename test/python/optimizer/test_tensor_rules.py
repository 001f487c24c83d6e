"""Rules whose updates depend on whole tensors equal recorded traces, PyTorch's optimizers
and formulas in numpy."""

import json

import numpy as np
import pytest
from support.reference import BF16
from support.rules import Rule, update_module
from support.tensor_rules import GOLDEN, draw, from_bits, run, start

F32 = np.float32
BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])


@BACKENDS
def test_lamb_follows_its_trace(backend):
    cases = json.loads((GOLDEN / "optim.json").read_text())["cases"]
    p = from_bits(cases["param0"])
    hypers = [1e-2, 0.9, 0.999, 1e-6, 1e-2, 0]
    module = update_module("lamb", hypers, p.shape, form="")
    state = start("lamb", p, "")
    wanted = cases["lamb"]
    for step, (record, expected) in enumerate(zip(cases["grads"], wanted)):
        g = from_bits(record)
        state = run(module, state, backend, g=g, step=np.int64(step))
        np.testing.assert_array_max_ulp(state["p"], from_bits(expected), 4)


@BACKENDS
@pytest.mark.parametrize("always", [0, 1])
def test_lamb_without_decay_is_adam_by_default(always, backend):
    generator = np.random.default_rng(2)
    p, g = draw(generator, 40), draw(generator, 40)
    module = update_module("lamb", [0.1, 0.9, 0.999, 1e-6, 0, always], 40, form="")
    state = run(module, start("lamb", p, ""), backend, g=g, step=np.int64(0))
    u = g / (np.abs(g) + 1e-6)
    ratio = np.linalg.norm(p) / np.linalg.norm(u) if always else 1.0
    np.testing.assert_allclose(state["p"], p - 0.1 * ratio * u, rtol=2e-5, atol=2e-6)


def lars(p, g, m, lr, momentum, decay, trust, is_vector):
    local = 1.0 if is_vector else trust * np.linalg.norm(p) / (
        np.linalg.norm(g) + decay * np.linalg.norm(p))  # fmt: skip
    m = momentum * m + lr * local * (g + (0 if is_vector else decay) * p)
    return p - m, m


@BACKENDS
@pytest.mark.parametrize("form", ["", "vector"])
def test_lars_follows_its_formula(form, backend):
    generator = np.random.default_rng(3)
    shape = (7, 33) if not form else (33,)
    hypers = [0.5, 0.9, 1e-2, 0.02]
    module = update_module("lars", hypers, shape, form=form)
    p = draw(generator, *shape)
    state, exact, m = start("lars", p, form), p.astype(float), np.zeros(shape)
    for step in range(4):
        g = draw(generator, *shape, scale=0.1)
        state = run(module, state, backend, g=g, step=np.int64(step))
        exact, m = lars(exact, g.astype(float), m, *hypers, is_vector=bool(form))
        np.testing.assert_allclose(state["p"], exact, rtol=1e-6, atol=1e-7)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def follow(torch, optimizer, p, gradients):
    """Yields the parameter after each step of PyTorch's `optimizer`."""
    weight = torch.nn.Parameter(torch.from_numpy(p.copy()))
    torch_optimizer = optimizer([weight])
    for g in gradients:
        weight.grad = torch.from_numpy(g)
        torch_optimizer.step()
        yield weight.detach().numpy()


@BACKENDS
@pytest.mark.parametrize("shape", [(12, 20), (50, 3), (31,)])
def test_adafactor_follows_pytorch(shape, backend, torch):
    generator = np.random.default_rng(4)
    rule = "adafactor" if len(shape) == 2 else "adafactor_vector"
    hypers = [0.05, -0.8, 2.0**-23, 1e-3, 1.5, 0.1]
    module = update_module(rule, hypers, shape, form="")
    p = draw(generator, *shape)
    gradients = [draw(generator, *shape, scale=10.0**-k) for k in range(4)]
    wanted = follow(
        torch, lambda q: torch.optim.Adafactor(
            q, lr=0.05, eps=(None, 1e-3), d=1.5, weight_decay=0.1, foreach=False
        ), p, gradients,
    )  # fmt: skip
    state = start(rule, p, "")
    for step, (g, expected) in enumerate(zip(gradients, wanted)):
        state = run(module, state, backend, g=g, step=np.int64(step))
        np.testing.assert_allclose(state["p"], expected, rtol=1e-5, atol=1e-6)


def orthogonalize(x):
    x = x / np.linalg.norm(x)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x


@BACKENDS
@pytest.mark.parametrize("match", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("shape, form", [((16, 48), ""), ((48, 16), "tall")])
def test_muon_follows_pytorch(shape, form, match, backend, torch):
    """The iteration amplifies roundings in bf16, so that both results differ from those in
    f64 by a few percent."""
    generator = np.random.default_rng(5)
    hypers = [0.02, 0.95, 0.1, 1, 1e-7, float(match != "original")]
    module = update_module("muon", hypers, shape, form=form)
    p = draw(generator, *shape)
    gradients = [draw(generator, *shape) for _ in range(3)]
    wanted = follow(
        torch, lambda q: torch.optim.Muon(q, lr=0.02, adjust_lr_fn=match), p, gradients
    )
    original = np.sqrt(max(1, shape[0] / shape[1]))
    scale = 0.2 * np.sqrt(max(shape)) if hypers[-1] else original
    state, exact, m = start("muon", p, form), p.astype(float), np.zeros(shape)
    for step, (g, expected) in enumerate(zip(gradients, wanted)):
        state = run(module, state, backend, g=g, step=np.int64(step))
        m = m + 0.05 * (g - m)
        change = 0.02 * scale * orthogonalize(g + 0.95 * (m - g))
        exact = 0.998 * exact - change
        size = np.linalg.norm(change)
        assert np.linalg.norm(state["p"] - exact) < 0.03 * size
        assert np.linalg.norm(state["p"] - expected) < 0.05 * size


@BACKENDS
@pytest.mark.parametrize("master, kept", [("split_round", "i16"), ("split_trunc", "i16"),
                                          ("f32", "f32")])  # fmt: skip
@pytest.mark.parametrize("rule, form", [("tiger", ""), ("lamb", ""), ("lars", "")])
def test_norms_include_the_companion_of_a_parameter(rule, form, master, kept, backend):
    """Norms are those of all 32 bits, so that a run with a companion equals one in f32."""
    generator = np.random.default_rng(6)
    hypers = {"tiger": [0.1, 0.9, 0.1, 0, 1, 0], "lars": [0.5, 0.9, 1e-2, 0.2],
              "lamb": [0.1, 0.9, 0.99, 1e-6, 0.1, 0]}[rule]  # fmt: skip
    p = draw(generator, 6, 50)
    bits = p.view(np.uint32)
    if master == "f32":
        halves = p.astype(BF16), p
    else:
        low = (bits & 0xFFFF).astype(np.uint16).view(np.int16)
        high = bits >> 16
        if master == "split_round":
            high = high + (low < 0)
        halves = high.astype(np.uint16).view(BF16), low
    whole = update_module(rule, hypers, p.shape, form=form)
    half = update_module(
        rule, hypers, p.shape, form=form, parameter="bf16", master=(master, kept)
    )
    state = start(rule, p, form)
    split = start(rule, halves[0], form, companion=halves[1])
    for step in range(3):
        g = draw(generator, 6, 50)
        state = run(whole, state, backend, g=g, step=np.int64(step))
        split = run(half, split, backend, g=g, step=np.int64(step))
        np.testing.assert_array_equal(split["s0"], state["s0"])
        if master == "f32":
            np.testing.assert_array_equal(split["companion"], state["p"])
            continue
        low = split["companion"].view(np.uint16).astype(np.uint32)
        high = split["p"].view(np.uint16).astype(np.uint32)
        if master == "split_round":
            high = high - (low >> 15)
        np.testing.assert_array_equal((high << 16 | low).view(F32), state["p"])


CELLS = [(rule, form) for rule in ("tiger", "tiger_sgd", "lamb", "lars", "adafactor", "muon",
                                   "adafactor_vector", "adam_mini", "schedule_free_adamw")
         for form in Rule(rule).prepares if "shrink" not in form]  # fmt: skip


@BACKENDS
@pytest.mark.parametrize("rule, form", CELLS)
def test_gradients_are_unscaled_and_steps_skipped(rule, form, backend):
    """A gradient is unscaled before norms are computed, and a skipped step changes no
    bit."""
    generator = np.random.default_rng(7)
    shape = {"tall": (24, 8), "vector": (24,), "shift": (24,), "scale": (24,)}.get(
        form, (24,) if rule.endswith("vector") else (8, 24)
    )
    defaults = {"tiger": [0.1, 0.9, 0.1, 0, 1, 0], "lars": [0.5, 0.9, 1e-2, 0.2],
                "lamb": [0.1, 0.9, 0.99, 1e-6, 0.1, 0],
                "tiger_sgd": [0.1, 0.9, 0.1, 0.5],
                "adam_mini": [0.1, 0.9, 0.99, 1e-6, 0.1],
                "schedule_free_adamw": [0.1, 0.9, 0.99, 1e-6, 0.1, 0, 0, 2],
                "muon": [0.1, 0.9, 0.1, 1, 1e-7, 0]}  # fmt: skip
    hypers = defaults.get(rule, [0.1, -0.8, 1e-7, 1e-3, 1, 0])
    plain = update_module(rule, hypers, shape, form=form)
    scaled = update_module(rule, hypers, shape, form=form, factors=2, skip=True)
    p, g = draw(generator, *shape), draw(generator, *shape)
    step = np.int64(0)
    factors = {"f0": F32(2**-10), "f1": F32(0.5)}
    wanted = run(plain, start(rule, p, form), backend, g=g, step=step)
    got = run(scaled, start(rule, p, form), backend, g=g * F32(2**11), step=step,
              skip=np.bool_(False), **factors)  # fmt: skip
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name])
    g.flat[3] = np.nan
    kept = run(scaled, got, backend, g=g, step=step, skip=np.bool_(True), **factors)
    for name in got:
        np.testing.assert_array_equal(kept[name], got[name])
