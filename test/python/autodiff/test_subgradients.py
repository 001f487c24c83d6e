"""Compares gradients with PyTorch's at kinks, ties, poles, bounds and zeros.

test/data/make_subgradients.py recorded functions, the graphs that exporters write for them,
and the gradients that PyTorch computes in f32. docs/Gradients.md defines the conventions.
One model contains all cases; its loss is the sum of their losses.
"""

import json
import subprocess

import numpy as np
import pytest
from support.graphs import assign, opt
from support.paths import BUILD, ROOT
from support.reference import evaluate, safetensors

onnx = pytest.importorskip("onnx")

RECORDS = json.loads((ROOT / "test/data/subgradients.json").read_text())
KINDS = {"float32": "float", "int64": "int64", "bool": "bool"}
# Key of the expected gradients, by factor of the weights. Weights of 0 give gradients of 0,
# or NaN where PyTorch's is NaN.
EXPECTED = {1.0: "gradients", 0.0: "gradients_of_nothing"}
TOLERANCE = 4e-6


def read(record):
    return np.array(record["values"], record["type"]).reshape(record["shape"])


def write_part(record):
    """The nodes of a case, with a prefix to all names. Their loss is `part`."""
    tensors = {f"x{i}": x for i, x in enumerate(record["inputs"])}
    tensors |= record["others"] | {"weights": record["weights"]}
    declared = ", ".join(
        f"{KINDS[x['type']]}{x['shape'] or ''} {name}" for name, x in tensors.items()
    )
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 26]>
    g ({declared}) => (float part) {{
      {record["graph"]}
      weighted = Mul(y, weights)  part = ReduceSum <keepdims = 0> (weighted)
    }}""")
    metadata = dict(record["metadata"])
    if record["torch_op"]:
        metadata["pkg.torch.onnx.fx_node"] = (
            f"%a : call_function[target=torch.ops.aten.{record['torch_op']}](args = ())"
        )
    for node in model.graph.node:
        for key, value in metadata.items():
            node.metadata_props.add(key=key, value=value)
    return onnx.compose.add_prefix(model, record["name"].replace(" ", "_") + "/")


def write_model(path, records):
    """Writes one model of all cases; returns its inputs, and the parameters of each case."""
    parts = [write_part(record) for record in records]
    graph = onnx.GraphProto(name="g")
    inputs, parameters = {}, []
    for record, part in zip(records, parts):
        graph.node.extend(part.graph.node)
        graph.input.extend(part.graph.input)
        prefix = record["name"].replace(" ", "_") + "/"
        own = {f"{prefix}x{i}": read(x) for i, x in enumerate(record["inputs"])}
        parameters.append(list(own))
        inputs |= own | {prefix + k: read(x) for k, x in record["others"].items()}
        inputs[prefix + "weights"] = read(record["weights"])
    losses = [part.graph.output[0].name for part in parts]
    graph.node.append(onnx.helper.make_node("Sum", losses, ["loss"]))
    graph.output.append(onnx.helper.make_tensor_value_info("loss", 1, []))
    model = onnx.helper.make_model(graph, opset_imports=parts[0].opset_import)
    model.ir_version = 10
    trained = [name for names in parameters for name in names]
    init = {name: {"rule": "zeros"} for name in trained}
    for key, value in (("init", init), ("trainable", trained)):
        model.metadata_props.add(key=f"binade.{key}", value=json.dumps(value))
    onnx.save(model, path)
    return inputs, parameters


def run(*arguments):
    done = subprocess.run(
        [BUILD / "bin" / "binade", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def with_weights(inputs, factor):
    """Multiplies the weights by `factor`; the other inputs are unchanged."""
    return {
        name: value * np.float32(factor) if name.endswith("/weights") else value
        for name, value in inputs.items()
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subgradients")
    inputs, parameters = write_model(folder / "m.onnx", RECORDS)
    run("compile", folder / "m.onnx", "--to=autodiff", "-o", folder / "m.mlir")
    return folder, inputs, parameters


def evaluate_compiled(folder, inputs):
    safetensors.save(folder / "in.safetensors", inputs)
    run("interpret", folder / "m.mlir", "--backend", "cpu", "--inputs",
        folder / "in.safetensors", "--out", folder / "out.safetensors")  # fmt: skip
    return safetensors.load(folder / "out.safetensors")


@pytest.fixture(scope="module")
def gradients(model):
    """The gradients of all parameters, by backend and factor of the weights."""
    folder, inputs, _ = model
    text = (folder / "m.mlir").read_text()
    found = {}
    for factor in EXPECTED:
        given = with_weights(inputs, factor)
        found["interpreter", factor] = evaluate(text, given)
        found["cpu", factor] = evaluate_compiled(folder, given)
    return found


@pytest.mark.parametrize("index", range(len(RECORDS)), ids=lambda i: RECORDS[i]["name"])
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_gradients_match_pytorch(index, backend, model, gradients):
    _, _, parameters = model
    for factor, key in EXPECTED.items():
        for name, expected in zip(parameters[index], map(read, RECORDS[index][key])):
            finite = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
            found = gradients[backend, factor][name]
            np.testing.assert_allclose(
                found, expected, rtol=TOLERANCE, atol=TOLERANCE * finite,
                err_msg=f"gradient of {name} with weights times {factor}",
            )  # fmt: skip


@pytest.mark.parametrize("policy", ["bf16-amp", "bf16"])
def test_gradients_match_pytorch_in_16_bits(policy, model):
    folder, inputs, parameters = model
    step = opt(
        (folder / "m.mlir").read_text(),
        "--binade-append-optimizer=optimizer=sgd settings=lr=1 on-nonfinite=continue "
        "keep-gradients=true",
        assign(policy),
        "--binade-materialize-pipeline",
    )
    wrong = {}
    for factor, key in EXPECTED.items():
        found = evaluate(step, with_weights(inputs, factor))
        for record, names in zip(RECORDS, parameters):
            for name, expected in zip(names, map(read, record[key])):
                own = found[f"gradient/{name}"].astype(np.float64)
                scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
                with np.errstate(invalid="ignore"):
                    is_near = np.isclose(
                        own, expected, 0.02, 0.02 * scale, equal_nan=True
                    )
                if not is_near.all():
                    wrong[name, factor] = (own, expected)
    assert not wrong
