"""What a run's directory says of the run, in files for people, for TensorBoard and for
`binade runs`."""

import calendar
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from binade import curves
from binade.run import group_runs, read_run
from support.paths import BUILD, ROOT
from support.reference import ONE_WEIGHT, binade, safetensors, write_model

MODEL = ROOT / "examples/mlp/mlp.onnx"
LOSS = "cross_entropy(prediction, labels)"
OWN_POLICY = """# Of this test.
name: own
extends: fp16-amp
loss_scale: {init: 16777216, interval: 7}
"""
STEPS, EVERY = 60, 20

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)


class Folder:
    """Data, a policy, and runs of both."""

    def __init__(self, path):
        self.path = path
        draw = np.random.default_rng(0)
        x = draw.standard_normal((200, 16), np.float32)
        self.data = path / "train.safetensors"
        safetensors.save(self.data, {"x": x, "labels": (x > 0).sum(1) % 4})
        self.policy = path / "own.yaml"
        self.policy.write_text(OWN_POLICY)

    def command(self, policy, *more, steps=STEPS, seed=0, lr=0.01, data=None):
        words = [
            "train", MODEL, "--loss", LOSS, "--data", data or self.data,
            "--policy", policy,
            "--optimizer", "adamw", "--lr", lr, "--steps", steps, "--seed", seed,
            "--eval-fraction", 0.2, "--eval-every", EVERY, *more,
        ]  # fmt: skip
        return [str(word) for word in words]

    def train(self, *more, **options):
        process = binade(*self.command(*more, **options))
        assert process.returncode == 0, process.stderr
        return process


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = Folder(tmp_path_factory.mktemp("runs"))
    for policy, seed in (("fp32", 0), ("fp32", 1), (made.policy, 0), (made.policy, 1)):
        name = f"{pathlib.Path(policy).stem}-{seed}"
        made.train(policy, "--out", made.path / "all" / name, seed=seed)
    return made


@pytest.fixture
def run(folder):
    return folder.path / "all" / "own-0"


def read_metrics(run):
    return [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]


def read_about(run):
    return json.loads((run / "run.json").read_text())


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- run.json -------------------------------------------------------------------------


def test_a_run_says_what_it_is_made_of(folder, tmp_path):
    out = tmp_path / "run"
    folder.train(folder.policy, "--out", out, "--save-every", STEPS, seed=3)
    about = read_about(out)
    texts = {policy["name"]: policy["text"] for policy in about["policy_texts"]}
    assert list(texts) == ["own", "fp16-amp"]
    assert texts["own"] == OWN_POLICY
    shipped = ROOT / "lib/Precision/Policies/fp16-amp.yaml"
    assert texts["fp16-amp"] == shipped.read_text()
    manifest = json.loads(next(out.glob("checkpoints/*/manifest.json")).read_text())
    assert about["computation"] == manifest["run"]["computation"]
    assert about["policy_hash"] == manifest["run"]["policy hash"]
    assert about["seed"] == 3 and about["settings"]["lr"] == 0.01

    (invocation,) = about["invocations"]
    command = folder.command(folder.policy, "--out", out, "--save-every", STEPS, seed=3)
    assert invocation["command"] == [str(BUILD / "bin/binade"), *command]
    assert invocation["directory"] == os.getcwd()
    assert (invocation["after_step"], invocation["steps"]) == (0, STEPS)
    files = {"model": MODEL, "data": folder.data}
    assert invocation["files"] == {
        key: {
            "path": str(path), "bytes": path.stat().st_size, "sha256": sha256(path),
        }
        for key, path in files.items()
    }  # fmt: skip
    started = time.strptime(invocation["started"], "%Y-%m-%dT%H:%M:%SZ")
    # As numbers of UTC: clocks of time zones are put forward and back.
    assert 0 <= time.time() - calendar.timegm(started) < 24 * 3600
    machine = invocation["machine"]
    version = binade("--version").stdout.split()[1]
    assert machine["binade"] == version and machine["oneDNN"]
    assert machine["cores"] == len(os.sched_getaffinity(0))
    assert machine["cpu"] in pathlib.Path("/proc/cpuinfo").read_text()
    assert machine["instructions"].startswith("x86-64-v")
    system = (platform.system(), platform.release(), platform.machine())
    assert machine["system"] == " ".join(system)


