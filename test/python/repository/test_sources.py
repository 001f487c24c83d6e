"""Rules for sources: only listed files open files, all are formatted and pass check_words.py,
and tests import neither each other nor require PyTorch."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from support.paths import ROOT
from support.sources import list_sources, load, write

LLVM = pathlib.Path("/usr/lib/llvm-22/bin")
# Calls that open a file by name, or a library. Binade's own `X::open` calls one of them.
OPENS = re.compile(
    r"(?<![\w>])::open(at)?\(|SYS_openat2|\bfopen\(|\bi?fstream\b|MemoryBuffer::getFile"
    r"|openInputFile|\bdlopen\("
)
# The files that contain such calls, and what they open other than untrusted files.
OPENERS = {
    "lib/Container/OpenBeneath.cpp": "the function for paths from users and from files",
    "lib/Container/Atomic.cpp": "the directory of a file that is written",
    "lib/Container/AtomicFile.cpp": "a file that is written",
    "lib/Runtime/Runs/AppendFile.cpp": "a file of the run that is written",
    "lib/Runtime/Execution/Arena.cpp": "/sys",
    "lib/Runtime/Cuda/SharedLibrary.cpp": "libraries of the system",
    "lib/Runtime/Cuda/Driver.cpp": "libraries of the system",
    "lib/Runtime/Execution/KernelObject.cpp": "kernels of a bundle, from memory",
    "lib/Runtime/Contractions/OneDnn.cpp": "libraries of the system",
    "lib/Runtime/Runs/EarlierRun.cpp": "metrics of an earlier run",
    "lib/Runtime/Runs/RunDirectory.cpp": "the lock of a run",
    "lib/Runtime/Runs/RunFile.cpp": "/proc",
    "lib/Runtime/Execution/Processor.cpp": "/proc",
    "lib/Runtime/Execution/Cores.cpp": "/proc and /sys",
    "lib/Runtime/Execution/ThreadTeam.cpp": "libraries of the system",
    "lib/Target/CPU/LinkObjects.cpp": "libraries of the system",
    "lib/Target/ObjectCache.cpp": "Binade's own cache, with hashes",
    "lib/Target/Subprocess.cpp": "output of programs of the system",
    "tools/binade-opt/binade-opt.cpp": "files named or piped by a user, as in mlir-opt",
}


def test_only_these_open_files():
    """All other sources open files with openBeneath or openFile, which distrust the path."""
    found = set()
    for name in list_sources(".cpp", ".h"):
        path = pathlib.Path(name).relative_to(ROOT)
        if path.parts[0] in ("lib", "include", "tools") and OPENS.search(
            pathlib.Path(name).read_text()
        ):
            found.add(str(path))
    assert found == set(OPENERS)


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


def test_tests_import_nothing_from_one_another():
    """Shared helpers are in test/python/support."""
    pattern = re.compile(r"^\s*(?:from|import) (test_\w+)", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT)): pattern.findall(path.read_text())
        for folder in ("test/python", "benchmarks", "utils")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_tests_do_without_pytorch(tmp_path):
    """Without PyTorch, tests that need it are skipped, and all tests can be collected."""
    write(tmp_path, "torch.py", "raise ModuleNotFoundError('absent', name='torch')")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
         *sorted((ROOT / "test/python").rglob("test_*.py"))],
        cwd=ROOT, env=dict(os.environ, PYTHONPATH=str(tmp_path)), capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-2000:]
