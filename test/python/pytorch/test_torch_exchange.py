"""Weights that FSDP2 gathers in 8 bits: one process that computes with weights rounded by
ml_dtypes gives the expected losses, gradients and parameters, bit for bit.
"""

import functools
import types

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from support import exchange_steps, exchange_truth
from support.process_groups import run_processes

LINEAR = ("0.up.weight", "0.down.weight", "1.up.weight", "1.down.weight", "2.weight")
E4M3 = {"gather": "e4m3-tensor", "reduce": "f32", "steps": 3}
MIXED = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
DYN8 = {"optimizer": "AdamW", "settings": {"lr": 0.01, "states": "dyn8"}}
ADAM = {"optimizer": "torch.AdamW", "settings": {"lr": 0.01}}
CHANGES = {  # Of a run of two processes.
    "e4m3": {},
    "e5m2": {"gather": "e5m2-tensor"},
    "power": {"gather": "e4m3-power"},
    "mixed": MIXED,
    "bf16": {"dtype": "bfloat16", "steps": 1},
    "adam": ADAM,
    "frozen": {"frozen": ["0.up.weight", "2.bias"]},
    "some": {"select": {"include": "*.up.weight", "exclude": ["1.*"]}, "selected": 1},
    "accumulated": {"batches": 2},
    "zeros": {"values": {"0.up.weight": [0, "3.0"]}},
    "infinite": {"values": {"0.up.weight": [7, "inf"]}},
    "nan": {"values": {"0.up.weight": [7, "nan"]}},
    # These have the bits of "e4m3".
    "reshard": {"reshard": True},
    "keep": {"reshard": False},
    "checkpointing": {"checkpointing": True},
    "prefetch": {"prefetch": True},
    "async": {"unshard": "async"},
    "method": {"method": True},
    "grouped": {"grouped": True},
    "columns": {"columns": True},
    "meta": {"meta": True, "unshard": True},
    "assign": {"assign": True, "unshard": True},
    "evaluate": {"evaluate": True},
    "fail": {"fail": True},
    "unshard": {"unshard": True},
}
SAME = [*CHANGES][[*CHANGES].index("reshard") :]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exchange")


@pytest.fixture(scope="module")
def run_all(folder):
    """Returns what the processes of a group found in runs by name."""

    @functools.cache
    def run(world, *names):
        runs = [RUNS[name] | {} for name in names]
        for one in runs:
            if one.get("save"):
                one["save"] = str(folder / one["save"])
        given = {"runs": runs}
        place = folder / f"{world}-{'-'.join(names)[:40]}"
        found = run_processes(exchange_steps.__file__, world, given, place)
        return {name: [one[i] for one in found] for i, name in enumerate(names)}

    return run


COMPILED = {"parts": {"compile": True}, "whole": {"compile": "whole"}}
RUNS = {name: E4M3 | change for name, change in (CHANGES | COMPILED).items()} | {
    "plain": {"steps": 3},
    "mesh": E4M3 | DYN8 | {"equal": True},
    "saved": E4M3 | {"save": "checkpoint"},
    "train": {"steps": 60, "cycle": 3, **ADAM},
    "train-e4m3": {"steps": 60, "cycle": 3, **ADAM, "gather": "e4m3-tensor"},
    "hsdp": E4M3 | {"mesh": [2, 2], "equal": True},
    "tensor": {
        "gather": "e4m3-tensor",
        "mesh": [2, 2],
        "equal": True,
        "tensor": True,
        "hidden": 128,
    },
}
FOUR = ("mesh", "hsdp", "tensor")


@pytest.fixture(scope="module")
def two(run_all):
    return run_all(2, *CHANGES, "plain", "saved", "train", "train-e4m3", "mesh")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def add_in_order(gradients, kind):
    """Returns the mean of gradients that are reduced in a type: sums in f32, in the order
    of the ranks."""
    total = gradients[0].to(kind).float()
    for gradient in gradients[1:]:
        total = total + gradient.to(kind).float()
    return (total / len(gradients)).to(kind)


