"""`binade search` finds the best policy within a budget."""

import json
import os
import re

import numpy as np
import pytest
from binade.candidates import WIDE, Space
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, options, write

pytest.importorskip("onnx")

RANDOM = np.random.default_rng(7)
STEPS = 8
SMALL = ["--policies", "bf16-amp,fp16-amp", "--states", "bf16", "--saved", "bf16",
         "--kept", "50%"]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("optuna")
    if not (BUILD / "bin/binade-search").exists():
        pytest.skip("the tools are not built")
    folder = tmp_path_factory.mktemp("search")
    x = RANDOM.standard_normal((48, 8)).astype(F32)
    first, second = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
    write(folder, TWO_LAYERS, x, first=first, second=second)
    return folder


def adamw(folder):
    """Returns the training options for AdamW, without a policy."""
    words = [str(word) for word in options(folder, "", 0.01)[:-2]]
    return [word if word != "sgd" else "adamw" for word in words]


def search(folder, budget, out, *more, code=0, steps=STEPS):
    process = binade(
        "search", folder / "model.onnx", *adamw(folder),
        "--eval-fraction", 0.25, "--budget", budget, "--steps", steps, "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def plan(folder, policy, *more):
    process = binade("inspect", folder / "model.onnx", "--optimizer", "adamw", "--policy",
                     policy, *more, "--json")  # fmt: skip
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)["arena_bytes"]


def read_rows(out):
    """Returns the rows of the table of candidates, by name."""
    lines = (out / "report.txt").read_text().split("\n\n")[0].splitlines()[2:]
    cells = [line.split(maxsplit=5) for line in lines]
    return {row[0]: row[1:] for row in cells}


def held_out(out, name):
    lines = [
        json.loads(line) for line in (out / "runs" / name / "metrics.jsonl").open()
    ]
    return {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line}


@pytest.fixture(scope="module")
def searched(folder):
    out = folder / "out"
    # Without instructions for bf16, oneDNN's memory is several times that of this model.
    process = search(folder, "memory=1000%", out, *SMALL, "--trials", 6)
    return out, process


def test_halving_continues_with_the_better_half(searched):
    out, process = searched
    rows = read_rows(out)
    base = held_out(out, "fp32.0")
    assert rows.pop("fp32")[2] == str(STEPS)
    assert len(rows) == 6 and "evidence" in process.stdout or len(rows) == 6
    by_steps = {2: [], 4: [], 8: []}
    for name, row in rows.items():
        losses = held_out(out, f"{name}.0")
        steps = int(row[2])
        by_steps[steps].append(name)
        gap = losses[steps] - base[steps]
        assert float(row[3]) == pytest.approx(gap, abs=1e-4)
        assert row[4] == ("all steps" if steps == STEPS else f"left after step {steps}")
    assert {steps: len(names) for steps, names in by_steps.items()} == {
        2: 3,
        4: 1,
        8: 2,
    }

    # Each rung keeps the better half.
    def gap_at(name, step):
        return held_out(out, f"{name}.0")[step] - base[step]

    stayed = by_steps[4] + by_steps[8]
    assert max(gap_at(n, 2) for n in stayed) <= min(gap_at(n, 2) for n in by_steps[2])
    assert max(gap_at(n, 4) for n in by_steps[8]) <= gap_at(by_steps[4][0], 4)


def test_the_result_is_the_best_candidate_within_the_budget(searched, folder):
    out, process = searched
    rows = read_rows(out)
    whole = {n: float(r[3]) for n, r in rows.items() if r[4:] == ["all steps"]}
    best = min(whole, key=whole.get)
    assert f"found: {best}, in {out / 'best.yaml'}" in process.stdout
    again = binade("train", folder / "model.onnx", *adamw(folder), "--policy",
                   out / "best.yaml", "--eval-fraction", 0.25, "--eval-every", 2, "--steps",
                   STEPS, "--seed", 0, "--out", folder / "again")  # fmt: skip
    assert again.returncode == 0, again.stderr
    last = json.loads((folder / "again/metrics.jsonl").read_text().splitlines()[-1])
    assert last["eval_loss"] == held_out(out, f"{best}.0")[STEPS]
    page = (out / "report.html").read_text()
    assert "<h2>Candidates</h2>" in page and best in page
    # The verdict and the marked rows are about the best candidate.
    assert f"<p>Take {best}: lowest loss within the budget; " in page or best == "fp32"
    marked = re.findall(r'<tr class="chosen"><th scope="row">(.*?)</th>', page)
    assert marked == [best, best]


