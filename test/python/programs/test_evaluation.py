"""The loss of held-out samples equals that of PyTorch's model in evaluation mode.

In training, the model applies dropout and normalizes by statistics of the batch; in
evaluation, it does neither. Evaluation changes no bit of the trained parameters.
"""

import json
import os

import numpy as np
import pytest
from support.reference import binade, safetensors

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch.nn.functional as F
from binade import export
from support.runtime import LIBRARY, Runtime
from torch import nn

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

STEPS, EVERY, BATCH = 6, 3, 4
SAMPLES, HELD_OUT = 35, 10  # Two batches held out, and half a batch.


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8, momentum=0.3)
        self.fc1 = nn.Linear(8, 16)
        self.norm1 = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.5)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc2(self.dropout(F.relu(self.norm1(self.fc1(x)))))


def cross_entropy(prediction, labels):
    return F.cross_entropy(prediction, labels)


class Files:
    def __init__(self, folder):
        torch.manual_seed(0)
        self.net = Net()
        draw = np.random.default_rng(0)
        labels = draw.integers(0, 3, SAMPLES)
        x = (
            draw.standard_normal((SAMPLES, 2, 6, 6), np.float32)
            + labels[:, None, None, None]
        )
        self.data = {"x": x.astype(np.float32), "labels": labels}
        batch = {name: torch.tensor(value[:BATCH]) for name, value in self.data.items()}
        self.model = folder / "net.onnx"
        export.export_onnx(self.net, batch, self.model, loss=cross_entropy)
        self.all = folder / "all.safetensors"
        safetensors.save(self.all, self.data)
        parts = {"first": slice(0, SAMPLES - HELD_OUT), "last": slice(-HELD_OUT, None)}
        for name, part in parts.items():
            path = folder / f"{name}.safetensors"
            safetensors.save(path, {k: v[part] for k, v in self.data.items()})
            setattr(self, name, path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("evaluation"))


def train(
    files, out, *more, data=None, steps=STEPS, policy="fp32", status=0, **options
):
    process = binade(
        "train", files.model, "--data", data or files.all, "--policy", policy,
        "--optimizer", "adamw", "--lr", 0.05, "--steps", steps, "--out", out, *more,
        **options,
    )  # fmt: skip
    assert process.returncode == status, process.stderr
    return process


def read_metrics(run):
    return [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]


def evaluate_with_pytorch(files, state, part=slice(-HELD_OUT, None)):
    values = {
        name: torch.tensor(value)
        for name, value in safetensors.load(state).items()
        if "/" not in name and name not in ("rng", "step")
    }
    missing, unexpected = files.net.load_state_dict(values, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)
    files.net.eval()
    held = {name: torch.tensor(value[part]) for name, value in files.data.items()}
    with torch.no_grad():
        return F.cross_entropy(files.net(held["x"]), held["labels"]).item()


@pytest.mark.parametrize(
    ("policy", "tolerance"), [("fp32", 1e-5), ("bf16-amp", 2e-2), ("fp16-amp", 2e-3)]
)
def test_held_out_loss_equals_that_of_pytorch(policy, tolerance, files, tmp_path):
    run = tmp_path / "run"
    process = train(
        files, run, "--eval-fraction", HELD_OUT / SAMPLES, "--eval-every", EVERY,
        policy=policy, env={**os.environ, "BINADE_POISON": "1"},
    )  # fmt: skip
    metrics = read_metrics(run)
    losses = {line["step"]: line["eval_loss"] for line in metrics}
    assert [step for step, loss in losses.items() if loss is not None] == [0, 3, 6]
    assert losses[EVERY] != losses[STEPS]
    short = tmp_path / "short"
    train(
        files, short, "--eval-fraction", HELD_OUT / SAMPLES, policy=policy, steps=EVERY
    )
    assert read_metrics(short)[-1]["eval_loss"] == losses[EVERY]
    start = tmp_path / "start"
    held_out = ("--eval-fraction", HELD_OUT / SAMPLES)
    untrained = train(files, start, *held_out, policy=policy, steps=0)
    assert f"eval_loss {losses[0]:.4f} after step 0\n" in untrained.stdout
    assert f"eval_loss {losses[0]:.4f} before the first step\n" in process.stdout
    assert [line["step"] for line in read_metrics(start)] == [0]
    for folder, step in ((start, 0), (short, EVERY), (run, STEPS)):
        expected = evaluate_with_pytorch(files, folder / "final.safetensors")
        assert losses[step] == pytest.approx(expected, rel=tolerance)
    held_out = f"held out: 10 samples of {files.all}; 25 to train on\n"
    assert held_out in process.stdout
    assert f"eval {losses[STEPS]:.5g}" in process.stdout
    assert f"eval_loss {losses[STEPS]:.4f} after step {STEPS}\n" in process.stdout


def test_a_separate_file_gives_the_same_loss(files, tmp_path):
    """Training has the same bits as without evaluation."""
    runs = {
        "fraction": ([], files.all, ["--eval-fraction", HELD_OUT / SAMPLES]),
        "file": ([], files.first, ["--eval-data", files.last]),
        "none": ([], files.first, []),
    }
    for name, (_, data, options) in runs.items():
        every = ["--eval-every", 1] if options else []
        train(files, tmp_path / name, *options, *every, data=data, policy="fp16-amp")
    states = {
        name: (tmp_path / name / "final.safetensors").read_bytes() for name in runs
    }
    assert states["fraction"] == states["file"] == states["none"]
    series = {
        name: [line["eval_loss"] for line in read_metrics(tmp_path / name)]
        for name in runs
    }
    assert series["fraction"] == series["file"]
    assert None not in series["file"] and series["none"] == [None] * STEPS
    assert len(series["file"]) == STEPS + 1


