"""Says in words which policy to take, and how each compares with the base.

``binade runs compare`` and the pages of sweeps and searches print these sentences.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from binade.arguments import find_value
from binade.paired import (
    EQUAL,
    HIGHER,
    LOWER,
    UNDECIDED,
    UNKNOWN,
    Comparison,
    compare,
    get_base,
    recommend,
)
from binade.run import NONE, Run, format_mib, format_time
from binade.run_data import describe_data
from binade.step_times import BUSY, agree, find_slowest

# A policy is called slower than the base from this ratio on, and not faster from the other.
SLOWER, NOT_FASTER = 1.1, 0.95
# A loss that fell by less than this share of its first value has hardly changed.
LEARNED = 0.01


# --- Losses -----------------------------------------------------------------------------


def format_difference(value: float, sign: str = "+") -> str:
    """Formats a difference of losses with four decimals, or with two significant digits if
    it is smaller than these show."""
    if value != 0 and abs(value) < 0.00095:
        return format(value, f"{sign}.1e")
    return format(value, f"{sign}.4f")


def format_mean(one: Comparison) -> str:
    """Formats the mean difference with its interval: ``+0.0021 ± 0.0050``."""
    if one.mean is None or one.label == one.base:
        return NONE
    if one.margin is None:
        return format_difference(one.mean)
    margin = format_difference(one.margin, "")
    mean = format_difference(one.mean) if "e" in margin else f"{one.mean:+z.4f}"
    return f"{mean} ± {margin}"


def describe_loss(one: Comparison) -> str:
    """Says in a few words how the loss compares with the base's."""
    if one.failed:
        runs = one.failed + one.finished
        return "failed" if runs == 1 else f"{one.failed} of {runs} runs failed"
    if one.label == one.base:
        return "the base"
    if one.mean is None:
        return f"no seed in common with {one.base}"
    if all(value == 0 for value in one.differences.values()):
        return f"same loss as {one.base}"
    return {
        EQUAL: f"equals {one.base} within seed noise",
        HIGHER: f"higher loss than {one.base}",
        LOWER: f"lower loss than {one.base}",
        UNDECIDED: "undecided: needs more seeds",
        UNKNOWN: "one seed: no verdict",
    }[one.verdict]


def describe_noise(base: Comparison) -> str:
    """Says how large seed noise is, or that it is unknown."""
    if base.noise is None:
        return (
            "One seed does not show how much the loss varies between seeds. Train with three or more "
            "to see which differences are larger than this variation."
        )
    return (
        f"Seed noise: the loss of {base.label} has a standard deviation of "
        f"{format_difference(base.noise, '')} over {base.finished} seeds. Differences are means "
        "over pairs of runs with the same seed, with 95 % confidence intervals."
    )


def describe_progress(label: str, runs: Sequence[Run]) -> list[str]:
    """Returns a warning if the held-out loss rose or hardly fell: then policies cannot differ much,
    or differ for other reasons than in a longer training."""
    losses = [run.series("eval_loss") for run in runs]
    if not losses or not all(0 in series and max(series) > 0 for series in losses):
        return []
    start = statistics.fmean(series[0] for series in losses)
    end = statistics.fmean(series[max(series)] for series in losses)
    if start - end >= LEARNED * abs(start):
        return []
    if end - start >= LEARNED * abs(start):
        return [
            f"The held-out loss of {label} rose from {start:z.4f} before the first step to "
            f"{end:z.4f} after the last one. Use a smaller learning rate before you compare policies."
        ]
    return [
        f"The runs may be too short: the held-out loss of {label} was {start:z.4f} before the "
        f"first step and {end:z.4f} after the last one. Train longer, or with a larger "
        "learning rate, to see differences between policies."
    ]


# --- Times ------------------------------------------------------------------------------


def describe_cost(one: Comparison) -> str:
    """Says what the policy costs: ``0.62x the memory, 0.28x the time``."""
    memory = f"{one.memory:.2f}x the memory"
    return memory if one.time is None else f"{memory}, {one.time:.2f}x the time"


def _list_own(run: Run) -> list[bool]:
    """Returns for each contraction of a step whether Binade's own code computed it, not a
    library."""
    contractions = run.about["invocations"][-1].get("contractions", [])
    return [
        one["by"].startswith("own") for one in contractions if one["program"] == "step"
    ]


