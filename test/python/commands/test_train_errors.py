"""Errors in a command, a model or its data are reported before the first step, with the
exit code of docs/ExitCodes.md. No files remain."""

import json
import pathlib
import re
import signal
import subprocess

import numpy as np
import pytest
from binade.parser import SYNONYMS
from support.paths import BUILD, ROOT
from support.reference import binade, safetensors
from support.train_commands import MINI, WINDOW, refuse, train


@pytest.fixture(scope="session")
def step(tmp_path_factory) -> pathlib.Path:
    """Compiles the small example."""
    bundle = tmp_path_factory.mktemp("bundle") / "mini.bnd"
    process = binade("compile", MINI, "-o", bundle)
    assert process.returncode == 0, process.stderr
    return bundle


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    path = tmp_path / "data.safetensors"
    tokens = np.arange(16 * 128 + 1, dtype=np.uint8) % 94
    safetensors.save(path, {"tokens": tokens})
    return path


WRONG_COMMANDS = {
    "window": (["--window", "input_ids=tokens[5:"], ["--window"]),
    "empty window": (["--window", ""], ["--window", "got ''"]),
    "backward window": (["--window", "a=b[5:5]"], ["--window", "'a=b[5:5]'"]),
    "policy": (["--policy", "fp16amp"], ["did you mean 'fp16-amp'?", "bf16-amp"]),
    "optimizer": (["--optimizer", "adamww"], ["'adamww'", "did you mean 'adamw'?"]),
    "upper case": (["--optimizer", "AdamW"], ["'AdamW'; did you mean 'adamw'?"]),
    "upper policy": (["--policy", "BF16-AMP"], ["did you mean 'bf16-amp'?"]),
    "upper target": (["--target", "CUDA:sm_90"], ["did you mean 'cuda:sm_90'?"]),
    "upper order": (["--order", "SHUFFLE"], ["did you mean 'shuffle'?"]),
    "setting": (["--set", "lr=fast"], ["--set", "lr=fast"]),
    "dim": (["--dim", "batch"], ["--dim", "NAME=N"]),
    "negative dim": (["--dim", "batch=-1"], ["--dim", "NAME=N"]),
    "clip": (["--clip", "-1"], ["--clip", "at least 0, got -1"]),
    "group": (["--group", "lr=1"], ["--group"]),
    "steps": (["--steps", "-1"], ["--steps", "0 or more, got '-1'"]),
    "whole steps": (["--steps", "1e3"], ["--steps", "an integer", "'1e3'"]),
    "endless steps": (["--steps", str(2**63)], ["--steps", str(2**63)]),
    "const": (["--const", "x"], ["--const"]),
    "lr": (["--lr", "fast"], ["--lr", "expected a number, got 'fast'"]),
    "nan": (["--lr", "nan"], ["--lr", "finite, got nan"]),
    "batch": (["--batch", "0"], ["--batch", "1 or more, got '0'"]),
    "seed": (["--seed", "-1"], ["--seed", "0 or more, got '-1'"]),
    "threads": (["--threads", "5000"], ["--threads", "0 to 4096, got '5000'"]),
    "order": (["--order", "shufle"], ["--order", "did you mean 'shuffle'?"]),
    "nonfinite": (["--on-nonfinite", "go"], ["stop, skip, continue", "'go'"]),
    "option": (["--polcy", "fp32"], ["'--polcy'; did you mean '--policy'?"]),
    "word": (["more"], ["unexpected argument 'more'"]),
    "twice": (["--seed", "1", "--seed", "2"], ["--seed"]),
}


@pytest.mark.parametrize("kind", WRONG_COMMANDS)
def test_invalid_options_are_usage_errors(kind, data, tmp_path):
    arguments, words = WRONG_COMMANDS[kind]
    out = tmp_path / "run"
    command = ["train", MINI, "--data", data, "--out", out]
    command += [] if "--steps" in arguments else ["--steps", 1]
    refuse(binade(*command, *arguments), 2, *words, out=out)


