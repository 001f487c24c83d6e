"""The importer finds the padding rows of embeddings in exported models, or warns."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from support.reference import binade as run

# The metadata that torch.onnx.export(dynamo=True) writes.
CALL = (
    "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default]"
    "(args = (%w, %x, {}), kwargs = {{}})"
)


def write_table(folder, table, metadata=None):
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (int64[3] x) => (float loss) {
      rows = Gather(w, x)  loss = ReduceSum <keepdims = 0> (rows)
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "w"))
    for key, value in (metadata or {}).items():
        model.graph.node[0].metadata_props.add(key=key, value=value)
    onnx.save(model, folder / "m.onnx")
    onnx.external_data_helper.load_external_data_for_model(model, str(folder))
    onnx.save(
        model, folder / "m.onnx", save_as_external_data=True, size_threshold=0,
        location="m.data", convert_attribute=True,
    )  # fmt: skip
    return folder / "m.onnx"


TABLE = np.arange(12, dtype=np.float32).reshape(4, 3) + 1


def with_zeros(*rows):
    table = TABLE.copy()
    table[list(rows)] = 0
    return table


@pytest.mark.parametrize("metadata, padding", [
    ({}, None),
    ({"binade.padding_idx": "1"}, 1),
    ({"binade.padding_idx": "-3"}, 1),
    ({"pkg.torch.onnx.fx_node": CALL.format(1)}, 1),
    ({"pkg.torch.onnx.fx_node": CALL.format(-1)}, None),
    ({"pkg.torch.onnx.fx_node": CALL.format(9)}, None),
])  # fmt: skip
def test_the_padding_row_is_imported(metadata, padding, tmp_path):
    model = write_table(tmp_path, TABLE, metadata)
    done = run("import", model, "-o", tmp_path / "m.mlir")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "m.mlir").read_text()
    expected = (
        f"binade.padding_idx = {metadata.get('binade.padding_idx', padding)} : i64"
    )
    assert (expected in written) == (padding is not None)


@pytest.mark.parametrize("value", ["4", "-5", "one", "1.0"])
def test_an_invalid_padding_row_is_rejected(value, tmp_path):
    model = write_table(tmp_path, TABLE, {"binade.padding_idx": value})
    done = run("import", model, "-o", tmp_path / "m.mlir")
    assert done.returncode == 3
    assert (
        f"'binade.padding_idx' = '{value}', expected an index of one of the 4 rows"
        in (done.stderr)
    )


def test_scale_grad_by_freq_causes_a_warning(tmp_path):
    line = CALL.format("-1, True")
    model = write_table(tmp_path, TABLE, {"pkg.torch.onnx.fx_node": line})
    done = run("import", model, "-o", tmp_path / "m.mlir")
    assert done.returncode == 0 and "exported with scale_grad_by_freq" in done.stderr


@pytest.mark.parametrize("table, metadata, row", [
    (with_zeros(0), {}, 0),
    (with_zeros(3), {}, 3),
    (TABLE, {}, None),
    (with_zeros(0, 1), {}, None),
    (with_zeros(0, 1, 2, 3), {}, None),
    (with_zeros(0), {"binade.padding_idx": "0"}, None),
    (with_zeros(0), {"pkg.torch.onnx.fx_node": CALL.format(-1)}, None),
])  # fmt: skip
def test_a_single_row_of_zeros_causes_a_remark(table, metadata, row, tmp_path):
    done = run(
        "import", write_table(tmp_path, table, metadata), "-o", tmp_path / "m.mlir"
    )
    assert done.returncode == 0, done.stderr
    remark = f"has zeros in row {row} only, as with padding_idx in PyTorch"
    assert (
        remark in done.stderr if row is not None else "padding_idx" not in done.stderr
    )
