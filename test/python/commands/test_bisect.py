"""`binade bisect` finds the precision decisions that harm training, with few training runs."""

import numpy as np
import pytest
from binade.criterion import parse_criterion
from binade.errors import UsageError
from binade.run import read_run
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, options, train, write

pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-bisect").exists(), reason="the tools are not built"
)
RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((64, 8)).astype(F32)
FIRST, SECOND = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
STEPS = 8
# One layer is in f16, where its matmul overflows; the rest is in bf16.
PLANTED = """name: planted
extends: bf16-amp
rules:
- { match: { name: down, phase: forward }, compute: f16, accumulate: f32, result: f16 }
"""
LOSSY = """name: lossy
extends: bf16-amp
rules:
- { match: { op: optimizer_update }, parameter: bf16 }
"""


@pytest.fixture
def folder(tmp_path):
    x = X.copy()
    x[20:24] *= 3000  # The batch of step 6.
    write(tmp_path, TWO_LAYERS, x, first=FIRST, second=5 * SECOND)
    (tmp_path / "planted.yaml").write_text(PLANTED)
    return tmp_path


def bisect(folder, policy, criterion, *more, lr=0):
    return binade("bisect", folder / "model.onnx", *options(folder, policy, lr),
                  "--criterion", criterion, "--out", folder / "out", *more)  # fmt: skip


def find_rules(folder):
    lines = (folder / "out/repaired.yaml").read_text().splitlines()
    return [line for line in lines if line.startswith("- ")]


def list_runs(folder):
    return sorted((folder / "out/runs").glob("*/done"))


def test_a_planted_fault_is_found_in_five_runs(folder):
    """Runs: fp32, the policy, all ops wide, the forward pass wide, the top suspect wide."""
    process = bisect(folder, folder / "planted.yaml", f"loss@{STEPS} <= fp32*1.1")
    assert process.returncode == 0, process.stderr
    assert find_rules(folder) == [
        "- {match: {name: down, phase: forward}, class: deny}"
    ]
    assert "to blame: down (forward)" in process.stdout
    assert len(list_runs(folder)) == 5
    report = (folder / "out/report.txt").read_text()
    assert report.count("out/runs/") == 5 and "  bad   none" not in report
    # Training again with the repaired policy gives the same run as in the search.
    again = train(
        folder, folder / "again", folder / "out/repaired.yaml", steps=STEPS, lr=0
    )
    exact = train(folder, folder / "exact", "fp32", steps=STEPS, lr=0)
    losses = [read_run(run).steps[-1]["loss"] for run in (again, exact)]
    assert losses[0] <= 1.1 * losses[1]


def test_finished_runs_are_not_repeated(folder):
    """A search resumes after --max-runs or a simulated kill stopped it."""
    criterion = f"loss@{STEPS} <= fp32*1.1"
    first = bisect(folder, folder / "planted.yaml", criterion, "--max-runs", 4)
    assert (
        first.returncode == 1
        and "out of runs: the same command continues" in first.stdout
    )
    assert "the best so far" in first.stdout
    assert find_rules(folder) == ["- {match: {phase: forward}, class: deny}"]
    runs = list_runs(folder)
    assert len(runs) == 4
    killed = runs.pop()
    killed.unlink()
    times = [path.stat().st_mtime_ns for path in runs]
    second = bisect(folder, folder / "planted.yaml", criterion)
    assert second.returncode == 0, second.stderr
    assert [path.stat().st_mtime_ns for path in runs] == times
    assert "5 runs, 2 of them trained now" in second.stdout
    assert f"resumed after step {STEPS}" in (killed.parent / "log.txt").read_text() or (
        "resumed after step" in (killed.parent / "log.txt").read_text()
    )
    assert find_rules(folder) == [
        "- {match: {name: down, phase: forward}, class: deny}"
    ]
    third = bisect(folder, folder / "planted.yaml", criterion)
    assert "5 runs, 0 of them trained now" in third.stdout


