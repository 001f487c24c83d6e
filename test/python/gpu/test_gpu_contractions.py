"""The PTX of matmuls computes the expected bits. That of convolutions has budgets."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.cuda_runs import CUDA, run
from support.gpu_code import assemble, check_instructions, find_ptxas, read_saved
from support.paths import ROOT
from support.ptx import run as run_ptx

TYPES = {
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
BUDGETS = json.loads((ROOT / "test/data/gpu-contraction-budgets.json").read_text())


def find(folder, *sizes):
    """Finds the kernel whose first operands have these numbers of elements."""
    for kernel in read_saved(folder):
        if [size for size, _ in kernel.arguments[: len(sizes)]] == list(sizes):
            return kernel
    raise AssertionError(f"no kernel has operands of {sizes}")


def compile_layer(folder, policy, nodes, x, y, weights):
    """Compiles a graph that computes "y" from "x" and trains the weights."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "layer",
        [info("x", TensorProto.FLOAT, x)],
        [info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path = folder / "layer.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0)
    run(
        "binade", "compile", path, *CUDA, "--policy", policy, "--loss", "mse(y, target)",
        "--save-kernels", folder / "kernels", "-o", folder / "layer.bnd",
    )  # fmt: skip


def compile_linear(folder, m, n, k):
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    weight = np.ones((n, k), np.float32)
    compile_layer(folder, "bf16-amp", [node], [m, k], [m, n], {"w": weight})
    return find(folder, m * k, n * k, m * n)


def multiply(x, w, first, end, step=16):
    """Computes x @ w.T over the columns from first to end: adds `step` exact products in
    f64 to the f32 sum, rounds it, and repeats."""
    x, w = x.astype(float), w.astype(float)
    sums = np.zeros((len(x), len(w)), np.float32)
    for begin in range(first, end, step):
        total = sums.astype(float)
        for term in range(begin, min(end, begin + step)):
            total = total + np.outer(x[:, term], w[:, term])
        sums = total.astype(np.float32)
    return sums


@pytest.mark.parametrize("m, n, k, parts", [
    (48, 24, 40, 1), (33, 21, 45, 1), (40, 72, 640, 2),
])  # fmt: skip
def test_ptx_computes_matmuls(m, n, k, parts, tmp_path):
    """The bits are those of tensor cores that add products one by one, which is how the
    simulator defines them."""
    kernel = compile_linear(tmp_path, m, n, k)
    assert len(kernel.entries) == min(parts, 2)
    random = np.random.default_rng(9)
    tensors = [
        random.standard_normal(size).astype(TYPES[dtype])
        for size, dtype in kernel.arguments
    ]
    for entry in kernel.entries:
        run_ptx(entry, [tensor.view(np.uint8) for tensor in tensors])
    x, w, found = tensors[0].reshape(m, k), tensors[1].reshape(n, k), tensors[2]
    expected = multiply(x, w, 0, k // parts)
    for part in range(1, parts):
        expected += multiply(x, w, part * k // parts, (part + 1) * k // parts)
    np.testing.assert_array_equal(found.reshape(m, n), expected.astype(found.dtype))


def compile_block_scaled_matmul(folder, m, n, k):
    """Compiles a matmul of activations by weights, and a last layer without FP8."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node("Gemm", ["h", "v"], ["y"], transB=1),
    ]
    weights = {"w": np.ones((n, k), np.float32), "v": np.ones((4, n), np.float32)}
    compile_layer(folder, "fp8-block", nodes, [m, k], [m, 4], weights)
    blocks = -(-k // 128)
    of_weights = (-(-n // 128) - 1) * (-(-blocks // 4) * 4) + blocks
    return find(folder, m * k, n * k, m * n, m * blocks, of_weights)


@pytest.mark.parametrize("m, n, k", [(48, 32, 272), (132, 144, 256), (8, 32, 272)])
def test_ptx_computes_block_scaled_matmuls(m, n, k, tmp_path):
    """Sums over 128 columns are multiplied by both scales, which are powers of two."""
    kernel = compile_block_scaled_matmul(tmp_path, m, n, k)
    assert [dtype for _, dtype in kernel.arguments[:2]] == ["f8E4M3FN"] * 2
    random = np.random.default_rng(12)
    tensors = [
        random.standard_normal(size).astype(TYPES[dtype])
        for size, dtype in kernel.arguments
    ]
    for scales in tensors[3:5]:
        scales[:] = np.exp2(random.integers(-9, 9, len(scales)))
    # The last case splits k into parts of whole blocks: two blocks and one.
    for entry in kernel.entries:
        run_ptx(entry, [tensor.view(np.uint8) for tensor in tensors])
    x, w, found = tensors[0].reshape(m, k), tensors[1].reshape(n, k), tensors[2]
    x_scales = tensors[3].reshape(-(-k // 128), m)
    pitch = -(-k // 512) * 4
    total = np.zeros((m, n))
    for block, begin in enumerate(range(0, k, 128)):
        w_scales = tensors[4][np.arange(n) // 128 * pitch + block]
        sums = multiply(x, w, begin, min(k, begin + 128), step=16 if m > 16 else 1)
        scaled = sums.astype(float) * x_scales[block][:, None] * w_scales
        total = (total + scaled).astype(np.float32).astype(float)
    np.testing.assert_array_equal(found.reshape(m, n), total.astype(found.dtype))


def test_registers_of_a_block_scaled_matmul(tmp_path):
    """Two sums per result and a tile of 128 x 128 do not spill."""
    kernel = compile_block_scaled_matmul(tmp_path, 2048, 1536, 768)
    check_instructions(kernel.entries)
    if find_ptxas():
        used = assemble(kernel.ptx, "sm_90", tmp_path)[kernel.entries[0].symbol]
        print("\nregisters", used.registers, "spills", used.spills)
        assert used.spills + used.stack == 0


def test_innermost_loop(tmp_path):
    """Loads read 16 bytes and `ldmatrix` four matrices; most of the loop is `mma`."""
    (entry,) = compile_linear(tmp_path, 1536, 1536, 256).entries
    counts = {
        name: sum(line.startswith(name) for line in entry.hot())
        for name in ("mma.sync", "ldmatrix.sync.aligned.m8n8.x4", "ld.global", "bar")
    }
    # A warp computes 64 x 32 of the tile: 4 x 4 `mma`, twice per iteration.
    assert list(counts.values()) == [32, 12, 4, 1], counts
    loads = [line for line in entry.hot() if line.startswith("ld.global")]
    assert all(".v4.b32" in line for line in loads)


@pytest.mark.parametrize("policy", BUDGETS)
def test_convolutions_stay_within_their_budgets(policy, tmp_path):
    """Limits PTX instructions per `mma` or `fma` in the innermost loop, and registers."""
    batch, inputs, outputs, side = 32, 64, 128, 32
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["z"]),
        helper.make_node("Conv", ["z", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    draw = np.random.default_rng(4)
    weights = {
        "w": draw.standard_normal((outputs, inputs, 3, 3), np.float32),
        "s": draw.standard_normal((1, inputs, 1, 1), np.float32),
    }
    shapes = [batch, inputs, side, side], [batch, outputs, side, side]
    compile_layer(tmp_path, policy, nodes, *shapes, weights)
    x, y = (int(np.prod(shape)) for shape in shapes)
    w = weights["w"].size
    operands = {"forward": (x, w, y), "input": (y, w, x), "weight": (y, x, w)}
    print(f"\n{policy}")
    over = []
    for name, budget in BUDGETS[policy].items():
        kernel = find(tmp_path, *operands[name])
        check_instructions(kernel.entries)
        entry = kernel.entries[0]
        hot = entry.hot()
        products = sum(line.startswith(("mma", "fma")) for line in hot)
        found = {"per_product": len(hot) / products, "shared": entry.shared}
        if find_ptxas():
            used = assemble(kernel.ptx, "sm_90", tmp_path)[entry.symbol]
            found |= {"registers": used.registers, "spills": used.spills + used.stack}
        print(f"{name:12}", found)
        most = budget | {"spills": 0}
        over += [f"{name}: {what}" for what in found if found[what] > most[what]]
    assert not over, over
