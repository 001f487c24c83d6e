"""Predicted seconds of records: by hand from a table of costs, and against a measured GPU."""

import json

import pytest
from support.paths import ROOT
from support.reference import binade

onnx = pytest.importorskip("onnx")

COSTS = """
target: a machine for tests
launch: 1.0e-3
formats:
- { format: f32, products: 1.0e6, elements: 1.0e5 }
- { format: bf16, products: 4.0e6, elements: 2.0e5 }
"""
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[16, 32] x, float[16, 8] target) => (float loss)
  <float[32, 8] weight = {%s}> {
  y = MatMul(x, weight)
  difference = Sub(y, target)
  square = Mul(difference, difference)
  loss = ReduceMean<keepdims = 0>(square)
}
"""


def read(model, *words, costs):
    done = binade("inspect", model, "--ledger=ranks", "--costs", costs, *words)
    assert done.returncode == 0, done.stderr
    plan = binade("inspect", model, "--json", *words)
    return json.loads(done.stdout)["seconds"], json.loads(plan.stdout)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("times")
    found = onnx.parser.parse_model(GRAPH % ", ".join(["0.5"] * 256))
    found.metadata_props.add(key="binade.trainable", value='["weight"]')
    onnx.save(found, folder / "model.onnx")
    (folder / "costs.yaml").write_text(COSTS)
    return folder / "model.onnx"


def test_a_matmul_takes_start_bytes_and_products(model):
    """y: 16 x 8 sums of 32 products, 4,096 multiply-adds at 1e6 per second. Read and written:
    16 x 32, 32 x 8 and 16 x 8 elements at 1e5 per second. 1 ms to start."""
    seconds, plan = read(model, costs=model.with_name("costs.yaml"))
    assert seconds["target"] == "a machine for tests"
    assert (
        len(seconds["step"]) == len(plan["records"]) and seconds["accumulation"] == []
    )
    matmuls = [
        (time, record)
        for time, record in zip(seconds["step"], plan["records"])
        if record["kind"] == "matmul"
    ]
    elements = 16 * 32 + 32 * 8 + 16 * 8
    # The gradient of the weight multiplies the same numbers.
    assert len(matmuls) == 2
    for time, record in matmuls:
        assert record["m"] * record["n"] * record["k"] == 4096
        assert time == pytest.approx(1e-3 + 4096e-6 + elements * 1e-5, rel=1e-6)


def test_products_of_16_bits_have_their_own_rate(model):
    seconds, plan = read(
        model, "--policy", "bf16-amp", costs=model.with_name("costs.yaml")
    )
    [forward] = [
        time
        for time, record in zip(seconds["step"], plan["records"])
        if record["kind"] == "matmul" and (record["m"], record["k"]) == (16, 32)
    ]
    # bf16 operands have half of the bytes; the result may be f32 or bf16.
    least = 1e-3 + 4096 / 4e6 + (16 * 32 + 32 * 8 + 16 * 8) / 2 * 1e-5
    assert least <= forward * (1 + 1e-6) and forward <= least + 16 * 8 / 2 * 1.001e-5


@pytest.mark.parametrize(
    "name, text", [("nope", "unknown costs"), ("no.yaml", "no.yaml")]
)
def test_unknown_costs_are_named(model, name, text):
    done = binade("inspect", model, "--ledger=ranks", "--costs", name)
    assert done.returncode == 3 and text in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name, milliseconds", [("gpt2", 65.7), ("llama", 219.5)])
def test_steps_of_a_gpu_are_predicted(name, milliseconds):
    """Measured on an H100 in bf16-amp: benchmarks/gpu/results, of 2026-11-27."""
    path = ROOT / f"benchmarks/gpu/models/{name}.onnx"
    seconds, _ = read(
        path, "--policy", "bf16-amp", "--target", "cuda:sm_90", costs="sm_90"
    )
    assert 1e3 * sum(seconds["step"]) == pytest.approx(milliseconds, rel=0.1)
