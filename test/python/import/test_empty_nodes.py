"""ONNX's node tests with an axis of length 0, compared with onnxruntime.

For each test and each length in its inputs, a variant replaces that length with 0 in all
inputs. If onnxruntime runs the variant, Binade imports it and computes the same values,
except in the cases listed here.
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
# Names of tests for which onnxruntime computes other values. Comments say Binade's first.
OTHER_VALUES = {
    # The scale of a tensor without elements is that of zeros, not 1.
    r"dynamicquantizelinear",
    # The mean of no elements is NaN, as in numpy and PyTorch, not 0.
    r"layer_normalization.*_expanded|nllloss|sce_|group_normalization|mvn",
    r"reduce_mean",
    # The sum of no elements is 0, which is quantized to the zero point, not to 0.
    r"qlinearmatmul|matmulinteger",
    # Where there is nothing to multiply, the result is beta times C, not C.
    r"gemm_(beta|all_attributes)",
}
# Tests for which onnxruntime's shape differs from numpy's: it keeps a reduced axis of
# length 0, and broadcasts batch axes of empty contractions to those of the left side only.
OTHER_SHAPES = r"(reduce|argmax|argmin)_\w*keep_?dims|matmul_bcast"
# Errors of Binade for models that onnxruntime runs.
REFUSALS = [
    # numpy and PyTorch also reject the extreme of no elements.
    r"\(Arg(Max|Min)\): error: expected 1 to 2\^24 elements",
    # The standard requires other axes to be equal.
    r"\(Concat\): error: cannot join",
    r"'binade.conv_input_grad' op kernel reaches",
    r"\(QuantizeLinear\): error: expected scales above 0",
    r"\(DFT\): error: expected a dft_length of 1",
    r"\(Det\): error: expected square matrices of 1",
    r"\((RNN|GRU|LSTM)\): error: expected sequences of a step or more",
    # The standard requires inputs of one element, or of one per output.
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
    """Returns the model with new input shapes and without output shapes."""
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


def run_onnxruntime(model, arrays):
    """Returns the results of onnxruntime, or None if it fails. Runs it in a process of its
    own, because some of these models crash it."""
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
    """Describes how Binade differs from onnxruntime for a variant, or returns None."""
    model = reshape_model(test.model, arrays)
    expected = run_onnxruntime(model, arrays)
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
def test_selected_nodes_with_an_axis_of_length_0(name):
    test = load_tests()[name]
    wrong = [find_difference(name, test, arrays) for arrays in list_variants(test)]
    assert wrong and not any(wrong), wrong
