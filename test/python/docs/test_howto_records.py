"""Follows docs/howto/add-a-plan-record.md: compiles the record `Fill`."""

import re

import pytest
from support.overlay import Overlay, read_blocks
from support.paths import BUILD, ROOT

PAGE = "add-a-plan-record.md"
TESTS = "unittests/BinadeRuntimeTests"


def test_the_page_names_ten_files_at_most():
    text = (ROOT / "docs/howto" / PAGE).read_text()
    steps = re.findall(
        r"^\d+\. (.*?)(?=^\d+\. |^A record)", text, re.MULTILINE | re.DOTALL
    )
    named = [
        re.findall(
            r"`((?:lib|include|test)/[\w/]+\.\w+|CMakeLists\.txt)`", s.split(":")[0]
        )
        for s in steps
    ]
    assert len(steps) == 9 and all(named)
    assert sum(len(files) for files in named) == 10
    for path in (path for files in named for path in files):
        isNew = "Fill" in path
        assert isNew or path == "CMakeLists.txt" or (ROOT / path).exists(), path


CHANGED = (
    "lib/Plan/Operands.cpp",
    "lib/Plan/RecordJson.cpp",
    "lib/Plan/ValidateRecords.cpp",
    "lib/Runtime/Execution/Executor.cpp",  # Finds the operation by its overload.
)


@pytest.mark.nightly
@pytest.mark.skipif(not (BUILD / TESTS).exists(), reason=f"{TESTS} is not built")
def test_the_code_of_the_page_compiles(tmp_path):
    overlay = Overlay(tmp_path)
    record, operands, json, check, declaration, operation, test = read_blocks(PAGE)
    header = "include/binade/Plan/Plan.h"
    overlay.insert(header, "struct Record;\n", record + "\n")
    overlay.insert(header, "> body;\n", ", Fill")
    overlay.insert(
        "lib/Plan/Operands.cpp", "std::vector<Operand> Loop::listOperands", operands
    )
    overlay.insert("lib/Plan/RecordJson.cpp", "static json write(const Loop", json)
    overlay.insert(
        "lib/Plan/ValidateRecords.cpp", "  Result<void> check(const Copy", check
    )
    overlay.insert(
        "lib/Runtime/Execution/Operation.h", "} // namespace binade\n", declaration
    )
    overlay.write("lib/Runtime/Execution/Fill.cpp", operation)
    folder = "test/unittests/Runtime"
    overlay.write(f"{folder}/FillTest.cpp", test)
    for path in CHANGED:
        overlay.compile(path)
    overlay.compile("lib/Runtime/Execution/Fill.cpp", "lib/Runtime/Execution/Copy.cpp")
    overlay.compile(f"{folder}/FillTest.cpp", f"{folder}/AttentionTest.cpp")
