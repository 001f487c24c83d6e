"""Prints a prediction for people; every number has a unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from binade.planning.collectives import divide_ranks
from binade.planning.fabric import Fabric
from binade.planning.limits import Limit
from binade.planning.prediction import Prediction, Settings
from binade.planning.simulated_runs import Outcome
from binade.planning.step import Step
from binade.runs import format_table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_size(size: float) -> str:
    """Formats bytes: ``1.5 MiB``."""
    unit = 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def format_seconds(seconds: float) -> str:
    """Formats a time with three digits: ``1.5 ms``, ``14.0 min``."""
    if seconds <= 0:
        return "0 ms"
    for unit, size, most in (("us", 1e-6, 1e-3), ("ms", 1e-3, 1), ("s", 1, 120),
                             ("min", 60, 7200), ("h", 3600, float("inf"))):  # fmt: skip
        if seconds < most:
            break
    value = seconds / size
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def format_share(share: float) -> str:
    return f"{100 * share:.1f} %"


def write_report(
    step: Step,
    fabric: Fabric,
    settings: Settings,
    chosen: Prediction,
    formats: dict[str, Prediction],
    buckets: Sequence[tuple[int, Prediction]],
    limits: Sequence[Limit],
) -> str:
    """Returns the report as text."""
    sections = [
        _describe(step, fabric, settings, chosen),
        _list_exchanges(formats, chosen),
        _list_buckets(chosen, buckets),
        _list_memory(step, fabric, settings),
        _list_limits(limits, settings),
        _describe_checkpoints(fabric, settings),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _describe(
    step: Step, fabric: Fabric, settings: Settings, chosen: Prediction
) -> Iterator[str]:
    groups = " of ".join(
        f"{members:,} x {level.name}"
        for level, members in reversed(divide_ranks(fabric.levels, settings.ranks))
    )
    yield f"{step.model or 'model'}, policy {step.policy}, on {_count(settings.ranks, 'rank')}: a prediction"
    yield f"fabric: {fabric.name}" + (f": {groups}" if groups else "")
    yield f"times of kernels: costs of {step.target}"
    yield (
        f"step {format_seconds(chosen.seconds)}: micro-batches and update "
        f"{format_seconds(chosen.compute)}, exchanges that are not hidden "
        f"{format_seconds(chosen.exposed)} "
        f"({format_share(chosen.exposed / chosen.seconds)})"
    )
    yield (
        f"the last micro-batch takes {format_seconds(step.backward_end)}; its first bucket "
        f"of gradients is complete after {format_seconds(chosen.buckets[0].ready)}"
    )


def _count(number: int, what: str) -> str:
    """Returns ``1 bucket`` or ``1,024 buckets``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _list_exchanges(
    formats: dict[str, Prediction], chosen: Prediction
) -> Iterator[str]:
    yield "exchanged in a step, in each rank"
    yield ""
    rows = [["what", "format", "operations", "sent", "latency", "transfer", "hidden"]]
    for name, one in formats.items():
        cost = one.gradients
        rows.append(
            ["gradients", name, _count(len(one.buckets), "bucket"), format_size(cost.sent),
             format_seconds(cost.latency), format_seconds(cost.transfer),
             format_share(one.overlap.hidden)]
        )  # fmt: skip
    for transfer, cost in chosen.others:
        rows.append(
            [transfer.what, "", transfer.operation, format_size(cost.sent),
             format_seconds(cost.latency), format_seconds(cost.transfer), "0.0 %"]
        )  # fmt: skip
    yield format_table(rows)


def _list_buckets(
    chosen: Prediction, buckets: Sequence[tuple[int, Prediction]]
) -> Iterator[str]:
    sizes = [4 * bucket.elements for bucket in chosen.buckets]
    yield (
        f"buckets: {len(sizes)}, of {format_size(min(sizes))} to {format_size(max(sizes))} "
        "in f32"
    )
    yield ""
    rows = [["buckets of at least", "number", "exchange", "not hidden", "step"]]
    for size, one in buckets:
        rows.append(
            [format_size(size), str(len(one.buckets)), format_seconds(one.overlap.exchange),
             format_seconds(one.overlap.exposed), format_seconds(one.seconds)]
        )  # fmt: skip
    yield format_table(rows)


def _list_memory(step: Step, fabric: Fabric, settings: Settings) -> Iterator[str]:
    yield "memory of the fullest rank" + (
        f", of {format_size(fabric.memory)}" if fabric.memory < float("inf") else ""
    )
    yield ""
    rows = [["shard", "exchange", "memory", "parameter", "state", "gradient", "exchange",
             "gather", "other"]]  # fmt: skip
    for (shard, exchange), ledger in step.ledgers.items():
        total = sum(ledger.values())
        shown = [ledger.get(name, 0) for name in rows[0][3:-1]]
        rows.append(
            [shard, exchange, format_size(total) + (" !" if total > fabric.memory else ""),
             *map(format_size, shown), format_size(total - sum(shown))]
        )  # fmt: skip
    yield format_table(rows)


def _list_limits(limits: Sequence[Limit], settings: Settings) -> Iterator[str]:
    yield "what breaks, from how many ranks on"
    yield ""
    for limit in limits:
        if limit.ranks is None:
            yield f"  {'-':>9}  {limit.name}: {limit.why}"
        else:
            mark = "!" if limit.ranks <= settings.ranks else " "
            yield f"{mark} {limit.ranks:>9,}  {limit.name}: {limit.why}"


def _describe_checkpoints(fabric: Fabric, settings: Settings) -> Iterator[str]:
    if fabric.failures is None:
        yield "checkpoints: the fabric has no rate of failures"
        return
    failures, ranks = fabric.failures, settings.ranks
    interval = failures.find_interval(ranks)
    yield (
        f"checkpoints: a failure every {format_seconds(failures.get_mean_time(ranks))} on "
        f"average; save every {format_seconds(interval)}"
    )
    yield (
        f"saves of {format_seconds(failures.save)}, repeated steps and restarts of "
        f"{format_seconds(failures.restart)} take "
        f"{format_share(failures.get_lost_share(ranks, interval))} of the time"
    )


def write_outcome(outcome: Outcome, fabric: Fabric, settings: Settings) -> str:
    """Returns what happened in a simulated run, as text."""
    assert fabric.failures is not None
    interval = fabric.failures.find_interval(settings.ranks)
    predicted = fabric.failures.get_lost_share(settings.ranks, interval)
    return (
        f"\nsimulated with {settings.ranks:,} virtual ranks: {outcome.deaths} deaths in "
        f"{format_seconds(outcome.seconds)}; all other ranks ended within "
        f"{format_seconds(outcome.longest)}\nand continued from the same checkpoint; "
        f"{outcome.broken_saves} deaths left a checkpoint without a manifest, which no rank "
        f"used;\n{format_share(outcome.lost)} of the time was lost, "
        f"{format_share(predicted)} predicted\n"
    )
