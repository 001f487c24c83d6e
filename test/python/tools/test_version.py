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
    "binade", "binade-eval", "binade-lsp-server", "binade-opt", "binade-reduce", "binade-run",
    "binade-translate",
]  # fmt: skip
# Python modules that the driver or `python -m` runs.
MODULES = [
    "bisect", "data", "export", "initial", "replay", "runs", "search", "shadow", "sweep", "why_nan",
]  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_print_the_version(tool):
    path = BUILD / "bin" / tool
    if not path.exists():
        pytest.skip(f"no {path}")
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"binade {VERSION}"


@pytest.mark.parametrize("module", MODULES)
def test_python_programs_print_the_version(module, monkeypatch, capsys):
    """Calls the modules in this process, which is faster than starting Python for each."""
    monkeypatch.syspath_prepend(ROOT / "python")
    program = importlib.import_module(f"binade.{module}")
    with pytest.raises(SystemExit) as ended:
        program._main(["--version"])
    assert ended.value.code == 0
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
