"""`torch-*` policies choose the formats that PyTorch's autocast chooses, op by op.

PyTorch's formats were recorded by data/make_autocast_dtypes.py.
"""

import json
import re
import subprocess
import sys

import pytest
from support.paths import BUILD, ROOT
from support.reference import binade

OPT = BUILD / "bin" / "binade-opt"
RECORDS = json.loads((ROOT / "test/data/autocast-dtypes.json").read_text())
POLICIES = [policy for policy in RECORDS if policy != "torch"]
#: Intended differences; the comments in the policies give the reasons.
DIFFERENT = {
    (policy, op, "narrow")
    for policy in ("torch-cuda-bf16", "torch-cuda-fp16")
    for op in ("cross_entropy", "cross_entropy_grad")
} | {("torch-cpu-bf16", "rms_norm", "narrow")}

X, LABELS, MASK = "tensor<4x8xf32>", "tensor<4xi64>", "tensor<4x8xi1>"
ROWS, COLUMNS, FLAT = "tensor<4xf32>", "tensor<8xf32>", "tensor<32xf32>"
IMAGE, KERNEL = "tensor<1x2x4x4xf32>", "tensor<2x2x1x1xf32>"
HEADS, QUERIES = "tensor<1x2x4x8xf32>", "tensor<1x2x4xf32>"
GEOMETRY = (
    "strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>, padding_high = "
    "array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64"
)
BATCH = "epsilon = 1.0e-5 : f64, axis = 1 : i64"
SCALE, IGNORED = "scale = 1.0 : f64", "ignore_index = -100 : i64"
BOX = "offsets = array<i64: 0, 1>, strides = array<i64: 1, 1>"
DROPOUT = "ratio = 0.5 : f64, stream = 0 : i64"

