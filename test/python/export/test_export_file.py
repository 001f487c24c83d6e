"""The ONNX file that `binade export` writes: location of weights, outputs, rejected inputs.
onnxruntime runs the file; numpy computes the expected values. PyTorch is not needed."""

import json
import resource

import numpy as np
import pytest
from support.onnx_sessions import run_onnx, session
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from support.plain_export import WEIGHT, Plain  # noqa: E402


def test_outputs_of_the_exported_model(tmp_path):
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
    for wrong, message in {
        "logit": "'logits'?",
        "product": "need a declared type",
    }.items():
        done = plain.export("--only", wrong)
        assert done.returncode == 3 and message in done.stderr
    # A value with a type can be an output. Nodes and weights that it does not need are removed.
    inferred = onnx.shape_inference.infer_shapes(onnx.load(plain.model))
    onnx.save(inferred, plain.model)
    assert outputs("--only", "product") == [["x"], ["product"]]
    assert set(plain.values()) == {"weight"}
    metadata = {e.key: e.value for e in onnx.load(tmp_path / "t.onnx").metadata_props}
    assert json.loads(metadata["binade.trainable"]) == ["weight"]
    for pair in (["--only", "loss", "--keep-loss"], ["--training", "--keep-loss"]):
        assert plain.export(*pair).returncode == 2


def test_the_loss_is_kept_if_it_is_the_only_output(tmp_path):
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
def test_tensors_that_do_not_fit_are_listed(changes, options, messages, tmp_path):
    done = Plain(tmp_path, **changes).export(*options)
    assert done.returncode == 3, done.stderr
    for message in messages:
        assert message in done.stderr
    assert not list(tmp_path.glob("t.onnx*"))


def test_an_existing_file_is_kept_or_replaced(tmp_path):
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


def test_running_statistics_are_not_outputs(tmp_path):
    """Nodes that read the updated statistics read the stored ones, which are constant."""
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
