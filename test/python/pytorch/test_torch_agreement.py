"""Processes with rows of sharded parameters agree on what they compile and redistribute.

If one of them plans something else than the others, all raise the same error, and none of
them hangs or changes anything.
"""

import pytest
import torch
from support import agreement_steps, process_groups

# No gradient of what is frozen at first.
FIRST = {"c": None, "d": None, "e": None}
NONE = {"a": None, "b": None, **FIRST}


def run(rule, steps, tmp_path):
    """Returns what each process found."""
    given = {"rule": rule, "steps": steps}
    return process_groups.run_processes(agreement_steps.__file__, 2, given, tmp_path)


def assert_equal(found, expected):
    assert found["skipped"] == expected["skipped"]
    for name, value in expected["parameters"].items():
        assert torch.equal(found["parameters"][name], value), name


# What the processes do, and what the error says.
OTHERS = [
    ({"0": {**FIRST, "a": "sum"}, "1": FIRST}, "parameter 0.0 has other placements"),
    ({"0": FIRST, "1": {**FIRST, "b": "sum"}}, "parameter 0.1 has other placements"),
    ({"0": NONE, "1": {**NONE, "a": "sum"}}, "parameter 0.0 has other placements"),
    ({"0": FIRST, "1": {**FIRST, "c": "shard"}}, "parameter 0.2 has its first gradient"),
    ({"0": {**FIRST, "d": "infinite"}, "1": NONE}, "parameter 0.3 has its first gradient"),
    ({"0": {**FIRST, "c": "sum"}, "1": {**FIRST, "c": "shard"}},
     "parameter 0.2 has other placements"),
    ({"0": {**FIRST, "c": "sum"}, "1": FIRST}, "parameter 0.2 has its first gradient"),
]  # fmt: skip


@pytest.mark.parametrize("rule", ["adamw", "muon", "lamb"])
def test_all_processes_raise_the_same_error(rule, tmp_path):
    wrong = [step for step, _ in OTHERS]
    steps = [{"*": FIRST}, *wrong, {"*": FIRST}, {"*": {}}]
    same = [{"*": FIRST}, *[{"*": NONE}] * len(OTHERS), {"*": FIRST}, {"*": {}}]
    found = run(rule, steps, tmp_path)
    assert found[0]["errors"] == found[1]["errors"]
    expected = ["", *(text for _, text in OTHERS), "", ""]
    for error, text in zip(found[0]["errors"], expected, strict=True):
        assert text in error
        assert bool(text) == bool(error)
    # Nothing was updated, and the processes can continue.
    expected = agreement_steps.run({"rule": rule, "steps": same}, 0, None)
    for one in found:
        assert_equal(one, expected)


def test_a_setting_of_one_process_is_an_error_if_owners_compile_together(tmp_path):
    steps = [{"*": FIRST}, {"*": FIRST, "skip_zeros": 1}, {"*": FIRST}]
    for one in run("muon", steps, tmp_path):
        assert [bool(error) for error in one["errors"]] == [False, True, False]
        assert "some processes only have to compile the update" in one["errors"][1]


@pytest.mark.parametrize("rule", ["adamw", "muon"])
def test_all_processes_may_begin_together(rule, tmp_path):
    begins = [{**FIRST, "c": "sum"}, {"d": None, "e": "infinite"}, {"e": None}]
    steps = [{"*": FIRST}, *({"*": kinds} for kinds in begins), {"*": {"d": "sum"}}]
    expected = agreement_steps.run({"rule": rule, "steps": steps}, 0, None)
    assert expected["skipped"] == [False, False, True, False, False]
    for one in run(rule, steps, tmp_path):
        assert one["errors"] == [""] * len(steps)
        assert_equal(one, expected)
