"""Metrics of held-out samples equal those that NumPy computes from the logits and labels."""

import json

import numpy as np
import pytest
from support.checkpoint_runs import checkpoints
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

IGNORED = -100
METRICS = ["accuracy", "top3", "perplexity"]


def write_model(path, batch, classes, *, body, labels, others=""):
    """A model whose logits are its input, because the trained shift is 0 at the start."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]>\n'
        f"net (float[{batch}, {classes}] x, {labels} y{others}) => (float loss)\n"
        f"<float[{classes}] shift> {{\np = Add(x, shift)\n{body}\n}}"
    )
    shift = onnx.numpy_helper.from_array(np.zeros(classes, np.float32), "shift")
    model.graph.initializer.append(shift)
    model.metadata_props.add(key="binade.trainable", value='["shift"]')
    onnx.save(model, path)
    return path


def write_classifier(folder, batch, classes):
    body = f"loss = SoftmaxCrossEntropyLoss<ignore_index = {IGNORED}>(p, y)"
    return write_model(
        folder / "net.onnx", batch, classes, body=body, labels=f"int64[{batch}]"
    )


def draw(count, classes, *, ties=True, ignored=0.3, seed=0):
    """Logits of which many are equal, and labels of which some are ignored."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, classes)).astype(np.float32)
    y = random.integers(0, classes, count)
    y[random.random(count) < ignored] = IGNORED
    return {"x": np.round(x * 2) / 2 if ties else x, "y": y}


def compute(x, y, tops=(1, 3)):
    """The metrics of all labels that count, in f64."""
    x, y = x[y != IGNORED].astype(np.float64), y[y != IGNORED]
    order = np.argsort(-x, axis=1, kind="stable")
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    entropy = -logs[np.arange(len(y)), y].mean()
    names = {1: "accuracy", 3: "top3"}
    found = {names[k]: (order[:, :k] == y[:, None]).any(1).mean() for k in tops}
    assert 1 not in tops or found["accuracy"] == (x.argmax(1) == y).mean()
    return {**found, "perplexity": np.exp(entropy), "loss": entropy}


def options(metrics=METRICS):
    return [word for name in metrics for word in ("--metric", name)]


