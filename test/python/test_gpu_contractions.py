"""Products by the matrix units: their PTX, run, and what is in its innermost loop."""

import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from cuda_runs import CUDA, run
from gpu_code import Entry, read_body
from onnx import TensorProto, helper, numpy_helper
from ptx import run as run_ptx
from test_gpu_code import check_instructions

TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "f16": np.float16}


def read_saved(folder):
    """Of each kernel that a compilation left: its arguments, and its entries."""
    for path in folder.glob("*.ptx"):
        ptx, ir = path.read_text(), path.with_suffix(".mlir").read_text()
        shared = re.search(r"\.shared .*\[(\d+)\]", ptx)
        kernels = re.findall(
            r"gpu\.func @(\w+)\((.*?)\) .*?known_block_size = array<i32: (\d+),"
            r".*?known_grid_size = array<i32: (\d+),",
            ir,
        )
        if not kernels:  # Of many tensors, without a grid.
            continue
        arguments = re.findall(r"memref<(\d+)x(\w+)>", kernels[0][1])
        entries = []
        for symbol, _, block, grid in kernels:
            lines = read_body(ptx, symbol)
            size = int(shared[1]) if shared else 0
            entries.append(Entry(symbol, symbol, int(grid), int(block), size, 0, lines))
        yield [(int(size), dtype) for size, dtype in arguments], entries


def compile_linear(folder, m, n, k, policy):
    """A layer of n x k for a batch of m."""
    draw = np.random.default_rng(3)
    weight = numpy_helper.from_array(draw.standard_normal((n, k), np.float32), "w")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
        "linear",
        [info("x", TensorProto.FLOAT, [m, k])],
        [info("y", TensorProto.FLOAT, [m, n])],
        [weight],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.save(
        model, folder / "linear.onnx", save_as_external_data=True, size_threshold=0
    )
    run(
        "binade", "compile", folder / "linear.onnx", *CUDA, "--policy", policy,
        "--loss", "mse(y, target)", "--save-kernels", folder,
        "-o", folder / "linear.bnd",
    )  # fmt: skip


def find_forward(folder, m, n, k):
    sizes = [m * k, n * k, m * n]
    for arguments, entries in read_saved(folder):
        if [size for size, _ in arguments[:3]] == sizes:
            return arguments, entries
    raise AssertionError("no kernel has these operands")


def draw(count, dtype, random):
    return random.standard_normal(count).astype(TYPES[dtype])


@pytest.mark.parametrize(
    "m, n, k", [(48, 24, 40), (33, 21, 45), (40, 72, 640)], ids=str
)
def test_ptx_multiplies(m, n, k, tmp_path):
    """To the bits of a matrix unit that adds products one by one, as the simulator's."""
    compile_linear(tmp_path, m, n, k, "bf16-amp")
    arguments, entries = find_forward(tmp_path, m, n, k)
    random = np.random.default_rng(9)
    tensors = [draw(size, dtype, random) for size, dtype in arguments]
    memories = [x.view(np.uint8) for x in tensors]
    for entry in entries:
        run_ptx(entry, memories)
    x, w, found = tensors[0].reshape(m, k), tensors[1].reshape(n, k), tensors[2]
    parts = [np.zeros((m, n), np.float32)]
    if len(entries) > 1:  # Steps of 32 terms, in as many parts as there is memory for.
        count = arguments[-1][0] // (m * n)
        length = -(-(k // 32) // count) * 32
        parts *= count
    else:
        length = k
    for index in range(len(parts)):
        for first in range(index * length, min(k, (index + 1) * length), 16):
            total = parts[index].astype(np.float64)
            for term in range(first, min(k, first + 16)):
                product = np.outer(x[:, term].astype(float), w[:, term].astype(float))
                total = total + product
            parts = [*parts[:index], total.astype(np.float32), *parts[index + 1 :]]
    expected = np.zeros((m, n), np.float32) if len(parts) > 1 else parts.pop()
    for part in parts:
        expected = expected + part
    np.testing.assert_array_equal(found.reshape(m, n), expected.astype(found.dtype))


def test_innermost_loop(tmp_path):
    """Loads of 16 bytes, matrices four at a time, and little beside the products."""
    m = n = 1536
    compile_linear(tmp_path, m, n, 256, "bf16-amp")
    _, (entry,) = find_forward(tmp_path, m, n, 256)
    check_instructions([entry])
    hot = entry.hot()
    counts = {
        name: sum(line.startswith(name) for line in hot)
        for name in ("mma.sync", "ldmatrix.sync.aligned.m8n8.x4", "ld.global", "bar")
    }
    # A warp has 64 x 32 of the tile: 4 x 4 products, twice in a step.
    assert counts == {
        "mma.sync": 32, "ldmatrix.sync.aligned.m8n8.x4": 12, "ld.global": 4, "bar": 1,
    }  # fmt: skip
    assert all(".v4." in line for line in hot if line.startswith("ld.global"))
    print(f"\n{len(hot) / counts['mma.sync']} instructions of PTX for each product")
    assert len(hot) <= 4 * counts["mma.sync"]
