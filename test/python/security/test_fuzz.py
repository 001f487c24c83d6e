"""Fuzzing: a nightly test runs each fuzzer on a million mutated files, and the others test
`utils/fuzz.py`, which runs the fuzzers."""

import os
import subprocess
import sys

import pytest
from support.paths import ROOT
from support.sources import load

RUNS = os.environ.get("BINADE_FUZZ_RUNS", "1000000")


fuzz = load("fuzz")


@pytest.fixture(scope="module")
def build():
    """Builds the fuzzers, with instrumentation of the code that they test."""
    for command in (
        ["cmake", "--preset", "fuzz"],
        ["cmake", "--build", "--preset", "fuzz"],
    ):
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return ROOT / "build/fuzz"


@pytest.mark.nightly
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_fuzzers_find_no_failure(target, build):
    command = [sys.executable, ROOT / "utils/fuzz.py", target, "--runs", RUNS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{target}: {RUNS} files" in done.stdout


PROGRAM = """#!/bin/sh
# Imitates a fuzzer that reads some files and may find a failure.
echo '#1 NEW' >&2
echo '#{runs} DONE' >&2
{last}
"""


@pytest.mark.parametrize("finds", [False, True])
def test_a_failure_is_reported(finds, tmp_path):
    last = "echo 'x; Test unit written to there/plan-crash-1' >&2; exit 77"
    program = tmp_path / "bin/binade-fuzz-plan"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(runs=500, last=last if finds else ""))
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, ROOT / "utils/fuzz.py", "plan", "--build", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == finds, done.stderr
    assert done.stdout.startswith("plan: 500 files in ")
    assert ("clean" in done.stdout) == (not finds)
    assert ("FOUND there/plan-crash-1" in done.stdout) == finds


def test_each_target_is_built_and_replayed():
    """The lists of targets in fuzz.py, in CMake and in the unit test agree."""
    cmake = (ROOT / "test/fuzz/CMakeLists.txt").read_text()
    unit = (ROOT / "test/fuzz/RegressionsTest.cpp").read_text()
    for target in fuzz.TARGETS:
        assert f"binade_fuzzer({target}\n" in cmake
        assert f'Target{{"{target}",' in unit
        assert list((ROOT / "test/fuzz/Inputs" / target).glob("sample*"))
