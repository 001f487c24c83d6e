"""Values of weights in the ONNX file that `binade export` writes. onnxruntime runs the file;
numpy computes the expected values."""

import json

import numpy as np
import pytest
from support.onnx_sessions import run_onnx, session
from support.paths import ROOT
from support.reference import BF16, binade, safetensors
from support.storage import bits

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from binade import trained
from binade.errors import RejectedError
from onnx import TensorProto
from support.plain_export import WEIGHT, Plain  # noqa: E402


def test_tied_weights_are_stored_once(tmp_path):
    """Two initializers at one offset of the file are one parameter, and are exported as one."""
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


@pytest.mark.parametrize("weights", ["auto", "inside", "beside"])
def test_location_of_weights(weights, tmp_path):
    """As in the original file, or as requested; the values are the same."""
    plain = Plain(tmp_path)
    done = plain.export("--weights", weights)
    assert done.returncode == 0, done.stderr
    data = tmp_path / "t.onnx.data"
    assert data.exists() == (weights == "beside")
    assert (f"weights in: {data}\n" in done.stdout) == (weights == "beside")
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
    # Moves the weights from the data file into the model, which then needs no other file.
    plain.model = tmp_path / "t.onnx"
    done = plain.export("--weights", "inside", out="again.onnx")
    assert done.returncode == 0, done.stderr
    data.unlink(missing_ok=True)
    again = run_onnx(tmp_path / "again.onnx", {"x": plain.x})["logits"]
    np.testing.assert_array_equal(again, found)


def test_folded_and_unknown_tensors(tmp_path):
    plain = Plain(tmp_path, bias=None, extra=np.zeros(2, np.float32))
    done = plain.export("--fold", "bias")
    assert done.returncode == 0, done.stderr
    assert "warning" in done.stderr and "extra" in done.stderr
    np.testing.assert_array_equal(
        plain.values()["bias"], np.float32([0.5, 0.25, 0, -1])
    )
    # The state also has a tensor that only `--train` makes a parameter.
    plain = Plain(tmp_path, factor=np.float32([3, 4, 5, 6]))
    assert plain.export().returncode == 0
    np.testing.assert_array_equal(plain.values()["factor"], plain.state["factor"])


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_weights_keep_the_type_of_the_file(dtype, tmp_path):
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


def test_init_rules_are_replaced_by_values(tmp_path):
    """A file with rules for initial values is exported with the trained weights."""
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
    # The loss after the step equals the one that Binade computes in the next step.
    windows = tokens[: 16 * 128].reshape(16, 128)
    feeds = {"input_ids": windows, "labels": np.roll(tokens[:-1], -1).reshape(16, 128)}
    feeds["labels"][-1, -1] = tokens[-1]
    done = binade("train", bundle, "--data", tmp_path / "d.safetensors", "--window",
                  "input_ids=tokens[0:128],labels=tokens[1:129]", "--steps", 1, "--out",
                  tmp_path / "next", "--init", tmp_path / "run/final.safetensors")  # fmt: skip
    assert done.returncode == 0, done.stderr
    loss = json.loads((tmp_path / "next/metrics.jsonl").read_text())["loss"]
    assert opened.run(["loss"], feeds)[0] == pytest.approx(loss, rel=1e-5)


def test_export_finds_the_model_of_a_run(tmp_path):
    """From any file of the run, with its folded weights; a changed model is reported."""
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

    # The folded weights of the run are not used for another model.
    plain.model.write_bytes(onnx.load(first).SerializeToString() + b"\x2a\x00")
    done = binade("export", run, "-o", tmp_path / "t.onnx")
    assert done.returncode == 0 and "was changed since the run" in done.stderr
    plain.model.unlink()
    assert "--model names its new path" in export(run, status=3)
    assert set(export(run, "--model", first)) == {"weight", "bias", "factor"}

    # A bundle is not an ONNX file.
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


def test_tensors_of_a_state_that_the_exporter_computed_are_explained(tmp_path):
    """A file of the TorchScript exporter has the gates of a GRU in ONNX's order."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    state = {f"onnx::GRU_{i}": np.zeros((1, 6), np.float32) for i in range(9)}
    safetensors.save(tmp_path / "gru.safetensors", state)
    with pytest.raises(RejectedError) as caught:
        trained.load(torch.nn.GRU(2, 2), tmp_path / "gru.safetensors")
    message = str(caught.value)
    assert "the module has no 'onnx::GRU_0', " in message and " and 5 more;" in message
    assert "the state lacks 'weight_ih_l0', 'weight_hh_l0', " in message
    assert "or with do_constant_folding=False" in message


def test_a_run_that_does_not_exist_is_named(tmp_path):
    done = binade("export", tmp_path / "none", "-o", tmp_path / "x.onnx")
    assert done.returncode == 3
    assert done.stderr == f"{tmp_path}/none: error: does not exist\n"
