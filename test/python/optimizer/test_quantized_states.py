"""Updates of quantized states, for every rule with every format. The rule on f32 states and
the formats in numpy give the expected values of each step. Other tests follow recorded
traces of other implementations."""

import json

import numpy as np
import pytest
from support.codec import FLOATS, GOLDEN, Format, check_state, formats, load_book
from support.golden import from_bits
from support.reference import evaluate
from support.rules import Rule, update_module

F32 = np.float32
BACKENDS = ["reference", "cpu", "simulator"]
# Values of the hyper-parameters after lr.
HYPERS = {
    "sgd": [0.9, 0, 0, 0], "adam": [0.9, 0.999, 1e-8, 0.01],
    "adamw": [0.9, 0.95, 1e-8, 0.1], "adamw_amsgrad": [0.9, 0.95, 1e-8, 0.1],
    "adamw_fused": [0.9, 0.95, 1e-8, 0.1], "adamw_hf": [0.9, 0.95, 1e-6, 0.1], "adam_onnx": [0.9, 0.95, 1e-6, 0.1, 1e-3], "rmsprop": [0.99, 1e-8, 0.01],
    "rmsprop_centered": [0.99, 1e-8, 0.0, 0.9], "adagrad": [0.1, 1e-10, 0],
    "lion": [0.9, 0.99, 0.1], "signum": [0.9, 0.1],
    "ademamix": [0.9, 0.999, 0.9999, 5.0, 1e-8, 0.01, 0, 0],
    "tiger": [0.9, 0.1, 0, 0.9, 0], "tiger_sgd": [0.9, 0.1, 0.5], "lamb": [0.9, 0.99, 1e-6, 0.1, 0],
    "lars": [0.9, 0.1, 0.02], "adafactor_vector": [-0.8, 1e-7, 1e-3, 1, 0],
    "muon": [0.9, 0.1, 1, 1e-7, 0], "adam_mini": [0.9, 0.95, 1e-8, 0.1],
    "schedule_free_adamw": [0.9, 0.999, 1e-8, 0.1, 2, 0, 2],
}  # fmt: skip
# States that are never negative.
UNSIGNED = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "variance")
PAIRS = [("e4m3", "f32"), ("dyn8", "e4m3x")]
# Formats whose kinds of elements, scales and powers are tested by the other formats.
SIMILAR = ("e5m2", "e5m2x", "dyn8x", "dyn8-2048", "softsign8-sqrt")


def as_inputs(index, form, parts, shape):
    """Returns the parts of a state by name, with the types of the module."""
    if not form:
        return {f"s{index}": parts[0]}
    typed = {f"s{index}.{part}": value for part, value in enumerate(parts)}
    element = np.int8 if form.is_book else FLOATS[form.element]
    codes = parts[0].view(element)
    whole = codes.size == np.prod(shape)  # Otherwise two elements share a byte.
    typed[f"s{index}.0"] = codes.reshape(shape) if whole else codes
    return typed


def start(kept, shapes):
    return [form.start(np.prod(shape)) if form else [np.zeros(shape, F32)]
            for form, shape in zip(kept, shapes)]  # fmt: skip


def decode(kept, parts, shapes):
    return [form.decode(part, np.prod(shape)).reshape(shape) if form else part[0]
            for form, part, shape in zip(kept, parts, shapes)]  # fmt: skip


def run_step(module, kept, parts, p, g, step, backend, **more):
    inputs = {"p": p, "g": g, "step": np.int64(step), **more}
    for index, (form, part) in enumerate(zip(kept, parts)):
        inputs |= as_inputs(index, form, part, p.shape)
    outputs = evaluate(module, inputs, "--function", "step", "--backend", backend)
    new = []
    for index, (form, part) in enumerate(zip(kept, parts)):
        if not form:
            new.append([outputs[f"s{index}"]])
            continue
        new.append([outputs[f"s{index}.{i}"] for i in range(len(part))])
        new[-1][0] = new[-1][0].ravel().view(form.word)
    return outputs["p"], new


