"""Compiled steps on several processes: bits, losses, and what one process computes."""

import functools

import binade
import pytest
from support import distributed_models, distributed_steps
from support.process_groups import run_processes

STATES = {
    "f32": {},
    "e4m3x": {"states": "e4m3x"},
    "dyn8": {"states": "dyn8:stochastic"},
    # Dropout, f16 with a loss scale, and clipping.
    "f16": {"policy": "fp16-amp", "clip": 0.5},
}
STEPS = 20
SCRIPT = distributed_steps.__file__

pytestmark = pytest.mark.slow  # Ten processes import PyTorch.


@pytest.fixture(scope="module", autouse=True)
def own_matmuls():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BINADE_CONTRACTION", "own")
        yield


@pytest.fixture(scope="module")
def bundles(own_matmuls, tmp_path_factory):
    """The files of compiled steps, by the format of the exchange and the states."""
    folder = tmp_path_factory.mktemp("bundles")
    model, _ = distributed_models.export_char_gpt(
        folder, layers=1, context=16, dropout=0.1
    )
    wanted = {("exact", name): STATES[name] | {"exchange": "exact"} for name in STATES}
    wanted |= {("f32", "f32"): {"exchange": "f32"}, ("none", "f32"): {}}
    found = {}
    for key, options in wanted.items():
        found[key] = folder / f"{'-'.join(key)}.bnd"
        step = binade.compile(
            model, accumulate=distributed_models.BATCHES, optimizer="adamw",
            settings={"lr": 1e-3}, threads=1, **options,
        )  # fmt: skip
        step.write(found[key])
    return found


@pytest.fixture(scope="module")
def results(bundles, tmp_path_factory):
    """Returns a function: what each rank found in a run with a number of ranks."""

    @functools.cache
    def run(world):
        keys = [key for key in bundles if key[0] != "none" or world == 1]
        runs = [
            {"model": str(bundles[key]), "steps": STEPS}
            | ({"distribute": {}} if key[0] != "none" else {})
            for key in [*keys, ("f32", "f32")]
        ]
        names = [*keys, ("again", "f32")]
        if world == 4:
            # Two groups of two processes, and an error for all four axes at once.
            runs += [runs[0] | {"mesh": [2, 2]}, runs[0] | {"mesh": [2, 2, "whole"]}]
            names += [("exact", "groups"), ("exact", "whole")]
        folder = tmp_path_factory.mktemp("results")
        found = run_processes(SCRIPT, world, {"runs": runs}, folder)
        return {key: [one[i] for one in found] for i, key in enumerate(names)}

    return run


@pytest.mark.parametrize("states", STATES)
def test_exact_sums_have_the_same_bits_on_any_number_of_ranks(states, results):
    alone = results(1)["exact", states][0]
    assert len(set(alone["hashes"])) == STEPS
    for world in (2, 3, 4):
        for found in results(world)["exact", states]:
            assert found["hashes"] == alone["hashes"], world
            assert repr(found["metrics"]) == repr(alone["metrics"]), world  # With NaN.


def test_each_group_of_a_mesh_trains_alone(results):
    alone = results(1)["exact", "f32"][0]
    for found in results(4)["exact", "groups"]:
        assert found["hashes"] == alone["hashes"]
    for found in results(4)["exact", "whole"]:
        assert "a mesh with one axis, got 2 (outer, inner)" in found["error"]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_sums_of_the_library_are_equal_on_all_ranks_and_in_each_run(world, results):
    alone = results(1)["none", "f32"][0]
    first, *others = results(world)["f32", "f32"] + results(world)["again", "f32"]
    for found in others:
        assert found["hashes"] == first["hashes"]
    for mine, expected in zip(first["metrics"], alone["metrics"]):
        assert mine["loss"] == pytest.approx(expected["loss"], abs=1e-4)
        assert mine["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-3)


def test_a_group_of_one_has_the_bits_of_a_step_without_exchange(results):
    found, expected = (results(1)[kind, "f32"][0] for kind in ("f32", "none"))
    assert found["hashes"] == expected["hashes"]
    assert found["metrics"] == expected["metrics"]


def test_exact_sums_differ_from_those_of_one_process_by_rounding_only(results):
    exact, expected = (results(1)[kind, "f32"][0] for kind in ("exact", "none"))
    for mine, theirs in zip(exact["metrics"], expected["metrics"]):
        assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-4)
    first = exact["metrics"][0]["grad_norm"]
    assert first == pytest.approx(expected["metrics"][0]["grad_norm"], rel=1e-6)