def test_candidates_over_the_budget_are_not_trained(folder, tmp_path):
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text("name: narrow\nextends: bf16-amp\nrules:\n"
                      "- {match: {op: optimizer_update}, state: bf16}\n")  # fmt: skip
    budget = plan(folder, narrow)
    assert budget < plan(folder, "bf16-amp")
    process = search(folder, f"memory={budget}", tmp_path / "out", "--trials", 4,
                     "--policies", "bf16-amp", "--states", "bf16", "--saved", "bf16")  # fmt: skip
    rows = read_rows(tmp_path / "out")
    assert rows["bf16-amp"][1:] == ["-", "0", "-", "over the budget of memory"]
    # It may be trained for two steps, to measure the errors of its ops.
    assert max(held_out(tmp_path / "out", "bf16-amp.0"), default=0) <= 2
    assert plan(folder, tmp_path / "out/best.yaml") <= budget
    assert "state: bf16" in process.stdout


def test_no_candidate_within_the_budget(folder, tmp_path):
    process = search(folder, "memory=10%", tmp_path / "out", "--policies", "bf16-amp",
                     "--states", "bf16", "--saved", "bf16", "--kept", "1%",
                     code=1)  # fmt: skip
    assert "no candidate is within memory=10%" in process.stdout
    assert not (tmp_path / "out/best.yaml").exists()
    # Each candidate was planned, none was trained.
    tried = list((tmp_path / "out/tried").glob("*.yaml"))
    assert len(tried) == len(WIDE) * 2 * 2 * 2
    assert not list(tmp_path.glob("out/runs/bf16-amp_*"))
    space = Space(["bf16-amp"], ["bf16"], ["bf16"], ["1%"])
    assert len(space.list_first()) == 3


