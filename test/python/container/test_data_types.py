"""Data of another type than the input of the model: values that the input represents exactly
are accepted, others are rejected by name. The loss of a step is compared with numpy's."""

import json

import ml_dtypes
import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

BF16 = ml_dtypes.bfloat16
SHAPE = (4, 6)
WEIGHT = np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3)
INPUTS = {
    "F32": onnx.TensorProto.FLOAT, "F16": onnx.TensorProto.FLOAT16,
    "BF16": onnx.TensorProto.BFLOAT16, "F64": onnx.TensorProto.DOUBLE,
    "U8": onnx.TensorProto.UINT8, "I8": onnx.TensorProto.INT8,
    "U16": onnx.TensorProto.UINT16, "I32": onnx.TensorProto.INT32,
    "I64": onnx.TensorProto.INT64, "BOOL": onnx.TensorProto.BOOL,
}  # fmt: skip
TYPES = {name: safetensors.DTYPES[name] for name in (
    "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "BF16", "F32", "F64",
    "BOOL",
)}  # fmt: skip
# Significant bits.
FLOATS = {"F16": 11, "BF16": 8, "F32": 24, "F64": 53}


def holds(wanted, given, values):
    """Whether the input type `wanted` accepts `values` of type `given`, as documented."""
    if wanted == given:
        return True
    if "BOOL" in (wanted, given):
        return False
    if wanted in FLOATS and given in FLOATS:
        return wanted != "F16" and FLOATS[given] < FLOATS[wanted]
    if wanted in FLOATS:
        bits = np.iinfo(TYPES[given]).bits - (given[0] == "I")
        return bits <= FLOATS[wanted]
    if given in FLOATS:
        return False
    limits = np.iinfo(TYPES[wanted])
    return all(limits.min <= int(value) <= limits.max for value in values.flat)


def write_model(path, kind):
    """Writes a model whose loss is the mean square of cast(x) / 255 @ w."""
    tensor = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "k"], ["g"]),
        helper.make_node("MatMul", ["g", "w"], ["p"]),
        helper.make_node("Mul", ["p", "p"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["loss"], keepdims=0),
    ]
    weights = {"k": np.float32(1 / 255), "w": WEIGHT}
    graph = helper.make_graph(
        nodes, "g", [tensor("x", kind, SHAPE)],
        [tensor("loss", onnx.TensorProto.FLOAT, ())],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    model.metadata_props.add(key="binade.trainable", value='["w"]')
    onnx.save(model, path)


def draw(given, low, high):
    values = np.random.default_rng(3).integers(low, high, SHAPE)
    return values.astype(TYPES[given])


def train(folder, values):
    safetensors.save(folder / "d.safetensors", {"x": values})
    done = binade("train", folder / "m.onnx", "--data", folder / "d.safetensors",
                  "--order", "sequential", "--steps", 1, "--out", folder / "run")  # fmt: skip
    if done.returncode:
        assert not (folder / "run").exists()
        return done, None
    (line,) = (folder / "run/metrics.jsonl").read_text().splitlines()
    for path in (folder / "run").iterdir():
        path.unlink()
    (folder / "run").rmdir()
    return done, json.loads(line)["loss"]


@pytest.mark.parametrize("wanted", INPUTS)
def test_data_types_that_convert_exactly_are_accepted(wanted, tmp_path):
    write_model(tmp_path / "m.onnx", INPUTS[wanted])
    taken = set()
    for given in TYPES:
        # Small values fit into every integer type, large ones need more bits.
        bits = {"U8": 8, "I8": 7, "U16": 16, "I16": 15, "F16": 10}.get(given, 20)
        least = 0 if given in ("BOOL", *(t for t in TYPES if t[0] == "U")) else -5
        for low, high in ((0, 2), (least, 100), (2 ** (bits - 1), 2**bits)):
            values = draw(given, low, high)
            done, loss = train(tmp_path, values)
            if not holds(wanted, given, values):
                assert done.returncode == 3, (given, high)
                assert "tensor 'x': error: " in done.stderr
                assert f"type {given}" in done.stderr or "does not hold" in done.stderr
                continue
            assert done.returncode == 0, (given, high, done.stderr)
            x = values.astype(np.float64) / 255
            assert loss == pytest.approx(np.mean((x @ WEIGHT) ** 2), rel=1e-5)
            taken.add(given)
    assert wanted in taken and ("U8" in taken or wanted in ("I8", "BOOL"))


def test_the_element_that_does_not_fit_is_named(tmp_path):
    write_model(tmp_path / "m.onnx", INPUTS["U8"])
    values = np.arange(24).reshape(SHAPE)
    values[2, 1] = -1
    done, _ = train(tmp_path, values)
    assert ("d.safetensors:tensor 'x': error: element 13 is -1, which input 'x' of type "
            "U8 does not hold") in done.stderr  # fmt: skip
