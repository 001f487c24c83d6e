"""The ONNX file that `binade export` writes: where weights are, what becomes an output,
what is refused. Values are those of numpy, run by onnxruntime; no PyTorch."""

import json
import resource

import numpy as np
import pytest
from support.onnx_sessions import run_onnx, session
from support.paths import ROOT
from support.reference import BF16, binade, safetensors
from support.storage import bits

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from binade import trained
from onnx import TensorProto


def test_tied_weights_are_stored_once(tmp_path):
    """Two names, one place in the file: they are trained as one, and leave as one."""
    weight = np.float32([[1, 2, 0.5], [0.25, -1, 1], [0.5, 0.5, -2]])
    (tmp_path / "w.bin").write_bytes(weight.tobytes())
    model = onnx.parser.parse_model("""
      <ir_version: 10, opset_import: ["" : 20]>
      g (float[2, 3] x, float[2, 3] y) => (float[2, 3] out, float loss) {
        hidden = MatMul(x, first)
        out = MatMul(hidden, second)
        wrong = Sub(out, y)
        squares = Mul(wrong, wrong)
        loss = ReduceMean <keepdims = 0> (squares)
      }
    """)
    for name in ("first", "second"):
        tensor = model.graph.initializer.add(name=name, data_type=1, dims=[3, 3])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": "w.bin", "offset": 0, "length": 36}.items():
            tensor.external_data.add(key=key, value=str(value))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).standard_normal((4, 3), np.float32)
    safetensors.save(tmp_path / "d.safetensors", {"x": x, "y": -x})
    done = binade("train", tmp_path / "m.onnx", "--data", tmp_path / "d.safetensors",
                  "--steps", 3, "--lr", 0.1, "--out", tmp_path / "run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    (name,) = trained.load_state(tmp_path / "run")
    out = tmp_path / "t.onnx"
    done = binade("export", tmp_path / "run", "--model", tmp_path / "m.onnx", "-o", out)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t.onnx.data").stat().st_size == weight.nbytes
    (tmp_path / "w.bin").unlink()
    learned = trained.load_state(tmp_path / "run")[name]
    assert not np.array_equal(learned, weight)
    for tensor in onnx.load(out).graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), learned)
    found = run_onnx(str(out), {"x": x[:2]})
    np.testing.assert_allclose(
        found["out"], x[:2] @ learned @ learned, rtol=1e-5, atol=1e-6
    )