UNARY = "neg abs sign exp log sqrt reciprocal tanh erf sigmoid relu gelu silu softmax "
UNARY += "log_softmax"
BINARY = "add sub mul div pow max min"
# Operands, types of operands, types of results, attributes. The formats of $0 and so on
# vary, $y is the result of the op, $dy its gradient; operands with % keep their format.
FORWARD = {
    **{op: ("$0", [X], [X], "") for op in UNARY.split()},
    **{op: ("$0 $1", [X, X], [X], "") for op in BINARY.split()},
    "compare": ("$0 $1", [X, X], [MASK], "comparison = #binade.comparison<less>"),
    "select": ("%m $0 $1", [MASK, X, X], [X], ""),
    "matmul": ("$0 $1", [X, "tensor<8x4xf32>"], ["tensor<4x4xf32>"], ""),
    "conv": ("$0 $1", [IMAGE, KERNEL], [IMAGE], GEOMETRY),
    "attention": ("$0 $1 $2", [HEADS] * 3, [HEADS, QUERIES], SCALE),
    "layer_norm": (
        "$0 %s %b", [X, COLUMNS, COLUMNS], [X, ROWS, ROWS], "epsilon = 1.0e-5 : f64",
    ),
    "rms_norm": ("$0 %s", [X, COLUMNS], [X, ROWS], "epsilon = 1.0e-5 : f64"),
    "batch_norm": ("$0 %s %b %m %v", [X] + [COLUMNS] * 4, [X], BATCH + ", training"),
    "cross_entropy": ("$0 %l", [X, LABELS], 3 * [ROWS], IGNORED),
    "gather": ("$0 %i", [X, LABELS], [X], ""),
    "dropout": ("$0 %r", [X, "tensor<2xi64>"], [X], DROPOUT),
    "reduce_sum": ("$0", [X], [ROWS], "axes = array<i64: 1>"),
    "reduce_mean": ("$0", [X], [ROWS], "axes = array<i64: 1>"),
    "reduce_max": ("$0", [X], [ROWS], "axes = array<i64: 1>"),
    "reshape": ("$0", [X], [FLAT], ""),
    "transpose": ("$0", [X], ["tensor<8x4xf32>"], "permutation = array<i64: 1, 0>"),
    "broadcast": ("$0", [X], ["tensor<2x4x8xf32>"], "axes = array<i64: 1, 2>"),
    "slice": ("$0", [X], ["tensor<4x2xf32>"], BOX),
    "pad": ("$0", [X], ["tensor<4x10xf32>"], BOX),
    "concat": ("$0 $1", [X, X], ["tensor<8x8xf32>"], "axis = 0 : i64"),
}  # fmt: skip
BACKWARD = {
    "matmul": ("$dy $1", ["tensor<4x4xf32>", "tensor<8x4xf32>"], [X], "transpose_rhs"),
    "conv_input_grad": ("$dy $1", [IMAGE, KERNEL], [IMAGE], GEOMETRY),
    "conv_weight_grad": ("$dy $0", [IMAGE, IMAGE], [KERNEL], GEOMETRY),
    "attention_grad": ("$dy $0 $1 $2 $y %l", [HEADS] * 5 + [QUERIES], [HEADS] * 3, SCALE),
    "relu_grad": ("$dy $y", [X, X], [X], ""),
    "gelu_grad": ("$dy $0", [X, X], [X], ""),
    "silu_grad": ("$dy $0", [X, X], [X], ""),
    "softmax_grad": ("$dy $y", [X, X], [X], ""),
    "log_softmax_grad": ("$dy $y", [X, X], [X], ""),
    "layer_norm_grad": ("$dy $0 %s %m %r", [X, X, COLUMNS, ROWS, ROWS], [X], ""),
    "layer_norm_param_grad": ("$dy $0 %m %r", [X, X, ROWS, ROWS], [COLUMNS] * 2, ""),
    "batch_norm_grad": (
        "$dy $0 %s %m %v %ds %db", [X, X] + [COLUMNS] * 5, [X], BATCH + ", training",
    ),
    "batch_norm_param_grad": (
        "$dy $0 %m %v", [X, X, COLUMNS, COLUMNS], [COLUMNS] * 2, BATCH,
    ),
    "cross_entropy_grad": ("%d $0 %l %e %f", [ROWS, X, LABELS, ROWS, ROWS], [X], IGNORED),
    "gather_grad": ("$dy %i", [X, LABELS], [X], ""),
    "reduce_sum": ("$dy", ["tensor<2x4x8xf32>"], [X], "axes = array<i64: 0>"),
}  # fmt: skip


def make_step(op, call, formats, phase):
    """A step with one op whose operands are results of ops pinned to `formats`."""
    operands, types, results, attributes = call
    body, names, arguments = [], [], ["%found_inf: tensor<i1>"]
    for operand, tensor in zip(operands.split(), types, strict=True):
        name = f"%{operand[1:]}"
        names.append(name)
        if operand[0] == "$":
            narrow = formats[operand[1:]]
            pin = f"#binade.precision<compute = {narrow}, result = {narrow}>"
            name, given = f"%given_{operand[1:]}", name
            body.append(
                f"{given} = binade.neg {name} {{precision = {pin}}} : ({tensor}) -> {tensor}"
            )
        arguments.append(f"{name}: {tensor}")
    attributes = f"{attributes}, " if attributes else ""
    body.append(
        f"%result:{len(results)} = binade.{op} {', '.join(names)} "
        f"{{{attributes}binade.phase = #binade.phase<{phase}>}}"
        f" : ({', '.join(types)}) -> ({', '.join(results)})"
    )
    body.append("return %found_inf : tensor<i1>")
    metric = 'binade.name = "found_inf", binade.role = #binade.role<metric>'
    return (
        f"func.func @step({', '.join(arguments)}) -> (tensor<i1> {{{metric}}}) {{\n"
        + "\n".join(body)
        + "\n}\n"
    )


