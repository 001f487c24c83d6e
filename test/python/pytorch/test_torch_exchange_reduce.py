"""Gradients that FSDP2 reduces in a format: ml_dtypes rounds what each process sends, and
PyTorch adds it in the order of the ranks, which gives the expected bits.
"""

import functools

import numpy as np
import pytest
import torch
from support import exchange_reductions, exchange_steps, exchange_truth
from support.process_groups import run_processes

FORMATS = ("f32", "bf16", "f16", "e4m3", "e5m2")
# The order of sums matters for three terms at least.
WORLDS = pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.slow), 3])
SUMS = [{"format": form, "size": size} for form in FORMATS for size in (1, 128, 1000)]
SUMS += [
    {"format": "f32", "size": 0},
    {"format": "f32", "size": 1000, "op": "AVG"},
    {"format": "e5m2", "size": 1000, "op": "AVG"},
    {"format": "e4m3", "size": 129, "op": "PREMUL_SUM", "factor": 0.3},
    {"format": "f32", "size": 127, "dtype": "bfloat16", "op": "AVG"},
    {"format": "bf16", "size": 127, "dtype": "bfloat16"},
    {"format": "f16", "size": 127, "dtype": "bfloat16"},
    {"format": "e4m3", "size": 257, "dtype": "float16"},
    {"format": "e4m3", "size": 300, "change": [1, 200, "nan"]},
    {"format": "e5m2", "size": 300, "change": [0, 200, "inf"]},
    {"format": "f32", "size": 300, "change": [0, 200, "-inf"]},
]
# Factors as FSDP2 asks for them: what terms are multiplied by, and what sums are divided by.
TRAINED = {
    **{form: {"reduce": form} for form in FORMATS},
    "divide": {"reduce": "f32", "divide": 6.0},
    "sums": {"reduce": "e5m2", "sums": True},
    "f16 gradients": {
        "reduce": "f16", "param_dtype": "float32", "reduce_dtype": "float16"
    },
    "bf16 gradients": {
        "reduce": "e4m3", "param_dtype": "bfloat16", "reduce_dtype": "float32"
    },
}  # fmt: skip
LONG = {"steps": 60, "cycle": 3, "optimizer": "torch.AdamW", "settings": {"lr": 0.01}}
MORE = {  # On two processes.
    "plain": {},
    "long": LONG,
    "long-e5m2": LONG | {"reduce": "e5m2"},
    "overflow": {
        "reduce": "e5m2", "gather": "e4m3-tensor", "steps": 3, "overflow": [1, 1],
        "optimizer": "AdamW", "settings": {"lr": 0.01, "states": "dyn8"},
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def sums(tmp_path_factory):
    """Returns a function: what the processes of a group found."""

    @functools.cache
    def run(world):
        script = exchange_reductions.__file__
        folder = tmp_path_factory.mktemp("sums")
        return run_processes(script, world, {"runs": SUMS}, folder)

    return run


def list_terms(given, world, part):
    """Returns what each process sends to one of them."""
    rows = (exchange_reductions.make_terms(given, r, world) for r in range(world))
    return [row.view(world, -1)[part] for row in rows]


def add_in_order(terms, form, factor=None, divisor=None):
    """Returns the sum of what arrives, in f32."""
    total = None
    for term in terms:
        isExact = form == "f32" or (form, term.dtype) == ("bf16", torch.bfloat16)
        arrived = term.float() if isExact else exchange_truth.round_trip(term, form)
        if factor is not None:
            arrived = arrived * torch.tensor(factor, dtype=torch.float32)
        total = arrived if total is None else total + arrived
    return total if divisor is None else total / divisor


@WORLDS
@pytest.mark.parametrize("case", range(len(SUMS)), ids=map(str, SUMS))
def test_sums_are_those_of_what_was_sent(case, world, sums):
    given = SUMS[case]
    for part, found in enumerate(sums(world)):
        terms = list_terms(given, world, part)
        divisor = world if given.get("op") == "AVG" else None
        expected = add_in_order(terms, given["format"], given.get("factor"), divisor)
        np.testing.assert_array_equal(
            found[case].float().numpy(), expected.to(found[case].dtype).float().numpy()
        )
        if given["format"] == "f32" and given["size"] and "op" not in given:
            whole = terms[0]
            for term in terms[1:]:
                whole = whole + term
            np.testing.assert_array_equal(found[case].numpy(), whole.numpy())


@WORLDS
@pytest.mark.parametrize("form, relative, absolute", [
    ("e4m3", 2.0**-4, 2.0**-10), ("e5m2", 2.0**-3, 2.0**-17),
])  # fmt: skip
def test_errors_are_within_half_a_unit_of_the_format(
    form, relative, absolute, world, sums
):
    """Each term errs by half the distance of two values of its group, at most."""
    case = SUMS.index({"format": form, "size": 1000})
    largest = {"e4m3": 448.0, "e5m2": 57344.0}[form]
    for part, found in enumerate(sums(world)):
        terms = list_terms(SUMS[case], world, part)
        bound = torch.zeros(1000, dtype=torch.float64)
        for term in terms:
            scale = torch.zeros(1000)
            for begin in range(0, 1000, 128):
                group = term[begin : begin + 128]
                scale[begin : begin + 128] = group.abs().max() / largest
            bound += torch.maximum(term.abs() * relative, scale * absolute).double()
        exact = torch.stack(terms).double().sum(0)
        error = (found[case].double() - exact).abs()
        assert (error <= bound * (1 + 2.0**-20)).all()
        assert error.max() > 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a function: what the processes of a group found in a run."""

    @functools.cache
    def run_all(world):
        runs = TRAINED | (MORE if world == 2 else {})
        script = exchange_steps.__file__
        folder = tmp_path_factory.mktemp("trained")
        found = run_processes(script, world, {"runs": [*runs.values()]}, folder)
        return {name: [one[i] for one in found] for i, name in enumerate(runs)}

    return lambda world, name: run_all(world)[name]


def compute_gradients(given, rank):
    """Returns the gradients of one process by name."""
    model = exchange_steps.make_model()
    compute = getattr(torch, given.get("param_dtype", "float32"))
    model.to(compute)
    x, y = exchange_steps.make_batch(0, rank)
    exchange_steps.get_loss(model(x.to(compute)), y).backward()
    kind = getattr(torch, given.get("reduce_dtype", "float32"))
    return {name: p.grad.to(kind) for name, p in model.named_parameters()}


def flatten(gradients, world):
    """Returns the parts of a message for each process, as FSDP2 divides rows, with
    padding."""
    parts = []
    for gradient in gradients:
        rows = -(-len(gradient) // world)
        padded = gradient.new_zeros((rows * world, *gradient.shape[1:]))
        padded[: len(gradient)] = gradient
        parts.append(padded.view(world, -1))
    return torch.cat(parts, dim=1)


def unflatten(message, like, world):
    """The inverse of `flatten`."""
    found, begin = [], 0
    for gradient in like:
        size = -(-len(gradient) // world) * gradient[0].numel()
        part = message[:, begin : begin + size].reshape(-1, *gradient.shape[1:])
        found.append(part[: len(gradient)])
        begin += size
    return found


def reduce_alone(given, world):
    """Returns the reduced gradients, computed by one process."""
    every = [compute_gradients(given, rank) for rank in range(world)]
    before, factor, divisor, after = None, None, world, None
    if "divide" in given:
        factor, divisor = 1 / given["divide"], None
        if given["divide"] == world:
            factor, divisor = None, world
    if given.get("sums"):
        divisor, after = None, world
    if given.get("reduce_dtype") == "float16":
        before, divisor, after = 2, None, world / 2
    found = {}
    for prefix in ("0.", "1.", "2."):
        names = [name for name in every[0] if name.startswith(prefix)]
        messages = [flatten([own[name] for name in names], world) for own in every]
        if before:
            messages = [message / before for message in messages]
        reduced = torch.stack([
            add_in_order([message[part] for message in messages], given["reduce"],
                         factor, divisor).to(messages[0].dtype)
            for part in range(world)
        ])  # fmt: skip
        if after:
            reduced = reduced / after
        like = [every[0][name] for name in names]
        found.update(zip(names, unflatten(reduced.float(), like, world)))
    return found


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("name", TRAINED)
def test_fsdp2_reduces_in_the_format(name, world, trained):
    expected = reduce_alone(TRAINED[name], world)
    for found in trained(world, name):
        assert set(found["gradients"]) == set(expected)
        for key, gradient in expected.items():
            np.testing.assert_array_equal(
                found["gradients"][key].numpy(), gradient.numpy(), err_msg=key
            )


def test_gradients_take_a_byte_each(trained):
    """A message has a scale of four bytes for each group of 128 elements."""
    sizes = [(129, 32), (129,), (32, 129), (32,)], [(5, 32), (5,)]
    parts = [
        sum(-(-shape[0] // 2) * int(np.prod(shape[1:])) for shape in group)
        for group in (sizes[0], sizes[0], sizes[1])
    ]
    groups = [-(-part // 128) for part in parts]
    for name, width in (("f32", 4), ("bf16", 2)):
        ((calls, size),) = trained(2, name)[0]["counts"]
        assert size["all_to_all_single"] == 2 * width * sum(parts)
        assert (calls["all_to_all_single"], "reduce_scatter_single" in calls) == (
            3,
            False,
        )
    for name in ("e4m3", "e5m2"):
        ((_, size),) = trained(2, name)[0]["counts"]
        assert size["all_to_all_single"] == 2 * 132 * sum(groups)


def test_exact_sums_are_those_of_pytorch(trained):
    """Two terms have one sum in any order."""
    for name, gradient in trained(2, "plain")[0]["gradients"].items():
        assert torch.equal(trained(2, "f32")[0]["gradients"][name], gradient), name


def test_a_gradient_that_is_not_finite_skips_the_step(trained):
    """In all processes, although one of them has it."""
    for found in trained(2, "overflow"):
        assert found["skipped"] == [False, True, False]
        for value in found["parameters"].values():
            assert value.isfinite().all()


def test_training_converges_as_in_f32(trained):
    narrow, plain = (trained(2, name)[0]["losses"] for name in ("long-e5m2", "long"))
    assert plain[0] > 1.5 and np.mean(plain[-3:]) < 0.1
    assert np.mean(narrow[-3:]) == pytest.approx(np.mean(plain[-3:]), abs=0.05)
