"""`binade sweep` trains a model under several policies and writes a page."""

import html
import json
import re
import shlex

import numpy as np
import pytest
from binade import safetensors
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, options, write

pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-sweep").exists(), reason="the tools are not built"
)
RANDOM = np.random.default_rng(5)
STEPS = 8
POLICIES = ["fp32", "bf16-amp"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    x = RANDOM.standard_normal((32, 8)).astype(F32)
    first, second = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
    write(folder, TWO_LAYERS, x, first=first, second=second)
    return folder


def sweep(folder, out, *more, policies=POLICIES, code=0):
    words = options(folder, "", 0.01)[:-2]  # No policy.
    process = binade(
        "sweep", folder / "model.onnx", *words, "--policies", ",".join(policies),
        "--steps", STEPS, "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def read_metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").open()]


def read_rows(page):
    """Returns the rows of the table of runs."""
    table = re.search(r"<h2>Runs</h2>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)[1]
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in table.split("</tr>")
            if row.strip()]  # fmt: skip


@pytest.fixture(scope="module")
def swept(folder):
    sweep(folder, folder / "out", "--seeds", "0,1", "--jobs", 2)
    return folder / "out"


def test_the_page_shows_the_results_of_the_runs(swept):
    rows = read_rows((swept / "report.html").read_text())
    assert [row[:2] for row in rows] == [[p, s] for p in POLICIES for s in "01"]
    losses = {}
    for row in rows:
        metrics = read_metrics(swept / "runs" / f"{row[0]}.{row[1]}")
        assert len(metrics) == STEPS
        losses[row[0], row[1]] = np.mean([m["loss"] for m in metrics[-10:]])
        assert row[2] == f"{losses[row[0], row[1]]:.4f}"
        gap = losses[row[0], row[1]] - losses["fp32", row[1]]
        assert float(row[3]) == pytest.approx(gap, abs=1e-4)
        assert int(row[6]) == sum(m["skipped"] for m in metrics)
    assert losses["fp32", "0"] != losses["bf16-amp", "0"]


def test_the_terminal_shows_the_verdict_of_the_page(swept, folder):
    printed = sweep(folder, swept, "--seeds", "0,1", "--jobs", 2).stdout
    page = html.unescape((swept / "report.html").read_text())
    choice = re.search(r"\b(Take (?:fp32|bf16-amp)[^<]*?\.)(?=[ <])", page)[1]
    assert choice in " ".join(printed.split())


def test_a_command_from_the_page_repeats_its_run(swept, folder):
    page = (swept / "report.html").read_text()
    commands = re.findall(r'data-copy="(.*?)"', page)
    words = shlex.split(html.unescape(commands[2]))
    assert words[:2] == ["binade", "train"] and words[-2] == "--out"
    done = binade(*words[1:-1], folder / "again")
    assert done.returncode == 0, done.stderr
    again, first = (
        [m["loss"] for m in read_metrics(run)]
        for run in (folder / "again", swept / "runs/bf16-amp.0")
    )
    assert again == first


def test_finished_runs_are_not_repeated(swept, folder):
    """A killed run resumes from its checkpoint."""
    killed, kept = swept / "runs/bf16-amp.1", swept / "runs/fp32.0"
    before, lost = read_metrics(kept), read_metrics(killed)
    (killed / "done").unlink()
    (killed / "final.safetensors").unlink(missing_ok=True)
    sweep(folder, swept, "--seeds", "0,1", "--jobs", 2)
    assert read_metrics(kept) == before  # Including times.
    after = read_metrics(killed)
    assert [m["loss"] for m in after] == [m["loss"] for m in lost]
    words = options(folder, "", 0.02)[:-2]
    other = binade("sweep", folder / "model.onnx", *words, "--policies", "fp32", "--steps",
                   STEPS, "--out", swept)  # fmt: skip
    assert other.returncode == 3 and "contains a run of another command" in other.stderr


def test_a_run_stopped_by_a_non_finite_loss_is_a_failure(folder, tmp_path):
    write(tmp_path, TWO_LAYERS, np.full((32, 8), 6e4, F32),
          first=np.eye(8, dtype=F32), second=np.eye(8, dtype=F32))  # fmt: skip
    process = sweep(tmp_path, tmp_path / "out", "--max-skipped", 3, code=1,
                    policies=["fp16-amp", "fp32"])  # fmt: skip
    assert "fp16-amp, seed 0: exit code 4" in process.stdout
    page = (tmp_path / "out/report.html").read_text()
    assert "The base is <b>fp32</b>" in page
    assert [row[2] == "-" for row in read_rows(page)] == [True, False]


def test_a_changed_policy_is_refused(folder, tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text("name: mine\nextends: fp32\n")
    sweep(folder, tmp_path / "out", policies=[str(policy)])
    policy.write_text("name: mine\nextends: bf16-amp\n")
    process = sweep(folder, tmp_path / "out", policies=[str(policy)], code=3)
    assert "another policy with this name" in process.stderr


def test_a_failed_policy_has_a_row(folder, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: bad\nextends: nothing\n")
    policies = ["fp32", str(tmp_path / "bad.yaml")]
    sweep(folder, tmp_path / "out", policies=policies, code=1)
    rows = read_rows((tmp_path / "out/report.html").read_text())
    assert rows[1][0] == "bad" and rows[1][2] == "-"
    assert "exit code 3" in rows[1][-1] and "nothing" in rows[1][-1]
    nothing = binade("sweep", folder / "model.onnx", *options(folder, "", 0.01)[:-2],
                     "--policies", policies[1], "--seeds", "0,1", "--steps", 2,
                     "--out", tmp_path / "no")  # fmt: skip
    assert nothing.returncode == 3 and "no run finished" in nothing.stderr
    lines = nothing.stdout.splitlines()
    assert "exit code 3" in lines[0] and len(lines) == 2
    assert all(line.endswith(": the same error") for line in lines[1:])
    assert not (tmp_path / "no/report.html").exists()


def test_a_failure_is_reported_with_its_remedy(folder, tmp_path):
    data = tmp_path / "other.safetensors"
    safetensors.save(data, {"other": np.zeros((32, 8), F32)})
    process = binade("sweep", folder / "model.onnx", "--data", data, "--policies", "fp32",
                     "--steps", 2, "--out", tmp_path / "out")  # fmt: skip
    assert process.returncode == 3
    (line,) = process.stdout.splitlines()
    assert "no tensor" in line and "; inputs are found by name; --window cuts" in line


@pytest.mark.parametrize(
    "words, said",
    [
        (["--policies", "fp32,"], "names with commas between"),
        (["--policies", "fp32,fp32"], "two policies have the same name"),
        (["--policies", "fp32,bf16-amq"], "did you mean 'bf16-amp'?"),
        (["--policies", "fp32", "--seeds", "x"], "numbers with commas between"),
        (["--policies", "fp32", "--seed", "1"], "set by the sweep"),
        (["--policies", "fp32", "--jobs", "0"], "a number from 1 on"),
    ],
)
def test_invalid_sweeps_are_rejected(folder, tmp_path, words, said):
    process = binade("sweep", folder / "model.onnx", "--data",
                     folder / "data.safetensors", "--steps", 2, "--out", tmp_path / "out",
                     *words)  # fmt: skip
    assert process.returncode == 2 and said in process.stderr
    assert not (tmp_path / "out").exists()
