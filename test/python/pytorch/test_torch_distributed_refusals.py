"""Ranks that differ, gradients that are not finite, and arguments that are refused."""

import pathlib

import binade
import binade.torch
import pytest
from binade.errors import UsageError
from support import distributed_models, distributed_steps
from support.process_groups import run_processes

SCRIPT = distributed_steps.__file__
WORLD = 3
COUNT = distributed_models.BATCHES
# What rank 2 compiles or loads in another way, and the property and both values of the error.
COMPILED = {
    "policy": ({"policy": "bf16-amp"}, "policy", "bf16-amp", "fp16-amp"),
    "accumulate": ({"accumulate": 24}, "number of micro-batches", "24", "12"),
    "optimizer": ({"optimizer": "lion"}, "setting beta2", "0.99", "0.999"),
    "exchange": ({"exchange": "f32"}, "format of the exchange", "f32", "exact"),
    "batch": ({"batch": 4}, "shape of input 'x'", "[4, 16]", "[8, 16]"),
}
LOADED = {
    "seed": ({"seed": 7}, "seed", "7", "0"),
    "settings": ({"settings": {"lr": 0.5}}, "setting lr", "0.5", "0.001"),
    "schedule": ({"schedule": "linear", "steps": 9}, "schedules", "linear", "none"),
}
DIFFERENCES = COMPILED | LOADED
POISONS = [
    (rank, value) for rank in range(WORLD) for value in ("nan", "inf")
]  # fmt: skip


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """The files of compiled steps, by what is different in them."""
    folder = tmp_path_factory.mktemp("bundles")
    found = {}
    for name, change in {"base": ({},), **COMPILED}.items():
        options = {"accumulate": COUNT, "policy": "fp16-amp", "exchange": "exact"}
        options |= {"settings": {"lr": 1e-3}, "threads": 1} | change[0]
        inner = folder / name
        inner.mkdir()
        model = distributed_models.export_mlp(inner, options.pop("batch", 8))
        binade.compile(model, **options).write(inner / "step.bnd")
        found[name] = str(inner / "step.bnd")
    return found


@pytest.fixture(scope="module")
def results(bundles, tmp_path_factory):
    """What each rank found, by the name of the run."""
    base = {"model": bundles["base"], "distribute": {}}
    runs = {
        name: base | {"of_rank": {"2": {"model": bundles[name]}}} for name in COMPILED
    }
    for name, change in LOADED.items():
        runs[name] = base | {"of_rank": {"2": {"options": change[0]}}}
    runs["plain"] = base | {"steps": 3}
    for rank, value in POISONS:
        # A batch of this rank, in the second step.
        number = COUNT + rank * COUNT // WORLD + 1
        runs[f"{rank} {value}"] = base | {"steps": 3, "poison": [[number, value]]}
    # Last, because the version stays.
    version = [["binade.torch.distributed.identity.__version__", "0.0.7"]]
    runs["version"] = base | {"of_rank": {"2": {"patch": version}}}
    folder = tmp_path_factory.mktemp("results")
    found = run_processes(SCRIPT, WORLD, {"runs": [*runs.values()]}, folder)
    return {name: [one[i] for one in found] for i, name in enumerate(runs)}


def check_refusal(found, property, other, first):
    for one in found:  # All ranks end with the same error.
        assert one["exit_code"] == 2
        assert f"rank 2 differs from rank 0: the {property}" in one["error"]
        assert f"{other}" in one["error"].partition("on rank 2")[0]
        assert f"{first}" in one["error"].partition("on rank 2")[2]


@pytest.mark.parametrize("name", DIFFERENCES)
def test_ranks_that_differ_are_refused_with_both_values(name, results):
    _, property, other, first = DIFFERENCES[name]
    check_refusal(results[name], property, other, first)


def test_another_version_is_refused(results):
    check_refusal(results["version"], "version of Binade", "0.0.7", "0.1")


@pytest.mark.parametrize("rank, value", POISONS)
def test_a_gradient_that_is_not_finite_skips_the_step_on_all_ranks(
    rank, value, results
):
    first, *others = results[f"{rank} {value}"]
    plain = results["plain"][0]
    for other in others:
        assert other["hashes"] == first["hashes"]
    assert [one["skipped"] for one in first["metrics"]] == [False, True, False]
    # The weights and states of the step before; the loss scale is halved.
    assert first["hashes"][0] == plain["hashes"][0]
    scales = [one["scale_after"] for one in first["metrics"]]
    assert scales == [65536, 32768, 32768]
    assert first["unchanged"] == [False, True, False]


@pytest.mark.parametrize("arguments, words", [
    ({"shard": "rows"}, "shard is 'none' or 'zero1'"),
    ({"reduce": "sum"}, "'library' or 'exact'"),
    ({"reduce": "library"}, "exchange='f32'"),
    ({"group": 3}, "init_process_group"),
])  # fmt: skip
def test_arguments_are_checked(arguments, words, bundles):
    step = binade.load(bundles["base"])
    with pytest.raises(UsageError, match=words):
        binade.torch.distribute(step, **arguments)


def test_a_step_without_exchange_is_refused(bundles):
    model = pathlib.Path(bundles["base"]).with_name("mlp.onnx")
    with pytest.raises(UsageError, match="compile it with exchange='f32'"):
        binade.torch.distribute(binade.compile(model))


def test_a_group_of_one_needs_no_process_group(bundles):
    step = binade.torch.distribute(binade.load(bundles["base"]))
    assert (step.rank, step.size, step.share) == (0, 1, range(COUNT))
    metrics = step(step.take(lambda n: distributed_models.make_batch(step.batch, n)))
    assert metrics.loss > 0 and not metrics.skipped
