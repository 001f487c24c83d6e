#!/usr/bin/env python3
"""Writes docs/generated/onnx-coverage.md: which of ONNX's node tests Binade passes.

usage: onnx_coverage.py

Runs all node tests on the reference interpreter, which takes some minutes. The page lists the
tests whose ops Binade does not import, and why. A result that differs from the test's is an
error.
"""

from __future__ import annotations

import collections
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/python"))

from support.onnx_nodes import PAGE, check, load_tests  # noqa: E402

HEADER = """\
# ONNX coverage

Which of the node tests of the `onnx` package Binade does not pass, and why.
`utils/onnx_coverage.py` writes this page; the tests fail when a listed test passes, or
another does not, and when `CHANGELOG.md` says another number of passed ones. Inputs that
decide a shape are made constants first.

| class | means | tests |
|---|---|---|
"""
MEANINGS = {
    "op": "an op that is not imported",
    "element type": "elements that tensors of the dialect do not have",
    "opset": "an opset that is not read",
    "value": "a value that has to be known when the model is imported, and is not an input",
    "no tensor": "sequences, optional values and maps",
    "random": "numbers of a generator, which draws others than the test's",
    "form": "an attribute or input of an op that is imported otherwise",
}


def main() -> None:
    tests = load_tests()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(tests, pool.map(check, tests.values())))
    refused = {name: reason for name, reason in results.items() if reason}
    counts = collections.Counter(reason for reason, _ in refused.values())
    text = HEADER
    text += "".join(
        f"| {name} | {meaning} | {counts[name]} |\n"
        for name, meaning in MEANINGS.items()
    )
    text += f"\n{len(tests) - len(refused)} of {len(tests)} tests are passed.\n"
    text += "\n| test | class | about |\n|---|---|---|\n"
    for name, (reason, about) in sorted(refused.items()):
        text += f"| `{name}` | {reason} | {' '.join(about.split())[:120]} |\n"
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