def test_all_files_that_a_run_reads_are_named(tmp_path):
    """The weights of a model too, and where it starts."""
    onnx = pytest.importorskip("onnx")
    weight = np.eye(4, dtype=np.float32)
    model = onnx.load(write_model(tmp_path, ONE_WEIGHT, ["weight"], weight))
    raw = onnx.numpy_helper.from_array(weight, "weight")
    model.graph.initializer[0].CopyFrom(raw)
    place = {"save_as_external_data": True, "location": "m.weights"}
    onnx.save(model, tmp_path / "m.onnx", size_threshold=0, **place)
    safetensors.save(tmp_path / "data", {"x": np.ones((8, 4), np.float32)})
    safetensors.save(tmp_path / "held", {"x": np.ones((4, 4), np.float32)})
    safetensors.save(tmp_path / "start", {"weight": 2 * weight})
    process = binade(
        "train", tmp_path / "m.onnx", "--data", tmp_path / "data", "--eval-data",
        tmp_path / "held", "--init", tmp_path / "start", "--optimizer", "sgd",
        "--steps", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    (invocation,) = read_about(tmp_path / "run")["invocations"]
    assert {key: file["sha256"] for key, file in invocation["files"].items()} == {
        "model": sha256(tmp_path / "m.onnx"),
        "weights m.weights": sha256(tmp_path / "m.weights"),
        "data": sha256(tmp_path / "data"),
        "eval_data": sha256(tmp_path / "held"),
        "init": sha256(tmp_path / "start"),
    }


def test_a_resumed_run_remembers_all_commands(folder, tmp_path):
    out = tmp_path / "run"
    more = ["--threads", 1, "--save-every", 10]
    folder.train("fp32", "--resume", out, *more, steps=10)
    first = read_about(out)
    folder.train("fp32", "--resume", out, "--threads", 3, steps=15)
    about = read_about(out)
    assert about["invocations"][:1] == first["invocations"]
    assert [i["after_step"] for i in about["invocations"]] == [0, 10]
    assert [i["machine"]["threads"] for i in about["invocations"]] == ["1", "3"]
    # What libraries need depends on the number of threads.
    varying = ("invocations", "ledger", "arena_bytes")
    rest = [{k: v for k, v in a.items() if k not in varying} for a in (first, about)]
    assert rest[0] == rest[1]
    # What people change by hand may go wrong, and is no reason not to go on.
    (out / "run.json").write_text("{")
    process = folder.train("fp32", "--resume", out, steps=20)
    assert f"warning: {out}/run.json is damaged" in process.stderr
    assert [i["after_step"] for i in read_about(out)["invocations"]] == [10]
    # Another run in the same place is another run.
    shutil.rmtree(out / "checkpoints")
    folder.train("fp32", "--out", out, steps=20)
    assert [i["after_step"] for i in read_about(out)["invocations"]] == [0]


# --- TensorBoard ----------------------------------------------------------------------


def read_events(run, **options):
    """Tag, and (step, value) of each event, as TensorBoard reads them."""
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = accumulators.EventAccumulator(
        str(run), size_guidance={accumulators.SCALARS: 0}, **options
    )
    events.Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags}


def events_of(metrics):
    """What metrics.jsonl says, in the words of TensorBoard; its numbers are f32."""
    names = {"train/loss": "loss", "train/grad_norm": "grad_norm",
             "train/loss_scale": "loss_scale", "train/lr": "lr",
             "train/skipped": "skipped", "eval/loss": "eval_loss"}  # fmt: skip
    found = {
        tag: [
            (s["step"], float(np.float32(s[key])))
            for s in metrics
            if s[key] is not None
        ]
        for tag, key in names.items()
    }
    return {tag: events for tag, events in found.items() if events}


def test_events_are_the_metrics(folder, run):
    metrics = read_metrics(run)
    # The scale moves, and steps are skipped: their norm is no number.
    assert len({step["loss_scale"] for step in metrics}) > 2
    assert {step["lr"] for step in metrics} == {0.01}
    found = {
        tag: [(step, value) for step, value in events if np.isfinite(value)]
        for tag, events in read_events(run).items()
        if not tag.startswith("alarm/")
    }
    assert found == events_of(metrics)
    assert {value for _, value in found["train/skipped"]} == {0.0, 1.0}
    assert [step for step, _ in found["eval/loss"]] == [20, 40, 60]
    plain = folder.path / "all/fp32-0"
    assert read_events(plain) == events_of(read_metrics(plain))
    assert "train/loss_scale" not in read_events(plain)


