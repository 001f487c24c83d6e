"""utils/check_words.py finds the wordings of utils/vocabulary.txt where they are banned."""

import subprocess

import pytest
from support.paths import ROOT
from support.sources import load

CHECKER = load("check_words")
VOCABULARY = (ROOT / CHECKER.VOCABULARY).read_text()


@pytest.fixture
def tree(tmp_path):
    """Writes files into a repository with a vocabulary, and returns the violations."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    def write(**files):
        files.setdefault("utils/vocabulary.txt", VOCABULARY)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return CHECKER.find_violations(tmp_path)

    write.root = tmp_path
    return write


def test_examples_of_every_row(tree):
    """Uses a folder in which all rows are enforced."""
    files, expected = {}, set()
    for i, row in enumerate(CHECKER.read_vocabulary(VOCABULARY)):
        assert row.wrong, f"{row.text} has no example"
        for j, text in enumerate(row.wrong):
            files[f"python/wrong{i}_{j}.cpp"] = text
            expected.add((f"python/wrong{i}_{j}.cpp", row.replacement))
        for j, text in enumerate(row.right):
            files[f"python/right{i}_{j}.cpp"] = text
    assert len(files) > 80
    found = {(line.split(":")[0], line.split(": write ")[1]) for line in tree(**files)}
    assert expected <= found
    assert not [name for name, _ in found if "right" in name]


def test_a_violation_names_line_wording_and_replacement(tree):
    text = "// one\n// rounded by\n//   chance"
    assert tree(**{"python/a.cpp": text}) == [
        "python/a.cpp:2: 'by // chance': write stochastically; stochastic rounding"
    ]
    assert tree(**{"python/a.cpp": "by chance", "python/b.txt": "by chance"}) == [
        "python/a.cpp:1: 'by chance': write stochastically; stochastic rounding"
    ]


def test_quotations_in_pages_are_ignored(tree):
    page = "`beside`, [x](beside.md)\n\n```console\n$ x\nbeside\n```\n\n{}\n"
    assert tree(**{"docs/a.md": page.format("in")}) == []
    (violation,) = tree(**{"docs/a.md": page.format("beside")})
    assert violation.startswith("docs/a.md:8: 'beside'")


SMALL = """
[enforced]
one  ->  1
[planned in: lib docs/old]
two  ->  2  [allowed in: python/*.cpp]
"""


def test_planned_rows_hold_outside_of_their_folders(tree):
    files = ("lib/a.cpp", "library/a.cpp", "docs/old/a.md", "docs/a.md", "python/a.cpp")
    texts = {name: "one two" for name in files}
    assert tree(**texts, **{"utils/vocabulary.txt": SMALL}) == [
        "docs/a.md:1: 'one': write 1",
        "docs/a.md:1: 'two': write 2",
        "docs/old/a.md:1: 'one': write 1",
        "lib/a.cpp:1: 'one': write 1",
        "library/a.cpp:1: 'one': write 1",
        "library/a.cpp:1: 'two': write 2",
        "python/a.cpp:1: 'one': write 1",
    ]
    assert CHECKER.count_planned(tree.root) == ["    2  two  docs/old 1, lib 1"]


@pytest.mark.parametrize("line", ["one -> 1", "one  ->", "wrong: one", "[later]"])
def test_a_malformed_row_is_an_error(tree, line):
    with pytest.raises(ValueError, match="vocabulary.txt:2: expected 'WORDING"):
        tree(**{"utils/vocabulary.txt": f"[enforced]\n{line}"})
