"""Fabric files: what they may contain, and errors that name file and line."""

import math

import pytest
from binade.errors import FileError, RejectedError, UsageError
from binade.planning.collectives import Level
from binade.planning.fabric import Fabric, list_shipped, read_fabric, write_fabric

CLUSTER = """
name: two levels
costs: sm_90
memory_gib: 80
levels:
- name: inner
  size: 8
  latency_us: 2
  bandwidth_gb_per_s: 450
- name: outer
  latency_us: 8.5
  bandwidth_gb_per_s: 50
  ranks_at_once: 16
  algorithms: [ring]
failures: { rank_hours: 50000, save_s: 30 }
"""


def read(folder, text):
    path = folder / "fabric.yaml"
    path.write_text(text)
    return read_fabric(str(path))


def test_units_are_converted(tmp_path):
    fabric = read(tmp_path, CLUSTER)
    assert fabric.name == "two levels" and fabric.costs == "sm_90"
    assert fabric.memory == 80 * 2**30
    inner, outer = fabric.levels
    assert inner == Level("inner", 8, 2e-6, 450e9)
    assert (outer.size, outer.algorithms) == (0, ("ring",))
    assert outer.latency == pytest.approx(8.5e-6) and outer.at_once == 16
    assert fabric.failures.rank_seconds == 50000 * 3600
    assert (fabric.failures.save, fabric.failures.restart) == (30, 0)


def test_most_keys_are_optional(tmp_path):
    text = "name: x\nlevels: [{ name: all, latency_us: 0, bandwidth_gb_per_s: 1 }]\n"
    fabric = read(tmp_path, text)
    assert fabric.failures is None and fabric.memory == math.inf and fabric.costs == ""


def test_ranks_of_one_core_take_turns(tmp_path):
    outer = read(
        tmp_path, CLUSTER.replace("ranks_at_once: 16", "ranks_at_once: 1")
    ).levels[1]
    assert outer.at_once == 1
    assert outer.measure(3, 1, 0).seconds == pytest.approx(3 * 8.5e-6)


def test_costs_in_a_file_are_next_to_it(tmp_path):
    fabric = read(tmp_path, CLUSTER.replace("sm_90", "here.yaml"))
    assert fabric.costs == str(tmp_path / "here.yaml")


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        ("latency_us: 2\n", "latency: 2\n", 8, "no key 'latency'; did you mean 'latency_us'?"),
        ("ranks_at_once: 16", "ranks_at_once: 0", 13, "expected an integer from 1 on, got 0"),
        ("ranks_at_once: 16", "wakeup_us: 30", 13, "expected 'ranks_at_once'"),
        ("size: 8", "size: 1", 7, "'size': expected an integer from 2 on, got 1"),
        ("  size: 8\n", "", 6, "no 'size', the number of ranks or groups"),
        ("- name: outer", "- size: 4\n  name: outer", 10, "expected none in the last level"),
        ("latency_us: 2\n", "latency_us: -2\n", 8, "expected a number from 0 on, got -2"),
        ("latency_us: 2\n", "latency_us: fast\n", 8, "from 0 on, got 'fast'"),
        ("_s: 450", "_s: 0", 9, "expected a number above 0, got 0"),
        ("_s: 450", "_s: .inf", 9, "expected a number above 0, got inf"),
        ("_s: 450", "_s: .nan", 9, "expected a number above 0, got nan"),
        ("_s: 450", "_s: true", 9, "expected a number above 0, got True"),
        ("[ring]", "[star]", 14, "expected a list of ring, tree"),
        ("name: two levels\n", "", 2, "a fabric has no 'name'"),
        ("memory_gib: 80", "memory_gib: 80\nmemory_gib: 80", 5, "is given twice"),
        (", save_s: 30", "", 15, "failures has no 'save_s'"),
        ("failures: {", "failures: [", 15, "not YAML"),
        ("name: two levels", "name: [two]", 2, "'name': expected a text"),
        ("size: 8", "size: !!python/name:os.system", 7, "'size': expected an integer"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path, old, new, line, message):
    assert CLUSTER.count(old) == 1
    with pytest.raises(RejectedError) as caught:
        read(tmp_path, CLUSTER.replace(old, new))
    where, _, text = str(caught.value).partition(": error: ")
    assert where == f"{tmp_path / 'fabric.yaml'}:{line}" and message in text
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- 1\n",
        "name: x\nlevels: []\n",
        "levels: 3\n",
        "a: " + "[" * 5000,
        "? {a: 1}\n: 2\n",
    ],
)
def test_other_files_are_rejected(tmp_path, text):
    with pytest.raises(RejectedError, match="fabric.yaml:[12]: error: "):
        read(tmp_path, text)


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path):
    with pytest.raises((RejectedError, FileError), match="no.yaml"):
        read_fabric(str(tmp_path / "no.yaml"))
    (tmp_path / "raw.yaml").write_bytes(b"name: \x80")
    with pytest.raises(RejectedError, match=r"raw.yaml:1: error: not YAML"):
        read_fabric(str(tmp_path / "raw.yaml"))


def test_an_unknown_name_is_a_wrong_option():
    with pytest.raises(UsageError, match="h200.*did you mean 'h200'"):
        read_fabric("h20")


def test_shipped_fabrics_are_valid():
    assert {"h200", "gb200", "loopback"} <= set(list_shipped())
    for name in list_shipped():
        assert read_fabric(name).levels
    node, rail = read_fabric("h200").levels
    # NVLink 4 has 900 GB/s in both directions together, 400 Gbit/s are 50 GB/s.
    assert (node.size, node.bandwidth, rail.bandwidth) == (8, 450e9, 50e9)
    # 419 stops in 54 days of 16,384 GPUs.
    assert read_fabric("h200").failures.rank_seconds / 3600 == pytest.approx(
        54 * 24 * 16384 / 419, rel=1e-4
    )


def test_what_is_written_is_read(tmp_path):
    levels = (
        Level("a", 4, 1.5e-6, 3e9, algorithms=("ring",)),
        Level("b", 0, 2e-5, 1e9, 4, wakeup=3.5e-5),
    )
    text = write_fabric(Fabric("mine", levels, "sm_90"), "Measured.\nTwice.")
    assert text.startswith("# Measured.\n# Twice.\nname: mine\ncosts: sm_90\n")
    for found, given in zip(read(tmp_path, text).levels, levels, strict=True):
        assert (found.name, found.size, found.at_once, found.algorithms) == (
            given.name, given.size, given.at_once, given.algorithms,
        )  # fmt: skip
        for key in ("latency", "bandwidth", "wakeup"):
            assert getattr(found, key) == pytest.approx(getattr(given, key))
