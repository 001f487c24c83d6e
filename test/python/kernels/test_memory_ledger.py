"""The ledger of a plan states the memory that its step uses."""

import subprocess
import sys

import numpy as np
import pytest
from support.paths import ROOT
from support.step_memory import compile_bundle

onnx = pytest.importorskip("onnx")

MINI = ROOT / "examples/char-gpt/mini.onnx"


def find_buffers(value):
    if isinstance(value, dict):
        if "buffer" in value:
            yield value["buffer"]
        for inner in value.values():
            yield from find_buffers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_buffers(inner)


def place_of(buffer):
    """Identifies the memory of a buffer, which other buffers have in other shapes."""
    return buffer["offset"], buffer["bytes"], buffer["category"]


def find_places(plan, *records):
    """Returns the memory that records read or write."""
    return {place_of(plan["buffers"][i]) for i in find_buffers(list(records))}


def count_bytes(places):
    """Counts the bytes of all places. Overlapping bytes count once."""
    total = end = 0
    for start, size, _ in sorted(places):
        total += max(start + size - max(start, end), 0)
        end = max(end, start + size)
    return total


KEPT = {"parameter", "buffer", "state", "batch", "constant", "scalar"}


@pytest.mark.parametrize("policy", ["bf16-amp", "coat", "8bit-optimizer"])
def test_the_ledger_counts_live_buffers_at_peak_memory(policy, tmp_path):
    plan = compile_bundle(MINI, tmp_path, "--policy", policy).plan
    first, last = {}, {}
    for moment, record in enumerate(plan["records"]):
        for place in find_places(plan, record):
            first.setdefault(place, moment)
            last[place] = moment

    def live(moment, *categories):
        return [place for place in first if place[2] in categories
                and first[place] <= moment <= last[place]]  # fmt: skip

    temporary = {place[2] for place in first} - KEPT
    peak = max(range(len(plan["records"])),
                  key=lambda moment: count_bytes(live(moment, *temporary)))  # fmt: skip
    saved = count_bytes(live(peak, "saved"))
    assert abs(saved / plan["ledger"]["saved"] - 1) < 0.01
    states = [
        plan["buffers"][p["buffer"]] for p in plan["ports"] if p["role"] == "state"
    ]
    held = sum(state["bytes"] for state in states)
    assert abs(held / plan["ledger"]["state"] - 1) < 0.01


MEASURE = """
import ctypes, pathlib, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # No huge pages: 4 KiB are exact enough.
from support.arena import Bundle

def resident(address):
    found = False
    for line in open("/proc/self/smaps"):
        if "-" in line.split(" ")[0]:
            start, end = (int(x, 16) for x in line.split(" ")[0].split("-"))
            found = start <= address < end
        elif found and line.startswith("Rss:"):
            return int(line.split()[1]) * 1024

arena = Bundle(pathlib.Path(sys.argv[1])).load()
loaded = resident(arena.start)
arena.run()
print(loaded, resident(arena.start))
"""


def measure(bundle):
    """Returns the resident bytes of the arena after loading and after a step."""
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, str(bundle.path)], capture_output=True,
        text=True, cwd=ROOT / "test/python", check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return map(int, process.stdout.split())


def count_zeros(plan):
    """Returns the bytes of the states that are 0 before the first step."""
    ports = [p for p in plan["ports"] if p["role"] == "state"]
    zeros = [p["buffer"] for p in ports if p["init"] == {"kind": "fill", "value": 0}]
    return sum(plan["buffers"][number]["bytes"] for number in zeros)


def test_resident_memory_equals_the_ledger(tmp_path):
    found = {}
    for states in ("f32", "dyn8"):
        bundle = compile_bundle(MINI, tmp_path, "--policy", "coat", "--states", states)
        ledger = bundle.plan["ledger"]
        loaded, run = measure(bundle)
        assert abs(run / bundle.plan["arena_bytes"] - 1) < 0.01
        kept = sum(ledger.get(category, 0) for category in KEPT)
        # Memory that was never written reads as 0 and takes no physical memory.
        written = kept - count_zeros(bundle.plan)
        assert abs(loaded - written) <= 0.01 * written + 8 * 4096
        found[states] = run, ledger["state"]
    measured, stated = (a - b for a, b in zip(found["f32"], found["dyn8"]))
    assert abs(measured / stated - 1) < 0.01 and stated > 4e6


@pytest.mark.parametrize("policy", ["bf16-amp", "coat"])
def test_the_backward_pass_needs_only_saved_values(policy, tmp_path):
    """Runs the second half of a step on memory in which everything but saved values is
    NaN. The results have the bits of the whole step."""
    bundle = compile_bundle(MINI, tmp_path, "--policy", policy)
    plan, cut = bundle.plan, bundle.find_record("cross_entropy")
    draw = np.random.default_rng(1)
    batch = {}
    for port in plan["ports"]:
        if port["role"] == "batch":
            shape = plan["buffers"][port["buffer"]]["shape"]
            batch[port["name"]] = draw.integers(0, 60, shape)
    whole = bundle.load().run(batch)
    first = bundle.load(plan["records"][:cut]).run(batch)
    second = bundle.load(plan["records"][cut:])

    halves = plan["records"][:cut], plan["records"][cut:]
    before, after = (find_places(plan, *half) for half in halves)
    saved = {place for place in before & after if place[2] == "saved"}
    # Logits and the dequantized operands of the last layer also pass between the halves.
    passed = set(find_buffers(halves[0])) & set(find_buffers(halves[1]))
    others = {place_of(plan["buffers"][index]) for index in passed} - saved
    kept = {place_of(plan["buffers"][port["buffer"]]) for port in plan["ports"]}
    kept = {place for place in kept if place[2] in KEPT}
    assert count_bytes(others - kept) < 0.03 * count_bytes(saved)
    second.memory()[:] = 0xFF
    for start, size, _ in saved | others | kept:
        second.memory()[start : start + size] = first.memory()[start : start + size]
    second.run()
    for port in plan["ports"]:
        if port["role"] in ("parameter", "state"):
            name = port["name"]
            expected, found = (a.port(port["role"], name) for a in (whole, second))
            assert expected.tobytes() == found.tobytes(), name
    np.testing.assert_array_equal(
        second.port("metric", "grad_norm"), whole.port("metric", "grad_norm")
    )
