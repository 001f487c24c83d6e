"""ONNX's node tests with an axis of length 0, as onnxruntime computes them.

Of each test, and each length in its inputs, a variant in which that length is 0 wherever
it stands in an input. Where onnxruntime takes it, Binade imports it and has the same values,
but for what is listed.
"""

import os
import pickle
import re
import tempfile

import numpy as np
import onnx
import pytest
from support.onnx_nodes import (
    BinadeBackend,
    Refused,
    compare,
    find_inputs,
    load_tests,
    read_page,
    to_array,
)

PARTS = 16
TESTS = sorted(set(load_tests()) - set(read_page()))
# Where onnxruntime has other values, by names of tests.
OTHER_VALUES = {
    # The scale of nothing is that of zeros, not 1.
    r"dynamicquantizelinear",
    # A mean over nothing is NaN, as in numpy and PyTorch, not 0.
    r"layer_normalization.*_expanded|nllloss|sce_|group_normalization|mvn",
    r"reduce_mean",
    # A sum over nothing is 0, whose code is the zero point, not 0.
    r"qlinearmatmul|matmulinteger",
}
# Where onnxruntime has another shape than numpy: it keeps a reduced axis of length 0, and
# broadcasts leading axes of products over nothing to the left side's alone.
OTHER_SHAPES = r"reduce_\w*keep_?dims|matmul_bcast"
# What Binade says of models that onnxruntime takes.
REFUSALS = [
    # numpy and PyTorch refuse an extreme of nothing too.
    r"\(Arg(Max|Min)\): error: expected 1 to 2\^24 elements",
    # The standard wants other axes to be equal.
    r"\(Concat\): error: cannot join",
    r"'binade.conv_input_grad' op kernel reaches",
    r"\(QuantizeLinear\): error: expected scales above 0",
    r"\(DFT\): error: expected a dft_length of 1",
    r"\(Det\): error: expected square matrices of 1",
    r"\((RNN|GRU|LSTM)\): error: expected sequences of a step or more",
    # Inputs of one number, or one for each output, are not what the standard says.
    r"\((NonMaxSuppression|Split|GatherND)\): error: ",
]


def list_variants(test):
    arrays = test.data_sets[0][0]
    if any(isinstance(array, list) for array in arrays):
        return
    arrays = [to_array(array) for array in arrays]
    for length in sorted({n for array in arrays for n in array.shape} - {0}):
        yield [
            array[tuple(slice(0 if n == length else n) for n in array.shape)]
            for array in arrays
        ]


def set_shape(value, shape):
    value.type.tensor_type.ClearField("shape")
    value.type.tensor_type.shape.SetInParent()
    for length in shape:
        value.type.tensor_type.shape.dim.add().dim_value = length


def reshape_model(model, arrays):
    """The model for other shapes of its inputs; those of its outputs are not said."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    names = find_inputs(changed)
    for value in changed.graph.input:
        if value.name in names:
            set_shape(value, arrays[names.index(value.name)].shape)
    for value in changed.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del changed.graph.value_info[:]
    return changed


def run_peer(model, arrays):
    """What onnxruntime gives, or None where it gives nothing; some of these models end its
    process by a signal."""
    ort = pytest.importorskip("onnxruntime")
    with tempfile.NamedTemporaryFile() as file:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(2)
                session = ort.InferenceSession(
                    model.SerializeToString(), providers=["CPUExecutionProvider"]
                )
                names = [value.name for value in session.get_inputs()]
                results = session.run(None, dict(zip(names, arrays)))
                with open(file.name, "wb") as out:
                    pickle.dump(results, out)
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            return None
        results = pickle.load(file)
    return results if all(isinstance(one, np.ndarray) for one in results) else None


def find_difference(name, test, arrays):
    """What is wrong with a variant, or None."""
    model = reshape_model(test.model, arrays)
    expected = run_peer(model, arrays)
    if expected is None:
        return None
    for value, array in zip(model.graph.output, expected):
        if value.type.HasField("tensor_type") and not re.search(OTHER_SHAPES, name):
            set_shape(value, array.shape)
    try:
        found = BinadeBackend.prepare(model).run(arrays)
    except Refused as refused:
        known = any(re.search(form, str(refused)) for form in REFUSALS)
        return None if known else str(refused)
    if re.search(OTHER_SHAPES, name) or any(re.search(n, name) for n in OTHER_VALUES):
        return None
    try:
        for one, other in zip(found, expected, strict=True):
            compare(one, other, test.rtol, test.atol)
    except AssertionError as error:
        return re.sub(r"\s+", " ", str(error))[:300]
    return None


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_nodes_with_an_axis_of_length_0(part):
    tests, wrong = load_tests(), []
    for name in TESTS[part::PARTS]:
        for arrays in list_variants(tests[name]):
            if difference := find_difference(name, tests[name], arrays):
                shapes = [array.shape for array in arrays]
                wrong.append(f"{name} of {shapes}: {difference}")
    assert not wrong, "\n".join(wrong)


DAILY = ["test_hardmax_axis_0", "test_resize_downsample_scales_linear_align_corners",
         "test_maxunpool_export_without_output_shape", "test_gemm_default_matrix_bias",
         "test_einsum_batch_matmul", "test_gather_1", "test_scatternd_add", "test_conv_with_strides_padding",
         "test_softmax_axis_1", "test_cumsum_2d_axis_1", "test_top_k", "test_where_example", "test_edge_pad"]  # fmt: skip


@pytest.mark.parametrize("name", DAILY)
def test_some_nodes(name):
    test = load_tests()[name]
    wrong = [find_difference(name, test, arrays) for arrays in list_variants(test)]
    assert wrong and not any(wrong), wrong
