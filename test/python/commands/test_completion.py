"""`binade completion SHELL` completes commands, options and values. The shells themselves
run the completions, where they are installed."""

import os
import shutil
import subprocess

import pytest
from support.paths import BUILD
from support.reference import binade

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_binade
printf '%s\\n' "${COMPREPLY[@]}"
"""
# The functions of zsh's completion system that the completion calls.
ZSH = """
compdef() { : }
_files() { print FILES }
compadd() { print -l -- "${@:2}" }
_describe() { print -l -- "${(@P)3}" }
source "$1"
shift
words=("$@")
CURRENT=$#
_binade
"""
FISH = """
source $argv[1]
complete -C "$argv[2]"
"""


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Returns the completions that a shell offers for the last word, with descriptions."""
    folder = tmp_path_factory.mktemp("completion")
    scripts = {"bash": BASH, "zsh": ZSH, "fish": FISH}
    environment = os.environ | {"PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
                                "HOME": str(folder)}  # fmt: skip

    def complete(shell, *words):
        if shutil.which(shell) is None:
            pytest.skip(f"no {shell}")
        file = folder / shell
        if not file.exists():
            done = binade("completion", shell)
            assert done.returncode == 0, done.stderr
            file.write_text(done.stdout)
            (folder / f"run.{shell}").write_text(scripts[shell])
        given = [" ".join(words)] if shell == "fish" else words
        options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
        done = subprocess.run(
            [shell, *options, folder / f"run.{shell}", file, *given], capture_output=True,
            text=True, env=environment, cwd=folder, timeout=600,
        )  # fmt: skip
        assert done.stderr == "", done.stderr
        found = done.stdout.splitlines()
        assert len(found) == len(set(found)), found
        return found

    return complete


def names(found):
    """Completions without the descriptions, which zsh and fish have."""
    return [entry.replace("\t", ":").partition(":")[0] for entry in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
class TestShells:
    def test_commands(self, complete, shell):
        found = names(complete(shell, "binade", ""))
        assert {"train", "why-nan", "from-torch", "opt", "help"} <= set(found)
        assert "exit-codes" not in found and "check" not in found

    def test_subcommands(self, complete, shell):
        found = names(complete(shell, "binade", "policy", ""))
        assert set(found) >= {"list", "show", "check", "schema"}
        found = names(complete(shell, "binade", "data", ""))
        assert set(found) >= {"npz", "text", "dataset"}
        assert "exit-codes" in names(complete(shell, "binade", "help", ""))

    def test_options(self, complete, shell):
        found = names(complete(shell, "binade", "train", "m.onnx", "--"))
        assert {"--data", "--order", "--overwrite", "--help"} <= set(found)
        assert "--print-definition" not in found
        found = names(complete(shell, "binade", "policy", "check", "p.yaml", "--"))
        assert "--model" in found and "--data" not in found
        assert "--step" in names(complete(shell, "binade", "why-nan", "run", "--"))

    def test_values(self, complete, shell):
        found = names(complete(shell, "binade", "train", "--order", ""))
        assert sorted(found) == ["sequential", "shuffle"]
        policies = binade("list", "policies").stdout.splitlines()
        found = names(complete(shell, "binade", "train", "--policy", ""))
        assert sorted(found) == sorted(line.split()[0] for line in policies)
        found = names(complete(shell, "binade", "train", "--schedule", ""))
        assert {"constant", "cosine", "one-cycle"} <= set(found) and "" not in found
        found = names(complete(shell, "binade", "train", "--states", ""))
        assert {"bf16", "dyn8", "e4m3x"} <= set(found)

    def test_values_of_other_options_are_files(self, complete, shell):
        found = complete(shell, "binade", "train", "--data", "")
        assert "--data" not in found
        assert {"bash": [""], "zsh": ["FILES"]}.get(shell, found) == found


def test_bash_completes_what_has_begun(complete):
    assert complete("bash", "binade", "trai") == ["train"]
    assert complete("bash", "binade", "train", "--eval-f") == ["--eval-fraction"]
    assert complete("bash", "binade", "train", "--order", "=", "seq") == ["sequential"]
    # A value that is called like a command does not end the options of `train`.
    assert "--steps" in complete("bash", "binade", "train", "list", "--st")


def test_zsh_and_fish_show_descriptions(complete):
    for shell, separator in (("zsh", ":"), ("fish", "\t")):
        found = complete(shell, "binade", "tr")
        assert f"train{separator}Train an ONNX model or a compiled bundle" in found
