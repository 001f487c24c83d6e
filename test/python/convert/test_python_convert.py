"""``binade.convert`` converts models in Python. Expected values are those of the command
``binade convert`` and of NumPy's rounding."""

import logging

import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support import (
    convert,  # noqa: E402
    reference,  # noqa: E402
)

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade  # noqa: E402
import binade.errors  # noqa: E402

GRAPH = "linear (float[4, 8] x) => (float[4, 3] y) { y = MatMul(x, w) }"


def make_model():
    return convert.add_tensor(convert.parse(GRAPH), "w", convert.draw(8, 3))


def evaluate(model, x):
    (found,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    return found


def test_the_function_agrees_with_the_command(tmp_path):
    model = make_model()
    before = model.SerializeToString()
    found = binade.convert(model, policy="bf16-amp")
    expected, _ = convert.convert(model, tmp_path, "bf16-amp")
    assert found.graph == expected.graph
    assert model.SerializeToString() == before
    assert binade.convert(before, policy="bf16-amp").graph == expected.graph
    assert binade.convert(tmp_path / "in.onnx", policy="bf16-amp").graph == found.graph
    x = convert.draw(4, 8, seed=1)
    narrow = x.astype(ml_dtypes.bfloat16).astype("f4") @ convert.draw(8, 3).astype(
        ml_dtypes.bfloat16
    ).astype("f4")
    np.testing.assert_array_equal(
        evaluate(found, x), narrow.astype(ml_dtypes.bfloat16).astype("f4")
    )


def test_policies_and_io_types_are_arguments(tmp_path):
    wide = {
        "name": "wide", "extends": "fp16-amp",
        "rules": [{"match": {"op": "matmul"}, "compute": "f32"}],
    }  # fmt: skip
    model = make_model()
    assert convert.strip(binade.convert(model, policy=wide)) == convert.strip(model)
    found = binade.convert(model, policy="fp16-amp", io_types={"*": "f16"})
    types = [
        v.type.tensor_type.elem_type for v in (*found.graph.input, *found.graph.output)
    ]
    assert types == [onnx.TensorProto.FLOAT16] * 2


def test_external_weights_are_converted(tmp_path):
    model = make_model()
    onnx.save(
        model, tmp_path / "in.onnx", save_as_external_data=True, location="weights",
        size_threshold=0,
    )  # fmt: skip
    outside = onnx.load(tmp_path / "in.onnx", load_external_data=False)
    expected = binade.convert(make_model(), policy="bf16-amp")
    for given in (outside, outside.SerializeToString()):
        found = binade.convert(given, policy="bf16-amp", directory=tmp_path)
        assert found.graph == expected.graph
    with pytest.raises(binade.errors.RejectedError, match="not an ONNX model"):
        binade.convert(b"nothing", policy="bf16-amp", directory=tmp_path)
    with pytest.raises(binade.errors.BinadeError, match="weights"):
        binade.convert(outside, policy="bf16-amp")
    written = binade.convert(
        tmp_path / "in.onnx", policy="bf16-amp", output=tmp_path / "out.onnx"
    )
    assert written.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL
    x = convert.draw(4, 8, seed=1)
    np.testing.assert_array_equal(
        evaluate(onnx.load(tmp_path / "out.onnx"), x), evaluate(expected, x)
    )


def test_non_finite_weights_are_rejected_on_request():
    weight = convert.draw(8, 3)
    weight[1, 1] = np.inf
    model = convert.add_tensor(convert.parse(GRAPH), "w", weight)
    binade.convert(model, policy="bf16-amp")
    with pytest.raises(
        binade.errors.RejectedError,
        match="'w': error: holds 1 value that is not finite, the first as element 4",
    ):
        binade.convert(model, policy="bf16-amp", fail_on_nonfinite=True)


def test_conversions_are_logged(caplog):
    graph = "g (float[4, 8] x) => (float[4, 3] y) { p = MatMul(x, w)  y = Strange(p) }"
    model = convert.add_tensor(convert.parse(graph), "w", convert.draw(8, 3))
    with caplog.at_level(logging.INFO, "binade"):
        binade.convert(model, policy="bf16-amp")
    assert "nodes, 1 of them narrow" in caplog.text
    assert "left in f32: node" in caplog.text and "Strange" in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"policy": "bf16-amq"}, "RejectedError", "bf16-amq"),
        ({"io_types": {"*": "f8"}}, "UsageError", "f32, f16 or bf16, got 'f8'"),
        ({"io_types": {"none": "f16"}}, "RejectedError", "none"),
        ({"loss_scale": 3.0}, "UsageError", "power of two .*, got 3.0"),
        ({"loss_scale": 2.0**200}, "UsageError", "to 2.100, got 1.6"),
        ({"loss_scale": 2.0, "dynamic_scale": True}, "UsageError", "exclude"),
        ({"model": b"nothing"}, "RejectedError", "model.onnx"),
        ({"model": 3}, "UsageError", "its bytes, got int"),
        ({"output": "/nowhere/out.onnx"}, "FileError", "/nowhere"),
    ],
)
def test_errors_raise_exceptions_with_messages(options, error, message):
    given = {"model": make_model(), "policy": "bf16-amp"} | options
    with pytest.raises(getattr(binade.errors, error), match=message):
        binade.convert(given.pop("model"), **given)
