"""`binade-run` trains a bundle with the same results as `binade train`, without LLVM."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.processes import PROGRAM, binade_run, examples
from support.reference import binade, safetensors

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    done = binade(
        "compile", ROOT / "examples/mlp/mlp.onnx", "--loss",
        "cross_entropy(prediction, labels)", "--policy", "fp16-amp", "--optimizer",
        "adamw", "-o", folder / "step.bnd",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    x = np.random.default_rng(0).standard_normal((64, 16), np.float32)
    data = {"x": x, "labels": (x > 0).sum(1) % 4}
    safetensors.save(folder / "train.safetensors", data)
    return folder


def without_times(text):
    """Removes progress lines, which depend on time, except the last, and its speed."""
    lines = text.splitlines()
    shown = [line for line in lines if line.startswith("step ")]
    rest = [line for line in lines if not line.startswith("step ")]
    return [*rest, re.sub(r"  \S+ steps/s.*", "", shown[-1])]


def find_compiler(program):
    """Lists the libraries of LLVM that a program links, and the name of MLIR's namespace if
    types in the program have it."""
    linked = subprocess.run(
        ["ldd", program], capture_output=True, text=True, check=True
    )
    assert "libstdc++" in linked.stdout
    found = re.findall(r"lib(?:LLVM|MLIR)\S*", linked.stdout)
    return found + ["mlir"] * (b"N4mlir" in program.read_bytes())


def test_the_runtime_contains_no_compiler():
    assert find_compiler(PROGRAM) == []
    # The driver does, which shows that the check works.
    assert find_compiler(BUILD / "bin/binade")


def test_binade_run_matches_binade_train(folder, tmp_path):
    """Compares output, metrics and final state of runs with settings, evaluation and
    checkpoints."""
    options = ["--data", folder / "train.safetensors", "--eval-fraction", 0.25,
               "--eval-every", 3, "--save-every", 4, "--set", "weight_decay=0.1",
               "--lr", "3e-3", "--seed", 5]  # fmt: skip
    printed, series = {}, {}
    for name, start in (("train", lambda *a: binade("train", *a)), ("run", binade_run)):
        run = tmp_path / name / "run"
        for steps, out in ((6, "--out"), (10, "--resume")):
            (tmp_path / name).mkdir(exist_ok=True)
            done = start(
                folder / "step.bnd", *options, "--steps", steps, out, run,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            text = done.stdout.replace(str(tmp_path / name), "")
            printed.setdefault(name, []).append(without_times(text))
        lines = (run / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == 1 + 10  # Step 0 is an evaluation.
        keys = ("step", "loss", "grad_norm", "eval_loss")
        series[name] = [[json.loads(line)[key] for key in keys] for line in lines]
    assert printed["run"] == printed["train"]
    assert "resumed after step 6" in printed["run"][1]
    assert any("weight_decay=0.1" in line for line in printed["run"][0])
    assert any(line.startswith("eval_loss ") for line in printed["run"][1])
    assert series["run"] == series["train"]
    assert series["run"][6][3] is not None
    states = [
        (tmp_path / name / "run/final.safetensors").read_bytes() for name in printed
    ]
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["step.bnd", "--steps", 1, "--out", "r"], 2, "--data"),
        (["step.bnd", "--data", "train.safetensors", "--steps", 1], 2, "--out"),
        (["step.bnd", "--data", "train.safetensors", "--steps", 1, "--out", "r",
          "--policy", "fp32"], 2, "--policy"),
        (["step.bnd", "--data", "train.safetensors", "--steps", 1, "--out", "r",
          "--set", "lr=fast"], 2, "--set expects KEY=VALUE, got 'lr=fast'"),
        (["step.bnd", "--data", "train.safetensors", "--steps", 1, "--out", "r",
          "--lr", -1], 3, "lr"),
        (["train.safetensors", "--data", "train.safetensors", "--steps", 1,
          "--out", "r"], 3, "train.safetensors: error:"),
        (["absent.bnd", "--data", "train.safetensors", "--steps", 1, "--out", "r"],
         3, "absent.bnd: error:"),
    ],
)  # fmt: skip
def test_exit_codes(arguments, status, message, folder):
    done = binade_run(*arguments, cwd=folder)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert not (folder / "r").exists()


def test_a_signal_saves_the_state(folder, tmp_path):
    run = tmp_path / "run"
    process = subprocess.Popen(
        [PROGRAM, "step.bnd", "--data", "train.safetensors", "--steps", "100000000",
         "--out", run], cwd=folder, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while not (run / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=600) == 143
    assert (run / "final.safetensors").exists() and list(
        (run / "checkpoints").iterdir()
    )


def test_examples_of_help(folder, tmp_path):
    for name in ("step.bnd", "train.safetensors"):
        shutil.copy(folder / name, tmp_path)
    done = binade_run("--help")
    assert done.returncode == 0 and not done.stderr
    found = examples(done.stdout.replace("binade-run", "binade run"))
    assert len(found) == 3
    for command in found:
        words = shlex.split(command)
        assert words[:2] == ["binade", "run"]
        # The driver finds binade-run in its own directory.
        environment = os.environ | {"PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
    assert safetensors.load(tmp_path / "run/final.safetensors")["step"] == 100
