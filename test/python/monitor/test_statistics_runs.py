"""Statistics of a run are in stats.jsonl and TensorBoard's events, for the requested
steps, and do not change what is trained."""

import json
import os
import shutil

import numpy as np
import pytest
from binade.errors import RejectedError
from binade.run import read_statistics
from support.reference import BF16, binade, safetensors
from support.statistics_runs import STEPS, WEIGHT, train, write_inputs

pytest.importorskip("onnx")

F32 = np.float32


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("statistics")
    write_inputs(folder)
    return folder


def values(run, kind, layer, statistic):
    """Returns {step: value}."""
    return {
        line["step"]: line[statistic]
        for line in read_statistics(run)
        if (line["kind"], line["layer"]) == (kind, layer) and statistic in line
    }


ALL = ["--stats", "*:norm,absmax,mean,exponents"]


@pytest.fixture(scope="module")
def run(folder):
    more = ["--stats", "weight/w*:lost,update_ratio@every=2", "--save-grads", STEPS]
    return train(folder, folder / "run", *ALL, *more, "--save-every", 1, "--keep", 9)


def weights(run):
    """Returns the weight before each step, and after the last one."""
    states = sorted((run / "checkpoints").glob("step-*/state.safetensors"))
    found = [safetensors.load(path) for path in states]
    return [WEIGHT, *(state["weight"] for state in found)]


def test_statistics_equal_those_of_the_saved_tensors(run):
    before = weights(run)
    assert len(before) == STEPS + 1
    norms = values(run, "weight", "weight", "norm")
    assert list(norms) == list(range(1, STEPS + 1))
    for step, norm in norms.items():
        exact = before[step - 1].astype(np.float64)
        np.testing.assert_allclose(norm, np.linalg.norm(exact), rtol=1e-12)
    largest = values(run, "gradient", "weight", "absmax")
    for step in norms:
        path = run / f"grads-{step:06d}.safetensors"
        gradient = safetensors.load(path)["weight"]
        assert largest[step] == np.max(np.abs(gradient))
    lines = (run / "metrics.jsonl").read_text().splitlines()
    losses = {m["step"]: m["loss"] for m in map(json.loads, lines)}
    assert values(run, "loss", "loss", "mean") == pytest.approx(losses, rel=1e-7)


def test_layers_are_named_after_the_nodes_of_the_model(run):
    layers = {(line["kind"], line["layer"]) for line in read_statistics(run)}
    outputs = {"hidden", "square", "mean"}
    assert {layer for kind, layer in layers if kind == "output"} == outputs
    assert {layer for kind, layer in layers if kind == "input"} == {"hidden"}
    assert ("saved", "hidden") in layers


def test_all_kinds_include_scaled_gradients_only_with_a_scale(folder, run):
    plain = {line["kind"] for line in read_statistics(run)}
    assert {"gradient", "output_gradient"} <= plain
    assert not any(kind.startswith("scaled_") for kind in plain)
    scaled = {"scaled_gradient", "scaled_output_gradient"}
    named = "scaled_gradient,scaled_output_gradient:norm"
    for request, policy in ((named, "fp32"), ("*:norm", "fp16-amp")):
        out = train(folder, folder / policy, "--stats", request, policy=policy)
        assert scaled <= {line["kind"] for line in read_statistics(out)}


def test_updates_in_some_steps(run):
    before = weights(run)
    ratios = values(run, "weight", "weight", "update_ratio")
    assert list(ratios) == [2, 4, 6]
    for step, ratio in ratios.items():
        old, new = (w.astype(np.float64) for w in before[step - 1 : step + 1])
        expected = np.linalg.norm(new - old) / np.linalg.norm(old)
        np.testing.assert_allclose(ratio, expected, rtol=1e-6)
    assert set(values(run, "weight", "weight", "lost").values()) == {0.0}


def test_statistics_change_no_parameter(folder, run):
    plain = train(folder, folder / "plain")
    assert not (plain / "stats.jsonl").exists()
    assert read_statistics(plain) == []
    states = [safetensors.load(r / "final.safetensors") for r in (plain, run)]
    assert states[0]["weight"].tobytes() == states[1]["weight"].tobytes()


@pytest.mark.parametrize(
    "master, companions, lr",
    [
        ("none", [], 3e-3),
        ("f32", ["state/master/weight"], 1e-7),
        ("split_round", ["state/remainder/weight"], 1e-7),
        ("split_trunc", ["state/remainder/weight"], 1e-7),
        ("split_8bit", ["state/remainder/weight"], 1e-5),
        ("kahan", ["state/compensation/weight"], 1e-7),
        ("residual", ["state/residual/weight"], 1e-7),
        ("stochastic", [], 3e-3),
    ],
)
def test_lost_updates_are_counted(master, companions, lr, folder, tmp_path):
    """Steps are too short for some elements of a weight in bf16 with its companions. One
    element in four has no gradient."""
    policy = tmp_path / "narrow.yaml"
    policy.write_text(
        "name: narrow\nextends: bf16-amp\nrules:\n"
        f"- {{match: {{op: optimizer_update}}, parameter: bf16, master: {master}}}\n"
        "statistics:\n- 'weight:lost'\n"
    )
    x = safetensors.load(folder / "data.safetensors")["x"].copy()
    x[:, 0] = 0
    safetensors.save(tmp_path / "data.safetensors", {"x": x})
    shutil.copy(folder / "model.onnx", tmp_path)
    run = train(tmp_path, tmp_path / "run", "--save-every", 1, "--keep", 9,
                "--save-grads", STEPS, policy=policy, lr=lr)  # fmt: skip
    states = [
        safetensors.load(run / f"checkpoints/step-{step:06d}/state.safetensors")
        for step in range(1, STEPS + 1)
    ]
    assert all({"weight", *companions} <= state.keys() for state in states)
    lost = values(run, "weight", "weight", "lost")
    assert len(lost) == STEPS and 0.1 < max(lost.values()) and min(lost.values()) < 1
    for step, (old, new) in enumerate(zip(states, states[1:]), 2):
        gradient = safetensors.load(run / f"grads-{step:06d}.safetensors")["weight"]
        same = np.all(
            [old[name] == new[name] for name in ("weight", *companions)], axis=0
        )
        assert np.count_nonzero(gradient) == 12
        assert lost[step] == np.mean(same[gradient != 0])


