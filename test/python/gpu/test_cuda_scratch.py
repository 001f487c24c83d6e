"""Workspace of cuDNN for the gradients of attention: how much a plan reserves, and where."""

import pytest
from support.arena import Bundle
from support.cuda_runs import run
from support.paths import ROOT

MODEL = ROOT / "benchmarks/gpu/models/gpt2.onnx"
# Of each of 32 x 12 heads: 1024 x 64 gradients of queries in f32 for every 128 of 1024 keys, and
# 1024 numbers more.
ALL = 32 * 12 * 4 * (1024 // 128 * 1024 * 64 + 1024)


def list_views(value):
    """Yields all places in memory that a record names."""
    if isinstance(value, dict):
        if "buffer" in value:
            yield value
        for entry in value.values():
            yield from list_views(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from list_views(entry)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    bundle = tmp_path_factory.mktemp("scratch") / "gpt2.bnd"
    run("binade", "compile", MODEL, "--target=cuda:sm_90", "--policy=bf16-amp",
        "--optimizer=adamw", "-o", bundle)  # fmt: skip
    return Bundle(bundle).plan


def find_scratch(plan):
    """Returns the buffer of each workspace for gradients, by the place of the record."""
    return {
        place: plan["buffers"][record["library_scratch"]["buffer"]]
        for place, record in enumerate(plan["records"])
        if record["kind"] == "attention" and "gradients" in record
    }


def test_free_memory_becomes_workspace(plan):
    """At least half of what all heads need, and all of it where nothing else is there."""
    sizes = {buffer["bytes"] for buffer in find_scratch(plan).values()}
    assert len(find_scratch(plan)) == 12
    assert sizes == {ALL // 2 + 1024, ALL + 1024}


def test_workspace_overlaps_nothing_that_is_live(plan):
    buffers, used = plan["buffers"], {}
    for place, record in enumerate(plan["records"]):
        for view in list_views(record):
            first, _ = used.setdefault(view["buffer"], (place, place))
            used[view["buffer"]] = first, place
    ports = {port["buffer"] for port in plan["ports"]}
    ranges = [
        (
            buffers[index]["offset"],
            buffers[index]["offset"] + buffers[index]["bytes"],
            index,
        )
        for index in used
    ]
    for place, scratch in find_scratch(plan).items():
        begin, end = scratch["offset"], scratch["offset"] + scratch["bytes"]
        assert begin % 256 == 0 and end <= plan["arena_bytes"]
        record = plan["records"][place]
        own = {
            view["buffer"]
            for name in ("scratch", "library_scratch")
            for view in list_views(record.get(name, {}))
        }
        for low, high, index in ranges:
            first, last = used[index]
            is_live = index in ports or first <= place <= last
            if is_live and index not in own:
                assert high <= begin or end <= low, (record["label"], index)


def test_buffers_of_one_storage_move_together(plan):
    """Kernels of the bundle use the same memory where cuDNN is missing."""
    pairs = 0
    for record in plan["records"]:
        if "scratch" in record and "library_scratch" in record:
            places = [
                plan["buffers"][record[name]["buffer"]]["offset"]
                for name in ("scratch", "library_scratch")
            ]
            assert len(set(places)) == 1
            pairs += 1
    assert pairs >= 12


def test_the_arena_does_not_grow(plan):
    """The most that is live at the same time, with the least workspace, fills the arena."""
    unused = plan["ledger"]["unused"]
    assert unused < 0.02 * plan["arena_bytes"]
    assert sum(plan["ledger"].values()) == plan["arena_bytes"]
