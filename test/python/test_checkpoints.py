"""A run that is stopped, killed or robbed of its files goes on with the bits that it
would have had.

The model draws random numbers in each step, keeps running statistics, and scales its
loss by a rule that grows and overflows every few steps; all of that has to survive.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from reference import BUILD, binade, safetensors

onnx = pytest.importorskip("onnx")

GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
net (float[8, 6] x, int64[8] labels) => (float loss)
  <float[6, 32] up, float[32] gain, float[32] shift, float[32] mean, float[32] var,
   float[32, 3] down, float ratio = {0.25}, bool yes = {1}> {
  a = MatMul(x, up)
  b, next_mean, next_var = BatchNormalization <training_mode = 1> (
      a, gain, shift, mean, var)
  c = Relu(b)
  d = Dropout(c, ratio, yes)
  logits = MatMul(d, down)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""
POLICIES = {
    # Grows every third step, and overflows soon.
    "f16": "name: f16\nextends: fp16-amp\nloss_scale: {init: 16777216, interval: 3}\n",
    "watched": "name: watched\nextends: fp16-amp\n"
    "loss_scale: {init: 4096, interval: 4, delay: 2, hysteresis: 2, per_tensor: true}\n",
    "bf16": "name: bf16\nextends: bf16-amp\nrules:\n"
    "  - {match: {}, parameter: bf16, master: kahan, state: bf16}\n",
}
STEPS, EVERY = 40, 5


def draw_values(draw):
    """Values of the graph's initializers."""
    return {
        "up": draw.standard_normal((6, 32), np.float32),
        "gain": np.ones(32, np.float32),
        "shift": np.zeros(32, np.float32),
        "mean": np.zeros(32, np.float32),
        "var": np.ones(32, np.float32),
        "down": draw.standard_normal((32, 3), np.float32),
    }


