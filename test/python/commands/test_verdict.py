"""Verdicts on policies follow from the losses, times and memory of their runs."""

import numpy as np
import pytest
from binade import paired, step_times, verdict
from binade.run import group_runs, read_run
from support.planted_runs import plant

SEEDS = range(4)
STEPS = 20
RANDOM = np.random.default_rng(3)
# Held-out losses of fp32, whose standard deviation is 0.1 * sqrt(5 / 3).
BASE = np.array([2.9, 3.0, 3.1, 3.2])


def group(path, policies):
    """Plants runs; `policies` has their held-out losses and other properties by policy."""
    return {
        policy: [
            read_run(
                plant(
                    path / policy / str(seed),
                    policy,
                    seed,
                    [4.0] * STEPS,
                    {STEPS: loss},
                    **more,
                )
            )
            for seed, loss in enumerate(losses)
        ]
        for policy, (losses, more) in policies.items()
    }


def compare(groups):
    return paired.compare(groups, paired.get_base(groups))


def test_differences_are_paired_by_seed(tmp_path):
    others = BASE + RANDOM.normal(0.01, 0.02, 4)
    groups = group(tmp_path, {"bf16-amp": (others[:3], {}), "fp32": (BASE, {})})
    one = compare(groups)["bf16-amp"]
    differences = others[:3] - BASE[:3]
    assert one.base == "fp32" and sorted(one.differences) == [0, 1, 2]
    assert one.mean == pytest.approx(differences.mean())
    assert one.noise == pytest.approx(np.std(BASE, ddof=1))
    # From a table of Student's t distribution: two-sided, 95 %, 2 degrees of freedom.
    margin = 4.3027 * differences.std(ddof=1) / np.sqrt(3)
    assert one.margin == pytest.approx(margin, rel=1e-4)


@pytest.mark.parametrize(
    "freedom, expected", [(1, 12.7062), (2, 4.3027), (5, 2.5706), (9, 2.2622), (30, 2.0423)]
)  # fmt: skip
def test_quantiles_of_students_t(freedom, expected):
    assert paired.get_quantile(freedom) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "differences, expected",
    [
        ([0.01, -0.01, 0.02, 0.0], "equals fp32 within seed noise"),
        ([0.3, 0.31, 0.29, 0.3], "higher loss than fp32"),
        ([-0.3, -0.31, -0.29, -0.3], "lower loss than fp32"),
        ([0.4, -0.4, 0.3, -0.2], "undecided: needs more seeds"),
        ([0.0, 0.0, 0.0, 0.0], "same loss as fp32"),
    ],
)
def test_a_difference_is_judged_by_the_noise(tmp_path, differences, expected):
    groups = group(tmp_path, {"fp32": (BASE, {}), "own": (BASE + differences, {})})
    assert verdict.describe_loss(compare(groups)["own"]) == expected


def test_a_mean_that_rounds_to_zero_has_no_minus(tmp_path):
    differences = [0.01, -0.01, -0.0001, 0.0]
    groups = group(tmp_path, {"fp32": (BASE, {}), "own": (BASE + differences, {})})
    assert verdict.format_mean(compare(groups)["own"]).startswith("+0.0000 ± 0.0")


def test_the_verdict_is_the_cheapest_policy_with_an_equal_loss(tmp_path):
    small = np.array([0.01, -0.01, 0.02, 0.0])
    groups = group(tmp_path, {
        "fp32": (BASE, {"ms": 20, "mib": 100}),
        "bf16-amp": (BASE + small, {"ms": 5.6, "mib": 60}),
        "fast": (BASE + 0.3 + small, {"ms": 1, "mib": 10}),
        "slow": (BASE - small, {"ms": 30, "mib": 50}),
    })  # fmt: skip
    first, noise, *_ = verdict.describe(groups)
    margin = 3.1824 * small.std(ddof=1) / np.sqrt(4)
    assert first == (
        "Take bf16-amp: equals fp32 within seed noise (+0.0050 ± "
        f"{margin:.4f}, 4 seeds), 0.60x the memory, 0.28x the time."
    )
    assert f"standard deviation of {BASE.std(ddof=1):.4f} over 4 seeds" in noise
    del groups["bf16-amp"]
    assert verdict.describe(groups)[0].startswith("Take slow: equals fp32")
    groups["slow"] = []
    first = verdict.describe(groups, {"slow": 4})[0]
    assert first.startswith("Take fp32: no other policy reaches its loss")


def test_more_seeds_are_suggested_where_they_may_change_the_verdict(tmp_path):
    groups = group(tmp_path, {
        "fp32": (BASE, {"ms": 20}),
        "bf16-amp": (BASE + [0.4, -0.4, 0.3, -0.2], {"ms": 5}),
    })  # fmt: skip
    assert verdict.describe(groups)[0].startswith(
        "Take fp32, or train with more seeds: they may show that bf16-amp reaches its loss "
        "(+0.0250 ± "
    )


