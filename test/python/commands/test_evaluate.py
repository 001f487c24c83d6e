"""`binade evaluate` computes the loss and metrics of a run's states on other data, as NumPy
computes them from the files with the weights."""

import json
import os

import numpy as np
import pytest
from support.checkpoint_runs import Runs, metrics
from support.reference import binade, safetensors

from binade import trained

EPSILON = 1e-5
HELD_OUT = ["--eval-fraction", 0.32, "--eval-every", 2]  # 16 of 50 samples.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("evaluated"))


@pytest.fixture(scope="module")
def run(runs):
    """A run whose held-out loss first falls and then rises."""
    out = runs.folder / "run"
    runs.train("--out", out, *HELD_OUT, "--optimizer", "adamw", "--lr", 0.1, "--keep-best", bundle=False, steps=24,
               every=8)  # fmt: skip
    return out


@pytest.fixture(scope="module")
def data(runs):
    """29 samples: three batches of 8, and 5 more."""
    draw = np.random.default_rng(7)
    path = runs.folder / "other.safetensors"
    labels = draw.integers(0, 3, 29)
    safetensors.save(
        path, {"x": draw.standard_normal((29, 6), np.float32), "labels": labels}
    )
    return path


def compute(state, samples):
    """The loss and metrics of the graph in evaluation mode, in f64."""
    w = {
        name: value.astype(np.float64)
        for name, value in trained.load_state(state).items()
    }
    h = samples["x"].astype(np.float64) @ w["up"]
    h = (h - w["mean"]) / np.sqrt(w["var"] + EPSILON) * w["gain"] + w["shift"]
    logits = np.maximum(h, 0) @ w["down"]
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    labels = samples["labels"]
    loss = -logs[np.arange(len(labels)), labels].mean()
    order = np.argsort(-logits, axis=1, kind="stable")
    hits = order[:, :2] == labels[:, None]
    return {"eval_loss": loss, "eval_accuracy": hits[:, 0].mean(),
            "eval_top2": hits.any(1).mean(), "eval_perplexity": np.exp(loss)}  # fmt: skip


OPTIONS = ["--metric", "accuracy", "--metric", "top2", "--metric", "perplexity"]


def evaluate(run, data, *more, code=0, **options):
    process = binade("evaluate", run, "--data", data, *more, **options)
    assert process.returncode == code, process.stderr
    return process


def evaluate_json(*arguments, **options):
    return json.loads(evaluate(*arguments, "--format", "json", **options).stdout)


def check(found, state, data, step):
    expected = compute(state, safetensors.load(data))
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name
    assert found["step"] == step
    assert (found["samples"], found["unused"]) == (29, 0)
    assert found["state"].startswith(
        os.fspath(state).removesuffix("/state.safetensors")
    )


def best_step(run):
    losses = {
        x["step"]: x["eval_loss"] for x in metrics(run) if x["eval_loss"] is not None
    }
    return min(losses, key=losses.get)


def test_states_of_a_run(run, data):
    best = best_step(run)
    assert 0 < best < 24
    checkpoint = run / "checkpoints/step-000016/state.safetensors"
    states = {
        (): (run / "final.safetensors", 24),
        ("--best",): (run / "best.safetensors", best),
        ("--checkpoint", 16): (checkpoint, 16),
        ("--checkpoint", run / "checkpoints/step-000016"): (checkpoint, 16),
    }
    for chosen, (state, step) in states.items():
        check(evaluate_json(run, data, *OPTIONS, *chosen), state, data, step)