def test_missing_arguments_are_named(data, tmp_path):
    given = {"--data": data, "--steps": 1, "--out": tmp_path / "run"}
    for name in given:
        rest = [word for pair in given.items() if pair[0] != name for word in pair]
        process = binade("train", MINI, *rest)
        refuse(process, 2, name, "binade train --help", out=tmp_path / "run")
    process = train(MINI, data, out="")
    assert process.returncode == 2 and "--out" in process.stderr
    for words, expected in (
        (["trian"], "did you mean 'train'?"),
        (["list", "policys"], "did you mean 'policies'?"),
        (
            ["policy", "shwo"],
            "no command of 'binade policy' is called 'shwo'; did you mean 'show'?",
        ),
        (["policy", "print"], "did you mean 'show'?"),
        (["policy", "validate"], "did you mean 'check'?"),
        (["build"], "no command is called 'build'; did you mean 'compile'?"),
        (["runs", "diff"], "is called 'diff'; did you mean 'compare'?"),
        (["runs", "comapre"], "is called 'comapre'; did you mean 'compare'?"),
        (
            ["data", "txt"],
            "expected one of npz, text, dataset, got 'txt'; did you mean 'text'?",
        ),
        (["run", "tnue", "x.bnd"], "is called 'tnue'; did you mean 'tune'?"),
        (["compile", MINI, "--to=asign", "-o", "x"], "did you mean 'assign'?"),
        ([], "see 'binade --help'"),
        (["interpret"], "binade: note: see 'binade interpret --help'"),
        (["interpret", "x.mlir", "--inptus", "y"], "did you mean '--inputs'?"),
        (["interpret", "x.mlir", "y"], "binade: error: unexpected argument 'y'"),
        (["interpret", "x.mlir", "--diag", "jsno"], "did you mean 'json'?"),
        (
            ["interpret", "x.mlir", "--backend=abacus", "--diag=json"],
            '{"severity":"error"',
        ),
    ):
        process = binade(*words)
        assert process.returncode == 2 and expected in process.stderr


def test_commands_in_python_know_the_same_synonyms():
    text = (ROOT / "lib/Container/Suggest.cpp").read_text()
    table = text.partition("kSynonyms = {")[2].partition("};")[0]
    rows = re.findall(r"{([^{}]+)}", table)
    assert tuple(tuple(re.findall(r'"(\w+)"', row)) for row in rows) == SYNONYMS


def test_options_of_compilation_are_refused_for_a_bundle(step, data, tmp_path):
    out = tmp_path / "run"
    for option in (["--policy", "fp32"], ["--clip", "1"], ["--dim", "a=1"]):
        process = train(step, data, "--window", WINDOW, *option, out=out)
        refuse(process, 2, option[0], "a bundle", out=out)
    process = train(step, data, "--window", WINDOW, "--save-grads", 1, out=out)
    assert process.returncode == 2 and "--save-grads" in process.stderr


# Options that contradict the model: exit code 3.
REJECTED = {
    "setting": (["--set", "beta3=0.9"], ["'beta3'; did you mean 'beta1'?", "eps"]),
    "bound": (["--set", "beta1=1"], ["mini.onnx: error: beta1 must be below 1, got 1"]),
    "negative": (["--lr", "-1"], ["mini.onnx: error: lr must be at least 0, got -1"]),
    "group": (["--group", "*.nothing:lr=1"], ["'*.nothing'", "token.weight"]),
    "group's setting": (["--group", "*:decay=1"], ["'decay'", "weight_decay"]),
    "glob": (["--group", "[:lr=1"], ["'['"]),
    "freeze": (["--freeze", "nothing*"], ["--freeze 'nothing*'"]),
    "train": (["--train", "nothing*"], ["--train 'nothing*'"]),
    "all frozen": (["--freeze", "*"], ["no parameter to train", "frozen"]),
    "loss": (["--loss", "l1(loss, x)"], ["cross_entropy(OUTPUT", "'l1(loss, x)'"]),
    "loss output": (["--loss-output", "lost"], ["no output 'lost'", "'loss'"]),
    "dim": (["--dim", "time=3"], ["'time'"]),
    "policy file": (["--policy", "absent.yaml"], ["absent.yaml", "No such file"]),
    "rule file": (["--optimizer", "absent.mlir"], ["absent.mlir: error: cannot open"]),
    "init": (["--init", "absent"], ["absent: error: cannot open"]),
    "constant": (["--const", "x=absent"], ["no batch input 'x'", "'input_ids'"]),
    "window": (["--window", "x=tokens[0:9]"], ["no batch input 'x'", "'input_ids'"]),
}