def write_deep(folder):
    """Writes a model of layers with elementwise ops that can be recomputed from one value."""
    blocks = [
        f"[up{i}] a{i} = MatMul({f'd{i - 1}' if i else 'x'}, weight_{i}) "
        f"[tanh{i}] b{i} = Tanh(a{i}) [gate{i}] c{i} = Sigmoid(b{i}) "
        f"[product{i}] d{i} = Mul(a{i}, c{i})"
        for i in range(4)
    ]
    declared = ", ".join(f"float[16, 16] weight_{i} = {{WEIGHT_{i}}}" for i in range(4))
    text = f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[128, 16] x) => (float loss) <{declared}> {{
        {" ".join(blocks)}
        [square] squares = Mul(d3, d3)
        [mean] loss = ReduceMean <keepdims = 0> (squares) }}"""
    weights = {
        f"weight_{i}": RANDOM.standard_normal((16, 16)).astype(F32) / 2
        for i in range(4)
    }
    write(folder, text, RANDOM.standard_normal((512, 16)).astype(F32), **weights)


def test_rematerialization_frees_saved_values(tmp_path):
    """Recomputed values have the same bits. Kept fractions that are too small are not tried."""
    pytest.importorskip("optuna")
    if not (BUILD / "bin/binade-search").exists():
        pytest.skip("the tools are not built")
    write_deep(tmp_path)
    budget = plan(tmp_path, "fp32") - 1
    process = search(tmp_path, f"memory={budget}", tmp_path / "out", "--trials", 1,
                     "--policies", "fp32", "--states", "f32", "--saved", "f32",
                     "--kept", "1%,75%")  # fmt: skip
    rows = read_rows(tmp_path / "out")
    assert rows["fp32"][4] == "over the budget of memory"
    assert rows["fp32_kept-1"][:4] == ["-", "-", "0", "-"]
    assert rows["fp32_kept-1"][4].startswith("a budget of ")
    assert rows["fp32_states-f32_saved-f32"][4] == "the same as fp32"
    (found,) = [name for name, row in rows.items() if row[4] == "all steps"]
    assert "_kept-75" in found
    losses = held_out(tmp_path / "out", f"{found}.0")
    assert losses == held_out(tmp_path / "out", "fp32.0") and len(losses) > 1
    command = process.stdout.splitlines()[-1]
    assert "--activation-memory 75% --steps" in command
    assert (
        "\n# with --activation-memory 75%.\n"
        in (tmp_path / "out/best.yaml").read_text()
    )
    again = plan(tmp_path, tmp_path / "out/best.yaml", "--activation-memory", "75%")
    assert again <= budget < plan(tmp_path, tmp_path / "out/best.yaml")


def test_candidates_with_equal_plans_are_trained_once(folder, tmp_path):
    alike = tmp_path / "alike.yaml"
    alike.write_text("name: alike\nextends: bf16-amp\nrules:\n"
                     "- {match: {op: optimizer_update}, state: f32}\n")  # fmt: skip
    search(folder, "time=60000ms", tmp_path / "out", "--trials", 2, "--policies",
           f"bf16-amp,{alike}", "--states", "bf16", "--saved", "bf16", steps=4)  # fmt: skip
    rows = read_rows(tmp_path / "out")
    assert rows["alike"][1:] == ["-", "0", "-", "the same as bf16-amp"]
    assert not list(tmp_path.glob("out/runs/alike*"))
    trained = {path.name for path in tmp_path.glob("out/runs/*")}
    assert trained == {"fp32.0", "bf16-amp.0", "bf16-amp_states-bf16_saved-bf16.0"}
    # Training the skipped candidate would have given the same losses.
    process = binade("train", folder / "model.onnx", *adamw(folder), "--policy", alike,
                     "--eval-fraction", 0.25, "--eval-every", 1, "--steps", 4, "--seed", 0,
                     "--out", tmp_path / "out/runs/alike.0")  # fmt: skip
    assert process.returncode == 0, process.stderr
    losses = held_out(tmp_path / "out", "bf16-amp.0")
    assert losses.items() <= held_out(tmp_path / "out", "alike.0").items() and losses


def test_a_search_resumes(searched, folder):
    """As after a kill: finished runs are read, unfinished runs are trained again."""
    out, process = searched
    metrics = {path: path.read_bytes() for path in out.glob("runs/*/metrics.jsonl")}
    lost = out / "runs/bf16-amp.0"
    (lost / "done").unlink()
    for path in lost.glob("final.safetensors"):
        path.unlink()
    again = search(folder, "memory=1000%", out, *SMALL, "--trials", 6)
    untouched = [path for path in metrics if path.parent != lost]
    assert all(path.read_bytes() == metrics[path] for path in untouched)
    found = [line for line in process.stdout.splitlines() if line.startswith("found:")]
    assert found and found[0] in again.stdout.splitlines()


def test_invalid_options_are_errors(folder, tmp_path):
    process = search(folder, "memory=70%", tmp_path / "out", "--policy", "fp32", code=2)
    assert "--policy: set by the search" in process.stderr
    process = search(folder, "memory=70%", tmp_path / "out", "--factor", 1, code=2)
    assert "--factor: expected a number from 2 on" in process.stderr
    process = search(
        folder,
        "memory=70%",
        tmp_path / "out",
        "--policies",
        "coat,my/coat.yaml",
        code=2,
    )
    assert "--policies: two policies have the same name" in process.stderr
    process = search(
        folder, "memory=70", tmp_path / "out", "--policies", "fp99", code=3
    )
    assert "fp99" in process.stderr


@pytest.mark.parametrize("package", ["optuna", "plotly"])
def test_missing_packages_are_reported_before_training(folder, tmp_path, package):
    (tmp_path / f"{package}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')\n"
    )
    process = binade(
        "search", folder / "model.onnx", *adamw(folder), "--eval-fraction", 0.25,
        "--budget", "memory=70%", "--steps", STEPS, "--out", tmp_path / "out",
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert process.returncode == 3
    assert f"needs the Python package '{package}'" in process.stderr
    assert not list(tmp_path.glob("out/runs/*"))
