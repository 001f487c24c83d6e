"""Import rejects invalid operands and attributes with a message that says why."""

import pytest
from support.invalid_imports import TRANSLATE, check_rejected

pytestmark = pytest.mark.skipif(not TRANSLATE.exists(), reason="the tool is not built")

# Graph, flags, message. "opset N" before a graph replaces opset 20.
GRAPHS = {
    "unknown_attribute": (
        "g (float[2] x) => (float[2] y) { [n] y = Relu <slope = 1.0> (x) }",
        [],
        "m.onnx:node 'n' (Relu): error: attribute 'slope' is not known in opset 20",
    ),
    "too_few_inputs": (
        "g (float[2] x) => (float[2] y) { y = Add(x) }",
        [],
        "m.onnx:node 'Add_0' (Add): error: expected 2 inputs, got 1",
    ),
    "too_many_inputs": (
        "g (float[2] x) => (float[2] y) { y = Relu(x, x) }",
        [],
        "m.onnx:node 'Relu_0' (Relu): error: expected 1 inputs, got 2",
    ),
    "no_broadcast": (
        "g (float[2,3] x, float[4] z) => (float[2,3] y) { y = Add(x, z) }",
        [],
        "error: cannot broadcast 'tensor<2x3xf32>' and 'tensor<4xf32>' to one shape",
    ),
    "mixed_types": (
        "g (float[2] x, double[2] z) => (float[2] y) { y = Add(x, z) }",
        [],
        "error: expected inputs of one element type, got 'tensor<2xf32>' and "
        "'tensor<2xf64>'",
    ),
    "matmul_depth": (
        "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }",
        [],
        "error: cannot multiply 'tensor<2x3xf32>' and 'tensor<4x5xf32>'",
    ),
    "shape_of_data": (
        "g (float[2,3] x, int64[2] s) => (float[2,3] y) { y = Reshape(x, s) }",
        [],
        "error: shape 's' depends on the data; it has to be known when the model is "
        "imported",
    ),
    "reshape_to_other_count": (
        "g (float[2,3] x) => (float[4,2] y) <int64[2] s = {4, 2}> { y = Reshape(x, s) }",
        [],
        "error: cannot reshape 'tensor<2x3xf32>' to [4, 2]: the number of elements "
        "differs",
    ),
    "index_outside": (
        "g (float[2,3] x) => (float[3] y) <int64 i = {2}> { y = Gather(x, i) }",
        [],
        "error: index 2 is outside of axis 0 of 'tensor<2x3xf32>'",
    ),
    "axis_outside": (
        "g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 2> (x) }",
        [],
        "error: axis 2 is outside of a tensor of rank 2",
    ),
    "step_of_zero": (
        """g (float[4] x) => (float[4] y)
           <int64[1] s = {3}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] t = {0}> {
           y = Slice(x, s, e, a, t) }""",
        [],
        "error: expected steps other than 0 along axis 0",
    ),
    "split_sizes": (
        """g (float[4] x) => (float[1] y, float[2] z) <int64[2] s = {1, 2}> {
           y, z = Split(x, s) }""",
        [],
        "error: cannot split axis 0 of 'tensor<4xf32>' into [1, 2] for 2 outputs",
    ),
    "conv_channels": (
        "g (float[1,3,4,4] x, float[2,2,3,3] w) => (float[1,2,2,2] y) { y = Conv(x, w) }",
        [],
        "error: cannot convolve 'tensor<1x3x4x4xf32>' with 'tensor<2x2x3x3xf32>' in 1 "
        "groups",
    ),
    "window_too_large": (
        "g (float[1,1,2] x, float[1,1,3] w) => (float[1,1,1] y) { y = Conv(x, w) }",
        [],
        "error: has a window of 3 elements along axis 2, which has 2 with padding",
    ),
    "class_weights": (
        """g (float[2,3] x, int64[2] t, float[4] w) => (float loss) {
           loss = SoftmaxCrossEntropyLoss(x, t, w) }""",
        [],
        "error: expected a weight for each of 3 classes, got 'tensor<4xf32>'",
    ),
    "labels_of_other_shape": (
        """g (float[2,3] x, int64[3] t) => (float loss) {
           loss = SoftmaxCrossEntropyLoss(x, t) }""",
        [],
        "error: expected scores [N, C, ...] and integer labels [N, ...], got "
        "'tensor<2x3xf32>' and 'tensor<3xi64>'",
    ),
    "statistics_in_inference_mode": (
        """g (float[2,3] x, float[3] s) => (float[2,3] y, float[3] m) {
           y, m = BatchNormalization(x, s, s, s, s) }""",
        [],
        "error: output 'm' is used; statistics are outputs in training mode only",
    ),
    "dropout_ratio_of_data": (
        "g (float[2] x, float r) => (float[2] y) { y = Dropout(x, r) }",
        [],
        "error: ratio 'r' depends on the data; it has to be known when the model is "
        "imported",
    ),
    "dropout_ratio_of_one": (
        """g (float[2] x) => (float[2] y) <float r = {1.0}, bool t = {1}> {
           y = Dropout(x, r, t) }""",
        [],
        "error: expected a ratio in [0, 1), got 1",
    ),
    "attention_mask": (
        """opset 23 g (float[1,1,2,4] q, float[3,2] m) => (float[1,1,2,4] y) {
           y = Attention(q, q, q, m) }""",
        [],
        "error: expected a mask of bool or of 'f32' for scores [1, 1, 2, 2], got "
        "'tensor<3x2xf32>'",
    ),
    "attention_heads": (
        """opset 23 g (float[1,3,2,4] q, float[1,2,2,4] k) => (float[1,3,2,4] y) {
           y = Attention(q, k, k) }""",
        [],
        "error: has 3 heads of queries and 2 of keys, expected a multiple",
    ),
    "half_a_past": (
        """opset 23 g (float[1,1,2,4] q) => (float[1,1,2,4] y) {
           y = Attention(q, q, q, , q) }""",
        [],
        "error: has a past of keys or values, expected both",
    ),
    "division_by_zero": (
        "g (int64[2] x) => (int64[2] y) <int64 zero = {0}> { y = Div(x, zero) }",
        [],
        "error: divides by zero",
    ),
    "scatter_shapes": (
        """g (float[2,3] x, int64[2,4] i, float[2,3] u) => (float[2,3] y) {
           y = ScatterElements(x, i, u) }""",
        [],
        "error: cannot scatter 'tensor<2x3xf32>' to 'tensor<2x3xf32>' at "
        "'tensor<2x4xi64>' along axis 0",
    ),
    "more_than_there_are": (
        """g (float[3] x) => (float[4] y, int64[4] i) <int64[1] k = {4}> {
           y, i = TopK(x, k) }""",
        [],
        "error: cannot take [4] elements along axis 0 of 'tensor<3xf32>'",
    ),
    "padding_below_nothing": (
        "g (float[3] x) => (float[3] y) <int64[2] p = {-2, -2}> { y = Pad(x, p) }",
        [],
        "error: cannot pad axis 0 of 'tensor<3xf32>' by -2 and -2",
    ),
    "sequence_as_a_tensor": (
        "g (float[3] x) => (float[3] y) { s = SequenceConstruct(x)  y = Relu(s) }",
        [],
        "error: expected 's' to be a tensor, got a sequence",
    ),
    "tensor_as_a_sequence": (
        "g (float[3] x) => (float[3] y) <int64 i = {0}> { y = SequenceAt(x, i) }",
        [],
        "error: expected 'x' to be a sequence of tensors",
    ),
    "position_outside_a_sequence": (
        """g (float[3] x) => (float[3] y) <int64 i = {1}> {
           s = SequenceConstruct(x)  y = SequenceAt(s, i) }""",
        [],
        "error: expected a position within 1 tensors, got [1]",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name, tmp_path):
    check_rejected(*GRAPHS[name], tmp_path)
