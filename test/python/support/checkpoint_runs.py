"""Runs that save checkpoints, and the contents of checkpoints."""

import hashlib
import json
import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade, safetensors

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
    # The scale grows every third step and soon causes overflows.
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
    """The hash of all other entries as JSON with sorted keys and without spaces."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def change_manifest(checkpoint, change):
    """Changes a manifest and corrects its hash."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["sha256"] == manifest_hash(manifest)
    change(manifest)
    manifest["sha256"] = manifest_hash(manifest)
    path.write_text(json.dumps(manifest))


def start(runs, *more, steps=1000000, env=None, **options):
    """Starts a run and returns while it continues after its first step."""
    command = [BUILD / "bin" / "binade", *runs.command(*more, steps=steps, **options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([str(w) for w in command], **pipes, env=env)
    for line in process.stdout:
        if line.startswith("step "):
            return process
    raise AssertionError(process.stderr.read())