def choose(policy, steps):
    """For the one op of each step that is not pinned: the format in which it computes, and
    the format of its first result."""
    done = subprocess.run(
        [OPT, "-", "--split-input-file", f"--binade-assign-precision=policy={{{policy}}}",
         "--binade-materialize-precision"],
        input="// -----\n".join(steps), capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = []
    for step in done.stdout.split("// -----"):
        (line,) = (line for line in step.splitlines() if ', rule = "' in line)
        compute = re.search(r"#binade\.precision<compute = (\w+)", line)[1]
        operands, results = line.rsplit(" : (", 1)[1].split(" -> ")
        assert f"x{compute}>" in operands, line
        found.append((compute, re.search(r"x([a-z]\w*)>", results)[1]))
    return found


def list_cases(policy):
    """Yields the op, the case of formats, the step, and the formats that PyTorch chose."""
    narrow = "f16" if policy.endswith("fp16") else "bf16"
    for op, cases in RECORDS[policy].items():
        for case, record in cases.items():
            first = "f32" if case == "wide" else narrow
            others = narrow if case == "narrow" else "f32"
            result = record["forward"]["result"]
            formats = {"0": first, "1": others, "2": others, "y": result, "dy": result}
            step = make_step(op, FORWARD[op], formats, "forward")
            yield op, case, step, record["forward"]
            for gradient, wanted in record.get("backward", {}).items():
                step = make_step(gradient, BACKWARD[gradient], formats, "backward")
                yield gradient, case, step, wanted


@pytest.mark.parametrize("policy", POLICIES)
def test_formats_match_pytorch_autocast(policy):
    ops, cases, steps, wanted = zip(*list_cases(policy))
    different = {
        (policy, op, case)
        for op, case, formats, record in zip(ops, cases, choose(policy, steps), wanted)
        if formats != (record["compute"], record["result"])
    }
    assert different == {entry for entry in DIFFERENT if entry[0] == policy}


def test_recording_again_gives_the_same_formats():
    """Runs the recording script if the PyTorch version of the record is installed."""
    torch = pytest.importorskip("torch")
    if torch.__version__ != RECORDS["torch"]:
        pytest.skip(f"the record is of PyTorch {RECORDS['torch']}")
    command = [sys.executable, ROOT / "test/data/make_autocast_dtypes.py", "--print"]
    again = subprocess.run(command, capture_output=True, check=True, timeout=600).stdout
    assert json.loads(again) == RECORDS


def test_the_page_has_a_row_per_preset():
    page = (ROOT / "docs/Presets.md").read_text()
    rows = re.findall(r"^\| `(\w[\w-]*)` \|", page, re.MULTILINE)
    shipped = [path.stem for path in (ROOT / "lib/Precision/Policies").glob("*.yaml")]
    assert sorted(rows) == sorted(shipped)
    listed = binade("policy", "list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == sorted(shipped)
    # Each line contains the whole first sentence of a preset's summary.
    assert all(len(line) > 30 for line in listed)


def test_autocast_onnx_has_the_block_list_of_onnx_converters():
    """`autocast-onnx` keeps the ops in f32 that ONNX Runtime's converter keeps in f32."""
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    coverage = (ROOT / "docs/generated/Coverage.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", coverage, re.MULTILINE)
    listed = {name.lower() for name in float16.DEFAULT_OP_BLOCK_LIST}
    blocked = {op for op in rows if op.replace("_", "") in listed}
    assert len(rows) > 40 and blocked
    steps = [
        make_step(op, call, dict.fromkeys("01", "f16"), "forward")
        for op, call in FORWARD.items()
        if set(call[0].split()) <= {"$0", "$1", "%m", "%s", "%b"} and op != "compare"
    ]
    decided = choose("autocast-onnx", steps)
    wide = {
        re.search(r"binade\.(\w+) .*phase", step)[1]
        for step, (compute, result) in zip(steps, decided)
        if compute == "f32" and result == "f16"
    }
    assert wide == blocked
    assert {result for _, result in decided} == {"f16"}