def explain_time(run: Run, base: Run) -> list[str]:
    """Returns the properties of a run that explain why its step is slower than the base's."""
    reasons = []
    last = run.about["invocations"][-1]
    own, own_of_base = _list_own(run), _list_own(base)
    if sum(own) > sum(own_of_base):
        reasons.append(
            f"{sum(own)} of {len(own)} contractions ({base.about['policy']}: {sum(own_of_base)}) run "
            "in Binade's own f32 code after conversions, because on CPUs oneDNN computes only those "
            "in f32 and bf16"
        )
    if budget := find_value(last["command"], "--activation-memory"):
        reasons.append(
            f"--activation-memory {budget} recomputes or quantizes saved values"
        )
    casts, casts_of_base = (sum(one.about["casts"].values()) for one in (run, base))
    if casts > casts_of_base:
        reasons.append(f"{casts} casts between formats instead of {casts_of_base}")
    return reasons


def describe_slow(
    found: Mapping[str, Comparison], groups: Mapping[str, Sequence[Run]]
) -> list[str]:
    """Says why policies are slower than the base, or not faster, where the runs' records show
    it."""
    labels: dict[tuple[str, str], list[str]] = {}
    for one in found.values():
        if one.label == one.base or one.time is None or one.time < NOT_FASTER:
            continue
        if reasons := explain_time(groups[one.label][0], groups[one.base][0]):
            speed = "slower" if one.time > SLOWER else "not faster"
            key = f"{speed} than {one.base}", "; ".join(reasons)
            labels.setdefault(key, []).append(one.label)
    return [
        f"{' and '.join(of)} {'is' if len(of) == 1 else 'are'} {speed}: {reason}."
        for (speed, reason), of in labels.items()
    ]


def describe_samples(groups: Mapping[str, Sequence[Run]]) -> list[str]:
    """Returns a warning if held-out losses are means over different numbers of samples."""
    counts: dict[int, list[str]] = {}
    for label, runs in groups.items():
        for number in {run.about.get("eval_samples") or 0 for run in runs} - {0}:
            counts.setdefault(number, []).append(label)
    if len(counts) < 2:
        return []
    named = "; ".join(f"{number} for {', '.join(of)}" for number, of in counts.items())
    return [
        f"Held-out losses are means over different numbers of samples: {named}, so that "
        "they are not exactly comparable. Some losses can be computed only for full batches; "
        "then samples that do not fill the last batch are left out."
    ]


def describe_equal(groups: Mapping[str, Sequence[Run]]) -> list[str]:
    """Says which policies compile to the same step, so that they can only differ in time."""
    labels: dict[str, list[str]] = {}
    for label, runs in groups.items():
        step = runs[0].about.get("computation") if runs else None
        if step and len(runs[0].policies) == 1:
            labels.setdefault(step, []).append(label)
    return [
        f"{' and '.join(same)} choose the same formats on this model ('binade policy check' shows "
        "which rules match): their losses with the same seed are equal."
        for same in labels.values()
        if len({groups[label][0].policy for label in same}) == len(same) > 1
    ]


def describe_busy(groups: Mapping[str, Sequence[Run]]) -> list[str]:
    """Returns a warning if step times with one policy differ much."""
    worst, where = find_slowest(groups)
    if worst < BUSY:
        return []
    differ = f"step times with the same policy differ up to {worst:.1f}-fold ({where})"
    if all(agree(runs) for runs in groups.values()):
        return [
            f"The machine was probably busy: {differ}. The times compared are those of the "
            "fastest steps."
        ]
    return [
        f"The machine was too busy to compare times: {differ}, and also the fastest steps of "
        "runs that differ only in their seed. Train again, to another directory, while nothing "
        "else runs."
    ]


# --- The verdict ------------------------------------------------------------------------


def _count_steps(run: Run) -> object:
    """Returns the steps of a run; those it was given if it may stop early."""
    words = run.about["invocations"][-1]["command"]
    if find_value(words, "--patience") is not None:
        return find_value(words, "--steps"), find_value(words, "--epochs")
    return run.steps[-1]["step"] if run.steps else 0


