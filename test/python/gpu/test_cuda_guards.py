"""A device detects reads of poisoned memory, and reports the op that computes the first
value that is not finite."""

import re

import numpy as np
import pytest
from support.arena import Bundle
from support.checkpoint_runs import Runs
from support.cuda_runs import BATCH, CUDA, STEPS, Bundles, need_simulated_driver, run
from support.reference import safetensors


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


def without(bundle, label, path):
    """Writes the bundle without the first record that has this label."""
    changed = Bundle(bundle)
    records = changed.plan["records"]
    records.remove(next(record for record in records if record["label"] == label))
    changed.write(path, changed.plan)
    return path


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_reads_of_unwritten_memory_are_found(target, bundles, tmp_path):
    broken = without(bundles.compile(target), "matmul fc1", tmp_path / "broken.bnd")
    out = ["--out", tmp_path / "run"]
    done = bundles.train(broken, out, "--device", target, steps=2, code=4,
                         BINADE_POISON="1")  # fmt: skip
    assert "NaN" in done.stderr


def test_an_intact_plan_reads_no_poisoned_memory(bundles, tmp_path):
    bundle = bundles.compile("cuda", "fp8-delayed")
    finals = []
    for poison in "01":
        out = tmp_path / poison
        bundles.train(bundle, ["--out", out], "--device", "cuda", BINADE_POISON=poison)
        finals.append(safetensors.load(out / "final.safetensors"))
    for name, value in finals[0].items():
        np.testing.assert_array_equal(value, finals[1][name], err_msg=name)


def test_a_device_names_the_first_value_that_is_not_finite(bundles, tmp_path):
    draw = np.random.default_rng(5)
    samples = BATCH * STEPS
    x = draw.standard_normal((samples, 16), np.float32)
    # The first matmul overflows f16.
    x[:] *= 3e5
    data = tmp_path / "data.safetensors"
    safetensors.save(data, {"x": x, "labels": draw.integers(0, 4, samples)})
    notes = {}
    for target in ("cpu", "cuda"):
        done = bundles.train(
            bundles.compile(target, "fp16-amp"), ["--out", tmp_path / target],
            "--device", target, "--max-skipped", 2, data=data, code=4,
        )  # fmt: skip
        assert "2 steps in a row were skipped" in done.stderr
        notes[target] = [
            re.sub(r" in .+final.safetensors", "", line)
            for line in done.stderr.splitlines()
            if "note:" in line
        ]
    assert notes["cuda"] == notes["cpu"] and len(notes["cuda"]) >= 4


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A model with running statistics and dropout, and data with infinities from the third
    batch on."""
    need_simulated_driver()
    runs = Runs(tmp_path_factory.mktemp("net"))
    data = safetensors.load(runs.data)
    data["x"][16:, 0] = np.inf
    safetensors.save(runs.data, data)
    return runs


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("policy", "more", "before"),
    [("bf16", [], 2), ("watched", ["--max-skipped", 2], 3)],
    ids=["stop", "skip"],
)
def test_the_saved_state_precedes_the_failed_step(
    policy, more, before, target, net, tmp_path
):
    """The state, running statistics included, has the bits of a run that ended there."""
    bundle = net.folder / f"{target}-{policy}.bnd"
    run("binade", "compile", net.model, "--policy", net.folder / f"{policy}.yaml",
        "--optimizer", "sgd", "--set", "momentum=0.9", "-o", bundle,
        *([*CUDA, "--save-kernels", net.folder] if target == "cuda" else []))  # fmt: skip
    ends = {}
    for name, steps, code in (("bad", 5, 4), ("end", before, 0)):
        run("binade-run", bundle, "--data", net.data, "--order", "sequential",
            "--device", target, "--steps", steps, "--out", tmp_path / name, *more,
            code=code, BINADE_SIMULATED_KERNELS=str(net.folder))  # fmt: skip
        ends[name] = safetensors.load(tmp_path / name / "final.safetensors")
    assert {"mean", "var", "rng"} < set(ends["end"])
    for name, value in ends["end"].items():
        assert ends["bad"][name].tobytes() == value.tobytes(), name