def test_signal_to_noise_ratio_of_a_cast(folder, tmp_path):
    run = train(folder, tmp_path / "run", "--stats", "weight:sqnr", policy="bf16-amp")
    exact = WEIGHT.astype(np.float64)
    error = exact - WEIGHT.astype(BF16).astype(np.float64)
    expected = 10 * np.log10(np.sum(exact**2) / np.sum(error**2))
    assert values(run, "weight", "weight", "sqnr")[1] == pytest.approx(expected)


def test_tensorboard_reads_statistics(run):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = accumulators.EventAccumulator(str(run))
    events.Reload()
    scalars = {e.step: e.value for e in events.Scalars("values-weight-norm/weight")}
    expected = values(run, "weight", "weight", "norm")
    assert scalars == {step: F32(value) for step, value in expected.items()}
    counts = values(run, "weight", "weight", "exponents")
    for event in events.Histograms("values-weight-exponents/weight"):
        histogram = event.histogram_value
        pairs = zip(histogram.bucket_limit, histogram.bucket)
        found = {str(int(limit) - 1): int(n) for limit, n in pairs if n}
        assert found == counts[event.step]
        exponents = np.floor(np.log2(np.abs(weights(run)[event.step - 1])))
        keys, numbers = np.unique(exponents, return_counts=True)
        assert found == {str(int(k)): n for k, n in zip(keys, numbers)}


def test_tensorboard_shows_losses_before_groups_of_statistics(run):
    """TensorBoard groups tags by the text before the first slash, and sorts the groups."""
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = accumulators.EventAccumulator(str(run))
    events.Reload()
    tags = events.Tags()
    groups = sorted({t.split("/")[0] for t in (*tags["scalars"], *tags["histograms"])})
    # A group for each statistic of each kind, however many layers there are.
    recorded = {
        f"values-{line['kind']}-{name}"
        for line in read_statistics(run)
        for name in line.keys() - {"step", "kind", "layer"}
    }
    assert groups == ["train", *sorted(recorded)]
    assert "train/loss" in tags["scalars"]


def test_an_incomplete_line_is_ignored(folder, tmp_path):
    run = train(folder, tmp_path / "run", *ALL, "--save-every", 2, steps=4)
    path = run / "stats.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert read_statistics(run) == [json.loads(x) for x in whole.splitlines()[:-1]]
    train(folder, run, *ALL, resume=True)
    steps = [line["step"] for line in read_statistics(run)]
    assert steps == sorted(steps) and set(steps) >= {1, 2, 3, 5, 6}
    assert path.read_bytes().startswith(whole[:-20].rpartition(b"\n")[0])


@pytest.mark.parametrize("name", ["metrics.jsonl", "stats.jsonl"])
def test_a_pipe_in_a_run_directory_is_rejected(folder, tmp_path, name):
    """The run does not block on opening it."""
    more = ["--stats", "weight:norm"]
    path = train(folder, tmp_path / "run", *more, "--stop-after", 2) / name
    path.unlink()
    os.mkfifo(path)
    process = binade(
        "train", folder / "model.onnx", "--data", folder / "data.safetensors",
        "--order", "sequential", "--optimizer", "sgd", "--lr", 0.1, "--steps", STEPS,
        "--resume", tmp_path / "run", *more,
    )  # fmt: skip
    assert process.returncode in (3, 5)
    assert f"{path}: error: " in process.stderr and "regular file" in process.stderr


def test_damage_is_reported(tmp_path):
    (tmp_path / "stats.jsonl").write_text('{"step": 1, "kind": "weight"}\n')
    with pytest.raises(RejectedError, match="stats.jsonl:1: no 'layer'"):
        read_statistics(tmp_path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("weight", "expected kinds of values, ':' and statistics"),
        ("wieght:norm", "no kind of values is called 'wieght'; did you mean 'weight'?"),
        ("weight:nrom", "no statistic is called 'nrom'; did you mean 'norm'?"),
        ("weight:norm(f16)", "'norm' takes no format"),
        ("weight:underflow(f17)", "expected a format such as f16"),
        ("weight:norm@every=0", "expected @every=N with N of at least 1"),
        ("weight:norm@evry=2", "expected @every=N with N of at least 1"),
        ("weight/[:norm", "is not a glob"),
        ("weight/a;b:norm", "a request must not contain ';'"),
    ],
)
def test_invalid_requests(folder, text, message):
    process = binade("compile", folder / "model.onnx", "--stats", text, "-o", "x.bnd")
    assert process.returncode == 2
    assert f"--stats '{text}': error: " in process.stderr and message in process.stderr