def test_one_seed_gives_no_verdict_on_losses(tmp_path):
    groups = group(tmp_path, {
        "fp32": (BASE[:1], {"ms": 20, "mib": 100}),
        "bf16-amp": (BASE[:1] - 1, {"ms": 30, "mib": 60}),
    })  # fmt: skip
    first, noise = verdict.describe(groups)[:2]
    assert first == (
        "No verdict on losses. Smallest memory: bf16-amp (60.0 MiB). Fastest step: fp32 (20 ms)."
    )
    assert noise.startswith("One seed does not show how much the loss varies between ")


def test_a_chosen_policy_is_recommended_for_its_loss(tmp_path):
    groups = group(tmp_path, {
        "fp32": (BASE[:1], {"ms": 20, "mib": 100}),
        "coat": (BASE[:1] + 0.5, {"ms": 36, "mib": 60}),
    })  # fmt: skip
    assert verdict.describe(groups, chosen="coat")[0] == (
        "Take coat: lowest loss within the budget; one seed: no verdict (+0.5000, 1 seed), "
        "0.60x the memory, 1.80x the time."
    )


def test_a_slow_step_is_explained(tmp_path):
    groups = group(tmp_path, {
        "fp32": (BASE, {"ms": 20, "by": ["brgemm:avx512_core"] * 6}),
        "fp16-amp": (BASE, {"ms": 40, "by": ["own avx512"] * 4 + ["brgemm:avx512_core"] * 2}),
        "casts": (BASE, {"ms": 20, "casts": 7, "by": ["brgemm:avx512_core"] * 6}),
        "slow": (BASE, {"ms": 30, "by": ["brgemm:avx512_core"] * 6}),
        "quick": (BASE, {"ms": 10, "casts": 7}),
    })  # fmt: skip
    _, _, *why = verdict.describe(groups)
    assert why == [
        "fp16-amp is slower than fp32: 4 of 6 contractions (fp32: 0) run in Binade's own f32 "
        "code after conversions, because on CPUs oneDNN computes only those in f32 and bf16.",
        "casts is not faster than fp32: 7 casts between formats instead of 0.",
    ]


def test_different_held_out_samples_are_a_caveat_not_a_label(tmp_path):
    groups = group(tmp_path, {
        "fp32": (BASE, {}), "fp8-current": (BASE, {"eval_samples": 6}),
    })  # fmt: skip
    _, _, *why = verdict.describe(groups)
    assert why == [
        "Held-out losses are means over different numbers of samples: 8 for fp32; 6 for "
        "fp8-current, so that they are not exactly comparable. Some losses can be computed only for "
        "full batches; then samples that do not fill the last batch are left out."
    ]
    labels = group_runs([run for runs in groups.values() for run in runs])
    assert [*labels] == ["fp32 (4 runs)", "fp8-current (4 runs)"]


def test_policies_that_compile_to_the_same_step_are_named(tmp_path):
    groups = group(tmp_path, {
        "fp32": (BASE, {}),
        "bf16-amp": (BASE, {"computation": "one"}),
        "fp8-current": (BASE, {"computation": "one"}),
    })  # fmt: skip
    _, _, *why = verdict.describe(groups)
    assert why == [
        "bf16-amp and fp8-current choose the same formats on this model ('binade policy check' "
        "shows which rules match): their losses with the same seed are equal."
    ]


@pytest.mark.parametrize("steps, mode", [([STEPS], "markers"),
                                         ([1, 10, STEPS], "lines+markers")])  # fmt: skip
def test_two_held_out_losses_are_not_joined_by_a_line(steps, mode, tmp_path):
    pytest.importorskip("plotly")
    curves = pytest.importorskip("binade.curves")
    from binade.figures import draw_losses

    runs = [read_run(plant(tmp_path / str(seed), "fp32", seed, [4.0] * STEPS,
                           {step: 3.0 + seed for step in steps}))
            for seed in range(2)]  # fmt: skip
    figure = draw_losses([curves.Curve("fp32", "#000000", runs)])
    [held_out] = figure.select_traces({"name": "fp32, held out"})
    assert held_out.mode == mode and set(held_out.y) == {3.5}
    # The range over seeds is a bar at a single point, and otherwise a band.
    is_bar = mode == "markers"
    assert held_out.error_y.array == ((0.5,) if is_bar else None)
    assert len([*figure.select_traces({"name": "fp32, range"})]) == 2 - is_bar


def test_times_that_differ_hint_at_a_busy_machine(tmp_path):
    groups = group(tmp_path, {"fp32": (BASE, {"ms": 100})})
    assert verdict.describe_busy(groups) == []
    groups["fp32"] += group(tmp_path / "busy", {"fp32": (BASE, {"ms": 2810})})["fp32"]
    (said,) = verdict.describe_busy(groups)
    assert said.startswith("The machine was probably busy: ")
    assert "28.1-fold (fp32: 100 to 2810 ms)" in said
    assert step_times.get_milliseconds(groups["fp32"]) == 100