def read(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def evaluate(folder, model, data, *more, steps=0, out="--out", run="run", code=0):
    """Trains on and evaluates the same data; returns the process."""
    safetensors.save(folder / "data.safetensors", data)
    path = folder / "data.safetensors"
    process = binade("train", model, "--data", path, "--eval-data", path, "--steps", steps,
                     out, folder / run, *more)  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def check(line, expected, rel=1e-5):
    for name, value in expected.items():
        # Numbers of labels are exact.
        tolerance = rel if name in ("loss", "perplexity") else 1e-12
        assert line[f"eval_{name}"] == pytest.approx(value, rel=tolerance), name


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
@pytest.mark.parametrize("count", [8, 24, 29])
def test_metrics_of_all_labels(count, policy, tmp_path):
    """The logits are exact in bf16, too. Of 29 samples, 5 do not fill a batch."""
    data = draw(count, classes=5)
    model = write_classifier(tmp_path, batch=8, classes=5)
    process = evaluate(tmp_path, model, data, *options(), "--policy", policy)
    assert f"held out: {count} samples" in process.stdout
    (line,) = read(tmp_path / "run")
    expected = compute(**data)
    check(line, expected)
    names = [key for key in line if key.startswith("eval_")]
    assert names == ["eval_loss", "eval_accuracy", "eval_top3", "eval_perplexity"]
    assert (
        f"eval_loss {line['eval_loss']:.4f}, accuracy {expected['accuracy']:.4f}, top3 "
        f"{expected['top3']:.4f}, perplexity {line['eval_perplexity']:.4f} after step 0\n"
        in process.stdout
    )


def test_metrics_equal_those_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    data = draw(64, classes=7, ties=False)
    model = write_classifier(tmp_path, batch=16, classes=7)
    evaluate(tmp_path, model, data, *options())
    x, y = torch.tensor(data["x"]), torch.tensor(data["y"])
    counted = y != IGNORED
    loss = torch.nn.functional.cross_entropy(x, y, ignore_index=IGNORED)
    top = (x[counted].topk(3).indices == y[counted, None]).any(1).double().mean()
    accuracy = (x[counted].argmax(1) == y[counted]).double().mean()
    check(read(tmp_path / "run")[0],
          {"loss": loss.item(), "perplexity": loss.exp().item(), "top3": top.item(),
           "accuracy": accuracy.item()})  # fmt: skip


def test_without_ignored_labels_the_loss_keeps_its_bits(tmp_path):
    data = draw(24, classes=5, ignored=0)
    model = write_classifier(tmp_path, batch=8, classes=5)
    evaluate(tmp_path, model, data, run="plain")
    evaluate(tmp_path, model, data, *options(), run="measured")
    plain, measured = (read(tmp_path / name)[0] for name in ("plain", "measured"))
    assert measured["eval_loss"] == plain["eval_loss"]
    check(measured, compute(**data))


def test_a_batch_may_have_no_labels(tmp_path):
    data = draw(24, classes=5)
    data["y"][8:16] = IGNORED
    model = write_classifier(tmp_path, batch=8, classes=5)
    evaluate(tmp_path, model, data, *options())
    check(read(tmp_path / "run")[0], compute(**data))


def test_large_logits_are_tiled(tmp_path):
    """The logits of a large vocabulary are computed for a few rows at a time."""
    classes, batch = 3000, 512
    body = f"q = MatMul(p, head)\nloss = SoftmaxCrossEntropyLoss<ignore_index = {IGNORED}>(q, y)"
    path = write_model(tmp_path / "net.onnx", batch, 4, body=body,
                       labels=f"int64[{batch}]", others=f", float[4, {classes}] head")  # fmt: skip
    random = np.random.default_rng(0)
    # Products of small integers are exact, and many are equal.
    head = random.integers(-2, 3, (4, classes)).astype(np.float32)
    data = {"x": random.integers(-1, 2, (batch, 4)).astype(np.float32),
            "y": random.integers(0, classes, batch)}  # fmt: skip
    data["y"][::3] = IGNORED
    data["y"][1::3] = (data["x"] @ head).argmax(1)[1::3]
    constant = tmp_path / "head.safetensors"
    safetensors.save(constant, {"head": head})
    evaluate(tmp_path, path, data, *options(), "--const", f"head={constant}")
    expected = compute(data["x"] @ head, data["y"])
    assert 0.4 < expected["accuracy"] < 0.9
    check(read(tmp_path / "run")[0], expected)


def test_another_loss_in_addition(tmp_path):
    """The metrics are those of the cross-entropy, and the loss is the model's."""
    body = """c = SoftmaxCrossEntropyLoss(p, y)
    s = Mul(x, x)
    m = ReduceMean<keepdims = 0>(s)
    loss = Add(c, m)"""
    model = write_model(tmp_path / "net.onnx", 8, 5, body=body, labels="int64[8]")
    data = draw(24, classes=5, ignored=0)
    evaluate(tmp_path, model, data, *options())
    expected = compute(**data)
    square = (data["x"].astype(np.float64) ** 2).mean()
    check(read(tmp_path / "run")[0], {**expected, "loss": expected["loss"] + square})


def test_a_resumed_run_may_have_other_metrics(tmp_path):
    data = draw(24, classes=5)
    model = write_classifier(tmp_path, batch=8, classes=5)
    given = ["--eval-every", 1, "--lr", 0.1, "--optimizer", "sgd"]
    evaluate(tmp_path, model, data, *given, *options(), steps=4, run="whole")
    evaluate(tmp_path, model, data, *given, "--stop-after", 2, steps=4, run="parts")
    evaluate(
        tmp_path, model, data, *given, *options(), steps=4, run="parts", out="--resume"
    )
    whole, parts = read(tmp_path / "whole"), read(tmp_path / "parts")
    assert "eval_accuracy" not in parts[2]
    keys = ["loss", *(f"eval_{name}" for name in METRICS)]
    for line, other in zip(whole[3:], parts[3:], strict=True):
        assert [line[key] for key in keys] == [other[key] for key in keys]
    assert checkpoints(tmp_path / "parts") == ["step-000002"]


def test_metrics_in_tensorboard(tmp_path):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    data = draw(24, classes=5)
    model = write_classifier(tmp_path, batch=8, classes=5)
    given = ["--eval-every", 1, "--patience", 2, "--lr", 0]
    evaluate(tmp_path, model, data, *given, *options(), steps=4)
    events = accumulators.EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    lines = read(tmp_path / "run")
    assert [line["step"] for line in lines] == [0, 1, 2]
    for name in METRICS:
        found = [(e.step, e.value) for e in events.Scalars(f"eval/{name}")]
        assert found == [
            (line["step"], float(np.float32(line[f"eval_{name}"]))) for line in lines
        ]
    stalled = [(e.step, e.value) for e in events.Scalars("eval/stalled")]
    assert stalled == [(0, 0), (1, 1), (2, 2)]


def test_a_bundle_computes_the_metrics_that_it_was_compiled_with(tmp_path):
    data = draw(29, classes=5)
    model, bundle = write_classifier(tmp_path, batch=8, classes=5), tmp_path / "net.bnd"
    compiled = binade("compile", model, "--metric", "top3", "-o", bundle)
    assert compiled.returncode == 0, compiled.stderr
    evaluate(tmp_path, bundle, data)
    (line,) = read(tmp_path / "run")
    assert line["eval_top3"] == pytest.approx(compute(**data)["top3"], rel=1e-12)
    assert "eval_accuracy" not in line
    process = evaluate(tmp_path, bundle, data, *options(), code=2, run="other")
    assert (
        "--metric belongs to phase 'programs', which is done in a bundle"
        in process.stderr
    )


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("acuracy", "perplexity, got 'acuracy'; did you mean 'accuracy'?"),
        ("top0", "got 'top0'"),
        (
            "f1",
            "--metric: expected accuracy, topK such as top5, or perplexity, got 'f1'",
        ),
    ],
)
def test_unknown_metrics(metric, message, tmp_path):
    model = write_classifier(tmp_path, batch=8, classes=5)
    process = evaluate(tmp_path, model, draw(8, 5), "--metric", metric, code=2)
    assert message in process.stderr
    assert not (tmp_path / "run").exists()