def test_the_rate_of_each_step_is_known(folder, tmp_path):
    run, schedule = tmp_path / "run", ["--schedule", "lr=base / (step + 1)"]
    folder.train("fp32", "--out", run, *schedule, "--save-every", 10, steps=10)
    folder.train("fp32", "--resume", run, *schedule, steps=20)
    rates = [step["lr"] for step in read_metrics(run)]
    np.testing.assert_allclose(rates, 0.01 / np.arange(1, 21), rtol=1e-15)
    assert read_events(run)["train/lr"] == events_of(read_metrics(run))["train/lr"]


def test_events_have_the_time(folder, tmp_path):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    begun = time.time()
    folder.train("fp32", "--out", tmp_path / "run")
    events = accumulators.EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    times = [event.wall_time for event in events.Scalars("train/loss")]
    assert times == sorted(times) and begun <= times[0] and times[-1] <= time.time()


def test_a_resumed_run_has_each_step_once(folder, tmp_path):
    """Steps after the checkpoint are computed again, and readers forget the first."""
    run = tmp_path / "run"
    folder.train("fp32", "--out", run, "--save-every", 15, "--keep", 9, steps=40)
    for step in (30, 40):
        shutil.rmtree(run / f"checkpoints/step-{step:06d}")
    # Its order, which is by name, holds within a second too.
    folder.train("fp32", "--resume", run, "--save-every", 100, steps=20)
    folder.train("fp32", "--resume", run)
    assert len(list(run.glob("events.out.tfevents.*"))) == 3
    assert read_events(run)["train/loss"] == events_of(read_metrics(run))["train/loss"]
    everything = read_events(run, purge_orphaned_data=False)["train/loss"]
    assert len(everything) == 40 + (20 - 15) + (60 - 20)
    # A run that begins in the place of another has nothing of that.
    shutil.rmtree(run / "checkpoints")
    folder.train("fp32", "--out", run, steps=5)
    assert [step for step, _ in read_events(run)["train/loss"]] == [1, 2, 3, 4, 5]


