"""Runs the console examples of the documentation and compares their output.

A block fenced as ```console contains commands after `$ ` and their output. A line
`...` matches any lines, `...` inside of a line any text. All blocks of a page
run in one empty directory, in order, with the built tools on PATH and the
repository's root in BINADE_ROOT. A command may fail only if the page shows an error, if it
found a difference, as `diff` does, or if the run was stopped for its numbers. Lines of a block fenced as ```file:NAME become the
file NAME. A block fenced as ```console needs:TOOL is run where the tool is on PATH, or in
the CUDA Toolkit of BINADE_CUDA_ROOT.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support.paths import BUILD, ROOT

BUILT = BUILD / "python"  # With the extension, where that is built.
PYTHON = BUILT if (BUILT / "binade").exists() else ROOT / "python"
FENCE = re.compile(
    r"^```(console(?: needs:\w+)?|file:\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
CUDA = pathlib.Path(os.environ.get("BINADE_CUDA_ROOT", "/usr/local/cuda")) / "bin"
PATH = f"{os.environ['PATH']}:{pathlib.Path(sys.executable).parent}:{CUDA}"

# Exit codes of docs/ExitCodes.md that are results: success, a difference, a stopped run;
# and of a program whose output is read in part, as by head.
SHOWN = (0, 1, 4, 141)

PAGES = sorted(
    page
    for page in [
        ROOT / "README.md",
        ROOT / "python/README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    if page.exists() and FENCE.search(page.read_text())
)


def pattern(expected: list[str]) -> re.Pattern[str]:
    """The regular expression for expected lines with `...` in them."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*?".join(map(re.escape, line.split("..."))) + r"\n")
    return re.compile("".join(parts))


def commands(block: str) -> list[tuple[str, list[str]]]:
    """(command, expected lines) of a console block; `\\` continues a command."""
    found: list[tuple[str, list[str]]] = []
    continues = False
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif continues:
            found[-1] = (found[-1][0] + "\n" + line.removeprefix("> "), [])
        else:
            found[-1][1].append(line)
        continues = line.endswith("\\")
    return found


def run(command: str, directory: pathlib.Path) -> tuple[int, str]:
    tools = BUILD / "bin"
    environment = os.environ | {
        # `python3` is what runs the tests.
        "PATH": f"{tools}:{pathlib.Path(sys.executable).parent}:{PATH}",
        "BINADE_ROOT": str(ROOT),
        "PYTHONPATH": str(PYTHON),
        "NO_COLOR": "1",
    }
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=directory,
        env=environment,
        text=True,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return result.returncode, result.stdout


@pytest.mark.skipif(
    not (BUILD / "bin/binade-opt").exists(), reason="the tools are not built"
)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_the_page_says(
    page: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    if "import torch" in page.read_text():
        pytest.importorskip("torch", reason="PyTorch is not installed")
    for kind, block in FENCE.findall(page.read_text()):
        if kind.startswith("file:"):
            (tmp_path / kind.removeprefix("file:")).write_text(block)
            continue
        tool = kind.partition(" needs:")[2]
        if tool and not shutil.which(tool, path=PATH):
            continue
        for command, expected in commands(block):
            code, printed = run(command, tmp_path)
            if code not in SHOWN and not any("error" in line for line in expected):
                pytest.fail(f"$ {command}\nexit code {code}\n{printed}")
            if not pattern(expected).fullmatch(printed):
                difference = difflib.unified_diff(
                    expected,
                    printed.splitlines(),
                    "the page",
                    "the command",
                    lineterm="",
                )
                pytest.fail(f"$ {command}\n" + "\n".join(difference))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_that_use_the_repository_say_where_it_is(page: pathlib.Path) -> None:
    text = page.read_text()
    assert "BINADE_ROOT" not in text or "index.md#set-up-a-shell)" in text


NEEDED = sorted(
    {
        kind.partition(" needs:")[2]
        for page in PAGES
        for kind, _ in FENCE.findall(page.read_text())
    }
    - {""}
)


@pytest.mark.parametrize("tool", NEEDED)
def test_no_block_is_left_out_for_want_of_a_tool(tool: str) -> None:
    if not shutil.which(tool, path=PATH):
        pytest.skip(f"no {tool}: blocks of the pages that need it are not run")
