"""ONNX's node tests pass, except those that the page about coverage lists."""

import json
import re

import pytest
from support.onnx_nodes import check, check_together, load_tests, read_page
from support.paths import ROOT

PARTS = 24
TOGETHER = 50  # Number of tests that are compiled as one module.
TESTS = sorted(load_tests())
NOT_OF_THE_OP = {"element type", "opset", "random", "no tensor"}


@pytest.mark.parametrize("part", range(PARTS))
def test_node_tests_that_the_page_does_not_list_pass(part):
    listed, tests = read_page(), load_tests()
    check_together(
        [tests[name] for name in TESTS[part::PARTS] if name not in listed], "reference"
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_node_tests_are_refused_for_the_reason_on_the_page(part):
    listed, tests, wrong = read_page(), load_tests(), []
    for name in TESTS[part::PARTS]:
        if name not in listed:
            continue
        reason = check(tests[name])
        found = reason[0] if reason else "passed"
        if found != listed[name]:
            wrong.append(f"{name}: {found}, listed is {listed[name]}")
    assert not wrong, "\n".join(wrong)


def check_compiled(step):
    listed, tests = read_page(), load_tests()
    passed = [tests[name] for name in TESTS if name not in listed][::step]
    for start in range(0, len(passed), TOGETHER):
        check_together(passed[start : start + TOGETHER], "cpu")


def test_compiled_code_passes_a_tenth():
    check_compiled(10)


@pytest.mark.nightly
def test_compiled_code_passes_all():
    check_compiled(1)


def test_the_changelog_has_the_number_of_passing_tests():
    """When the list on the page changes, update the number in CHANGELOG.md, and mention
    there what no longer passes."""
    listed = read_page()
    assert set(listed) <= set(TESTS)
    passed = len(TESTS) - len(listed)
    (stated,) = re.findall(
        r"passes (\d+) of ONNX's (\d+)\s+node tests",
        (ROOT / "CHANGELOG.md").read_text(),
    )
    assert tuple(map(int, stated)) == (passed, len(TESTS))


def list_operators():
    """Lists the standard ops that exported training graphs contain."""
    groups = json.loads((ROOT / "test/data/onnx-operators.json").read_text())
    return {op for name, ops in groups.items() if name != "com.microsoft" for op in ops}


def collect_ops(graph):
    """Returns the types of the ops in `graph` and in the subgraphs of its nodes."""
    ops = set()
    for node in graph.node:
        ops.add(node.op_type)
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                ops |= collect_ops(inner)
    return ops


def test_ops_of_exported_graphs_pass_all_their_tests():
    """Except tests with unsupported element types or opsets, or with random values."""
    listed, operators, tried, wrong = read_page(), list_operators(), set(), []
    for name, test in load_tests().items():
        ops = collect_ops(test.model.graph)
        if name not in listed:
            tried |= ops
        elif ops <= operators and listed[name] not in NOT_OF_THE_OP:
            wrong.append(f"{name}: {listed[name]}")
    assert not wrong, "\n".join(wrong)
    # test_import_ort_ops.py and test_import_control.py test these: the first is an op of
    # ONNX Runtime only; ONNX's tests of the others have sequences as inputs and outputs.
    elsewhere = {"SimplifiedLayerNormalization", "SequenceAt", "SplitToSequence"}
    assert operators - tried == elsewhere