def test_a_killed_run_leaves_what_can_be_read(folder, tmp_path):
    run = tmp_path / "run"
    command = [BUILD / "bin/binade", *folder.command("fp32", "--out", run, steps=10**8)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 600
    # The heading is there at once, events about every second.
    while not any(p.stat().st_size > 1000 for p in run.glob("events.*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    events = read_events(run)["train/loss"]
    metrics = read_metrics(run)
    assert 10 < len(events) <= len(metrics)
    assert events == events_of(metrics)["train/loss"][: len(events)]


# --- binade runs ----------------------------------------------------------------------


def runs(*arguments, code=0, **options):
    process = binade("runs", *arguments, **options)
    assert process.returncode == code, process.stderr
    return process.stdout if code == 0 else process.stderr


def parse_table(text):
    """Rows below a heading, by their first cell; cells are two spaces apart."""
    head, rule, *lines = text.split("\n\n")[0].splitlines()
    edges = [match.span() for match in re.finditer("-+", rule)]
    cells = [[line[a:b].strip() for a, b in edges] for line in (head, *lines)]
    return {row[0]: dict(zip(cells[0][1:], row[1:])) for row in cells[1:]}


def test_the_table_has_the_runs_of_a_folder(folder):
    table = parse_table(runs("all", cwd=folder.path))
    names = ["fp32-0", "fp32-1", "own-0", "own-1"]
    assert list(table) == [f"all/{name}" for name in names]
    for name in names:
        path, row = folder.path / "all" / name, table[f"all/{name}"]
        metrics, about = read_metrics(path), read_about(path)
        column = {
            key: np.array([step[key] for step in metrics], float)
            for key in ("loss", "eval_loss", "ms", "skipped")
        }
        held = column["eval_loss"]
        best = np.nanargmin(held)
        assert row["model"] == "mlp" and row["policy"] == name.split("-")[0]
        assert row["seed"] == name[-1] and row["steps"] == str(STEPS)
        assert row["loss"] == f"{np.nanmean(column['loss'][-10:]):.4f}"
        assert row["eval_loss"] == f"{held[-1]:.4f}"
        assert row["best"] == f"{held[best]:.4f} at {best + 1}"
        assert row["ms/step"] == f"{np.median(column['ms'][STEPS // 10 :]):.3g}"
        assert float(row["MiB"]) == pytest.approx(
            about["arena_bytes"] / 2**20, rel=0.05
        )
        assert row["skipped"] == str(int(column["skipped"].sum()))
    assert int(table["all/own-0"]["skipped"]) > 0
    # The working directory, one run, and a run twice.
    assert list(parse_table(runs(cwd=folder.path / "all"))) == names
    assert list(parse_table(runs("own-1", "./own-1/", cwd=folder.path / "all"))) == [
        "own-1"
    ]


def test_compare_finds_what_differs_and_nothing_else(folder, tmp_path):
    all_ = folder.path / "all"
    assert list(parse_table(runs("compare", all_ / "own-0", all_ / "own-1"))) == [
        "seed"
    ]
    folder.train("fp32", "--out", tmp_path / "fast", lr=0.5, seed=0)
    faster = runs("compare", all_ / "fp32-0", tmp_path / "fast")
    assert parse_table(faster) == {
        "lr": {str(all_ / "fp32-0"): "0.01", str(tmp_path / "fast"): "0.5"}
    }
    folder.train("fp32", "--schedule", "lr=base / 2", "--out", tmp_path / "slow")
    slower = runs("compare", all_ / "fp32-0", tmp_path / "slow")
    assert parse_table(slower) == {
        "schedule of lr": {
            str(all_ / "fp32-0"): "-", str(tmp_path / "slow"): "base / 2"
        }
    }  # fmt: skip
    # The same policy by name, with another text.
    changed = tmp_path / "own.yaml"
    changed.write_text(OWN_POLICY.replace("interval: 7", "interval: 9"))
    folder.train(changed, "--out", tmp_path / "changed")
    rows = parse_table(runs("compare", all_ / "own-0", tmp_path / "changed"))
    assert set(rows) == {"policy hash", "computation"}
    other = folder.path / "other.safetensors"
    data = safetensors.load(folder.data)
    data["x"][0, 0] += 1
    safetensors.save(other, data)
    folder.train("fp32", "--out", tmp_path / "other", data=other)
    rows = parse_table(runs("compare", all_ / "fp32-0", tmp_path / "other"))
    assert rows == {
        "file data": {
            str(all_ / "fp32-0"): sha256(folder.data)[:12],
            str(tmp_path / "other"): sha256(other)[:12],
        }
    }
    folder.train("fp32", "--out", tmp_path / "again")
    text = runs("compare", all_ / "fp32-0", tmp_path / "again")
    assert text.startswith("the runs are made of the same\n")


def test_compare_shows_the_spread_over_seeds(folder):
    text = runs("compare", "all", cwd=folder.path)
    table = parse_table(text.split("\n\n")[-1])
    assert list(table) == ["fp32 (2 runs)", "own (2 runs)"]
    for name in ("fp32", "own"):
        metrics = [read_metrics(folder.path / f"all/{name}-{seed}") for seed in (0, 1)]
        losses = [
            np.nanmean([np.nan if s["loss"] is None else s["loss"] for s in run[-10:]])
            for run in metrics
        ]
        held = [run[-1]["eval_loss"] for run in metrics]
        for column, values in (("loss", losses), ("eval_loss", held)):
            expected = (
                f"{np.mean(values):.4f} ({np.min(values):.4f} to {np.max(values):.4f})"
            )
            assert table[f"{name} (2 runs)"][column] == expected
    assert " runs)" not in runs("compare", "all/fp32-0", "all/own-0", cwd=folder.path)


# --- Pictures -------------------------------------------------------------------------


def test_pictures_hold_the_curves(folder, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    all_ = folder.path / "all"
    out = tmp_path / "new" / "curves"
    text = runs("compare", all_ / "fp32-0", all_ / "own-1", "-o", out)
    assert f"curves: {out}.html and {out}.png\n" in text
    pixels = image.imread(f"{out}.png")
    height, width = pixels.shape[:2]
    assert 900 <= width <= 3000 and 500 <= height <= 2000
    for color in curves.COLORS[:2]:
        rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        assert (np.abs(pixels[..., :3] - rgb).max(-1) < 0.02).sum() > 500
    page = out.with_suffix(".html").read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)\s*=", page)

    def is_there(values):
        return ",".join(str(float(f"{value:.7g}")) for value in values) in page

    held = {}
    for name in ("fp32-0", "own-1"):
        metrics = read_metrics(all_ / name)
        held[name] = [s["eval_loss"] for s in metrics if s["eval_loss"] is not None]
        assert is_there(held[name])
        assert is_there(s["loss"] for s in metrics if s["loss"] is not None)
    assert is_there(b - a for a, b in zip(held["fp32-0"], held["own-1"]))
    runs("compare", all_, "-o", tmp_path / "only.png")
    assert [p.name for p in tmp_path.glob("only*")] == ["only.png"]


def test_seeds_of_a_policy_are_one_curve(folder):
    all_ = folder.path / "all"
    read = [read_run(all_ / name) for name in ("own-0", "fp32-0", "own-1", "fp32-1")]
    own, plain = curves.make_curves(group_runs(read))
    assert (own.label, plain.label) == ("own (2 runs)", "fp32 (2 runs)")
    assert plain.color != own.color
    both = np.array([[s["loss"] for s in read_metrics(r.path)] for r in plain.runs])
    held = np.array(
        [[s["eval_loss"] for s in read_metrics(r.path)] for r in plain.runs]
    )
    held = held[:, EVERY - 1 :: EVERY].astype(float)
    # 3 steps: one on each side.
    smooth = np.array([np.convolve(row, np.ones(3) / 3, "valid") for row in both])
    for series, rows, part in (
        (plain.training, smooth, slice(1, -1)), (plain.held_out, held, slice(None)),
    ):  # fmt: skip
        np.testing.assert_allclose(series.mean[part], rows.mean(0), rtol=1e-12)
        np.testing.assert_allclose(series.low[part], rows.min(0), rtol=1e-12)
        np.testing.assert_allclose(series.high[part], rows.max(0), rtol=1e-12)
    assert list(plain.held_out.steps) == [20, 40, 60]
    # A single run shows its steps, and is named by what differs.
    labels = [curve.label for curve in curves.make_curves(group_runs(read[:2]))]
    assert labels == ["own", "fp32"]
    one, other = curves.make_curves(group_runs([read[0], read[3]]))
    assert (one.label, other.label) == ("own, seed 0", "fp32, seed 1")
    assert one.raw == read[0].series("loss") and own.raw == {}


# --- What goes wrong ------------------------------------------------------------------


def test_no_run_is_an_error(folder, tmp_path):
    for command in ((), ("compare",)):
        for path in (tmp_path, tmp_path / "absent"):
            text = runs(*command, path, code=3)
            assert text.startswith(f"binade runs: error: {path}: ")
            assert "expected run.json" in text
    assert "usage" in runs("compare", code=2)


@pytest.mark.parametrize(
    ("name", "line", "text", "words"),
    [
        ("metrics.jsonl", 7, '{"step": 7', "metrics.jsonl:7: damaged"),
        ("metrics.jsonl", 2, "[]", "metrics.jsonl:2: expected a JSON object"),
        ("metrics.jsonl", 3, '{"step": 3}', "metrics.jsonl:3: no 'loss' of a step"),
        ("run.json", 2, "", "run.json: lacks 'model', which 'binade train' writes"),
        ("run.json", 3, '"dims": [],', "run.json: not what"),
        ("run.json", 1, "", "run.json: damaged"),
        (
            "metrics.jsonl",
            None,
            "",
            "metrics.jsonl: expected in the directory of run.json",
        ),
    ],
)
def test_damage_is_named(name, line, text, words, run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    if line is None:
        (copy / name).unlink()
    else:
        lines = (copy / name).read_text().splitlines()
        lines[line - 1] = text
        (copy / name).write_text("\n".join(lines) + "\n")
    assert f"{copy}/{words}" in runs(copy, code=3)


def test_a_line_that_is_being_written_is_not_read(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    with (copy / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "lo')
    assert parse_table(runs(copy))[str(copy)]["steps"] == str(STEPS)


def test_a_package_that_is_missing_is_named(run, tmp_path):
    code = (
        "import sys; sys.modules['plotly'] = None; from binade import runs, command; "
        "sys.exit(command.run_command('binade runs', runs._main))"
    )
    command = [sys.executable, "-c", code, "compare", run, "-o", tmp_path / "x"]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    assert process.returncode == 3
    assert "pictures need the Python package 'plotly'" in process.stderr
    assert parse_table(process.stdout.split("\n\n", 1)[1])[str(run)]
