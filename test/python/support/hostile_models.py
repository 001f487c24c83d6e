"""Models that are damaged or hostile, and the error that Binade reports for each."""

import numpy as np
import onnx
from onnx import TensorProto, helper
from support.hostile import parse

RELU = "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"
ADD = "g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { y = Add(x, w) }"
IF = """g (bool c, float[2] x) => (float[2] y) { [n] y = If (c) <
  then_branch = t () => (float[2] a) { a = Relu(x) },
  else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
LOOP = """g (float[2] x) => (float[2] y) <int64 n = {{{0}}}, bool c = {{1}}> {{
  [n] y = Loop (n, c, x) <body =
    b (int64 i, bool go, float[2] a) => (bool go, float[2] a) {{ {1} }}> }}"""
SCAN = """g (float[2] x) => (float[2] y) {
  [n] y = Scan <num_scan_inputs = -9223372036854775808,
    body = b (float a) => (float r) { r = Neg(a) }> (x) }"""
LOOP_IN_LOOP = """z = Loop (n, go, a) <body =
    d (int64 j, bool on, float[2] e) => (bool on, float[2] e) { }>"""


def change(graph, edit, **options):
    """The model of a graph, after `edit`."""
    model = parse(graph, **options)
    edit(model)
    return model


def at_21(model):
    """A model of the first opset whose quantizers have blocks."""
    model.opset_import[0].version = 21
    return model


SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]),
    helper.make_tensor("i", TensorProto.INT64, [1], [1]),
    [2],
)


def nest(depth):
    """A graph in a branch of a node of a graph in ..., as bytes."""

    def field(number, content):
        size, length = len(content), b""
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    graph = b""
    for level in reversed(range(depth)):
        branch = field(1, b"then_branch") + field(6, graph)
        node = field(3, f"level{level}".encode()) + field(4, b"If") + field(5, branch)
        graph = field(1, node)
    return field(7, graph)


def nest_type(depth):
    """The type of sequences of sequences of ... of tensors."""
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    for _ in range(depth):
        kind = helper.make_sequence_type_proto(kind)
    return kind


CODES = "float8e4m3fn[4] w"
QUANTIZED = """g (float[4] x) => (float[4] y) <{} = {{1, 2, 3, 4}}, float s = {{1}}> {{
  [n] d = DequantizeLinear(w, s)  y = Add(x, d) }}"""
QUANTIZE = """g (float[4] x) => (int8[4] y) <float s = {1}, int8 z = {0}> {
  [n] y = QuantizeLinear(x, s, z) }"""


def with_scale(scale, graph=None):
    """A graph with another scale 's'."""
    model = parse(graph or QUANTIZED.format("int8[4] w"))
    (tensor,) = (one for one in model.graph.initializer if one.name == "s")
    tensor.float_data[:] = [scale]
    return model


def with_code(code):
    """A graph with 8-bit floats, one of which has the bits `code`."""
    model = parse(QUANTIZED.format(CODES))
    (tensor,) = (one for one in model.graph.initializer if one.name == "w")
    tensor.ClearField("int32_data")
    tensor.raw_data = bytes([0x38, 0x40, code, 0x44])
    return model


def with_tensor(**fields):
    """ADD with other fields in its initializer 'w'."""

    def edit(model):
        tensor = model.graph.initializer[0]
        for name in ("float_data", "raw_data", *fields):
            tensor.ClearField(name)
        for name, value in fields.items():
            if isinstance(value, (list, tuple)):
                getattr(tensor, name).extend(value)
            else:
                setattr(tensor, name, value)

    return change(ADD, edit)


def one_node(op, inputs="float[4,4] x", names="x", **attributes):
    """A graph of one node 'n'."""
    model = parse(f"g ({inputs}) => (float[4,4] y) {{ [n] y = {op}({names}) }}")
    model.graph.node[0].attribute.extend(
        helper.make_attribute(name, value) for name, value in attributes.items()
    )
    model.graph.output[0].type.Clear()
    return model


def conv(**attributes):
    return one_node("Conv", "float[1,2,4,4] x, float[2,2,3,3] w", "x, w", **attributes)


def fold(shape, rest):
    """A graph of ops on a constant of `shape` that repeats one value."""
    count = len(shape)
    sizes = ",".join(map(str, shape))
    return f"g (float[4] x) => (float y) <int64[{count}] s = {{{sizes}}}> {{ c = ConstantOfShape(s) {rest} y = ReduceSum<keepdims = 0>(r) }}"


def function_cycle(model):
    model.opset_import.add(domain="l", version=1)
    for name, other in ("f", "g"), ("g", "f"):
        model.functions.append(
            helper.make_function(
                "l", name, ["x"], ["y"],
                [helper.make_node(other, ["x"], ["y"], domain="l")],
                [helper.make_opsetid("", 20), helper.make_opsetid("l", 1)],
            )
        )  # fmt: skip
    model.graph.node[0].op_type, model.graph.node[0].domain = "f", "l"


def hide(model):
    """A body whose initializer has the name of an outer value."""
    body = model.graph.node[0].attribute[0].g
    body.initializer.append(helper.make_tensor("x", 1, [2], [1.0, 2.0]))


def bomb(model):
    """Thirty functions, each of which calls the next twice."""
    model.opset_import.add(domain="l", version=1)
    for depth in range(30):
        inner = ("Neg", "") if depth == 29 else (f"f{depth + 1}", "l")
        nodes = [helper.make_node(inner[0], [a], [b], domain=inner[1])
                 for a, b in ("xt", "ty")]  # fmt: skip
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("l", 1)]
        function = helper.make_function("l", f"f{depth}", ["x"], ["y"], nodes, opsets)
        model.functions.append(function)
    # Names of all inner nodes contain this name.
    model.graph.node[0].name = "n" * 100_000
    model.graph.node[0].op_type, model.graph.node[0].domain = "f0", "l"


def repeat(field):
    return lambda model: getattr(model.graph, field).append(
        getattr(model.graph, field)[0]
    )


# Number of the case and name: the model, the exit code, words of the message.
CASES = {
    "1 empty": (b"", 3, "m.onnx: error: expected an ONNX model, got an empty file"),
    "3 random": (np.random.default_rng(0).bytes(999), 3, "the bytes cannot be parsed"),
    "3 png": (b"\x89PNG\r\n\x1a\n" + bytes(60), 3, "got a PNG image"),
    "3 gzip": (b"\x1f\x8b\x08\x00" + bytes(60), 3, "got a gzip file"),
    "3 safetensors": (b"\x09" + bytes(7) + b'{"a": {}}' + bytes(60), 3, "got a safetensors file"),
    "5 deep": (nest(100), 3, ["m.onnx: error: has graphs nested deeper than 32 levels", "note: node 'level0' (If) holds node 'level1' (If) holds"]),
    "5 types": (change(RELU, lambda m: m.graph.input[0].type.CopyFrom(nest_type(60))).SerializeToString(), 3, "the bytes cannot be parsed as one (damaged, cut short, or nested deeper"),
    "6 names": (
        change(RELU, lambda m: m.graph.node[0].__setattr__("op_type", "\x1b[2J\n\0é")),
        3, "\\x1b[2J",
    ),
    "8 ir version 0": (parse(RELU, ir=0), 3, "IR version 0"),
    "8 ir version 999": (parse(RELU, ir=999), 3, "IR version 999"),
    "8 no opset": (change(RELU, lambda m: m.ClearField("opset_import")), 3, "imports no ONNX operator set"),
    "8 two versions": (
        change(RELU, lambda m: m.opset_import.add(domain="ai.onnx", version=13)), 3,
        "imports opset 20 and 13",
    ),
    "9 opset 99": (parse(RELU, opset=99), 3, "the model uses ONNX opset 99, supported are 1 to"),
    "10 unknown ops": ("g (float[2] x) => (float[2] y) { a = No(x) b = No(a) y = Thing(b) }", 3, "No (2), Thing (1)"),
    "11 if": (IF, 3, "node 'n' (If): error: condition 'c' depends on the data"),
    "11 loop": (LOOP.format(2**40, ""), 3, "node 'n' (Loop): error: runs so many iterations"),
    "11 nested loops": (LOOP.format(2**40, LOOP_IN_LOOP), 3, "error: runs so many iterations"),
    "16 hidden": (change(LOOP.format(2, "s = Relu(a)"), hide), 3, "initializer 'x' of 'body' has the name of a value of an enclosing graph"),
    "11 recursive functions": (change(RELU, function_cycle), 3, "calls functions more than"),
    "12 cycle": ("g (float[2] x) => (float[2] y) { [a] p = Add(x, q) [b] q = Neg(p) y = Relu(q) }", 3, "depends on its own result, through 2 nodes"),
    "13 undefined": ("g (float[2] x) => (float[2] y) <float[2] weight = {1, 2}> { [n] y = Add(x, weigth) } ", 3, "m.onnx:node 'n' (Add): error: reads 'weigth', which nothing defines; did you mean 'weight'?"),
    "14 no initializer": (change(ADD, lambda m: m.graph.ClearField("initializer")), 3, "reads 'w', which nothing defines"),
    "15 value": ("g (float[2] x) => (float[2] y) { y = Relu(x) [n] y = Neg(x) }", 3, ["m.onnx:node 'n' (Neg): error: defines 'y' a second time", "note: node 'Relu_0' (Relu) defines it first"]),
    "15 input": ("g (float[2] x) => (float[2] x) { [n] x = Neg(x) }", 3, ["m.onnx:node 'n' (Neg): error: defines 'x' a second time", "'x' is an input or an initializer"]),
    "15 initializers": (change(ADD, repeat("initializer")), 3, "m.onnx:initializer 'w': error: is defined twice"),
    "15 inputs": (change(ADD, repeat("input")), 3, "m.onnx:input 'x': error: is defined twice"),
    "15 outputs": (change(ADD, repeat("output")), 3, "m.onnx:output 'y': error: is listed twice"),
    "17 few": ("g (float[2] x) => (float[2] y) { [n] y = Add(x) }", 3, "node 'n' (Add): error: expected 2 inputs, got 1"),
    "17 of a list": ("g (float[2] x) => (float[2] y) { [n] y = Max(x, , x) }", 3, "node 'n' (Max): error: expected 1 or more inputs, got 3 of which 1 is left out"),
    "17 many": ("g (float[2] x) => (float[2] y) { [n] y = Relu(x, x) }", 3, "node 'n' (Relu): error: expected 1 inputs, got 2"),
    "17 outputs": ("g (float[2] x) => (float[2] y, float[2] z) { [n] y, z = Relu(x) }", 3, "node 'n' (Relu): error: has no output 1"),
    "18 type": (one_node("Softmax", axis=1.5), 3, "attribute 'axis' is of type FLOAT, expected INT"),
    "18 type of required": (one_node("Cast", to=1.5), 3, "node 'n' (Cast): error: attribute 'to'"),
    "18 twice": (change(RELU.replace("Relu(x)", "Elu<alpha = 1.0>(x)"), lambda m: m.graph.node[0].attribute.append(m.graph.node[0].attribute[0])), 3, "attribute 'alpha' is given twice"),
    "19 kernel": (conv(kernel_shape=[0, 0]), 3, "node 'n' (Conv): error: attribute 'kernel_shape': expected 2 numbers from 1 to 2^31 for 'tensor<1x2x4x4xf32>', got [0, 0]"),
    "19 strides": (conv(strides=[0, 1]), 3, "attribute 'strides': expected 2 numbers from 1 to 2^31 for 'tensor<1x2x4x4xf32>', got [0, 1]"),
    "19 dilations": (conv(dilations=[-1, 1]), 3, "attribute 'dilations': expected 2 numbers from 1 to 2^31 for 'tensor<1x2x4x4xf32>', got [-1, 1]"),
    "19 pads": (conv(pads=[2**62] * 4), 3, "attribute 'pads': expected 4 numbers from 0 to 2^31 for 'tensor<1x2x4x4xf32>', got [4611686018427387904, 46"),
    "19 many": (conv(strides=[1, 1, 1]), 3, "attribute 'strides': expected 2 numbers from 1 to 2^31 for 'tensor<1x2x4x4xf32>', got [1, 1, 1]"),
    "19 group": (conv(group=0), 3, "in 0 groups"),
    "19 axis": (one_node("Softmax", axis=999), 3, "axis 999 is outside of a tensor of rank 2"),
    "19 perm": (one_node("Transpose", perm=[0, 0]), 3, "perm"),
    "19 perm far": (one_node("Transpose", perm=[0, 2**40]), 3, "perm"),
    "19 split": ("g (float[4] x) => (float[1] y, float[2] z) <int64[2] s = {9223372036854775807, 9223372036854775807}> { [n] y, z = Split(x, s) }", 3, "node 'n' (Split): error: cannot split axis 0"),
    "19 blocksize": (one_node("DepthToSpace", "float[1,4,2,2] x", blocksize=0), 3, "blocksize"),
    "19 scanned": (SCAN, 3, "node 'n' (Scan): error: scans -9223372036854775808 of 1 inputs"),
    "19 block": (at_21(one_node("QuantizeLinear", "float[4] x, float[4] s", "x, s", axis=0, block_size=-2, output_dtype=3)), 3, "node 'n' (QuantizeLinear): error: expected a block_size of 0 or more, got -2"),
    "19 block back": (at_21(one_node("DequantizeLinear", "int8[4] x, float[4] s", "x, s", axis=0, block_size=-2)), 3, "node 'n' (DequantizeLinear): error: expected a block_size of 0 or more, got -2"),
    "22 no steps": ("g (float[0,3,2] x, float[1,12,2] w, float[1,12,3] r) => (float[1,3,3] y) { [n] s, y = LSTM<hidden_size = 3>(x, w, r) }", 3, "node 'n' (LSTM): error: expected sequences of a step or more, got 'tensor<0x3x2xf32>'"),
    "19 epsilon": (one_node("LayerNormalization", "float[2,4] x, float[4] s", "x, s", epsilon=float("nan")), 3, "epsilon"),
    "20 product": (with_tensor(dims=[2**40, 2**40]), 3, "initializer 'w': error: has more than 2^48 elements"),
    "20 negative": (with_tensor(dims=[-4]), 3, "initializer 'w': error: has a dimension of negative length -4"),
    "20 input": ("g (float[4611686018427387904,2] x) => (float[2] y) { y = Relu(x) }", 3, "input 'x': error: has more than 2^48 elements"),
    "20 computed": ("g (float[1099511627776,1] x, float[1,1099511627776] z) => (float[2] y) { [n] y = Add(x, z) }", 3, "node 'n' (Add): error: has more than 2^48 elements"),
    "22 rank": (change(RELU, lambda m: m.graph.input[0].type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=1)] * 31)), 3, "input 'x': error: has 33 axes; at most 32 are supported"),
    "23 raw": (with_tensor(raw_data=b"12345"), 3, "initializer 'w': error: holds 5 bytes of data"),
    "23 both": (with_tensor(raw_data=bytes(16), float_data=[1.0] * 4), 3, "initializer 'w': error: has data in more than one of raw_data"),
    "23 bits": (with_tensor(data_type=TensorProto.BFLOAT16, int32_data=[1, 2, 3, 70000]), 3, "initializer 'w': error: holds 70000"),
    "24 string": (with_tensor(data_type=TensorProto.STRING, string_data=[b"a"] * 4), 3, "element type string is not supported"),
    "24 number": (with_tensor(data_type=77), 3, "element type number 77 is not supported"),
    "24 undefined": (with_tensor(data_type=0), 3, "element type undefined is not supported"),
    "25 sparse": (change(ADD, lambda m: m.graph.sparse_initializer.append(SPARSE)), 3, "sparse initializers are not supported"),
    "26 value info": (
        change("g (float[2,3] x) => (float[2,3] y) { [n] h = Relu(x) y = Neg(h) }", lambda m: m.graph.value_info.append(helper.make_tensor_value_info("h", 1, [3, 2]))),
        3, "value 'h': error: is computed as 'tensor<2x3xf32>', but declared as FLOAT [3, 2]",
    ),
    "26 output": ("g (float[2,3] x) => (float[3,2] y) { y = Relu(x) }", 3, "output 'y': error: is computed as 'tensor<2x3xf32>', but declared as FLOAT [3, 2]"),
    "28 training info": (change(RELU, lambda m: m.training_info.add().initialization.node.add()), 3, "training"),
    "30 functions": (change(RELU, bomb), 3, "and those before it take more than 128 MiB with all functions inlined"),
    "30 list": (fold([2**40], "r = ConstantOfShape(c2)").replace("r =", "c2 = Cast<to = 7>(c) r ="), 3, "node "),
    "30 gather": ("g (float[4] x) => (float y) <int64[1] s = {1099511627776}> { c = ConstantOfShape<value = int64[1] {0}>(s) r = Gather(x, c) y = ReduceSum<keepdims = 0>(r) }", 3, "has 1099511627776 elements for indices"),
    "32 scale 0": (with_scale(0.0), 3, "node 'n' (DequantizeLinear): error: expected scales above 0, got 0 as element 0 of 's'"),
    "32 scale -1": (with_scale(-1.0), 3, "node 'n' (DequantizeLinear): error: expected scales above 0, got -1"),
    "32 scale nan": (with_scale(float("nan")), 3, "node 'n' (DequantizeLinear): error: expected scales above 0, got nan"),
    "32 scale inf": (with_scale(float("inf"), QUANTIZE), 3, "node 'n' (QuantizeLinear): error: expected scales above 0, got inf"),
    "32 code": (with_code(0x7F), 3, "node 'n' (DequantizeLinear): error: expected finite quantized values, but element 2 of 'w' is NaN"),
    "30 range": ("g (float[4] x) => (float y) <int64 a = {0}, int64 b = {9223372036854775807}, int64 d = {1}> { [n] r = Range(a, b, d) y = ReduceSum(x) z = Cast<to = 1>(r) y2 = ReduceSum(z) }".replace("(float y)", "(float y2)").replace("y = ReduceSum(x)", ""), 3, "node 'n' (Range)"),
}  # fmt: skip
# Models that are unusual but valid, and the flag of the command that reads them.
ACCEPTED = {
    "12 unsorted": "g (float[2] x) => (float[2] y) { y = Relu(a) a = Neg(x) }",
    "17 optional": "g (float[4] x, float hi) => (float[4] y) { y = Clip(x, , hi) }",
    "22 empty": "g (float[0,3] x) => (float[0,3] y) { y = Relu(x) }",
    "22 scalar": "g (float x) => (float y) { y = Relu(x) }",
    "32 scale and codes": with_code(0x48),
    "30 concat": fold([2**40], "r = Concat<axis = 0>(c, c)"),
    "30 tile": fold([2**20, 2**20], "r = MatMul(c, c)"),
    "30 expand": fold(
        [1], "e = Constant<value = int64[2] {16777216, 16777216}>() r = Expand(c, e)"
    ),
}