def test_metrics_need_held_out_samples(tmp_path):
    model = write_classifier(tmp_path, batch=8, classes=5)
    process = binade("train", model, "--data", "x", "--steps", 1, "--metric", "accuracy",
                     "--out", tmp_path / "run")  # fmt: skip
    assert process.returncode == 2
    assert "--metric needs --eval-data or --eval-fraction" in process.stderr


@pytest.mark.parametrize(
    ("body", "metric", "message"),
    [
        ("s = Mul(p, p)\nloss = ReduceMean<keepdims = 0>(s)", "accuracy",
         "metric 'accuracy' is computed from the logits and labels of the loss, which has to "
         "contain one cross-entropy, but the loss of this model contains none"),
        ("a = SoftmaxCrossEntropyLoss(p, y)\nq = Mul(p, p)\n"
         "b = SoftmaxCrossEntropyLoss(q, y)\nloss = Add(a, b)", "perplexity",
         "but the loss of this model contains 2"),
        ("loss = SoftmaxCrossEntropyLoss(p, y)", "top6",
         "metric 'top6' needs at least 6 classes, but the logits of the loss have 5"),
    ],
)  # fmt: skip
def test_losses_without_the_metric(body, metric, message, tmp_path):
    model = write_model(tmp_path / "net.onnx", 8, 5, body=body, labels="int64[8]")
    data = draw(8, 5, ignored=0)
    process = evaluate(tmp_path, model, data, "--metric", metric, code=3)
    assert message in process.stderr
