"""`binade runs` prints tables and comparisons and draws curves of the runs of a folder."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from binade import curves
from binade.run import group_runs, name_setting, read_run
from support.paths import BUILD, ROOT
from support.reference import binade, safetensors
from support.run_folders import (
    EVERY,
    OWN_POLICY,
    STEPS,
    Folder,
    read_about,
    read_metrics,
    sha256,
)

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)


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


def runs(*arguments, code=0, **options):
    process = binade("runs", *arguments, **options)
    assert process.returncode == code, process.stderr
    return process.stdout if code == 0 else process.stderr


def parse_table(text):
    """Returns the rows of a table, by their first cell."""
    head, rule, *lines = text.split("\n\n")[0].splitlines()
    edges = [match.span() for match in re.finditer("-+", rule)]
    cells = [[line[a:b].strip() for a, b in edges] for line in (head, *lines)]
    return {row[0]: dict(zip(cells[0][1:], row[1:])) for row in cells[1:]}


def test_runs_are_listed_without_packages(folder):
    """Installed commands run with any Python: -S leaves out numpy and all other packages."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "binade.runs", "all"],
        capture_output=True, text=True, timeout=600, cwd=folder.path,
        env={"PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == runs("all", cwd=folder.path)


def test_the_table_lists_the_runs_of_a_folder(folder):
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
        assert row["best"] == f"{held[best]:.4f} at {best}"
        assert row["ms/step"] == f"{np.median(column['ms'][1 + STEPS // 10 :]):.3g}"
        assert float(row["MiB"]) == pytest.approx(
            about["arena_bytes"] / 2**20, rel=0.05
        )
        assert row["skipped"] == str(int(column["skipped"].sum()))
    assert int(table["all/own-0"]["skipped"]) > 0
    # The working directory; a run that is named twice.
    assert list(parse_table(runs(cwd=folder.path / "all"))) == names
    assert list(parse_table(runs("own-1", "./own-1/", cwd=folder.path / "all"))) == [
        "own-1"
    ]


def test_settings_of_groups_have_names():
    assert [name_setting(key) for key in ("lr", "lr@1")] == ["lr", "lr of group 1"]


def test_compare_lists_only_differences(folder, tmp_path):
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
    # A policy with the same name and another text.
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
    assert text.startswith("the runs have the same settings and files\n")


def test_compare_shows_the_spread_over_seeds(folder):
    text = runs("compare", "all", cwd=folder.path)
    differences, _, _, spread, verdict, _ = text.split("\n\n")
    # A column for each policy, with the values of all its runs.
    assert parse_table(differences)["seed"] == {
        "fp32 (2 runs)": "0, 1", "own (2 runs)": "0, 1"
    }  # fmt: skip
    table = parse_table(spread)
    assert list(table) == ["fp32 (2 runs)", "own (2 runs)"]
    assert list(parse_table(verdict)) == ["fp32", "own"]
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


def test_pictures_contain_the_curves(folder, tmp_path):
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


def test_seeds_of_a_policy_share_a_curve(folder):
    all_ = folder.path / "all"
    read = [read_run(all_ / name) for name in ("own-0", "fp32-0", "own-1", "fp32-1")]
    own, plain = curves.make_curves(group_runs(read))
    assert (own.label, plain.label) == ("own (2 runs)", "fp32 (2 runs)")
    assert plain.color != own.color
    both = np.array([[s["loss"] for s in read_metrics(r.path)[1:]] for r in plain.runs])
    held = np.array(
        [[s["eval_loss"] for s in read_metrics(r.path)] for r in plain.runs]
    )
    held = held[:, ::EVERY].astype(float)
    # The moving average has 3 steps, one on each side.
    smooth = np.array([np.convolve(row, np.ones(3) / 3, "valid") for row in both])
    for series, rows, part in (
        (plain.training, smooth, slice(1, -1)), (plain.held_out, held, slice(None)),
    ):  # fmt: skip
        np.testing.assert_allclose(series.mean[part], rows.mean(0), rtol=1e-12)
        np.testing.assert_allclose(series.low[part], rows.min(0), rtol=1e-12)
        np.testing.assert_allclose(series.high[part], rows.max(0), rtol=1e-12)
    assert list(plain.held_out.steps) == [0, 20, 40, 60]
    # A single run is labeled by what differs from other runs.
    labels = [curve.label for curve in curves.make_curves(group_runs(read[:2]))]
    assert labels == ["own", "fp32"]
    one, other = curves.make_curves(group_runs([read[0], read[3]]))
    assert (one.label, other.label) == ("own, seed 0", "fp32, seed 1")
    assert one.raw == read[0].series("loss") and own.raw == {}


def test_folders_without_runs_are_errors(folder, tmp_path):
    for command in ((), ("compare",)):
        for path in (tmp_path, tmp_path / "absent"):
            text = runs(*command, path, code=3)
            assert text.startswith(f"binade runs: error: {path}: ")
            assert "expected run.json" in text
    assert "RUN is required" in runs("compare", code=2)


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
def test_damaged_lines_are_named(name, line, text, words, run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    if line is None:
        (copy / name).unlink()
    else:
        lines = (copy / name).read_text().splitlines()
        lines[line - 1] = text
        (copy / name).write_text("\n".join(lines) + "\n")
    assert f"{copy}/{words}" in runs(copy, code=3)


def test_an_incomplete_last_line_is_not_read(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    with (copy / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "lo')
    assert parse_table(runs(copy))[str(copy)]["steps"] == str(STEPS)


def test_a_missing_package_is_named(run, tmp_path):
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
