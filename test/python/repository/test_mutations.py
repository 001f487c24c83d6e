"""Mutation testing: the table of mutations matches the sources, and a nightly test checks that
the tests detect each mutation."""

import subprocess
import sys

import pytest
from support.paths import BUILD, ROOT

sys.path.insert(0, str(ROOT / "utils"))
import mutation_test as program


def test_mutations_match_the_sources():
    assert program.check_table(ROOT) == []
    assert len(program.MUTATIONS) >= 20
    assert len({m.file for m in program.MUTATIONS}) >= 12


def test_a_mutation_of_a_missing_text_is_an_error(monkeypatch):
    wrong = program.Mutation("CMakeLists.txt", "no such text", "x", "nothing")
    monkeypatch.setattr(program, "MUTATIONS", [wrong])
    (problem,) = program.check_table(ROOT)
    assert problem == "CMakeLists.txt: expected once, found 0 times: no such text"


@pytest.mark.nightly
def test_every_mutation_is_detected():
    command = [sys.executable, program.__file__, "--work", BUILD / "mutation"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