def test_a_run_records_its_held_out_samples(files, tmp_path):
    train(files, tmp_path / "run", "--eval-fraction", 0.25)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    # A quarter of 35 is 9, which are two batches of 4 and one sample.
    assert (run["samples"], run["eval_samples"]) == (26, 9)
    (invocation,) = run["invocations"]
    assert set(invocation["files"]) == {"model", "data", "weights net.safetensors"}
    # A run cannot resume with other training samples.
    process = train(
        files, tmp_path / "saved", "--eval-fraction", 0.25, "--save-every", 3, steps=3
    )
    process = binade(
        "train", files.model, "--data", files.all, "--optimizer", "adamw",
        "--lr", 0.05, "--steps", 6, "--resume", tmp_path / "saved",
    )  # fmt: skip
    assert process.returncode == 3 and "samples" in process.stderr
    process = binade(
        "train", files.model, "--data", files.all, "--optimizer", "adamw",
        "--lr", 0.05, "--steps", 6, "--resume", tmp_path / "saved",
        "--eval-fraction", 0.25,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert read_metrics(tmp_path / "saved")[-1]["eval_loss"] is not None


def test_held_out_windows_do_not_overlap_training_windows(tmp_path):
    """Windows of 8 + 1 tokens start at every second token. The held-out ones are the last
    5, which 4 others overlap."""
    onnx = pytest.importorskip("onnx")
    graph = """
    <ir_version: 9, opset_import: ["" : 20]>
    net (int64[2, 8] ids, int64[2, 8] labels) => (float loss) <float[11, 11] table> {
      logits = Gather(table, ids)
      swapped = Transpose <perm = [0, 2, 1]> (logits)
      loss = SoftmaxCrossEntropyLoss(swapped, labels)
    }
    """
    model = onnx.parser.parse_model(graph)
    table = np.random.default_rng(0).standard_normal((11, 11), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    model.metadata_props.add(key="binade.trainable", value='["table"]')
    onnx.save(model, tmp_path / "net.onnx")
    tokens = np.random.default_rng(1).integers(0, 11, 8 + 1 + 2 * 19)
    safetensors.save(tmp_path / "tokens.safetensors", {"tokens": tokens})
    process = binade(
        "train", tmp_path / "net.onnx", "--data", tmp_path / "tokens.safetensors",
        "--window", "ids=tokens[0:8],labels=tokens[1:9]", "--stride", 2,
        "--eval-fraction", 0.25, "--steps", 2, "--optimizer", "sgd", "--lr", 0,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert (
        "held out: 5 samples of" in process.stdout
        and "; 11 to train on (4 more overlap held-out ones)\n" in process.stdout
    )
    losses = [
        F.cross_entropy(
            torch.tensor(table[tokens[2 * i : 2 * i + 8]]),
            torch.tensor(tokens[2 * i + 1 : 2 * i + 9]),
        ).item()
        for i in range(15, 20)
    ]
    found = read_metrics(tmp_path / "run")[-1]["eval_loss"]
    assert found == pytest.approx(np.mean(losses), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--eval-every", 2], 2, "--eval-every needs --eval-data or --eval-fraction"),
        (["--eval-fraction", 1], 2, "--eval-fraction"),
        (["--eval-fraction", 0.1, "--eval-data", "LAST"], 2, "--eval-data"),
        (["--eval-fraction", 0.05], 3,
         "held out 2 of 35 samples, which leaves 2 for evaluation; one batch needs 4"),
        (["--eval-fraction", 0.95], 3,
         "held out 33 of 35 samples, which leaves 2 for training; one batch needs 4"),
        (["--eval-data", "absent.safetensors"], 3, "absent.safetensors"),
    ],
)  # fmt: skip
def test_invalid_options(options, status, message, files, tmp_path):
    options = [files.last if option == "LAST" else option for option in options]
    process = train(files, tmp_path / "run", *options, status=status)
    assert message in process.stderr
    assert not (tmp_path / "run").exists()


def test_labels_out_of_range_are_found_before_training(files, tmp_path):
    wrong = {name: value[-HELD_OUT:].copy() for name, value in files.data.items()}
    wrong["labels"][7] = 3
    safetensors.save(tmp_path / "wrong.safetensors", wrong)
    process = train(
        files, tmp_path / "run", "--eval-data", tmp_path / "wrong.safetensors", status=3
    )
    assert "wrong.safetensors" in process.stderr and "sample 7" in process.stderr


def test_c_interface(files, tmp_path):
    """Evaluates one batch at a time, between steps."""
    process = binade(
        "compile", files.model, "--optimizer", "sgd", "-o", tmp_path / "net.bnd"
    )
    assert process.returncode == 0, process.stderr
    runtime = Runtime()
    code, program = runtime.load(tmp_path / "net.bnd")
    assert code == 0, runtime.error()
    held = {name: value[:BATCH] for name, value in files.data.items()}
    losses = []
    for _ in range(2):
        for name, value in held.items():
            assert program.assign("batch", name, value) == 0
        code, loss = program.evaluate()
        assert code == 0
        losses.append(loss)
        state = tmp_path / "state.safetensors"
        assert program.save(os.fsencode(state)) == 0
        files.net.eval()
        expected = evaluate_with_pytorch(files, state, slice(0, BATCH))
        assert loss == pytest.approx(expected, rel=1e-5)
        assert program.run() == 0
    assert losses[0] != losses[1]
