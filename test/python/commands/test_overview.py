"""`binade --help` lists all commands by purpose, `binade help` prints the help of each, and
wrong command lines are reported alike by programs and Python commands."""

import os
import re
import subprocess
import sys
import tempfile

import pytest
from support.paths import BUILD, ROOT
from support.reference import binade

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)
GROUPS = [
    "Train", "Choose a precision", "Find what went wrong", "ONNX", "Compiler", "Other",
]  # fmt: skip
PYTHON = [
    "bisect", "completion", "data", "from-torch", "initial", "plan", "replay", "runs",
    "search", "shadow", "sweep", "why-nan",
]  # fmt: skip
# Commands that pass options which they do not know on to `binade train`.
PASSING = ["bisect", "search", "shadow", "sweep"]


def show(*words, code=0):
    done = binade(*words)
    assert done.returncode == code, done.stderr
    return done.stdout


def list_commands(overview):
    """The commands of each group, which have one line each."""
    found = {}
    for title, body in re.findall(r"^(\S.*):\n((?:  .*\n)+)", overview, re.M):
        found[title] = re.findall(r"^  ([\w-]+) +[A-Z]", body, re.M)
        if title != "Examples":
            assert len(found[title]) == body.count("\n"), body
    return found


def test_the_overview_lists_every_command_in_a_group():
    groups = list_commands(show("--help"))
    assert [title for title in groups if title != "Examples"] == GROUPS
    listed = {name for names in groups.values() for name in names}
    programs = {path.name.removeprefix("binade-") for path in (BUILD / "bin").iterdir()
                if path.name.startswith("binade-")}  # fmt: skip
    sources = "".join(p.read_text() for p in (ROOT / "tools/binade").glob("*.cpp"))
    own = set(re.findall(r'addCommand\(\s*app,\s*"([\w-]+)"', sources)) - {
        "check",
        "show",
    }
    assert len(own) >= 16 and set(PYTHON) <= programs
    assert listed == programs | own
    assert "train" in groups["Train"] and "sweep" in groups["Choose a precision"]


def test_help_prints_what_the_option_prints():
    overview = show("--help")
    assert show("help") == overview == show("help", "--help")
    listed = [name for names in list_commands(overview).values() for name in names]
    for name in listed:
        if name not in ("opt", "translate", "reduce", "lsp-server", "help"):
            text = show("help", name)
            assert text == show(name, "--help")
            assert re.search(rf"^[Uu]sage: binade[ -]{name}\b", text, re.M), text
            assert max(map(len, text.splitlines())) <= 100, name
    assert show("help", "policy", "check") == show("policy", "check", "--help")
    assert show("help", "runs", "compare") == show("runs", "compare", "--help")
    assert "did you mean 'train'?" in binade("help", "trian").stderr


def test_exit_codes_are_printed():
    text = show("help", "exit-codes")
    table = re.findall(
        r"^\| (\d[\d, ]*) \|", (ROOT / "docs/ExitCodes.md").read_text(), re.M
    )
    assert re.findall(r"^  (\d[\d, ]*\d|\d)(?:  |$)", text, re.M) == table
    assert "\n  2        the command line is invalid" in text
    done = subprocess.run([BUILD / "bin/binade-run", "help", "exit-codes"],
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, text)


def test_options_of_train_are_in_groups():
    text = show("train", "--help")
    titles = re.findall(r"^([A-Z][\w ]+):$", text, re.M)
    assert titles[:3] == ["Arguments", "Model", "Data"] and titles[-1] == "Examples"
    rest = text.partition("\nOther options:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (?:-\w, )?(--[\w-]+)", rest, re.M) == [
        "--help", "--diag", "--timing",
    ], "lib/CommandLine/OptionGroups.cpp assigns options to groups"  # fmt: skip


@pytest.mark.parametrize("name", PYTHON)
def test_python_commands_report_unknown_options_first(name):
    done = binade(name, "--hlep")
    assert done.returncode == 2
    assert (
        f"binade {name}: error: no option is called '--hlep'; did you mean "
        in done.stderr
    )
    assert f"\nbinade {name}: note: see 'binade {name} --help'\n" in done.stderr
    assert "required" not in done.stderr


@pytest.mark.parametrize("name", PASSING)
def test_options_of_train_are_known_where_they_are_passed_on(name):
    done = binade(name, "--optimzer", "adamw")
    assert done.returncode == 2
    assert "'--optimzer'; did you mean '--optimizer'?" in done.stderr
    done = binade(name, "--optimizer", "adamw")
    assert done.returncode == 2 and "required" in done.stderr


def test_repeated_options_are_counted():
    done = binade("train", "m.onnx", "--data", "a", "--data", "b")
    assert "error: --data is given 2 times, expected once\n" in done.stderr
    done = binade("replay", "run", "--step", "3", "--step=4")
    assert "error: --step is given 2 times, expected once\n" in done.stderr
    for words in (["data", "npz", "a.npz"], ["initial"]):
        assert "required" in binade(*words).stderr


def test_wrong_names_of_python_commands_have_suggestions():
    done = binade("completion", "bsh")
    assert (
        "expected one of bash, zsh, fish, got 'bsh'; did you mean 'bash'?"
        in done.stderr
    )
    assert (
        "error: unexpected argument 'b'\n"
        in binade("initial", "a", "b", "--out", "c").stderr
    )


def test_a_missing_program_is_named():
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        program = os.path.join(folder, "binade")
        os.link(BUILD / "bin/binade", program)  # Programs are looked for next to it.
        done = subprocess.run([program, "opt"], capture_output=True, text=True,
                              env={"PATH": "/bin"}, timeout=600)  # fmt: skip
    assert done.returncode == 2
    assert (
        "'binade opt' needs the program 'binade-opt', which is neither" in done.stderr
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["list", "policies"], ["train", "--hlep"]]
)
def test_the_python_module_is_the_program(words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "binade", *words], capture_output=True, text=True, timeout=600,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python"),
                          "BINADE_PROGRAMS": str(BUILD / "bin")},
    )  # fmt: skip
    expected = binade(*words)
    assert (done.returncode, done.stdout, done.stderr) == (
        expected.returncode, expected.stdout, expected.stderr,
    )  # fmt: skip


def test_the_python_module_names_a_missing_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "binade", "--help"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python"),
                          "BINADE_PROGRAMS": str(tmp_path)}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 3
    assert f"there is no program 'binade' in {tmp_path}; BINADE_PROGRAMS" in done.stderr
