"""Every op of the dialect has lit tests of printing and parsing; every family, of errors."""

import re

from support.paths import ROOT


def test_every_op_has_a_round_trip_test():
    page = (ROOT / "docs/generated/Dialect.md").read_text()
    ops = set(re.findall(r"^### `binade\.(\w+)`", page, re.MULTILINE))
    assert len(ops) > 60
    families = {
        file.stem for file in (ROOT / "include/binade/IR/Ops").glob("*.td")
    } - {"Base", "ElementwiseBase"}  # fmt: skip
    tests = [file.read_text() for file in (ROOT / "test/IR").glob("*.mlir")]
    round_trips = "".join(text for text in tests if "--mlir-print-op-generic" in text)
    checks = re.findall(r"CHECK(?:-NEXT)?:.*", round_trips)
    seen = set(re.findall(r"binade\.(\w+)", "\n".join(checks)))
    assert ops <= seen, sorted(ops - seen)
    assert sum("--verify-diagnostics" in text for text in tests) >= len(families)
