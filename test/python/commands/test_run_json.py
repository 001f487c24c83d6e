"""run.json records the command, files, policy and program of a run."""

import calendar
import json
import os
import pathlib
import platform
import shutil
import time

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import ONE_WEIGHT, binade, safetensors, write_model
from support.run_folders import MODEL, OWN_POLICY, STEPS, Folder, read_about, sha256

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = Folder(tmp_path_factory.mktemp("runs"))
    for policy, seed in (("fp32", 0), ("fp32", 1), (made.policy, 0), (made.policy, 1)):
        name = f"{pathlib.Path(policy).stem}-{seed}"
        made.train(policy, "--out", made.path / "all" / name, seed=seed)
    return made


def test_run_json_lists_command_files_policy_and_program(folder, tmp_path):
    out = tmp_path / "run"
    folder.train(folder.policy, "--out", out, "--save-every", STEPS, seed=3)
    about = read_about(out)
    texts = {policy["name"]: policy["text"] for policy in about["policy_texts"]}
    assert list(texts) == ["own", "fp16-amp"]
    assert texts["own"] == OWN_POLICY
    shipped = ROOT / "lib/Precision/Policies/fp16-amp.yaml"
    assert texts["fp16-amp"] == shipped.read_text()
    manifest = json.loads(next(out.glob("checkpoints/*/manifest.json")).read_text())
    assert about["computation"] == manifest["run"]["computation"]
    assert about["policy_hash"] == manifest["run"]["policy hash"]
    assert about["seed"] == 3 and about["settings"]["lr"] == 0.01

    (invocation,) = about["invocations"]
    command = folder.command(folder.policy, "--out", out, "--save-every", STEPS, seed=3)
    assert invocation["command"] == [str(BUILD / "bin/binade"), *command]
    assert invocation["directory"] == os.getcwd()
    assert (invocation["after_step"], invocation["steps"]) == (0, STEPS)
    files = {"model": MODEL, "data": folder.data}
    assert invocation["files"] == {
        key: {
            "path": str(path), "bytes": path.stat().st_size, "sha256": sha256(path),
        }
        for key, path in files.items()
    }  # fmt: skip
    started = time.strptime(invocation["started"], "%Y-%m-%dT%H:%M:%SZ")
    # Compare in UTC, which has no daylight saving time.
    assert 0 <= time.time() - calendar.timegm(started) < 24 * 3600
    machine = invocation["machine"]
    version = binade("--version").stdout.split()[1]
    assert machine["binade"] == version and machine["oneDNN"]
    assert machine["cores"] == len(os.sched_getaffinity(0))
    assert machine["cpu"] in pathlib.Path("/proc/cpuinfo").read_text()
    assert machine["instructions"].startswith("x86-64-v")
    system = (platform.system(), platform.release(), platform.machine())
    assert machine["system"] == " ".join(system)


def test_all_files_that_a_run_reads_are_listed(tmp_path):
    """Includes external weights of the model and the file of --init."""
    onnx = pytest.importorskip("onnx")
    weight = np.eye(4, dtype=np.float32)
    model = onnx.load(write_model(tmp_path, ONE_WEIGHT, ["weight"], weight))
    raw = onnx.numpy_helper.from_array(weight, "weight")
    model.graph.initializer[0].CopyFrom(raw)
    place = {"save_as_external_data": True, "location": "m.weights"}
    onnx.save(model, tmp_path / "m.onnx", size_threshold=0, **place)
    safetensors.save(tmp_path / "data", {"x": np.ones((8, 4), np.float32)})
    safetensors.save(tmp_path / "held", {"x": np.ones((4, 4), np.float32)})
    safetensors.save(tmp_path / "start", {"weight": 2 * weight})
    process = binade(
        "train", tmp_path / "m.onnx", "--data", tmp_path / "data", "--eval-data",
        tmp_path / "held", "--init", tmp_path / "start", "--optimizer", "sgd",
        "--steps", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    (invocation,) = read_about(tmp_path / "run")["invocations"]
    assert {key: file["sha256"] for key, file in invocation["files"].items()} == {
        "model": sha256(tmp_path / "m.onnx"),
        "weights m.weights": sha256(tmp_path / "m.weights"),
        "data": sha256(tmp_path / "data"),
        "eval_data": sha256(tmp_path / "held"),
        "init": sha256(tmp_path / "start"),
    }


def test_a_resumed_run_lists_all_commands(folder, tmp_path):
    out = tmp_path / "run"
    more = ["--threads", 1, "--save-every", 10]
    folder.train("fp32", "--resume", out, *more, steps=10)
    first = read_about(out)
    folder.train("fp32", "--resume", out, "--threads", 3, steps=15)
    about = read_about(out)
    assert about["invocations"][:1] == first["invocations"]
    assert [i["after_step"] for i in about["invocations"]] == [0, 10]
    assert [i["machine"]["threads"] for i in about["invocations"]] == ["1", "3"]
    # Workspaces of libraries depend on the number of threads.
    varying = ("invocations", "ledger", "arena_bytes")
    rest = [{k: v for k, v in a.items() if k not in varying} for a in (first, about)]
    assert rest[0] == rest[1]
    # A damaged run.json does not prevent a resume.
    (out / "run.json").write_text("{")
    process = folder.train("fp32", "--resume", out, steps=20)
    assert f"warning: {out}/run.json is damaged" in process.stderr
    assert [i["after_step"] for i in read_about(out)["invocations"]] == [10]
    # A new run in the same directory starts a new list.
    shutil.rmtree(out / "checkpoints")
    folder.train("fp32", "--out", out, "--overwrite", steps=20)
    assert [i["after_step"] for i in read_about(out)["invocations"]] == [0]
