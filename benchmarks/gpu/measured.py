"""What peers took on a device, from committed files of results: the newest that has it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import report
from cases import COMPILED
from contraction_cases import (
    ATTENTION, CHUNKED, CUDNN, CUDNN_STRICT, FLASH, FLASH_STRICT, HEADS, LIGER,
    name_library_row,
)  # fmt: skip
from contraction_modules import Head

RATES = report.RESULTS / "rates/nvidia-h100-80gb-hbm3-2026-11-27.json"


def list_results(device: str) -> list[dict]:
    """Returns what was measured on the device, the newest first."""
    found = []
    for path in report.RESULTS.glob("*.json"):
        result = json.loads(path.read_text())
        if result["standing"] == "measured" and result["device"] == device:
            found.append((result["date"], path.stem, result))
    return [result for _, _, result in sorted(found, key=lambda x: x[:2], reverse=True)]


def find_attention(rates: dict, shape: tuple, direction: str) -> dict[str, float]:
    """Returns the milliseconds of causal attention by its peers in a file of rates."""
    found = {}
    for row in rates["attention"]:
        if (row["shape"], row["causal"], row["backend"]) == ([*shape], True, "flash"):
            peer = FLASH_STRICT if row["deterministic"] else FLASH
            found[peer] = row[f"{direction}_ms"]
    for row in rates["cudnn_attention"]:
        if (row["shape"], row["causal"], row["layout"]) == ([*shape], True, "bhsd"):
            if direction == "forward":  # It has one mode, with equal bits in each run.
                found[CUDNN] = row["forward_ms"]
            else:
                found[CUDNN] = row["default"]["backward_ms"]
                found[CUDNN_STRICT] = row["deterministic"]["backward_ms"]
    return found


def find_head(rates: dict, case: Head) -> dict[str, float]:
    found = {}
    for row in rates["head"]:
        shape = row["vocabulary"], row["width"], row["piece"]
        if shape == (case.vocabulary, case.width, 4096):
            found[CHUNKED] = row["ms_of_all_pieces"]
    for row in rates["fused_head"]:
        if (row["vocabulary"], row["rows"]) == (case.vocabulary, case.rows):
            found |= {COMPILED: row["compile_ms"], LIGER: row["liger_ms"]}
    return found


def list_rates() -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yields part, row and milliseconds by peer of what a file of rates has."""
    rates = json.loads(RATES.read_text())["rates"]
    for case in ATTENTION:
        direction = "backward" if case.isBackward else "forward"
        times = find_attention(rates, case.shape, direction)
        for name in (case.name, name_library_row(case)["name"]):
            yield "attention", name, times
    for case in HEADS:
        if isinstance(case, Head):
            yield "head", case.name, find_head(rates, case)


class MeasuredPeers:
    """Times and memory of peers by part, row and peer."""

    def __init__(self, device: str):
        self.times: dict[tuple[str, str, str], float] = {}
        self.memory: dict[tuple[str, str, str], float] = {}
        for result in list_results(device):
            for row in result["rows"]:
                self.add(row)
        for part, row, peers in list_rates():
            for peer, ms in peers.items():
                self.times.setdefault((part, row, peer), ms)

    def add(self, row: dict) -> None:
        key = row["part"], row["name"]
        for peer, value in row.get("peers", {}).items():
            ms = value.get("ms") or row["ms"] / value["ratio"]
            self.times.setdefault((*key, peer), ms)
        for peer, value in row.get("memory_peers", {}).items():
            count = value.get("bytes") or row["memory"] / value["ratio"]
            self.memory.setdefault((*key, peer), count)

    def compare(
        self, row: dict, goals: dict[str, float | None], own: dict[str, float | None]
    ) -> None:
        """Adds the ratios of a row's time to those of peers. Binade's own steps are peers,
        too: `own` has their predicted times."""
        for peer, goal in goals.items():
            ms = self.times.get((row["part"], row["name"], peer))
            put(row, "", peer, goal, row["ms"], own.get(peer, ms), "ms")

    def compare_memory(self, row: dict, goals: dict[str, float | None]) -> None:
        for peer, goal in goals.items():
            count = self.memory.get((row["part"], row["name"], peer))
            put(row, "memory_", peer, goal, row["arena"], count, "bytes")


def put(row: dict, kind: str, peer: str, goal, ours: float, theirs, field: str) -> None:
    if theirs:
        value = {
            "ratio": round(ours / theirs, 3),
            "goal": goal,
            field: round(theirs, 4),
        }
        row.setdefault(f"{kind}peers", {})[peer] = value
    else:
        reason = f"{peer} is neither measured in a committed result nor predicted"
        row.setdefault(f"{kind}unavailable", {})[peer] = {
            "goal": goal,
            "reason": reason,
        }
