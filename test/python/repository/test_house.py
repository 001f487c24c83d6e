"""The house rules: layers, formatting, fresh pages, clean text.

BINADE_BUILD names the build directory (default: build/release).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from support.paths import BUILD, ROOT
from support.sources import load, write

LLVM = pathlib.Path("/usr/lib/llvm-22/bin")


def list_sources(*suffixes):
    return [
        str(ROOT / name)
        for name in load("check_words").list_files(ROOT)
        if name.endswith(suffixes) and (ROOT / name).is_file()
    ]


# --- Names --------------------------------------------------------------------


def test_every_type_has_a_name_of_its_own():
    assert load("check_names").find_violations(ROOT) == []


def test_types_of_one_name_are_found(tmp_path):
    shared = "namespace a {\nnamespace {{\n{}\n}}\nstruct {} : B {{\n}};\n}}\n"
    for name, own, common in (("x", "struct One {};", "Two"), ("y", "struct One {};", "Two"),
                              ("z", "", "Three")):  # fmt: skip
        text = shared.replace("namespace a {", "namespace a {{").format(own, common)
        write(tmp_path, f"lib/{name}.cpp", text)
    assert load("check_names").find_violations(tmp_path) == [
        "a::Two is defined in lib/x.cpp and lib/y.cpp"
    ]


# --- Layers -------------------------------------------------------------------


def test_includes_and_links_follow_the_layers():
    assert load("check_layers").find_violations(ROOT) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "lib/Kernels/X.cpp",
            '\n#include "binade/Precision/Policy.h"\n',
            r"X.cpp:2: Kernels may not include Precision",
        ),
        (
            "include/binade/Runtime/X.h",
            '#include "llvm/ADT/SmallVector.h"\n',
            r"X.h:1: Runtime is free of MLIR, but has llvm/ADT/SmallVector.h",
        ),
        (
            "lib/Plan/X.cpp",
            "#include <mlir/IR/Operation.h>\n",
            r"Plan is free of MLIR, but has mlir/IR/Operation.h",
        ),
        (
            "include/binade/IR/Ops/X.td",
            'include "binade/Kernels/Passes.td"\n',
            r"X.td:1: IR may not include Kernels",
        ),
        (
            "lib/Autodiff/X.cpp",
            '#include "../Optimizer/Settings.h"\n',
            r"\.\./Optimizer/Settings.h leads out of Autodiff",
        ),
        ("lib/Stuff/X.cpp", "int x;\n", r"folder Stuff is not in utils/layers.txt"),
        (
            "lib/Import/CMakeLists.txt",
            "binade_library(BinadeImport SOURCES X.cpp LINKS BinadeAutodiff)\n",
            r"Import may not link BinadeAutodiff",
        ),
    ],
)
def test_a_crossed_layer_is_found(tmp_path, name, text, expected):
    write(tmp_path, "utils/layers.txt", (ROOT / "utils/layers.txt").read_text())
    write(tmp_path, name, text)
    (violation,) = load("check_layers").find_violations(tmp_path)
    assert re.search(expected, violation)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("station A:\nstation B: A\n", "layers.txt:2: B names A, which is a station"),
        ("shared A: B\nshared B:\n", "layers.txt:1: A names B, not in a line above"),
        ("shared A:\nplain B: A\n", "layers.txt:2: B is plain, but A needs MLIR"),
        ("shared A:\nplain A:\n", "layers.txt:2: A stands here twice"),
        ("layer A:\n", "layers.txt:1: expected 'KIND FOLDER: FOLDER...': layer A:"),
    ],
)
def test_the_table_of_layers_obeys_its_own_rules(tmp_path, table, expected):
    write(tmp_path, "utils/layers.txt", table)
    assert load("check_layers").find_violations(tmp_path) == [expected]


# --- Files --------------------------------------------------------------------

# Calls that open a file by a name, or a library: `X::open` of ours calls one of them.
OPENS = re.compile(
    r"(?<![\w>])::open(at)?\(|SYS_openat2|\bfopen\(|\bi?fstream\b|MemoryBuffer::getFile"
    r"|openInputFile|\bdlopen\("
)
# Where they stand, and what they open that is not a file of somebody else.
OPENERS = {
    "lib/Container/OpenBeneath.cpp": "the function for what files name, and users",
    "lib/Container/Atomic.cpp": "the directory of a file that is written",
    "lib/Container/AtomicFile.cpp": "a file that is written",
    "lib/Runtime/AppendFile.cpp": "a file of the run that is written",
    "lib/Runtime/Arena.cpp": "/sys",
    "lib/Runtime/Cuda/SharedLibrary.cpp": "libraries of the system",
    "lib/Runtime/Cuda/Driver.cpp": "libraries of the system",
    "lib/Runtime/KernelObject.cpp": "kernels of a bundle, from memory",
    "lib/Runtime/OneDnn.cpp": "libraries of the system",
    "lib/Runtime/RunDirectory.cpp": "the lock of a run",
    "lib/Runtime/RunFile.cpp": "/proc",
    "lib/Runtime/ThreadCount.cpp": "/sys",
    "lib/Runtime/ThreadTeam.cpp": "libraries of the system",
    "lib/Target/CPU/LinkObjects.cpp": "libraries of the system",
    "lib/Target/ObjectCache.cpp": "Binade's own cache, with hashes",
    "lib/Target/Subprocess.cpp": "what a program of the system wrote",
    "tools/binade-opt/binade-opt.cpp": "what a user names, or pipes, as for mlir-opt",
}


def test_only_these_open_files():
    """Another that reads what somebody else wrote calls openBeneath or openFile."""
    found = set()
    for name in list_sources(".cpp", ".h"):
        path = pathlib.Path(name).relative_to(ROOT)
        if path.parts[0] in ("lib", "include", "tools") and OPENS.search(
            pathlib.Path(name).read_text()
        ):
            found.add(str(path))
    assert found == set(OPENERS)


# --- Text ---------------------------------------------------------------------


def test_files_are_clean():
    assert load("check_words").find_violations(ROOT) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("// TO" + "DO: later\n", "unfinished work"),
        ("see /work" + "/main\n", "a path of one machine"),
        ("\tx\n", "a tab"),
        ("x \n", "white space at the end of the line"),
        ("x\r\n", "white space at the end of the line"),
        ("x", "no newline at the end of the file"),
        ("<" * 7 + " HEAD\n", "an unresolved conflict"),
    ],
)
def test_unclean_text_is_found(tmp_path, text, what):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "a.md").write_bytes(text.encode())
    (violation,) = load("check_words").find_violations(tmp_path)
    assert violation.startswith("a.md")
    assert what in violation


def test_sources_are_formatted_by_clang_format():
    program = LLVM / "clang-format"
    if not program.exists():
        pytest.skip(f"no {program}")
    command = [program, "--dry-run", "-Werror", *list_sources(".h", ".cpp")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run `ninja binade-format`\n{done.stderr}"


@pytest.mark.parametrize(
    "command",
    [
        ["format", "--check"],
        # lit executes its configuration with names that it defines itself.
        ["check", "--select=E9,F", "--exclude=lit.cfg.py"],
    ],
)
def test_python_is_formatted_by_ruff(command):
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", *command, "--no-cache", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run `ninja binade-format`\n{done.stdout}"


# --- Tests ----------------------------------------------------------------------


def test_tests_import_nothing_from_one_another():
    """What several of them need is in test/python/support."""
    pattern = re.compile(r"^\s*(?:from|import) (test_\w+)", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT)): pattern.findall(path.read_text())
        for folder in ("test/python", "benchmarks", "utils")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    assert {path: names for path, names in found.items() if names} == {}


# --- Pages --------------------------------------------------------------------


def test_tests_do_without_pytorch(tmp_path):
    """They are skipped, as for who has none; none fails to be collected."""
    write(tmp_path, "torch.py", "raise ModuleNotFoundError('absent', name='torch')")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
         *sorted((ROOT / "test/python").rglob("test_*.py"))],
        cwd=ROOT, env=dict(os.environ, PYTHONPATH=str(tmp_path)), capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-2000:]


def test_generated_pages_are_fresh():
    listed = BUILD / "docs/pages.txt"
    if not listed.exists():
        pytest.skip(f"{listed} is not built")
    fresh = {path.name: path for path in map(pathlib.Path, listed.read_text().split())}
    pages = {path.name: path for path in (ROOT / "docs/generated").iterdir()}
    del pages["onnx-coverage.md"]  # test_onnx_nodes.py compares it with what runs.
    assert sorted(pages) == sorted(fresh)
    for name, page in pages.items():
        same = page.read_text() == fresh[name].read_text()
        assert same, f"docs/generated/{name} is stale: run `ninja binade-doc`"


def test_links_between_pages_lead_somewhere():
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
    """A copy of what the table of coverage is made from."""
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
def test_a_hole_in_coverage_is_an_error(sources, name, old, new, expected):
    replace(sources / name, old, new)
    status, output, page = run_coverage(sources)
    assert status == 1
    assert expected in output
    assert not page.exists()


# --- Setup --------------------------------------------------------------------

STUBS = {
    # Everything is installed but what MISSING names.
    "dpkg-query": 'for last; do :; done; case " $MISSING " in *" $last "*) exit 1;; esac; echo -n installed',
    "apt-cache": 'case " $UNKNOWN " in *" $2 "*) exit 0;; esac; echo "  Candidate: 1.0"',
    "apt-get": 'echo "apt-get $*" >> "$CALLS"',
}


def run_setup(root, *arguments, user=None, **environment):
    """Runs utils/setup.sh in a tree without Python packages, with a false apt."""
    shutil.copytree(ROOT / "utils", root / "utils")
    write(root, "python/requirements.txt", "# nothing\n")
    stubs = root / "stubs"
    for name, body in STUBS.items():
        write(root, f"stubs/{name}", f"#!/bin/sh\n{body}\n")
        (stubs / name).chmod(0o755)
    for name in ("bash", "cat", "chmod", "cmp", "cp", "dirname", "env", "sed"):
        (stubs / name).symlink_to(shutil.which(name))
    command = [root / "utils/setup.sh", *arguments]
    if user and os.geteuid() == 0:
        inside = root.relative_to(tempfile.gettempdir())
        for path in (root, *root.parents[: len(inside.parts) - 1]):
            path.chmod(0o755)
        command = [shutil.which("setpriv"), f"--reuid={user}", *command]
    calls = root / "calls"
    environment = {"PATH": str(stubs), "CALLS": str(calls), **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    text = calls.read_text() if calls.exists() else ""
    return done.returncode, done.stdout + done.stderr, text.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="installing by apt needs root")
def test_setup_installs_what_is_missing_in_one_call(tmp_path):
    status, output, calls = run_setup(tmp_path, MISSING="lld-22 libdnnl-dev")
    assert status == 0, output
    install = "apt-get install -y -qq --no-install-recommends lld-22 libdnnl-dev"
    assert calls == ["apt-get update -qq", install]
    assert "setup: apt: installing lld-22 libdnnl-dev" in output
    assert (tmp_path / ".venv/bin/python").exists()


def test_setup_leaves_apt_alone_when_nothing_is_missing(tmp_path):
    status, output, calls = run_setup(tmp_path)
    assert (status, calls) == (0, []), output
    assert "packages are installed" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="installing by apt needs root")
def test_setup_says_where_llvm_comes_from(tmp_path):
    names = "libmlir-22-dev clang-22"
    status, output, calls = run_setup(tmp_path, MISSING=names, UNKNOWN=names)
    assert status == 1
    assert f"error: apt finds no package for: {names}" in output
    assert "LLVM's package\nrepository for Debian, branch 22" in output
    assert calls == ["apt-get update -qq"]


def test_setup_without_root_and_sudo_says_what_to_run(tmp_path):
    status, output, calls = run_setup(tmp_path, user=65534, MISSING="cmake")
    assert (status, calls) == (1, [])
    assert "neither root nor is there sudo" in output
    assert "apt-get install --no-install-recommends cmake" in output


def test_setup_names_a_wrong_argument(tmp_path):
    status, output, _ = run_setup(tmp_path, "--with", "cuda")
    assert status == 1
    assert "--with takes 'torch', 'peers', 'wheel' or 'browser', got 'cuda'" in output