def train_alone(given, world):
    """Returns what one process finds that computes the gradients of all processes, with
    weights that are rounded in ml_dtypes."""
    kind = getattr(torch, given.get("dtype", "float32"))
    compute = getattr(torch, given.get("param_dtype", str(kind).removeprefix("torch.")))
    reduce = getattr(
        torch, given.get("reduce_dtype", str(compute).removeprefix("torch."))
    )
    hidden = given.get("hidden", exchange_steps.HIDDEN)
    model = exchange_steps.make_model(hidden).to(kind)
    exchange_steps.set_values(model, given.get("values"))
    for name in given.get("frozen", ()):
        model.get_parameter(name).requires_grad_(False)
    optimizer = exchange_steps.make_optimizer(model, given)
    rounded = ("0.up.weight",) if "select" in given else LINEAR
    found = types.SimpleNamespace(losses=[], weights={}, gradients={})
    batches = given.get("batches", 1)
    for step in range(given["steps"]):
        values = {
            name: exchange_truth.round_trip(p, given["gather"]) if name in rounded
            else p.detach().clone()
            for name, p in model.named_parameters()
        }  # fmt: skip
        values = {name: value.to(compute) for name, value in values.items()}
        found.weights = found.weights or {n: values[n].clone() for n in LINEAR}
        parts = []
        for rank in range(world):
            own = {
                name: value.clone().requires_grad_(
                    model.get_parameter(name).requires_grad
                )
                for name, value in values.items()
            }
            for batch in range(batches):
                x, y = exchange_steps.make_batch(step * batches + batch, rank)
                output = torch.func.functional_call(model, own, (x.to(compute),))
                loss = exchange_steps.get_loss(output, y)
                loss.backward()
                found.losses.append((rank, loss.item()))
            parts.append({name: value.grad for name, value in own.items()})
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                terms = [part[name] for part in parts]
                parameter.grad = add_in_order(terms, reduce).to(kind)
                if not step:
                    found.gradients[name] = parameter.grad.clone()
        optimizer.step()
    found.parameters = {n: p.detach() for n, p in model.named_parameters()}
    return found