GRAPH = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2, 3] x, int64[2] labels) => (float[2, 4] logits, float loss)
  <float[3, 4] weight = {WEIGHT}, float[4] bias = {0.5, 0.25, 0, -1},
   float[4] factor = {1, 1, 2, 1}> {
  product = MatMul(x, weight)
  biased = Add(product, bias)
  logits = Mul(biased, factor)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""
WEIGHT = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Plain:
    """A model all of whose weights stand in the ONNX file, and a state for it."""

    def __init__(self, folder, **changes):
        self.folder = folder
        text = GRAPH.replace("WEIGHT", ", ".join(map(str, WEIGHT.ravel())))
        proto = onnx.parser.parse_model(text)
        proto.metadata_props.add(key="binade.trainable", value='["weight", "bias"]')
        proto.metadata_props.add(key="mine", value="stays")
        self.model = folder / "m.onnx"
        onnx.save(proto, self.model)
        self.state = {"weight": WEIGHT + 1, "bias": np.arange(4, dtype=np.float32)}
        self.state |= changes
        self.state = {k: v for k, v in self.state.items() if v is not None}
        safetensors.save(folder / "s.safetensors", self.state)
        self.x = np.float32([[1, 2, 3], [0, -1, 0.5]])

    def export(self, *options, out="t.onnx", state="s.safetensors"):
        return binade(
            "export", self.folder / state, "--model", self.model,
            "-o", self.folder / out, *options,
        )  # fmt: skip

    def values(self, out="t.onnx"):
        proto = onnx.load(self.folder / out)
        return {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}


@pytest.mark.parametrize("weights", ["auto", "inside", "beside"])
def test_where_weights_are(weights, tmp_path):
    """Where the original has them, or where one wants them; either way the values."""
    plain = Plain(tmp_path)
    done = plain.export("--weights", weights)
    assert done.returncode == 0, done.stderr
    data = tmp_path / "t.onnx.data"
    assert data.exists() == (weights == "beside")
    assert (f"weights beside it: {data}\n" in done.stdout) == (weights == "beside")
    assert "outputs logits\nleft out: labels, loss\n" in done.stdout
    values = plain.values()
    assert set(values) == {"weight", "bias", "factor"}
    for name, value in plain.state.items():
        np.testing.assert_array_equal(values[name], value)
    found = run_onnx(tmp_path / "t.onnx", {"x": plain.x})["logits"]
    expected = (plain.x @ plain.state["weight"] + plain.state["bias"]) * [1, 1, 2, 1]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    entries = {e.key: e.value for e in onnx.load(tmp_path / "t.onnx").metadata_props}
    assert entries["mine"] == "stays"
    # From beside back inside: the new file needs no other.
    plain.model = tmp_path / "t.onnx"
    done = plain.export("--weights", "inside", out="again.onnx")
    assert done.returncode == 0, done.stderr
    data.unlink(missing_ok=True)
    again = run_onnx(tmp_path / "again.onnx", {"x": plain.x})["logits"]
    np.testing.assert_array_equal(again, found)


def test_what_becomes_an_output(tmp_path):
    plain = Plain(tmp_path)

    def outputs(*options):
        done = plain.export(*options)
        assert done.returncode == 0, done.stderr
        opened = session(tmp_path / "t.onnx")
        return [[value.name for value in values]
                for values in (opened.get_inputs(), opened.get_outputs())]  # fmt: skip

    assert outputs() == [["x"], ["logits"]]
    assert outputs("--keep-loss") == [["x", "labels"], ["logits", "loss"]]
    assert outputs("--training") == [["x", "labels"], ["logits", "loss"]]
    assert outputs("--only", "loss") == [["x", "labels"], ["loss"]]
    assert outputs("--only", "loss", "--only", "logits")[1] == ["loss", "logits"]
    for wrong, message in {"logit": "'logits'?", "product": "needs a type"}.items():
        done = plain.export("--only", wrong)
        assert done.returncode == 3 and message in done.stderr
    # With its type, any value will do; what only others need is left out.
    inferred = onnx.shape_inference.infer_shapes(onnx.load(plain.model))
    onnx.save(inferred, plain.model)
    assert outputs("--only", "product") == [["x"], ["product"]]
    assert set(plain.values()) == {"weight"}
    metadata = {e.key: e.value for e in onnx.load(tmp_path / "t.onnx").metadata_props}
    assert json.loads(metadata["binade.trainable"]) == ["weight"]
    for pair in (["--only", "loss", "--keep-loss"], ["--training", "--keep-loss"]):
        assert plain.export(*pair).returncode == 2


def test_a_model_that_is_its_loss_keeps_it(tmp_path):
    plain = Plain(tmp_path)
    proto = onnx.load(plain.model)
    del proto.graph.output[0]
    onnx.save(proto, plain.model)
    assert plain.export().returncode == 0
    found = [value.name for value in session(tmp_path / "t.onnx").get_outputs()]
    assert found == ["loss"]


@pytest.mark.parametrize(
    ("changes", "options", "messages"),
    [
        ({"weight": None, "bias": None}, [],
         ["lacks 'weight' [3, 4]", "lacks 'bias' [4]", "--fold"]),
        ({"weight": WEIGHT.T.copy()}, [], ["'weight' is [4, 3], in the model [3, 4]"]),
        ({"factor": np.zeros(3, np.float32)}, [],
         ["'factor' is [3], in the model [4]"]),
        ({"bias": None}, ["--fold", "weight"], ["lacks 'bias' [4]"]),
        ({}, ["--fold", "nothing*"], ["'nothing*' matches none"]),
        ({}, ["--loss-output", "logit"], ["has no output 'logit'"]),
        ({"bias": np.zeros(4, np.float64)}, [], ["is F64, the model has F32"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_listed(changes, options, messages, tmp_path):
    done = Plain(tmp_path, **changes).export(*options)
    assert done.returncode == 3, done.stderr
    for message in messages:
        assert message in done.stderr
    assert not list(tmp_path.glob("t.onnx*"))


def test_folded_and_unknown_tensors(tmp_path):
    plain = Plain(tmp_path, bias=None, extra=np.zeros(2, np.float32))
    done = plain.export("--fold", "bias")
    assert done.returncode == 0, done.stderr
    assert "warning" in done.stderr and "extra" in done.stderr
    np.testing.assert_array_equal(
        plain.values()["bias"], np.float32([0.5, 0.25, 0, -1])
    )
    # What only `--train` made a parameter is in the state: it is taken.
    plain = Plain(tmp_path, factor=np.float32([3, 4, 5, 6]))
    assert plain.export().returncode == 0
    np.testing.assert_array_equal(plain.values()["factor"], plain.state["factor"])


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_the_files_own_type(dtype, tmp_path):
    plain = Plain(tmp_path)
    proto = onnx.load(plain.model)
    weight = next(t for t in proto.graph.initializer if t.name == "weight")
    weight.CopyFrom(onnx.numpy_helper.from_array(WEIGHT.astype(dtype), "weight"))
    (reader,) = (node for node in proto.graph.node if "weight" in node.input)
    reader.input[list(reader.input).index("weight")] = "wide"
    cast = onnx.helper.make_node("Cast", ["weight"], ["wide"], to=TensorProto.FLOAT)
    proto.graph.node.insert(0, cast)
    onnx.save(proto, plain.model)
    assert plain.export().returncode == 0
    found = plain.values()["weight"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(
        bits(found), bits(plain.state["weight"].astype(dtype))
    )


def test_rules_become_values(tmp_path):
    """A file that only said how to draw its weights has them now."""
    model = ROOT / "examples/char-gpt/mini.onnx"
    bundle = tmp_path / "mini.bnd"
    done = binade("compile", model, "--optimizer", "sgd", "-o", bundle)
    assert done.returncode == 0, done.stderr
    tokens = np.random.default_rng(0).integers(0, 94, 16 * 128 + 1)
    safetensors.save(tmp_path / "d.safetensors", {"tokens": tokens})
    done = binade("train", bundle, "--data", tmp_path / "d.safetensors", "--window",
                  "input_ids=tokens[0:128],labels=tokens[1:129]", "--steps", 1,
                  "--lr", 0.01, "--out", tmp_path / "run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = tmp_path / "t.onnx"
    done = binade(
        "export", tmp_path / "run", "--model", model, "-o", out, "--keep-loss"
    )
    assert done.returncode == 0, done.stderr
    opened = session(out)
    assert [value.name for value in opened.get_inputs()] == ["input_ids", "labels"]
    keys = [entry.key for entry in onnx.load(out).metadata_props]
    assert "binade.trainable" in keys and "binade.init" not in keys
    # Its loss after the step is the one that Binade starts the next one with.
    windows = tokens[: 16 * 128].reshape(16, 128)
    feeds = {"input_ids": windows, "labels": np.roll(tokens[:-1], -1).reshape(16, 128)}
    feeds["labels"][-1, -1] = tokens[-1]
    done = binade("train", bundle, "--data", tmp_path / "d.safetensors", "--window",
                  "input_ids=tokens[0:128],labels=tokens[1:129]", "--steps", 1, "--out",
                  tmp_path / "next", "--init", tmp_path / "run/final.safetensors")  # fmt: skip
    assert done.returncode == 0, done.stderr
    loss = json.loads((tmp_path / "next/metrics.jsonl").read_text())["loss"]
    assert opened.run(["loss"], feeds)[0] == pytest.approx(loss, rel=1e-5)


def test_a_file_that_is_there_stays_or_is_replaced(tmp_path):
    plain = Plain(tmp_path)
    (tmp_path / "t.onnx").write_text("kept")
    (tmp_path / "t.onnx.data").write_text("kept, too")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    done = binade(
        "export", tmp_path / "s.safetensors", "--model", plain.model,
        "-o", tmp_path / "t.onnx", "--weights", "beside", preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert (tmp_path / "t.onnx").read_text() == "kept"
    assert (tmp_path / "t.onnx.data").read_text() == "kept, too"
    assert not list(tmp_path.glob("*.tmp*"))
    before = plain.model.read_bytes()
    done = plain.export(out="m.onnx")
    assert done.returncode == 3 and "a file of the model itself" in done.stderr
    assert plain.model.read_bytes() == before
    assert plain.export("--weights", "beside").returncode == 0
    np.testing.assert_array_equal(plain.values()["weight"], plain.state["weight"])


def test_statistics_that_were_outputs_are_none(tmp_path):
    """What reads the next statistic reads the last one, which stays."""
    proto = onnx.parser.parse_model("""
      <ir_version: 10, opset_import: ["" : 20]>
      g (float[4, 2] x) => (float[4, 2] y, float[2] moved, float[2] twice)
        <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] mean = {0.5, -1},
         float[2] var = {2, 3}> {
        y, moved, spread = BatchNormalization <training_mode = 1> (x, s, b, mean, var)
        twice = Add(spread, spread)
      }
    """)
    proto.metadata_props.add(key="binade.trainable", value='["s", "b"]')
    onnx.save(proto, tmp_path / "m.onnx")
    state = {"s": np.float32([2, 1]), "b": np.float32([0, 0]),
             "mean": np.float32([1, 1]), "var": np.float32([4, 9])}  # fmt: skip
    safetensors.save(tmp_path / "s.safetensors", state)
    done = binade("export", tmp_path / "s.safetensors", "--model", tmp_path / "m.onnx",
                  "-o", tmp_path / "t.onnx")  # fmt: skip
    assert done.returncode == 0, done.stderr
    x = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])
    found = run_onnx(tmp_path / "t.onnx", {"x": x})
    assert set(found) == {"y", "twice"}
    np.testing.assert_allclose(found["y"], (x - 1) / [2, 3] * [2, 1], rtol=1e-4)
    np.testing.assert_array_equal(found["twice"], [8, 18])


def test_a_run_says_what_it_trained(tmp_path):
    """The file, and what was folded, from any place; a changed file is noticed."""
    plain = Plain(tmp_path)
    data = {"x": np.zeros((4, 3), np.float32), "labels": np.int64([0, 1, 2, 3])}
    safetensors.save(tmp_path / "d.safetensors", data)

    def train(model, out, *options):
        done = binade("train", model, "--data", "d.safetensors", "--steps", 2, "--out",
                      out, "--lr", 0.1, *options, cwd=tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return tmp_path / out

    def export(source, *options, status=0):
        out = tmp_path / "t.onnx"
        done = binade("export", source, "-o", out, *options)
        assert done.returncode == status, done.stderr
        return done.stderr if status else plain.values()

    run = train("m.onnx", "run", "--fold=w*", "--save-every", "1")
    first = tmp_path / "first.onnx"
    first.write_bytes(plain.model.read_bytes())
    learned = trained.load_state(run)
    assert set(learned) == {"bias"}
    sources = [run, f"{run}/", run / "final.safetensors"]
    sources += [
        run / "checkpoints/step-000002",
        run / "checkpoints/step-000002/state.safetensors",
    ]
    for source in sources:
        values = export(source)
        np.testing.assert_array_equal(values["bias"], learned["bias"])
        np.testing.assert_array_equal(values["weight"], WEIGHT)

    # The other way round: what it folded is no option of another file's.
    plain.model.write_bytes(onnx.load(first).SerializeToString() + b"\x2a\x00")
    done = binade("export", run, "-o", tmp_path / "t.onnx")
    assert done.returncode == 0 and "was changed since the run" in done.stderr
    plain.model.unlink()
    assert "--model names another place" in export(run, status=3)
    assert set(export(run, "--model", first)) == {"weight", "bias", "factor"}

    # A bundle is no ONNX file.
    done = binade("compile", first, "-o", tmp_path / "b.bnd", "--fold", "weight")
    assert done.returncode == 0, done.stderr
    run = train("b.bnd", "other")
    assert "the bundle" in export(run, status=2)
    assert "lacks 'weight'" in export(run, "--model", first, status=3)
    values = export(run, "--model", first, "--fold", "weight")
    np.testing.assert_array_equal(values["bias"], trained.load_state(run)["bias"])
    assert "--model is required" in export(tmp_path / "s.safetensors", status=2)
    (run / "run.json").write_text("{}")
    assert "does not say how" in export(run, status=3)
