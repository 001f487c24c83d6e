"""Sharded optimizer states: the bits and files of steps that do not, and memory."""

import functools
import itertools
import json

import binade
import pytest
from support import distributed_models, distributed_steps, reference
from support.process_groups import run_processes

COUNT = distributed_models.BATCHES
# Formats of states, kinds of master weights, and formats of exchanged gradients. With clipping
# and dropout, so that the norm and random numbers of all gradients count.
MASTERS = "name: {0}\nextends: bf16-amp\nrules:\n- {{ match: {{ op: optimizer_update }}, parameter: bf16, master: {0} }}\n"
STEPS = {
    "f32": {"clip": 0.5},
    "f32 sums": {"exchange": "f32"},
    "dyn8": {"states": "dyn8:stochastic"},
    "e4m3x": {"states": "e4m3x"},
    "split_round": {},
    "kahan": {},
}
SHORT = ("f32", "f32 sums", "dyn8", "kahan")
SCRIPT = distributed_steps.__file__
ZERO1 = {"shard": "zero1"}

pytestmark = pytest.mark.slow  # Twelve processes import PyTorch.


@pytest.fixture(scope="module", autouse=True)
def own_matmuls():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BINADE_CONTRACTION", "own")
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shards")


@pytest.fixture(scope="module")
def bundles(own_matmuls, folder):
    """The files of compiled steps, of a model with 16 blocks of 16,384 elements or less."""
    model, _ = distributed_models.export_char_gpt(
        folder, layers=1, context=16, dropout=0.1
    )
    found = {}
    for name, options in STEPS.items():
        given = {"exchange": "exact", "settings": {"lr": 1e-3}, **options}
        if name in ("split_round", "kahan"):
            given["policy"] = str(folder / f"{name}.yaml")
            (folder / f"{name}.yaml").write_text(MASTERS.format(name))
        step = binade.compile(
            model, accumulate=COUNT, optimizer="adamw", threads=1, **given
        )
        found[name] = folder / f"{name}.bnd"
        step.write(found[name])
    mlp = distributed_models.export_mlp(folder)
    step = binade.compile(
        mlp, accumulate=COUNT, optimizer="adamw", threads=1, policy="fp16-amp",
        exchange="exact", states="dyn8",
    )  # fmt: skip
    found["mlp"] = folder / "mlp.bnd"
    step.write(found["mlp"])
    return found


