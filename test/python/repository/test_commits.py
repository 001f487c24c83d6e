"""`utils/check_commits.py` checks commit messages."""

import re
import subprocess
import sys

import pytest
from support.paths import ROOT
from support.sources import git, load

BODY = "\n\nWhy it is done.\n"


@pytest.mark.parametrize(
    "message",
    [
        "[kernels] fuse reductions of one value" + BODY,
        "[python] pass options to the compiler" + BODY,
        "[gpu-bench] embed the operand" + BODY,
    ],
)
def test_valid_messages_are_accepted(message):
    assert load("check_commits").check_message(message) == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("fuse reductions" + BODY, r"\[area\] imperative subject"),
        ("[Kernels] fuse reductions" + BODY, r"\[area\] imperative subject"),
        ("[kernels]fuse reductions" + BODY, r"\[area\] imperative subject"),
        ("[kernels] " + "fuse " * 13 + BODY, "75 characters, more than 72"),
        ("[kernels] Fuse reductions" + BODY, "imperative verb, not 'Fuse'"),
        ("[kernels] fuses reductions" + BODY, "imperative verb, not 'fuses'"),
        ("[kernels] fused reductions" + BODY, "imperative verb, not 'fused'"),
        ("[kernels] fusing reductions" + BODY, "imperative verb, not 'fusing'"),
        ("[kernels] the fusion of reductions" + BODY, "imperative verb, not 'the'"),
        ("[kernels] fuse reductions and tile rows" + BODY, "one change"),
        ("[kernels] fuse reductions; tile rows" + BODY, "one change"),
        ("[kernels] fuse reductions." + BODY, "a period"),
        ("[kernels] fuse reductions\nof one value" + BODY, "no blank line"),
        ("[kernels] fuse reductions\n", "no body"),
    ],
)
def test_invalid_messages_are_rejected(message, expected):
    (error,) = load("check_commits").check_message(message)
    assert re.search(expected, error)


def test_commits_since_the_last_tag_are_checked(tmp_path):
    commits = load("check_commits")
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "--allow-empty", "-m", "begun")
    # The history lacks the base commit, as in a shallow clone.
    assert commits.find_violations(tmp_path) is None
    done = subprocess.run(
        [sys.executable, ROOT / "utils/check_commits.py", tmp_path],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "not checked" in done.stdout
    git(tmp_path, "tag", "v1")
    git(tmp_path, "commit", "--allow-empty", "-m", "[ir] add an op" + BODY)
    assert commits.find_violations(tmp_path) == []
    git(tmp_path, "commit", "--allow-empty", "-m", "[ir] adds an op")
    errors = commits.find_violations(tmp_path)
    assert len(errors) == 2 and all("'[ir] adds an op'" in error for error in errors)
    git(tmp_path, "tag", "v2")
    assert commits.find_violations(tmp_path) == []