class Runs:
    """A compiled model, its data, and runs of it."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data.safetensors"
        draw = np.random.default_rng(3)
        model = onnx.parser.parse_model(GRAPH)
        trainable = ["up", "gain", "shift", "down"]
        values = draw_values(draw)
        for name, value in values.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        entry = model.metadata_props.add()
        entry.key, entry.value = "binade.trainable", json.dumps(trainable)
        self.model = folder / "net.onnx"
        onnx.save(model, self.model)
        x = draw.standard_normal((50, 6), np.float32)
        safetensors.save(self.data, {"x": x, "labels": np.arange(50) % 3})
        for name, text in POLICIES.items():
            (folder / f"{name}.yaml").write_text(text)

    def command(
        self, *more, policy="f16", bundle=True, steps=STEPS, every=EVERY, data=None
    ):
        model = self.compile(policy) if bundle else self.model
        return ["train", model, "--data", data or self.data, "--steps", steps,
                *(["--save-every", every] if every else []), *more]  # fmt: skip

    def compile(self, policy):
        bundle = self.folder / f"{policy}.bnd"
        if not bundle.exists():
            rule = "sgd" if policy == "bf16" else "adamw"
            process = binade(
                "compile", self.model, "--policy", self.folder / f"{policy}.yaml",
                "--optimizer", rule, "-o", bundle,
                *(["--set", "momentum=0.9"] if rule == "sgd" else []),
            )  # fmt: skip
            assert process.returncode == 0, process.stderr
        return bundle

    def train(self, *more, code=0, **options):
        process = binade(*self.command(*more, **options))
        assert process.returncode == code, process.stderr
        return process

    def unbroken(self, policy="f16"):
        run = self.folder / f"unbroken-{policy}"
        if not run.exists():
            self.train("--out", run, policy=policy)
        return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def saved(runs, tmp_path):
    """A run that has checkpoints of steps 5 and 10."""
    runs.train("--out", tmp_path / "run", steps=10)
    return tmp_path / "run"


def metrics(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k != "ms"} for line in lines]


def checkpoints(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def check_equal(run, unbroken):
    final = "final.safetensors"
    assert (run / final).read_bytes() == (unbroken / final).read_bytes()
    assert metrics(run) == metrics(unbroken)


def manifest_hash(manifest):
    """Of everything but the hash: JSON with sorted keys and without spaces."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def change_manifest(checkpoint, change):
    """Changes a manifest as one who knows the format."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["sha256"] == manifest_hash(manifest)
    change(manifest)
    manifest["sha256"] = manifest_hash(manifest)
    path.write_text(json.dumps(manifest))


# --- The same bits --------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_resumed_run_has_the_bits_of_the_unbroken(policy, runs, tmp_path):
    unbroken, run = runs.unbroken(policy), tmp_path / "run"
    # In the middle of an epoch, of an interval of growth and of two checkpoints.
    for steps, resumed in ((8, None), (9, 8), (22, 9), (STEPS, 22)):
        where = "--resume" if resumed else "--out"
        process = runs.train(where, run, policy=policy, steps=steps)
        if resumed:
            assert f"resumed after step {resumed}\n" in process.stdout
    check_equal(run, unbroken)
    lines = metrics(run)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    if policy == "f16":
        # The test would not see a lost growth counter or a lost scale otherwise.
        assert any(line["skipped"] for line in lines[23:])
        assert len({line["loss_scale"] for line in lines[9:22]}) > 1
    state = safetensors.load(run / "final.safetensors")
    assert list(state["rng"]) == [0, STEPS]
    assert not np.array_equal(state["mean"], np.zeros(32))
    # There is nothing to be done, and nothing changes.
    runs.train("--resume", run, policy=policy)
    check_equal(run, unbroken)


def test_a_model_resumes_as_its_bundle_does(runs, tmp_path):
    """The computation is told by the plan, not by the file that it came from, nor by
    threads."""
    unbroken, run = runs.unbroken(), tmp_path / "run"
    given = ["--policy", runs.folder / "f16.yaml", "--optimizer", "adamw"]
    runs.train("--out", run, steps=12)
    for threads, steps in ((1, 15), (4, 20)):
        more = [*given, "--threads", threads]
        process = runs.train("--resume", run, *more, bundle=False, steps=steps)
    assert "threads was 1 and is 4" in process.stderr
    runs.train("--resume", run)
    check_equal(run, unbroken)


def test_skipped_steps_are_counted_over_the_end_of_a_process(runs, tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.safetensors"
    x = np.full((50, 6), np.inf, np.float32)
    safetensors.save(data, {"x": x, "labels": np.arange(50) % 3})
    given = ["--max-skipped", 5]
    runs.train("--out", run, *given, data=data, steps=3)
    process = runs.train("--resume", run, *given, data=data, steps=10, code=4)
    assert "step 5: error: 5 steps in a row were skipped" in process.stderr


def test_checkpoints_are_kept_as_asked(runs, tmp_path):
    for keep, expected in ((1, ["step-000010"]), (3, ["step-000005", "step-000010"])):
        runs.train("--out", tmp_path / f"{keep}", "--keep", keep, steps=10)
        assert checkpoints(tmp_path / f"{keep}") == expected
    runs.train("--resume", tmp_path / "3", "--keep", 3, steps=22)
    assert checkpoints(tmp_path / "3") == ["step-000015", "step-000020", "step-000022"]
    # Nobody asked for any.
    run = tmp_path / "none"
    runs.train("--out", run, steps=3, every=0)
    assert not (run / "checkpoints").exists()


def test_a_run_without_a_checkpoint_starts_anew(runs, tmp_path):
    run = tmp_path / "run"
    process = runs.train("--resume", run)
    assert "no complete checkpoint" in process.stdout
    check_equal(run, runs.unbroken())


def test_metrics_are_cut_back(runs, tmp_path):
    run = tmp_path / "run"
    runs.train("--out", run, steps=10)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 11, "loss": 7}\n{"step": 12, "lo')
    runs.train("--resume", run)
    check_equal(run, runs.unbroken())
    # Lines that are missing cannot be made up.
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:30]))
    process = runs.train("--resume", run, steps=STEPS + 2)
    assert "lacks lines of the steps from 31 to 40" in process.stderr
    assert [line["step"] for line in metrics(run)] == [*range(1, 31), 41, 42]


# --- Damage ---------------------------------------------------------------------------


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << position % 8
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def other_name(checkpoint):
    older = checkpoint.with_name("step-000005")
    shutil.copy(older / "manifest.json", checkpoint)
    shutil.copy(older / "state.safetensors", checkpoint)


DAMAGE = {
    "no manifest": lambda c: (c / "manifest.json").unlink(),
    "no shard": lambda c: (c / "state.safetensors").unlink(),
    "empty manifest": lambda c: (c / "manifest.json").write_text(""),
    "short manifest": lambda c: cut(c / "manifest.json"),
    "short shard": lambda c: cut(c / "state.safetensors"),
    "long shard": lambda c: (c / "state.safetensors").open("ab").write(b"\0"),
    "another's files": other_name,
    "a step changed": lambda c: (c / "manifest.json").write_text(
        (c / "manifest.json").read_text().replace('"skipped": ', '"skipped": 1')
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_left_out(kind, runs, saved):
    damaged = saved / "checkpoints" / "step-000010"
    DAMAGE[kind](damaged)
    assert binade("ckpt", "verify", saved).returncode == 3
    process = runs.train("--resume", saved)
    assert re.search(r"warning: .*step-000010 is damaged", process.stderr)
    assert "resumed after step 5\n" in process.stdout
    check_equal(saved, runs.unbroken())
    assert binade("ckpt", "verify", saved).returncode == 0


def test_a_damaged_checkpoint_takes_no_place_of_a_whole_one(runs, saved):
    """Not even of the only one, when the run stops before it comes to its step."""
    flip(saved / "checkpoints" / "step-000010" / "state.safetensors", 999)
    runs.train("--resume", saved, "--keep", 1, steps=7)
    assert checkpoints(saved) == ["step-000007", "step-000010"]
    process = runs.train("--resume", saved, "--keep", 1)
    assert "is damaged" in process.stderr
    assert "resumed after step 7\n" in process.stdout
    assert checkpoints(saved) == [f"step-{STEPS:06d}"]
    check_equal(saved, runs.unbroken())


def test_every_flipped_bit_is_noticed(saved):
    checkpoint = saved / "checkpoints" / "step-000010"
    draw = random.Random(5)
    for name, count in (("state.safetensors", 60), ("manifest.json", 60)):
        path = checkpoint / name
        good = path.read_bytes()
        for _ in range(count):
            position = draw.randrange(len(good))
            flip(path, position)
            process = binade("ckpt", "verify", checkpoint)
            # White space between the words of a manifest says nothing.
            if chr(good[position]).isspace():
                continue
            assert process.returncode == 3, (name, position)
            assert name in process.stderr
            path.write_bytes(good)
        path.write_bytes(good)
    assert binade("ckpt", "verify", checkpoint).returncode == 0


def test_where_all_are_damaged_a_run_starts_anew(runs, saved):
    for name in checkpoints(saved):
        flip(saved / "checkpoints" / name / "state.safetensors", 999)
    process = runs.train("--resume", saved)
    assert process.stderr.count("is damaged") == 2
    assert "starts anew" in process.stdout
    check_equal(saved, runs.unbroken())


# --- Refusal --------------------------------------------------------------------------


def rows(text):
    """The table of an error: key to what the checkpoint and the command say."""
    found = {}
    for line in text.splitlines():
        columns = re.split(r"\s{2,}", line.partition("note: ")[2].strip())
        if len(columns) == 3:
            found[columns[0]] = tuple(columns[1:])
    return found


def test_a_checkpoint_of_another_run_is_refused(runs, saved):
    before = sorted(saved.rglob("*"))
    for given, expected in (
        (["--lr", "0.5"], {"setting lr": ("0.001", "0.5")}),
        (["--seed", 4], {"seed": ("0", "4")}),
        (["--order", "sequential"], {"order": ("shuffle", "sequential")}),
    ):
        process = runs.train("--resume", saved, *given, code=3)
        assert "belongs to another run" in process.stderr
        assert "step-000010" in process.stderr
        assert rows(process.stderr) == expected
        assert "--init" in process.stderr
    process = runs.train("--resume", saved, policy="watched", code=3)
    found = rows(process.stderr)
    assert found["policy"] == ("f16", "watched")
    assert {"policy hash", "computation"} <= found.keys()
    assert "model" not in found
    assert sorted(saved.rglob("*")) == before


def test_another_model_is_refused(runs, saved, tmp_path):
    """Of the same name and the same parameters."""
    other = tmp_path / "net.onnx"
    model = onnx.load(runs.model)
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Tanh"
    onnx.save(model, other)
    command = runs.command("--resume", saved, bundle=False)
    command[1] = other
    given = ["--policy", runs.folder / "f16.yaml", "--optimizer", "adamw"]
    process = binade(*command, *given)
    assert process.returncode == 3
    assert rows(process.stderr).keys() == {"computation"}


def test_another_program_is_named_where_a_run_is_refused(runs, saved):
    newest = saved / "checkpoints" / "step-000010"

    def change(manifest):
        manifest["machine"]["binade"] = "0.0.9"
        manifest["run"]["computation"] = "a" * 64

    change_manifest(newest, change)
    found = rows(runs.train("--resume", saved, code=3).stderr)
    assert found["binade"][0] == "0.0.9" and found["computation"][0] == "a" * 12


def test_another_format_version_is_refused(runs, saved):
    newest = saved / "checkpoints" / "step-000010"
    change_manifest(newest, lambda manifest: manifest.update(format_version=2))
    process = runs.train("--resume", saved, code=3)
    assert rows(process.stderr) == {"format version": ("2", "1")}
    for command in ("show", "verify"):
        process = binade("ckpt", command, saved)
        assert process.returncode == 3 and "version 2" in process.stderr
    # What a newer program wrote is still there.
    assert checkpoints(saved) == ["step-000005", "step-000010"]


def test_other_machines_are_told(runs, saved):
    newest = saved / "checkpoints" / "step-000010"
    change_manifest(newest, lambda it: it["machine"].update(threads="77"))
    process = runs.train("--resume", saved)
    told = r"warning: threads was 77 and is \d+: the last bits"
    assert re.search(told, process.stderr)
    assert process.stderr.count("last bits") == 1


def test_a_shard_outside_of_its_checkpoint_is_not_read(runs, saved):
    newest = saved / "checkpoints" / "step-000010"

    def change(manifest):
        manifest["shards"][0]["file"] = "../step-000010/state.safetensors"

    change_manifest(newest, change)
    assert binade("ckpt", "verify", newest).returncode == 3
    assert "resumed after step 5\n" in runs.train("--resume", saved).stdout


def test_wrong_commands(runs, saved):
    before = {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    process = runs.train("--out", saved, code=3)
    assert "holds checkpoints" in process.stderr and "--resume" in process.stderr
    process = runs.train("--resume", saved, code=2, steps=7)
    assert "has done 10 steps, more than 7" in process.stderr
    process = runs.train("--resume", saved, "--out", saved, code=2)
    assert "--out" in process.stderr and "--resume" in process.stderr
    process = runs.train("--resume", saved, "--record", "ranges=r.json", code=2)
    assert "--record" in process.stderr
    process = runs.train("--out", saved, "--keep", 0, code=2)
    assert "--keep" in process.stderr
    for where in ("--out", "--resume"):
        one = saved / "checkpoints" / "step-000010"
        assert "is a checkpoint" in runs.train(where, one, code=3).stderr
    assert {p for p in saved.rglob("*") if p.is_file()} == before.keys()
    for path, content in before.items():
        assert path.name == "lock" or path.read_bytes() == content


# --- Faults ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("shim") / "faults.so"
    source = pathlib.Path(__file__).with_name("faults.c")
    command = [compiler, "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"]
    subprocess.run(command, check=True)
    return library


def make_fault(shim, under, call, at, what=None):
    """The environment of a process that meets a fault, see faults.c."""
    environment = os.environ | {
        "LD_PRELOAD": str(shim), "FAULT_UNDER": str(under), "FAULT_CALL": call,
        "FAULT_AT": str(at), "FAULT_COUNT": str(under.parent.parent / "count"),
    }  # fmt: skip
    return environment | ({f"FAULT_{what}": "1"} if what else {})


def run_with_fault(command, fault):
    """The process, and how many such calls there were."""
    count = pathlib.Path(fault["FAULT_COUNT"])
    count.unlink(missing_ok=True)
    process = binade(*command, env=fault)
    return process, int(count.read_text()) if count.exists() else None


def check_is_clean(run):
    """Nothing half-written is left."""
    assert not [path for path in run.rglob("*") if ".tmp-" in path.name]
    assert binade("ckpt", "verify", run).returncode == 0


# --- Neighbours and signals -----------------------------------------------------------


def start(runs, *more, steps=1000000, env=None, **options):
    """A run that has done its first step and goes on."""
    command = [BUILD / "bin" / "binade", *runs.command(*more, steps=steps, **options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([str(w) for w in command], **pipes, env=env)
    for line in process.stdout:
        if line.startswith("step "):
            return process
    raise AssertionError(process.stderr.read())


def finish(process):
    process.stdout.read()
    return process.wait(60)


def check_resumes(runs, run):
    """The run stopped after a step that has a checkpoint; forty more are the same."""
    step = len(metrics(run))
    assert checkpoints(run)[-1] == f"step-{step:06d}"
    assert safetensors.load(run / "final.safetensors")["rng"][1] == step
    unbroken = run.with_name("unbroken")
    runs.train("--out", unbroken, steps=step + STEPS)
    process = runs.train("--resume", run, steps=step + STEPS)
    assert f"resumed after step {step}\n" in process.stdout
    check_equal(run, unbroken)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves(number, runs, tmp_path):
    run = tmp_path / "run"
    process = start(runs, "--out", run)
    process.send_signal(number)
    assert "--resume" in process.stdout.read()
    assert process.wait(60) == 128 + number
    check_resumes(runs, run)


def test_the_second_signal_ends_at_once(runs, shim, tmp_path):
    """Also where what follows the first does not end."""
    run = tmp_path / "run"
    fault = make_fault(shim, run / "final.safetensors", "fsync", 1, "HANG")
    process = start(runs, "--out", run, env=fault)
    process.send_signal(signal.SIGINT)
    while not list(run.glob("final.safetensors.tmp-*")):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert finish(process) == -signal.SIGINT
    assert "resumed after" in runs.train("--resume", run, "--max-seconds", 1,
                                         steps=10**6).stdout  # fmt: skip
    check_is_clean(run)


def test_a_reader_that_goes_away_ends_nothing(runs, tmp_path):
    run = tmp_path / "run"
    process = start(runs, "--out", run, steps=5000, every=0)
    process.stdout.close()
    # The last step is always shown.
    assert process.wait(120) == 0
    assert len(metrics(run)) == 5000


def test_time_ends_a_run_as_a_signal_does(runs, tmp_path):
    run = tmp_path / "run"
    begun = time.monotonic()
    process = runs.train("--out", run, "--max-seconds", 0.5, steps=1000000)
    assert time.monotonic() - begun < 30
    assert "stopped after step" in process.stdout
    check_resumes(runs, run)


def test_a_run_has_one_writer(runs, tmp_path):
    run = tmp_path / "run"
    first = start(runs, "--out", run)
    while not list(run.glob("checkpoints/step-??????")):
        time.sleep(0.01)
    for where in ("--out", "--resume"):
        process = runs.train(where, run, code=8)
        assert f"in use by process {first.pid} on {os.uname().nodename}" in (
            process.stderr
        )
    assert first.poll() is None
    # The lock dies with its process, even so.
    first.kill()
    finish(first)
    step = len((run / "metrics.jsonl").read_text().splitlines())
    assert "resumed after" in runs.train("--resume", run, steps=step + 10).stdout


# --- Disks that fail, and kills -------------------------------------------------------


@pytest.mark.parametrize(
    "call", [pytest.param("write", marks=pytest.mark.slow), "fsync", "rename", "mkdir"]
)
def test_each_call_that_fails(call, runs, shim, tmp_path):
    """Exit code 5, and what was saved before is whole."""
    steps, unbroken = 6, tmp_path / "unbroken"
    runs.train("--out", unbroken, steps=steps)
    run = tmp_path / "run"
    command = runs.command("--out", run, "--keep", 1, steps=steps)
    whole, count = run_with_fault(
        command, make_fault(shim, run / "checkpoints", call, 0)
    )
    assert whole.returncode == 0 and count > 2, whole.stderr
    failed = 0
    for at in range(1, count + 1):
        shutil.rmtree(run)
        fault = make_fault(shim, run / "checkpoints", call, at)
        process, _ = run_with_fault(command, fault)
        if process.returncode == 0:
            # It was about an older checkpoint, which is left.
            assert "warning: " in process.stderr, (call, at)
        else:
            failed += 1
            assert process.returncode == 5, (call, at, process.stderr)
            assert process.stderr.count("error: ") == 1
            assert "checkpoints" in process.stderr
            # A run goes on from what there is, and leaves nothing behind.
            for name in checkpoints(run) if (run / "checkpoints").exists() else []:
                verified = binade("ckpt", "verify", run / "checkpoints" / name)
                assert verified.returncode == 0, (call, at, verified.stderr)
        runs.train("--resume", run, steps=steps)
        check_equal(run, unbroken)
        check_is_clean(run)
    assert failed >= count / 2


def test_a_file_that_may_not_grow(runs, tmp_path):
    """Here nothing stands between the program and the system."""
    run, limit = tmp_path / "run", 4096
    process = start(runs, "--out", run)
    while not list(run.glob("checkpoints/step-??????")):
        time.sleep(0.01)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    process.stdout.read()
    assert process.wait(60) == 5
    assert "too large" in process.stderr.read()
    (newest,) = checkpoints(run)[-1:]
    assert (run / "checkpoints" / newest / "state.safetensors").stat().st_size > limit
    step = int(newest.removeprefix("step-"))
    assert f"resumed after step {step}\n" in (
        runs.train("--resume", run, steps=step + 10).stdout
    )
    check_is_clean(run)


def test_power_may_fail_at_any_time(runs, shim, tmp_path):
    """When a name appears, what it stands for is on disk, and is before the next."""
    run, trace = tmp_path / "run", tmp_path / "trace"
    fault = make_fault(shim, run, "any", 0) | {"FAULT_TRACE": str(trace)}
    process, _ = run_with_fault(runs.command("--out", run, steps=22), fault)
    assert process.returncode == 0
    lines = [line.split(" ", 1) for line in trace.read_text().splitlines()]
    dirty, complete = set(), []
    for call, path in lines:
        step, _, is_temporary = os.path.basename(path).partition(".")
        if call == "rename" and step.startswith("step-"):
            if not is_temporary:
                assert not {p for p in dirty if "/step-" in p or "metrics" in p}, path
                complete.append(step)
            elif step in complete:
                # An older one goes when the newer is there to stay.
                assert step < complete[-1] and str(run / "checkpoints") not in dirty
        if call == "fsync":
            dirty.discard(path)
        elif call == "write":
            dirty.add(path)
        elif call == "rename":
            # A name is written into its directory.
            dirty.add(os.path.dirname(path))
    assert complete == [f"step-{step:06d}" for step in (5, 10, 15, 20, 22)]
    assert {call for call, _ in lines} == {"write", "fsync", "rename", "mkdir"}
    assert sum(path.endswith("manifest.json") for _, path in lines) == len(complete)
    assert not {path for path in dirty if path.endswith((".json", ".safetensors"))}


def test_files_of_the_run_that_cannot_be_written(runs, shim, tmp_path):
    """Beside the checkpoints."""
    run = tmp_path / "run"
    for call, name in (("write", "metrics.jsonl"), ("fsync", "final.safetensors"),
                       ("rename", "run.json"), ("write", "run.json"),
                       ("write", "events.out.tfevents.")):  # fmt: skip
        shutil.rmtree(run, ignore_errors=True)
        command = runs.command("--out", run, steps=7)
        process, _ = run_with_fault(command, make_fault(shim, run / name, call, 1))
        assert process.returncode == 5 and name in process.stderr
        runs.train("--resume", run)
        check_equal(run, runs.unbroken())
        check_is_clean(run)


@pytest.mark.parametrize(
    "trials",
    [
        pytest.param(20, marks=pytest.mark.slow),
        pytest.param(200, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_run_loses_nothing(trials, runs, shim, tmp_path):
    """At random moments, and half of the times in the middle of a save."""
    draw = random.Random(trials)
    unbroken, run = tmp_path / "unbroken", tmp_path / "run"
    steps = 60
    begun = time.monotonic()
    command = runs.command("--out", run, steps=steps)
    # How long a run takes, and how many calls it saves by.
    fault = make_fault(shim, run / "checkpoints", "any", 0)
    process, count = run_with_fault(command, fault)
    seconds = time.monotonic() - begun
    assert process.returncode == 0, process.stderr
    run.rename(unbroken)
    kills, in_saves, resumed = 0, 0, 0
    while kills < trials:
        shutil.rmtree(run, ignore_errors=True)
        where = "--out"
        # A run may be killed more than once.
        for _ in range(draw.randrange(1, 4)):
            command = runs.command(where, run, steps=steps)
            before = len(checkpoints(run)) if (run / "checkpoints").exists() else 0
            if in_saves <= kills // 2:
                at = draw.randrange(1, count)
                fault = make_fault(shim, run / "checkpoints", "any", at, "KILL")
                process, _ = run_with_fault(command, fault)
                killed = process.returncode == -signal.SIGKILL
                in_saves += killed
            else:
                words = [str(word) for word in (BUILD / "bin" / "binade", *command)]
                process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
                time.sleep(draw.uniform(0, seconds))
                process.kill()
                killed = process.wait() == -signal.SIGKILL
            kills += killed
            where = "--resume"
            if before:
                assert checkpoints(run), "a checkpoint is lost"
        reached = len((run / "metrics.jsonl").read_bytes().split(b"\n")) - 1 if (
            run / "metrics.jsonl"
        ).exists() else 0  # fmt: skip
        process = runs.train("--resume", run, steps=steps)
        assert "damaged" not in process.stderr
        if found := re.search(r"resumed after step (\d+)", process.stdout):
            resumed += 1
            assert reached - int(found[1]) <= EVERY
        check_equal(run, unbroken)
        check_is_clean(run)
    assert resumed > 0 and in_saves >= trials // 2 - 1


# --- The tool -------------------------------------------------------------------------


def test_show_prints_the_manifest(saved):
    process = binade("ckpt", "show", saved)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    newest = saved / "checkpoints" / "step-000010"
    assert lines[0] == str(newest)
    shown = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines[1:])
    manifest = json.loads((newest / "manifest.json").read_text())
    shard = newest / "state.safetensors"
    expected = {"format version": "1", "step": "10", "seed": "0", "batch": "8",
                "samples": "50", "policy": "f16", "setting lr": "0.001"}  # fmt: skip
    assert expected.items() <= shown.items()
    assert manifest["run"].items() <= shown.items()
    assert hashlib.sha256(shard.read_bytes()).hexdigest() in shown[shard.name]
    skipped = sum(line["skipped"] for line in metrics(saved))
    assert shown["skipped"] == str(skipped)
    older = binade("ckpt", "show", saved / "checkpoints" / "step-000005")
    assert "step                     5\n" in older.stdout


def test_verify_names_each(saved, tmp_path):
    process = binade("ckpt", "verify", saved)
    assert process.returncode == 0
    assert [line.split(":")[0][-6:] for line in process.stdout.splitlines()] == [
        "000005",
        "000010",
    ]
    assert "whole, step 10" in process.stdout
    for path in (tmp_path / "nothing", tmp_path):
        for command in ("show", "verify"):
            process = binade("ckpt", command, path)
            assert process.returncode == 3 and str(path) in process.stderr


def test_a_checkpoint_starts_another_run(runs, saved, tmp_path):
    """Its state is a file like final.safetensors."""
    state = saved / "checkpoints" / "step-000010" / "state.safetensors"
    assert state.read_bytes() == (saved / "final.safetensors").read_bytes()
    process = runs.train("--out", tmp_path / "new", "--init", state, steps=2)
    assert "start: " in process.stdout
    assert safetensors.load(tmp_path / "new" / "final.safetensors")["rng"][1] == 12
