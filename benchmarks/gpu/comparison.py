"""Times Binade's calls and those of peers alternately, and keeps why a peer is missing."""

from __future__ import annotations

from collections.abc import Callable

import peers
import timing
from selection import count_rounds, is_quick

OURS = "binade"
NO_DEVICE = "PyTorch is not installed or sees no device"
SLOW = "takes long to compile: left out with --quick"


class Comparison:
    """The sides of a row. What fails in a peer, whether it is made, runs first or runs later,
    leaves the peer out with a reason; what fails in Binade is an error."""

    def __init__(self, row: str):
        self.row = row
        self.sides: dict[str, timing.Call] = {}
        self.unavailable: dict[str, str] = {}
        self.times: dict[str, list[float]] = {}

    def add(
        self, peer: str, make: Callable[[], timing.Call], isSlow: bool = False
    ) -> None:
        """Adds the call that `make` returns, after it has run once. `isSlow` says that this
        takes many seconds."""
        if not peers.HAS_DEVICE or (isSlow and is_quick()):
            self.unavailable[peer] = SLOW if peers.HAS_DEVICE else NO_DEVICE
            return
        try:
            call = make()
            call()
        except Exception as error:
            self.leave_out(peer, error)
        else:
            self.sides[peer] = call

    def leave_out(self, peer: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {str(error).strip()[:200]}"
        self.unavailable[peer] = reason
        self.sides.pop(peer, None)
        print(f"  {self.row}: no {peer}: {reason}", flush=True)

    def measure(self, rounds: int) -> None:
        """Sets `times`: milliseconds of each side, round by round."""
        self.times = timing.alternate(
            {name: self.guard(name, call) for name, call in self.sides.items()},
            count_rounds(rounds),
        )
        self.times = {name: self.times[name] for name in self.sides}

    def guard(self, name: str, call: timing.Call) -> timing.Call:
        """Returns `call`; of a peer one that does nothing after an error."""
        if name.startswith(OURS):
            return call

        def run() -> None:
            if name in self.sides:
                try:
                    call()
                except Exception as error:
                    self.leave_out(name, error)

        return run

    def describe(
        self, goals: dict[str, float | None], ours: str = OURS
    ) -> dict[str, dict]:
        """Returns the fields `peers` and `unavailable` of a row: of each peer that has a goal
        or None in `goals`, its time, and Binade's relative to it."""
        peers, unavailable = {}, {}
        for peer, goal in goals.items():
            if peer in self.times:
                peers[peer] = {
                    **timing.ratio(self.times[ours], self.times[peer]), "goal": goal,
                    "ms": round(timing.median(self.times[peer]), 4),
                }  # fmt: skip
            elif peer in self.unavailable:
                unavailable[peer] = {"goal": goal, "reason": self.unavailable[peer]}
        return {"peers": peers} | ({"unavailable": unavailable} if unavailable else {})