def find_mismatch(runs: Sequence[Run]) -> str | None:
    """Says why the losses of runs cannot be compared; None if they can."""

    data = describe_data([run.about["invocations"][-1] for run in runs])
    found: dict[str, list[object]] = {
        "models": [run.about["model"] for run in runs],
        "data": [sorted(one.items()) for one in data],
        "numbers of steps": [_count_steps(run) for run in runs],
    }
    for name, values in found.items():
        if any(value != values[0] for value in values):
            return f"the runs have different {name}"
    return None


def choose(found: Mapping[str, Comparison]) -> str | None:
    """Returns the label of the policy to take; None if that is unknown."""
    best = recommend(found)
    if best:
        return best.label
    base = next(one for one in found.values() if one.label == one.base)
    return base.label if base.noise is not None else None


def describe_choice(found: Mapping[str, Comparison], chosen: str | None = None) -> str:
    """Says which policy to take.

    Args:
      found: The result of ``compare``.
      chosen: The label of a policy that was chosen by another criterion.
    """
    base = next(one for one in found.values() if one.label == one.base)
    best = found[chosen] if chosen else recommend(found)
    if best and best is not base:
        seeds = len(best.differences)
        why = "lowest loss within the budget; " if chosen else ""
        return (
            f"Take {best.label}: {why}{describe_loss(best)} ({format_mean(best)}, {seeds} "
            f"seed{'s' * (seeds != 1)}), {describe_cost(best)}."
        )
    if len(found) == 1:
        return f"{base.label} is the only policy here."
    if base.noise is not None:
        if best := recommend(found, [UNDECIDED]):
            return (
                f"Take {base.label}, or train with more seeds: they may show that {best.label} "
                f"reaches its loss ({format_mean(best)}) with {describe_cost(best)}."
            )
        less = (
            "less memory"
            if base.time is None
            else "a smaller product of memory and time"
        )
        return (
            f"Take {base.label}: no other policy reaches its loss, within seed noise, "
            f"with {less}."
        )
    return f"No verdict on losses. {describe_smallest(found)}"


def describe_smallest(found: Mapping[str, Comparison]) -> str:
    """Says which policies need the smallest memory and time."""
    sizes = {one.label: one.bytes for one in found.values() if one.bytes > 0}
    times = {one.label: one.milliseconds for one in found.values()
             if one.milliseconds and one.time is not None}  # fmt: skip
    least, fast = (min(of, key=of.__getitem__, default="") for of in (sizes, times))
    parts = []
    if len({*sizes.values()}) > 1:
        parts.append(f"Smallest memory: {least} ({format_mib(sizes[least])} MiB).")
    if fast:
        parts.append(f"Fastest step: {fast} ({format_time(times[fast])} ms).")
    return " ".join(parts)


def describe(
    groups: Mapping[str, Sequence[Run]],
    failed: Mapping[str, int] | None = None,
    chosen: str | None = None,
) -> list[str]:
    """Returns the sentences of a verdict, the most important one first.

    Args:
      groups: Runs that reached their last step, by label; they differ only in their seed.
      failed: Numbers of runs that did not reach their last step, by label.
      chosen: The label of a policy that was chosen by another criterion.
    """
    if problem := find_mismatch([run for runs in groups.values() for run in runs]):
        return [f"No verdict: {problem}."]
    found = compare(groups, get_base(groups), failed)
    base = next(one for one in found.values() if one.label == one.base)
    return [
        describe_choice(found, chosen),
        describe_noise(base),
        *describe_samples(groups),
        *describe_equal(groups),
        *describe_progress(base.label, groups[base.label]),
        *describe_slow(found, groups),
        *describe_busy(groups),
    ]


HEAD = ["difference", "memory", "time", "loss", "seeds", "verdict"]


def list_rows(found: Mapping[str, Comparison]) -> list[list[str]]:
    """Returns a row for each policy, with the label and the columns of ``HEAD``."""
    return [
        [one.label, format_mean(one), _ratio(one.memory), _ratio(one.time),
         NONE if one.loss is None else f"{one.loss:z.4f}", str(one.finished),
         describe_loss(one)]
        for one in found.values()
    ]  # fmt: skip


def _ratio(value: float | None) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:.2f}x"