def test_the_text_has_the_same_numbers(run, data):
    found = evaluate_json(run, data, *OPTIONS)
    text = evaluate(run, data, *OPTIONS).stdout
    assert f"state: {run}/final.safetensors after step 24\n" in text
    assert f"data: 29 samples of {data}\n" in text
    for name in ("eval_loss", "eval_accuracy", "eval_top2", "eval_perplexity"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        assert float(line.split()[1]) == found[name]


def test_the_held_out_samples_have_the_loss_of_the_run(runs, run, tmp_path):
    samples = {name: x[-16:] for name, x in safetensors.load(runs.data).items()}
    safetensors.save(tmp_path / "held.safetensors", samples)
    last = metrics(run)[-1]["eval_loss"]
    assert evaluate_json(run, tmp_path / "held.safetensors")["eval_loss"] == last
    losses = [x["eval_loss"] for x in metrics(run) if x["eval_loss"] is not None]
    best = evaluate_json(run, tmp_path / "held.safetensors", "--best")
    assert best["eval_loss"] == min(losses)


def test_from_another_directory(runs, data, tmp_path):
    """Paths of the run's command are relative to its directory, those of this one are not."""
    command = [
        "train",
        runs.model.name,
        "--data",
        runs.data.name,
        "--steps",
        2,
        "--out",
        "near",
    ]
    assert binade(*command, cwd=runs.folder).returncode == 0
    found = evaluate_json("near", data.name, *OPTIONS, cwd=runs.folder)
    assert found["state"] == "near/final.safetensors"
    final = runs.folder / "near/final.safetensors"
    check({**found, "state": os.fspath(final)}, final, data, 2)
    run, other = (os.path.relpath(x, tmp_path) for x in (runs.folder / "near", data))
    again = evaluate_json(run, other, *OPTIONS, cwd=tmp_path)
    names = ["eval_loss", "eval_accuracy", "step", "samples"]
    assert [again[name] for name in names] == [found[name] for name in names]


def test_policies_and_bundles(runs, data, tmp_path):
    """A bundle is evaluated with the weights of a file, and a run of it by its command."""
    run = tmp_path / "run"
    runs.train("--out", run, policy="bf16", steps=4, every=0)
    found = evaluate_json(run, data)
    expected = compute(run / "final.safetensors", safetensors.load(data))
    assert found["eval_loss"] == pytest.approx(expected["eval_loss"], rel=2e-2)
    assert "eval_accuracy" not in found
    bundle = runs.compile("bf16")
    same = evaluate_json(bundle, data, "--init", run / "final.safetensors")
    assert same["eval_loss"] == found["eval_loss"] and same["step"] == 4
    own = evaluate_json(bundle, data)
    assert own["step"] is None and own["state"] == os.fspath(bundle)
    assert own["eval_loss"] != found["eval_loss"]
    process = evaluate(run, data, "--metric", "accuracy", code=2)
    assert "compile it with --metric=accuracy" in process.stderr


def test_a_run_that_switched_its_policy(runs, data, tmp_path):
    rule = [{"name": "early", "about": "ends at once", "value": "loss", "window": 1,
             "when": "n >= 1", "says": "now"}]  # fmt: skip
    (tmp_path / "rule.yaml").write_text(json.dumps(rule))
    run = tmp_path / "run"
    runs.train("--out", run, "--policy", "fp32", "--alarms", tmp_path / "rule.yaml",
               "--on-alarm", "switch:bf16-amp", bundle=False, steps=6, every=0)  # fmt: skip
    about = json.loads((run / "run.json").read_text())
    assert about["policy"] == "bf16-amp"
    found = evaluate_json(run, data, *OPTIONS)
    expected = compute(run / "final.safetensors", safetensors.load(data))
    assert found["eval_loss"] == pytest.approx(expected["eval_loss"], rel=2e-2)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--metric", "f1"], 2, "or perplexity, got 'f1'"),
        (["--best", "--checkpoint", 8], 2, "--best cannot be used with --checkpoint"),
        (["--checkpoint", 3], 3, "has no checkpoint of step 3"),
        (["--init", "x"], 2, "--init is for a bundle"),
    ],
)
def test_options_that_do_not_fit(options, code, message, run, data):
    assert message in evaluate(run, data, *options, code=code).stderr


def test_runs_without_what_is_needed(runs, data, tmp_path):
    runs.train("--out", tmp_path / "run", bundle=False, steps=1, every=0)
    process = evaluate(tmp_path / "run", data, "--best", code=3)
    assert "'binade train' writes it with --keep-best or --patience" in process.stderr
    (tmp_path / "empty").mkdir()
    process = evaluate(tmp_path / "empty", data, code=3)
    assert "run.json" in process.stderr


def test_a_run_that_does_not_exist_is_named(data, tmp_path):
    process = evaluate(tmp_path / "absent", data, code=3)
    assert (
        "absent: error: does not exist; expected the directory of a run, or"
        in process.stderr
    )


@pytest.mark.parametrize("name", ["run.yaml", "run.json"])
def test_a_file_of_a_run_names_the_run(run, data, name):
    expected = binade("evaluate", run, "--data", data)
    found = binade("evaluate", run / name, "--data", data)
    assert found.returncode == 0, found.stderr
    assert found.stdout == expected.stdout != ""
    # From the directory of the run, the file has no directory.
    inside = binade("evaluate", name, "--data", data, cwd=run)
    assert inside.returncode == 0, inside.stderr
    for words in (["runs"], ["ckpt", "show"]):
        table = binade(*words, run / name)
        assert table.returncode == 0, table.stderr
        assert table.stdout == binade(*words, run).stdout
