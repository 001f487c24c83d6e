"""Contents of the repository: entries at its root, binary files, decision records and the
glossary."""

import collections
import fnmatch
import re

import pytest
from support.paths import ROOT
from support.sources import git, load

# --- Files --------------------------------------------------------------------

AT_THE_ROOT = {
    ".ci", ".clang-format", ".dockerignore", ".git-blame-ignore-revs", ".gitignore",
    "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "Dockerfile",
    "LICENSE", "README.md", "benchmarks", "check", "cmake", "demo", "docs", "examples", "include",
    "lib", "pyproject.toml", "python", "test", "tools", "utils",
}  # fmt: skip
BINARY = {
    "benchmarks/gpu/models/*.onnx": "models of the GPU benchmark, without weights",
    "docs/results/*.png": "pictures that pages show",
    "examples/*/*.onnx": "models of the examples",
    "examples/resnet/digits.npz": "data of an example",
    "test/data/exports-*/*.onnx": "what other exporters write",
    "test/data/exports-*/*.safetensors": "recorded values",
    "test/data/golden/*.safetensors": "recorded values",
    "test/data/torch-exports/*.safetensors": "recorded values",
    "test/data/torch-exports/*/*.onnx": "what PyTorch's exporters write",
    "test/fuzz/Inputs/*": "files that the fuzzers start from",
    "test/unittests/Container/Inputs/*.safetensors": "a file of another program",
}
LARGEST = 1 << 20


def find_unexpected(root):
    """Lists entries of the root, binary files and large files that are not allowed."""
    names = [
        name for name in load("check_words").list_files(root) if (root / name).is_file()
    ]
    tops = {name.split("/")[0] for name in names}
    errors = [
        f"{name}: not among the root's entries" for name in sorted(tops - AT_THE_ROOT)
    ]
    for name in names:
        data = (root / name).read_bytes()
        is_listed = any(fnmatch.fnmatch(name, glob) for glob in BINARY)
        if b"\0" in data and not is_listed:
            errors.append(f"{name}: a binary file that no pattern allows")
        if len(data) > LARGEST:
            errors.append(f"{name}: more than {LARGEST} bytes")
    return errors


def test_only_known_entries_and_binary_files_are_in_the_repository():
    assert find_unexpected(ROOT) == []


def test_every_allowed_entry_exists():
    names = load("check_words").list_files(ROOT)
    assert {name.split("/")[0] for name in names} == AT_THE_ROOT
    for glob in BINARY:
        assert any(fnmatch.fnmatch(name, glob) for name in names), glob


def test_unexpected_files_are_found(tmp_path):
    git(tmp_path, "init", "-q")
    for name, data in {
        "lib/a.cpp": b"int a;\n", "notes.txt": b"x\n", "lib/a.o": b"\0", "docs/results/a.png": b"\0",
        "docs/big.txt": b"a" * (LARGEST + 1),
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert find_unexpected(tmp_path) == [
        "notes.txt: not among the root's entries",
        f"docs/big.txt: more than {LARGEST} bytes",
        "lib/a.o: a binary file that no pattern allows",
    ]


def test_names_of_test_files_are_unique():
    """pytest imports each file as a module of this name."""
    names = [path.name for path in (ROOT / "test/python").glob("*/test_*.py")]
    assert len(names) > 200
    assert len(set(names)) == len(names), [
        name for name, uses in collections.Counter(names).items() if uses > 1
    ]


def test_commits_that_blame_ignores_exist():
    if git(ROOT, "rev-parse", "--is-shallow-repository") != "false\n":
        pytest.skip("no full history")
    for line in (ROOT / ".git-blame-ignore-revs").read_text().splitlines():
        if not line.startswith("#"):
            assert re.fullmatch("[0-9a-f]{40}", line)
            assert git(ROOT, "merge-base", "--is-ancestor", line, "HEAD") is not None, (
                line
            )


# --- Decisions ----------------------------------------------------------------


def test_decision_numbers_are_unique_and_gaps_are_explained():
    folder = ROOT / "docs/decisions"
    numbers = [int(path.name[:4]) for path in sorted(folder.glob("[0-9]*.md"))]
    assert len(numbers) == len(set(numbers))
    assert {path.name for path in folder.iterdir()} - {"README.md"} == {
        path.name for path in folder.glob("[0-9][0-9][0-9][0-9]-*.md")
    }
    gaps = set(range(1, max(numbers) + 1)) - set(numbers)
    section = (folder / "README.md").read_text().partition("## Unused numbers")[2]
    explained = {int(number) for number in re.findall(r"^- \*\*(\d{4})", section, re.M)}
    assert explained == gaps


def test_the_index_has_the_titles_of_decisions():
    index = (ROOT / "docs/index.md").read_text()
    for path in (ROOT / "docs/decisions").glob("[0-9]*.md"):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        assert title.startswith(path.name[:4])
        assert f"- [{title}](decisions/{path.name})" in index


# --- Terms --------------------------------------------------------------------


def test_the_glossary_is_sorted_and_links_pages():
    text = (ROOT / "docs/Glossary.md").read_text()
    entries = re.findall(r"^- \*\*(.+?)\*\*:(.+?)(?=^- |\Z)", text, re.M | re.S)
    terms = [term for term, _ in entries]
    assert len(terms) > 80
    assert terms == sorted(terms, key=str.lower)
    for term, body in entries:
        assert re.search(r"\]\([\w./#-]+\)", body), f"{term} links no page"
        assert len(" ".join(body.split())) < 400, f"{term} takes more than a few lines"
