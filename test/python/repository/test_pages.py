"""Pages of the documentation: links, the index, and generated pages."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support.paths import BUILD, ROOT
from support.sources import list_sources

LLVM = pathlib.Path("/usr/lib/llvm-22/bin")


def test_generated_pages_are_up_to_date():
    listed = BUILD / "docs/pages.txt"
    if not listed.exists():
        pytest.skip(f"{listed} is not built")
    fresh = {path.name: path for path in map(pathlib.Path, listed.read_text().split())}
    pages = {path.name: path for path in (ROOT / "docs/generated").iterdir()}
    del pages["onnx-coverage.md"]  # test_onnx_nodes.py checks it.
    assert sorted(pages) == sorted(fresh)
    for name, page in pages.items():
        same = page.read_text() == fresh[name].read_text()
        assert same, f"docs/generated/{name} is stale: run `ninja binade-doc`"


def test_links_between_pages_are_valid():
    broken = []
    for page in map(pathlib.Path, list_sources(".md")):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if re.match(r"\w+:", target):
                continue
            linked = page.parent / path if path else page
            if not linked.exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and anchor not in list_anchors(linked):
                broken.append(f"{page.relative_to(ROOT)}: no heading #{anchor}")
    assert broken == []


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    missing = [str(page) for page in pages if f"]({page})" not in index]
    assert missing == ["index.md"]


def list_anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def run_coverage(root):
    program = LLVM / "llvm-tblgen"
    if not program.exists():
        pytest.skip(f"no {program}")
    include = LLVM.parent / "include"
    page = root / "Coverage.md"
    command = [sys.executable, root / "utils/coverage.py", page, program]
    command += [root / "include", include]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr, page


@pytest.fixture
def sources(tmp_path):
    """A copy of the files from which utils/coverage.py generates its table."""
    for name in ("include", "lib/IR", "lib/Import", "lib/Reference", "utils"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_coverage_has_a_row_per_op(sources):
    status, output, page = run_coverage(sources)
    assert (status, output) == (0, "")
    rows = page.read_text()
    assert "| `erf` | infer | yes | scalar | yes | Erf |" in rows
    convolutions = "CausalConvWithState, Conv, ConvInteger, QLinearConv"
    assert (
        f"| `conv` | allow | yes | schedule: library | yes | {convolutions} |" in rows
    )
    assert "| `batch_norm_grad` | infer | none | decomposed | yes | |" in rows


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        (
            "lib/Reference/Elementwise.cpp",
            "add<TanhOp>",
            "add<Gone>",
            "binade.tanh has no reference",
        ),
        (
            "lib/Import/ONNX/OpTable.cpp",
            "importUnary<ErfOp>",
            "importUnary<SqrtOp>",
            "binade.erf has no ONNX",
        ),
        (
            "include/binade/IR/Ops/Contraction.td",
            "DeclareOpInterfaceMethods<DifferentiableOpInterface>,",
            "",
            "binade.matmul has no adjoint",
        ),
        (
            "utils/coverage.txt",
            "round_to:  ONNX:",
            "tanh:      ONNX:",
            "binade.tanh has a ONNX",
        ),
    ],
)
def test_missing_coverage_is_an_error(sources, name, old, new, expected):
    replace(sources / name, old, new)
    status, output, page = run_coverage(sources)
    assert status == 1
    assert expected in output
    assert not page.exists()