def test_lost_updates_of_parameters_are_found(tmp_path):
    """bf16 parameters without master weights: at step 60 the loss exceeds that of fp32."""
    write(tmp_path, TWO_LAYERS, X, first=FIRST, second=SECOND)
    (tmp_path / "lossy.yaml").write_text(LOSSY)
    process = bisect(tmp_path, tmp_path / "lossy.yaml", "loss@60 <= fp32*1.01", lr=2e-4)
    assert process.returncode == 0, process.stderr
    (rule,) = find_rules(
        tmp_path
    )  # Both parameters must be wide: one rule for the group.
    assert rule.startswith("- {match: {op: optimizer_update}, parameter: f32,")
    assert "2  bad" in process.stdout


def test_a_policy_that_meets_the_criterion(folder):
    process = bisect(folder, "bf16-amp", f"loss@{STEPS} <= fp32*1.1")
    assert process.returncode == 0, process.stderr
    assert "the policy meets the criterion as it is" in process.stdout
    assert len(list_runs(folder)) == 2 and not (folder / "out/repaired.yaml").exists()


def test_a_criterion_that_fp32_misses(folder):
    """fp32 does not meet the limit either."""
    process = bisect(folder, folder / "planted.yaml", f"loss@{STEPS} <= 1e-9")
    assert process.returncode == 1, process.stderr
    assert "with all wide the criterion is not met either" in process.stdout
    assert len(list_runs(folder)) == 2 and not (folder / "out/repaired.yaml").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eval_loss@200 <= fp32*1.01", ("eval_loss", 200, "<=", "*", 1.01)),
        ("loss@3<fp32 + 0.5", ("loss", 3, "<", "+", 0.5)),
        ("skipped@10 <= 2", ("skipped", 10, "<=", "", 2.0)),
        ("loss_scale@9 >= fp32", ("loss_scale", 9, ">=", "*", 1.0)),
    ],
)
def test_criteria_are_parsed(text, expected):
    c = parse_criterion(text)
    assert (c.metric, c.step, c.relation, c.sign, c.number) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("loss <= 3", "no comparison of the metric of a step"),
        ("los@3 <= 3", "no metric is called 'los': there are loss, eval_loss"),
        ("loss@0 <= 3", "'0' is not a step"),
        ("loss@x <= 3", "'x' is not a step"),
        (
            "loss@3 <= bf16*2",
            "'bf16*2' is neither a number nor a multiple of fp32's metric",
        ),
        ("loss@3 <= fp32*x", "'x' is not a number"),
        ("loss@3 <= nan", "'nan' is not a finite number"),
        ("loss@3 == 2", "no comparison"),
    ],
)
def test_invalid_criteria_are_rejected(text, why):
    with pytest.raises(UsageError, match="write METRIC@STEP <= LIMIT") as error:
        parse_criterion(text)
    assert why in str(error.value)


def test_invalid_options_are_errors(folder):
    process = bisect(folder, "bf16-amp", "loss <= 3")
    assert process.returncode == 2 and process.stderr.startswith(
        "binade bisect: error: "
    )
    process = bisect(folder, "bf16-amp", "loss@2 <= 3", "--states", "bf16")
    assert process.returncode == 2 and "states belong into the policy" in process.stderr
    process = bisect(folder, "bf16-amp", "eval_loss@2 <= 3")
    assert process.returncode == 2 and "--eval-fraction" in process.stderr
    process = bisect(folder, "bf16-xmp", "loss@2 <= 3")
    assert process.returncode == 2 and "did you mean 'bf16-amp'?" in process.stderr
    process = bisect(folder, "bf16-amp", "loss@2 <= 3", "--lrs", "3")
    assert process.returncode == 2 and "--lrs" in process.stderr, process.stderr
    process = bisect(folder, "bf16-amp", "loss@2 <= 3", "--max-runs=-1")
    assert process.returncode == 2 and "from 0 on, got '-1'" in process.stderr


def test_max_runs_may_end_before_the_search(folder):
    for runs, known in ((1, "1 runs, 1 of"), (1, "2 runs, 1 of")):
        process = bisect(folder, folder / "planted.yaml", f"loss@{STEPS} <= fp32*1.1",
                         "--max-runs", runs)  # fmt: skip
        assert process.returncode == 1 and process.stderr == "", process.stderr
        assert known in process.stdout and "out of runs" in process.stdout
    assert not (folder / "out/repaired.yaml").exists()