@pytest.fixture(scope="module")
def results(bundles, folder):
    """Returns a function: what each rank found in the runs with a number of ranks."""

    def add_other_runs(world, base, runs):
        """Runs that continue from a checkpoint of four ranks, or from a file of whole states,
        and a run with a batch that is not finite."""
        whole, saved = runs["dyn8", "none"]["whole"], str(folder / "saved")
        for shard in ("none", "zero1"):
            again = runs["dyn8", shard] | {"steps": 2}
            loaded = {"load": saved, "whole": str(base / f"again-{shard}.safetensors")}
            runs["loaded", shard] = again | loaded
            restored = {
                "restore": whole,
                "whole": str(base / f"file-{shard}.safetensors"),
            }
            runs["restored", shard] = again | restored
        if world == 4:
            runs["dyn8", "zero1"]["save"] = saved
        else:
            run(4)
        # A batch of rank 1 in the second step.
        runs["poison", "zero1"] = {
            "model": str(bundles["mlp"]), "steps": 3, "distribute": ZERO1,
            "poison": [[COUNT + COUNT // world % COUNT, "nan"]],
        }  # fmt: skip

    @functools.cache
    def run(world, names=SHORT):
        base = folder / f"{world}-{len(names)}"
        runs = {}
        for name, shard in itertools.product(names, ("none", "zero1")):
            one = {
                "model": str(bundles[name]), "steps": 3, "distribute": {"shard": shard},
                "whole": str(base / f"{name}-{shard}.safetensors"),
            }  # fmt: skip
            runs[name, shard] = one
        if names == SHORT:
            add_other_runs(world, base, runs)
        found = run_processes(SCRIPT, world, {"runs": [*runs.values()]}, base)
        return {key: [one[i] for one in found] for i, key in enumerate(runs)}

    return run


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("name", SHORT)
def test_sharded_states_have_the_bits_of_whole_ones(name, world, results):
    for found in results(world)[name, "zero1"]:
        expected = results(world)[name, "none"][0]
        assert found["whole"] == expected["whole"]
        assert repr(found["metrics"]) == repr(expected["metrics"])
        if name != "f32 sums":  # Whose bits depend on the number of ranks.
            assert found["whole"] == results(1)[name, "none"][0]["whole"]


@pytest.mark.nightly
@pytest.mark.parametrize("world", [2, 3, 4])
def test_all_formats_have_the_bits_of_whole_states(world, results):
    found = results(world, tuple(STEPS))
    for name in STEPS:
        for one in found[name, "zero1"]:
            assert one["whole"] == found[name, "none"][0]["whole"], name


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_a_checkpoint_of_four_ranks_loads_anywhere(world, results):
    first = results(world)["loaded", "none"][0]
    for one in results(world)["loaded", "zero1"] + results(world)["loaded", "none"]:
        assert (
            one["whole"] == first["whole"] == results(4)["loaded", "none"][0]["whole"]
        )
    assert first["whole"] != results(4)["dyn8", "none"][0]["whole"]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_ranks_take_their_shard_of_a_file(world, results):
    """The file of weights and states of a step with whole states."""
    expected = results(1)["restored", "none"][0]["whole"]
    for one in results(world)["restored", "zero1"]:
        assert one["whole"] == expected


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("name", SHORT)
def test_each_rank_has_its_shard_of_the_states(name, world, results):
    whole = results(world)[name, "none"][0]["ledger"]
    own = []
    for rank, one in enumerate(results(world)[name, "zero1"]):
        bytes, total, repeated = one["state_bytes"]
        assert (total, repeated) == (whole["state"], 0)
        assert bytes == one["ledger"]["state"]
        assert f"rank {rank} of {world}, {bytes} of {total} bytes" in one["repr"]
        saved = whole["state"] - bytes
        arena = sum(whole.values()) - sum(one["ledger"].values())
        assert arena == pytest.approx(saved, rel=0.05)
        own.append(bytes)
    assert sum(own) == whole["state"]
    # Half a block of 16,384 elements more or less than the mean on both sides.
    assert max(own) - whole["state"] / world <= 16384 * 8


def test_a_group_of_one_has_the_plan_of_whole_states(results):
    sharded, whole = (results(1)["f32", shard][0] for shard in ("zero1", "none"))
    assert sharded["ledger"] == whole["ledger"]
    assert sharded["hashes"] == whole["hashes"]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_a_gradient_that_is_not_finite_changes_nothing_on_any_rank(world, results):
    for one in results(world)["poison", "zero1"]:
        assert [metrics["skipped"] for metrics in one["metrics"]] == [
            False,
            True,
            False,
        ]
        assert one["unchanged"] == [False, True, False]
        assert [metrics["scale_after"] for metrics in one["metrics"]] == [
            65536, 32768, 32768,
        ]  # fmt: skip


def test_the_process_needs_less_memory(folder, own_matmuls):
    """Eight layers of a million parameters: 2 x 4 bytes of states for each, and half of that."""
    (folder / "large").mkdir()
    model = distributed_models.export_mlp(
        folder / "large", batch=1, width=1024, layers=9
    )
    path = folder / "large.bnd"
    step = binade.compile(
        model, accumulate=2, optimizer="adamw", threads=1, exchange="f32"
    )
    step.write(path)
    found, saved = {}, step.plan()["ledger"]["state"] / 2
    for shard in ("none", "zero1"):
        given = {"model": str(path), "measured": 3, "distribute": {"shard": shard}}
        runs = run_processes(SCRIPT, 2, {"runs": [given]}, folder / f"large-{shard}")
        found[shard] = max(one[0]["resident"] for one in runs)
    assert saved > 32 * 2**20
    # Buffers of 4 MiB for parameters on their way.
    assert found["none"] - found["zero1"] == pytest.approx(saved, abs=10 * 2**20)


def test_the_plan_of_many_ranks_predicts_the_states(bundles, results):
    for name in ("f32", "dyn8"):
        done = reference.binade(
            "inspect", bundles[name], "--ledger=ranks", "--ranks", "4", "--json"
        )
        ledgers = json.loads(done.stdout)["ledgers"]
        [sharded] = [
            one["ledger"]["state"]
            for one in ledgers
            if (one["shard"], one["exchange"]) == ("zero1", "exact")
        ]
        own = [one["state_bytes"][0] for one in results(4)[name, "zero1"]]
        assert max(own) == pytest.approx(sharded, rel=0.01)