def cells(rule, whole, similar):
    """Yields each format for all states, and pairs of formats. States that are not `whole`
    use f32. `similar` selects the formats of SIMILAR or the others."""
    signs = [name not in UNSIGNED for name in Rule(rule).states]
    names = [name for name in formats(True)
             if name != "f32" and (name in SIMILAR) == similar]  # fmt: skip
    pairs = PAIRS if len(signs) > 1 and not similar else []
    for name, *rest in [(name,) for name in names] + pairs:
        kept = [formats(signed)[rest[0] if i and rest else name]
                for i, signed in enumerate(signs)]  # fmt: skip
        yield (
            "+".join([name, *rest]),
            [form if full else None for form, full in zip(kept, whole)],
        )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", HYPERS)
def test_every_rule_with_every_format_on_one_backend(rule, backend):
    """Every third format; the other backends test the others."""
    first = (list(HYPERS).index(rule) + BACKENDS.index(backend)) % len(BACKENDS)
    check_rule(rule, backend, slice(first, None, len(BACKENDS)))


@pytest.mark.nightly
@pytest.mark.parametrize("similar", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", HYPERS)
def test_every_rule_with_every_format(rule, backend, similar):
    check_rule(rule, backend, slice(None), similar)


def check_rule(rule, backend, selected, similar=False):
    """Checks the `selected` cells of the rule, a slice of them."""
    # For each group size, the last group is partial.
    shape = (25, 100) if rule in ("muon", "adam_mini") else (2500,)
    prepare = "" if Rule(rule).prepares else None
    shapes = Rule(rule).state_shapes(shape, prepare)
    hypers = [0.01, *HYPERS[rule]]
    plain = update_module(rule, hypers, shape, form=prepare)
    none = [None] * len(shapes)
    whole = [own == shape for own in shapes]
    for name, kept in list(cells(rule, whole, similar))[selected]:
        generator = np.random.default_rng(3)
        p = generator.standard_normal(shape).astype(F32)
        module = update_module(rule, hypers, shape, kept, prepare)
        parts = start(kept, shapes)
        for step in range(3):
            g = (generator.standard_normal(shape) * 1e-3).astype(F32)
            g *= np.exp(2 * generator.standard_normal(shape)).astype(F32)
            g[generator.random(shape) < 0.05] = 0
            before = [[state] for state in decode(kept, parts, shapes)]
            wanted, states = run_step(plain, none, before, p, g, step, "reference")
            p, parts = run_step(module, kept, parts, p, g, step, backend)
            rtol = 1e-5 if any(form and form.expand for form in kept) else 1e-6
            # Muon computes in bf16, whose last bit causes such errors.
            atol = 1e-4 if rule == "muon" else 1e-6
            np.testing.assert_allclose(p, wanted, rtol=rtol, atol=atol, err_msg=name)
            for form, part, (state,) in zip(kept, parts, states):
                if form is None:
                    np.testing.assert_allclose(part[0], state, rtol=1e-5, atol=1e-12)
                    continue
                check_state(form, part, state.ravel(), name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["e4m3x", "dyn8", "dyn4", "softsign8"])
def test_a_skipped_step_changes_no_bit(name, backend):
    size = 700
    kept = [formats(signed)[name] for signed in (True, False)]
    hypers = [0.01, *HYPERS["adamw"]]
    module = update_module("adamw", hypers, size, kept, skip=True)
    generator = np.random.default_rng(5)
    p, g = (generator.standard_normal(size).astype(F32) for _ in range(2))
    go, stop = np.bool_(False), np.bool_(True)
    p, parts = run_step(
        module, kept, start(kept, [(size,)] * 2), p, g, 0, backend, skip=go
    )
    g[7] = np.nan
    again, after = run_step(module, kept, parts, p, g, 1, backend, skip=stop)
    np.testing.assert_array_equal(again, p)
    for before, now in zip(parts, after):
        for mine, theirs in zip(now, before):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_trace_of_adamw_with_expanded_states(backend):
    trace = json.loads((GOLDEN / "coat.json").read_text())["cases"]["adamw_trace"]
    kept = [Format("f8E4M3FN", 128, expand=True)] * 2
    hypers = [trace["lr"], *trace["betas"], trace["eps"], trace["wd"]]
    module = update_module("adamw", hypers, 128, kept)
    p, parts = from_bits(trace["param0"]), start(kept, [(128,)] * 2)
    for step, record in enumerate(trace["steps"]):
        p, parts = run_step(
            module, kept, parts, p, from_bits(record["grad"]), step, backend
        )
        np.testing.assert_array_max_ulp(p, from_bits(record["param"]), maxulp=4)
        for part, codes, power in zip(parts, ("m_codes", "v_codes"), ("k_m", "k_v")):
            assert part[2] == F32(record[power])
            apart = part[0].astype(int) - np.array(record[codes])
            assert np.abs(apart).max() <= 1 and (apart != 0).mean() < 0.02


@pytest.mark.parametrize("backend", BACKENDS)
def test_trace_of_8_bit_adam(backend):
    trace = json.loads((GOLDEN / "bnb8.json").read_text())["cases"]["adam8"]
    kept = [
        Format(load_book(f"bnb_dynamic_{kind}"), 256) for kind in ("signed", "unsigned")
    ]
    hyper = trace["hyper"]
    module = update_module(
        "adamw", [hyper["lr"], *hyper["betas"], hyper["eps"], hyper["wd"]], 256, kept
    )
    p, parts = from_bits(trace["param0"]), start(kept, [(256,)] * 2)
    for step, record in enumerate(trace["steps"]):
        p, parts = run_step(
            module, kept, parts, p, from_bits(record["grad"]), step, backend
        )
        # bitsandbytes decays weights after the update, AdamW before it.
        np.testing.assert_allclose(p, from_bits(record["param"]), rtol=1e-6, atol=1e-7)
        for part, key in zip(parts, "12"):
            np.testing.assert_allclose(
                part[1], from_bits(record[f"absmax{key}"]), rtol=1e-6
            )
            apart = part[0].astype(int) - np.array(record[f"c{key}"])
            assert np.abs(apart).max() <= 1 and (apart != 0).mean() < 0.02


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["e4m3", "dyn8"])
def test_quantized_values_equal_those_of_the_quotient(name, backend):
    form = formats(True)[name]
    generator = np.random.default_rng(7)
    groups = 512
    # Scales over the whole range, and elements next to ties between quantized values.
    exponents = np.linspace(-126, 127, groups).astype(int)[:, None]
    bits = generator.integers(0, 1 << 23, (groups, 1))
    x = np.zeros((groups, form.group), F32)
    x[:, :1] = np.ldexp(1 + bits / 2**23, exponents)
    scale = form.choose(x.ravel())[0][:, None]
    values = form.decode([np.arange(256, dtype=np.uint8), np.ones(2, F32)], 256)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    x[:, 1:] = generator.choice(middles, (groups, form.group - 1)) * scale
    near = generator.integers(-1, 2, x.shape).astype(np.int32)
    near[:, 0] = 0
    x = (x.view(np.int32) + np.where(x == 0, 0, near)).view(F32).ravel()
    module = update_module("sgd", [0.0, 0.0, 0, 0, 0], x.size, [form])
    parts = start([form], [x.shape])
    _, (part,) = run_step(module, [form], parts, np.zeros_like(x), x, 1, backend)
    kept = F32(0) + x  # Momentum loses the sign of zero.
    np.testing.assert_array_equal(part[1], form.choose(kept)[0])
    codes = form.round(form.scaled(kept, part[1:]))
    np.testing.assert_array_equal(form.unpack(part[0], x.size), codes)