def test_times_are_those_of_the_fastest_steps(tmp_path):
    """Other programs slow down most steps of all runs of one policy."""
    slow = [500] * (STEPS - 4) + [10, 10, 10, 400]
    groups = group(tmp_path, {
        "fp32": (BASE, {"ms": slow, "mib": 100}), "bf16-amp": (BASE, {"ms": 9, "mib": 90}),
    })  # fmt: skip
    first, *_, busy = verdict.describe(groups)
    assert first == (
        "Take bf16-amp: same loss as fp32 (+0.0000 ± 0.0000, 4 seeds), 0.90x the memory, "
        "0.90x the time."
    )
    assert busy == (
        "The machine was probably busy: step times with the same policy differ up to 50.0-fold "
        "(fp32: 10 to 500 ms). The times compared are those of the fastest steps."
    )


def test_times_of_runs_that_disagree_are_not_compared(tmp_path):
    """The fastest steps of two runs differ, so those of both may have been slowed down."""
    groups = group(tmp_path, {
        "fp32": (BASE[:1], {"ms": 900, "mib": 100}),
        "bf16-amp": (BASE[:2], {"ms": 30, "mib": 80, "casts": 7}),
        "fp16-amp": (BASE[:2], {"ms": 2, "mib": 90}),
    })  # fmt: skip
    other = group(tmp_path / "other", {"fp32": (BASE[:2], {"ms": 600, "mib": 100})})
    groups["fp32"].append(other["fp32"][1])
    assert verdict.describe(groups) == [
        "Take bf16-amp: same loss as fp32 (+0.0000 ± 0.0000, 2 seeds), 0.80x the memory.",
        verdict.describe_noise(compare(groups)["fp32"]),
        "The machine was too busy to compare times: step times with the same policy differ up to "
        "1.5-fold (fp32: 600 to 900 ms), and also the fastest steps of runs that differ only in "
        "their seed. Train again, to another directory, while nothing else runs.",
    ]
    assert [row[3] for row in verdict.list_rows(compare(groups))] == ["-"] * 3
    groups["bf16-amp"] = groups["fp16-amp"] = []
    last = verdict.describe_choice(compare({**groups, "fp32": groups["fp32"]}))
    assert last.endswith("within seed noise, with less memory.")


@pytest.mark.parametrize("start, warned", [(3.05, True), (3.09, False), (3.03, True)])
def test_a_loss_that_hardly_falls_is_reported(tmp_path, start, warned):
    """The loss of fp32 is 3.05 in the end, on average."""
    groups = group(tmp_path, {"fp32": (BASE, {}), "bf16-amp": (BASE, {})})
    assert not any("too short" in sentence for sentence in verdict.describe(groups))
    for run in groups["fp32"]:
        object.__setattr__(run, "start", {"step": 0, "eval_loss": start})
    said = verdict.describe(groups)[2:]
    assert said == [
        f"The runs may be too short: the held-out loss of fp32 was {start:.4f} before the first "
        "step and 3.0500 after the last one. Train longer, or with a larger learning rate, to see "
        "differences between policies."
    ] * warned  # fmt: skip


def test_a_loss_that_rises_is_reported(tmp_path):
    groups = group(tmp_path, {"fp32": (BASE, {})})
    for run in groups["fp32"]:
        object.__setattr__(run, "start", {"step": 0, "eval_loss": 2.9})
    assert verdict.describe_progress("fp32", groups["fp32"]) == [
        "The held-out loss of fp32 rose from 2.9000 before the first step to 3.0500 after the last "
        "one. Use a smaller learning rate before you compare policies."
    ]


@pytest.mark.parametrize("what", ["models", "data", "numbers of steps"])
def test_runs_of_different_tasks_are_not_judged(tmp_path, what):
    groups = group(tmp_path, {"fp32": (BASE, {}), "bf16-amp": (BASE, {})})
    run = groups["bf16-amp"][0]
    if what == "models":
        run.about["model"] = "other"
    elif what == "data":
        run.about["invocations"][-1]["files"]["data"]["sha256"] = "1" * 64
    else:
        run.steps.pop()
    assert verdict.describe(groups) == [f"No verdict: the runs have different {what}."]


def test_runs_that_may_stop_early_are_judged_after_different_steps(tmp_path):
    groups = group(tmp_path, {"fp32": (BASE, {}), "bf16-amp": (BASE, {})})
    for run in groups["fp32"] + groups["bf16-amp"]:
        run.about["invocations"][-1]["command"] += ["--patience", "2", "--steps", "9"]
    groups["bf16-amp"][0].steps[-1]["step"] -= 1
    assert verdict.find_mismatch(groups["fp32"] + groups["bf16-amp"]) is None
    groups["bf16-amp"][0].about["invocations"][-1]["command"][-1] = "8"
    assert verdict.describe(groups) == [
        "No verdict: the runs have different numbers of steps."
    ]


def test_a_run_that_ends_without_a_finite_loss_has_failed(tmp_path):
    groups = group(tmp_path, {"fp32": (BASE, {}), "fp16": (BASE[:2], {})})
    bad = plant(tmp_path / "bad", "fp16", 2, [4.0] * (STEPS - 1) + [None])
    groups["fp16"].append(read_run(bad))
    one = compare(groups)["fp16"]
    assert (one.finished, one.failed) == (2, 1)
    assert verdict.describe_loss(one) == "1 of 3 runs failed"
    assert paired.recommend(compare(groups)) is None