@pytest.mark.parametrize("kind", REJECTED)
def test_options_that_contradict_the_model_are_rejected(kind, data, tmp_path):
    arguments, words = REJECTED[kind]
    arguments = [*arguments, *([] if kind == "window" else ["--window", WINDOW])]
    out = tmp_path / "run"
    refuse(train(MINI, data, *arguments, out=out), 3, *words, out=out)


@pytest.mark.parametrize("kind", ["optimizer", "policy"])
def test_damaged_rule_and_policy_files_are_rejected(kind, data, tmp_path):
    """Deep nesting would overflow the stack of a recursive parser."""
    file = tmp_path / {"optimizer": "rule.mlir", "policy": "own.yaml"}[kind]
    out = tmp_path / "run"
    texts = {
        "optimizer": ["module {" * 100000, "binade.optimizer @x {", "\0\xff", ""],
        "policy": ["name: " + "[" * 100000, "name: x\nnarow: f16\n", "\0\xff"],
    }
    for text in texts[kind]:
        file.write_bytes(text.encode("latin-1"))
        process = train(MINI, data, f"--{kind}", file, out=out)
        assert process.returncode == 3, (text[:20], process)
        assert file.name in process.stderr and not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_its_step(number, step, data, tmp_path):
    out = tmp_path / "run"
    command = [BUILD / "bin" / "binade", "train", step, "--data", data, "--window",
               WINDOW, "--steps", "100000", "--out", out]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("step 1/"):
                break
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(600) == 128 + number
    steps = len((out / "metrics.jsonl").read_text().splitlines())
    assert 0 < steps < 100000
    assert safetensors.load(out / "final.safetensors")["step"] == steps


def test_errors_as_json(tmp_path):
    process = binade("import", tmp_path / "none.onnx", "--diag", "json")
    record = json.loads(process.stderr)
    assert process.returncode == 3 and record["severity"] == "error"
    assert record["file"].endswith("none.onnx")
    process = binade("import", tmp_path / "none.onnx", "--diag=json", "--nothing")
    record = json.loads(process.stderr)
    assert process.returncode == record["exit_code"] == 2
    assert "'--nothing'" in record["message"]


def test_an_output_that_cannot_be_written_is_an_error(step, data, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        process = train(step, data, "--window", WINDOW, out=out)
        assert process.returncode == 3 and str(out) in process.stderr
    # Checked before the first step, not after the last one.
    (tmp_path / "run" / "final.safetensors").mkdir(parents=True)
    process = train(step, data, "--window", WINDOW, out=tmp_path / "run")
    assert process.returncode == 5 and "final.safetensors" in process.stderr
    assert len(list((tmp_path / "run").iterdir())) == 1
    for command in ("compile", "import"):
        for target in (tmp_path / "none" / "x", tmp_path / "run"):
            process = binade(command, MINI, "-o", target)
            assert process.returncode == 5 and str(target) in process.stderr


def test_unexpected_modules_and_bundles_are_refused(step, data, tmp_path):
    module, out = tmp_path / "step.mlir", tmp_path / "x"
    module.write_text("")
    for arguments, code, word in (
        (["import", module, "-o", out], 2, "is a module"),
        (["import", step, "-o", out], 3, "got a safetensors file"),
        (["compile", step, "-o", out], 3, "got a safetensors file"),
        (["compile", module, "-o", out], 2, "--from=assign"),
        (["compile", module, "--from=import", "-o", out], 3, "'@forward'"),
        (
            ["compile", module, "--from=plan", "--to=kernels", "-o", out],
            2,
            "earlier phase than",
        ),
        (["compile", MINI, "--from=import", "-o", out], 2, "--from is for modules"),
        (["compile", MINI, "-o", "-"], 2, "name a file by -o"),
        (["train", module, "--data", data, "--steps", 1, "--out", out], 2, "compile"),
    ):
        refuse(binade(*arguments), code, word, out=out)
