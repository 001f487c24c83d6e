"""The man pages describe every command and option, and are valid roff."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from support.paths import BUILD

SHARE = BUILD / "tools/binade-python/share"
PAGES = sorted((SHARE / "man/man1").glob("*.1"))
pytestmark = pytest.mark.skipif(not PAGES, reason="the man pages are not built")


def render(page):
    """The text of a page in lines of 78 characters, which groff formats."""
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=78n", page],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def definition():
    done = subprocess.run([BUILD / "bin/binade", "--print-definition"],
                          capture_output=True, text=True, check=True, timeout=600)  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_pages_describe_all_options(definition):
    for command in definition["commands"]:
        text = " ".join(render(SHARE / f"man/man1/binade-{command['name']}.1").split())
        assert f"binade-{command['name']} - " in text
        for option in (*command["options"], *command["arguments"]):
            for name in option["names"] or [option["value"]]:
                assert name in text, (command["name"], name)
        assert "(repeatable) (" not in text and "repeatable (repeatable)" not in text
        # Examples are printed as they are.
        for line in command["footer"].splitlines():
            assert " ".join(line.split()) in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_the_overview_names_all_commands(definition):
    text = render(SHARE / "man/man1/binade.1")
    for command in definition["commands"]:
        assert f"binade-{command['name']}(1)" in text
    for title in (
        "TRAIN",
        "CHOOSE A PRECISION",
        "FIND WHAT WENT WRONG",
        "ONNX",
        "COMPILER",
    ):
        assert f"\n{title}\n" in text
    text = render(SHARE / "man/man1/binade-data.1")
    assert "binade data npz" in text and "--split" in text


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc")
def test_pages_are_valid():
    for page in PAGES:
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page],
                              capture_output=True, text=True, timeout=600)  # fmt: skip
        lines = [
            line for line in done.stdout.splitlines() if "missing date" not in line
        ]
        assert lines == []


def test_completions_are_written_next_to_the_pages():
    for path, text in {
        "bash-completion/completions/binade": "complete -o bashdefault",
        "zsh/site-functions/_binade": "#compdef binade",
        "fish/vendor_completions.d/binade.fish": "complete -c binade",
    }.items():
        assert text in (SHARE / path).read_text()


def test_values_have_names_that_say_what_they_are(definition):
    """TEXT is the type that CLI11 gives an option whose author named none."""
    unnamed = [
        (command["name"], option["names"])
        for command in definition["commands"]
        for option in command["options"]
        if option["value"] == "TEXT" and not option["choices"]
    ]
    assert unnamed == [("verify", ["--only"])]  # Part of a label.


# What `pip install .` has while it builds, by [build-system] of pyproject.toml.
WITH_BUILD_REQUIREMENTS = """
import sys

allowed = {*sys.stdlib_module_names, "binade", "google", "ml_dtypes", "numpy", "onnx",
           "tqdm", "typing_extensions", "yaml"}

class Others:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Others())
from binade.manual import _main
_main(sys.argv[1:])
"""


def test_writing_pages_needs_only_build_requirements(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITH_BUILD_REQUIREMENTS, tmp_path],
        env=os.environ | {"PYTHONPATH": str(BUILD / "python"),
                         "BINADE_PROGRAMS": str(BUILD / "bin")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (tmp_path / "man/man1").iterdir()}
    assert written == {page.name for page in PAGES}
