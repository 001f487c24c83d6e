"""The goals of rows: what is compared with what, what is required, and whether it is reached.

Goals are data of the rows' definitions: cases.py, contraction_cases.py and steps.py. Rows of
results contain them, so that a file is judged by the goals of its time. Rows of predictions
have the same fields as measured ones; their peers took what a committed result says.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

PLANNED = 1.01  # Most that a step may take of the memory of its plan.
LIVE = 1.02  # Most that this may be of what is there at a time.
# Most that a prediction may be away from what is measured.
PREDICTED = {"steps": 0.10}
PREDICTED_KERNELS = 0.15


@dataclasses.dataclass(frozen=True)
class Goal:
    row: str
    what: str
    value: float | None
    low: float = -math.inf
    high: float = math.inf
    quotient: str = ""  # What was divided to get `value`.
    missing: str = ""  # Why there is no value.
    isShare: bool = False

    @property
    def isReached(self) -> bool:
        return self.value is not None and self.low <= self.value <= self.high

    @property
    def result(self) -> str:
        if self.value is None:
            return f"not known: {self.missing}"
        return "reached" if self.isReached else "**missed**"

    def format(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.isShare else f"{value:.3f}"

    def list_cells(self) -> list[str]:
        low, high = self.format(self.low), self.format(self.high)
        if self.high == math.inf:
            goal = f"≥ {low}"
        else:
            goal = f"≤ {high}" if self.low == -math.inf else f"{low} to {high}"
        value = "" if self.value is None else self.format(self.value)
        return [self.row, self.what, self.quotient, value, goal, self.result]

    def __str__(self) -> str:
        row, what, quotient, value, goal, result = self.list_cells()
        quotient = f"{quotient} = " if quotient else ""
        return f"{row}: {what}: {quotient}{value} ({goal}): {result}"


COLUMNS = ["row", "measure", "quotient", "value", "goal", "result"]


def show_ms(ms: float) -> str:
    return f"{ms:.1f} ms" if ms >= 10 else f"{ms:.3f} ms"


def show_gib(count: float) -> str:
    return f"{count / 2**30:.2f} GiB"


def divide(ours: float, theirs: float, show) -> dict:
    """Returns the fields of a goal: a value and the quotient that it is."""
    return {"value": ours / theirs, "quotient": f"{show(ours)} / {show(theirs)}"}


def list_peer_goals(row: dict) -> Iterator[Goal]:
    """Yields the goals that compare time and memory with those of peers. The ratio of
    measured times is the median of ratios, not the quotient of medians."""
    memory = row.get("memory", row.get("arena"))
    kinds = (("", "time", row.get("ms"), "ms", show_ms),
             ("memory_", "memory", memory, "bytes", show_gib))  # fmt: skip
    for kind, what, ours, field, show in kinds:
        for peer, value in row.get(f"{kind}peers", {}).items():
            if value["goal"] is not None:
                quotient = ""
                if field in value:
                    quotient = divide(ours, value[field], show)["quotient"]
                yield Goal(row["title"], f"{what} / {peer}", value["ratio"],
                           high=value["goal"], quotient=quotient)  # fmt: skip
        for peer, value in row.get(f"{kind}unavailable", {}).items():
            if value["goal"] is not None:
                yield Goal(row["title"], f"{what} / {peer}", None, high=value["goal"],
                           missing=value["reason"])  # fmt: skip


def list_goals(row: dict) -> Iterator[Goal]:
    title = row["title"]
    if (goal := row.get("share_goal")) is not None:
        quotient = ""
        if row.get("share"):
            copied = row["gbs"] / row["share"]
            quotient = f"{row['gbs']} GB/s / {copied:.0f} GB/s"
        yield Goal(title, "share of a copy", row.get("share"), low=goal, quotient=quotient,
                   missing="nothing was copied", isShare=True)  # fmt: skip
    yield from list_peer_goals(row)
    if row["part"] == "steps":
        if "memory" in row:
            yield Goal(title, "memory / planned", high=PLANNED,
                       **divide(row["memory"], row["arena"], show_gib))  # fmt: skip
        if "live" in row:
            yield Goal(title, "planned / live", high=LIVE,
                       **divide(row["arena"], row["live"], show_gib))  # fmt: skip
    if "predicted_ms" in row:
        error = PREDICTED.get(row["part"], PREDICTED_KERNELS)
        yield Goal(title, "predicted / measured", low=1 - error, high=1 + error,
                   **divide(row["predicted_ms"], row["ms"], show_ms))  # fmt: skip
    if "within" in row:
        within, compared = row["within"], row["compared"]
        yield Goal(title, f"predicted within {PREDICTED_KERNELS:.0%}", within / compared,
                   low=1, quotient=f"{within} / {compared}", isShare=True)  # fmt: skip


def list_file_goals(result: dict) -> list[Goal]:
    """Returns the goals of all rows of a file of results."""
    rows = result["rows"] + result.get("calibration", [])
    return [goal for row in rows for goal in list_goals(row)]


def judge(found: list[Goal]) -> str:
    """Returns a line that says how many goals are reached."""
    unknown = sum(goal.value is None for goal in found)
    reached = sum(goal.isReached for goal in found)
    text = f"{len(found)} goals: {reached} reached, {len(found) - reached - unknown} missed"
    return text + (f", {unknown} not known." if unknown else ".")