def assert_equal(found, expected):
    """Equal bits; NaN equals NaN."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        np.testing.assert_array_equal(
            found[name].double().numpy(), value.double().numpy(), err_msg=name
        )
        isUsual = ~value.isnan()
        assert torch.equal(found[name].signbit()[isUsual], value.signbit()[isUsual]), (
            name
        )


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in SAME])
def test_two_processes_compute_with_the_rounded_weights(name, two):
    expected = train_alone(RUNS[name], 2)
    for rank, found in enumerate(two[name]):
        assert_equal(found["weights"], expected.weights)
        assert_equal(found["gradients"], expected.gradients)
        if name != "bf16":  # PyTorch's update of a bf16 tensor depends on its size.
            assert_equal(found["parameters"], expected.parameters)
        losses = [loss for own, loss in expected.losses if own == rank]
        np.testing.assert_array_equal(found["losses"], losses)


@pytest.mark.parametrize("name", [
    *SAME, *(pytest.param(name, marks=pytest.mark.slow) for name in COMPILED)
])  # fmt: skip
def test_how_fsdp2_runs_the_module_changes_no_bit(name, two, run_all):
    changed = run_all(2, *COMPILED) if name in COMPILED else two
    for found, expected in zip(changed[name], two["e4m3"], strict=True):
        assert found["losses"] == expected["losses"]
        for part in ("weights", "gradients", "parameters"):
            assert_equal(found[part], expected[part])


def test_values_that_are_not_finite(two):
    """One is not finite in all processes, and other weights stay as they are."""
    for found in two["infinite"]:
        assert found["weights"]["0.up.weight"].view(-1)[7] == 448
        assert found["parameters"]["0.up.weight"].view(-1)[7] == torch.inf
    for found in two["nan"]:
        weight = found["weights"]["0.up.weight"].view(-1)
        assert weight[7].isnan() and weight.isnan().sum() == 1


@pytest.mark.parametrize("world", [
    1, 2, 3, pytest.param(4, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_weights_do_not_depend_on_the_mesh(world, run_all, two):
    """Nor do states and parameters, if sums of equal gradients are exact."""
    expected = train_alone(RUNS["mesh"] | {"optimizer": "torch.SGD", "settings": {}}, 1)
    alone = run_all(1, "mesh")["mesh"][0]
    assert alone["states"]["0.up.weight exp_avg"].dtype == torch.int8
    names = FOUR if world == 4 else ("mesh",)
    for found in (two if world == 2 else run_all(world, *names))["mesh"]:
        assert_equal(found["weights"], expected.weights)
        assert found["losses"][0] == expected.losses[0][1]
        if world != 3:
            assert found["losses"] == alone["losses"]
            assert_equal(found["parameters"], alone["parameters"])
            assert_equal(found["states"], alone["states"])


@pytest.mark.slow
def test_replicas_of_shards_compute_with_the_same_weights(run_all):
    expected = train_alone(RUNS["hsdp"] | {"equal": True}, 1)
    for found in run_all(4, *FOUR)["hsdp"]:
        assert_equal(found["weights"], expected.weights)
        np.testing.assert_array_equal(
            found["losses"], [loss for _, loss in expected.losses]
        )


@pytest.mark.slow
def test_scales_are_those_of_whole_weights_with_tensor_parallelism(run_all):
    expected = train_alone(RUNS["tensor"] | {"steps": 1}, 1)
    for found in run_all(4, *FOUR)["tensor"]:
        assert_equal(found["weights"], expected.weights)
        assert found["losses"][0] == pytest.approx(expected.losses[0][1], rel=1e-5)


def test_weights_take_a_byte_each(two):
    """An all-gather writes the padded parts of all processes: codes of weights, and biases
    in the type in which they are used."""
    sizes = [(129, 32), (32, 129)] * 2 + [(5, 32)]
    weights = sum(2 * -(-rows // 2) * columns for rows, columns in sizes)
    biases = sum(2 * -(-rows // 2) for rows, _ in sizes)
    root = 6 * 32 + 6 * 4  # The root keeps its weights for the backward pass.
    for name, width in (("e4m3", 4), ("mixed", 2)):
        for calls, size in (one["counts"][1] for one in two[name]):
            once = weights + width * biases
            again = once - (root if width == 4 else 6 * 32 + 6 * 2)
            assert size["all_gather_single"] == once + again
            assert calls["all_gather_single"] == 5
            # The scales of all weights, for forward and backward pass.
            assert (calls["all_reduce"], size["all_reduce"]) == (1, 5 * 4)
    plain = two["plain"][0]["counts"][1][1]["all_gather_single"]
    narrow = two["e4m3"][0]["counts"][1][1]["all_gather_single"]
    assert 3.5 < plain / narrow < 4


def test_codes_are_freed_when_weights_are_dequantized(two):
    """In the run that keeps all weights for the backward pass."""
    assert [found["codes"] for found in two["keep"]] == [0, 0]


def test_checkpoints_have_the_parameters_in_full(two, folder):
    model = exchange_steps.make_model()
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=folder / "checkpoint", no_dist=True)
    assert_equal(state["model"], two["saved"][0]["parameters"])
    assert_equal(state["model"], two["e4m3"][0]["parameters"])
    rounded = exchange_truth.round_trip(state["model"]["0.up.weight"], "e4m3-tensor")
    assert not torch.equal(rounded, state["model"]["0.up.weight"])


def test_training_converges_as_without_codes(two):
    narrow, plain = two["train-e4m3"][0]["losses"], two["train"][0]["losses"]
    assert plain[0] > 1.5 and np.mean(plain[-3:]) < 0.1
    assert np.mean(narrow[-3:]) == pytest.approx(np.mean(plain[-3:]), abs=0.05)
