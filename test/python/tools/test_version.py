"""Every program prints the version of python/binade/version.py, the only file that sets it."""

import ctypes
import importlib
import re
import subprocess

import pytest
from support.paths import BUILD, ROOT

VERSION = re.search(
    r'^__version__ = "(\d+\.\d+\.\d+)"$',
    (ROOT / "python/binade/version.py").read_text(),
    re.M,
)[1]
TOOLS = [
    "binade", "binade-interpret", "binade-lsp-server", "binade-opt", "binade-reduce", "binade-run",
    "binade-translate",
]  # fmt: skip
# Python modules that the driver or `python -m` runs.
MODULES = [
    "bisect", "completion", "data", "from_torch", "initial", "plan", "replay", "runs", "search",
    "shadow", "sweep", "why_nan",
]  # fmt: skip
# The lines of `--version` after the first.
LINES = [r"commit [0-9a-f]{10}", r"LLVM \d+\.\d+\.\d+", r"oneDNN .+", r"CUDA .+"]


@pytest.mark.parametrize("flag", ["--version", "-V"])
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_print_the_version(tool, flag):
    path = BUILD / "bin" / tool
    if not path.exists():
        pytest.skip(f"no {path}")
    done = subprocess.run([path, flag], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first == f"binade {VERSION}"
    expected = [line for line in LINES if "LLVM" not in line or tool != "binade-run"]
    if not (ROOT / ".git").exists():
        expected.pop(0)
    assert len(lines) == len(expected)
    assert all(map(re.fullmatch, expected, lines)), lines


def test_the_commit_is_that_of_the_sources(tmp_path):
    """The build writes it into a header by this script; a build may be older than HEAD."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=10", "HEAD"],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    if done.returncode != 0:
        pytest.skip("not in a Git repository")
    for source, commit in ((ROOT, done.stdout.strip()), (tmp_path, "")):
        header = tmp_path / "Commit.h"
        command = ["cmake", "-DGIT=git", f"-DSOURCE={source}", f"-DOUT={header}", "-P",
                   ROOT / "cmake/WriteCommit.cmake"]  # fmt: skip
        subprocess.run(command, check=True, timeout=60)
        assert header.read_text() == f'#define BINADE_COMMIT "{commit}"\n'


@pytest.mark.parametrize("module", MODULES)
def test_python_programs_print_the_version(module, monkeypatch, capsys):
    """Calls the modules in this process, which is faster than starting Python for each."""
    monkeypatch.syspath_prepend(ROOT / "python")
    monkeypatch.setenv("BINADE_PROGRAMS", str(BUILD / "bin"))
    program = importlib.import_module(f"binade.{module}")
    printed = []
    for flag in ("--version", "-V"):
        with pytest.raises(SystemExit) as ended:
            program._main([flag])
        assert ended.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    done = subprocess.run([BUILD / "bin/binade", "--version"], capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    assert printed[0] == done.stdout


def test_python_programs_print_the_version_without_programs(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "python")
    monkeypatch.setenv("BINADE_PROGRAMS", "/nowhere")
    program = importlib.import_module("binade.runs")
    with pytest.raises(SystemExit):
        program._main(["--version"])
    assert capsys.readouterr().out == f"binade {VERSION}\n"


def test_the_runtime_library_has_the_version():
    library = BUILD / "lib/libbinade_runtime.so"
    if not library.exists():
        pytest.skip(f"no {library}")
    version = ctypes.CDLL(str(library)).binade_version
    version.restype = ctypes.c_char_p
    assert version().decode() == VERSION


def test_no_other_file_sets_the_version():
    assert "project(Binade VERSION ${version} " in (ROOT / "CMakeLists.txt").read_text()
    assert VERSION not in (ROOT / "pyproject.toml").read_text()
    assert "__version__ =" not in (ROOT / "python/binade/__init__.py").read_text()
    assert f"## {VERSION} - " in (ROOT / "CHANGELOG.md").read_text()
