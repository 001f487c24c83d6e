"""Time and memory of each phase grow linearly with the number of nodes."""

import onnx
import pytest
from support.big_graphs import write_big_graph
from support.processes import measure

# The command of each phase. It reads `big.onnx` or the result of the phase before it.
PHASES = {
    "import": ["binade-translate", "--import-onnx", "big.onnx", "-o", "forward.mlir"],
    "autodiff": ["binade-opt", "--binade-autodiff-pipeline", "forward.mlir", "-o", "gradient.mlir"],
    "export": ["binade-translate", "--export-onnx", "gradient.mlir", "-o", "grads.onnx"],
    "recover": ["binade-translate", "--import-onnx", "grads.onnx", "-o", "again.mlir"],
    "compile": ["binade", "compile", "big.onnx", "--policy", "fp16-amp", "--to", "materialize", "-o", "step.mlir"],
    "compile a step for a GPU": ["binade", "compile", "big.onnx", "--policy", "coat", "--optimizer", "adamw", "--target", "cuda:sm_90", "--to", "kernels", "-o", "kernels.mlir"],
    "convert": ["binade", "convert", "big.onnx", "--policy", "fp16-amp", "-o", "narrow.onnx"],
    "convert a gradient": ["binade", "convert", "grads.onnx", "--policy", "fp16-amp", "-o", "narrow.onnx"],
    "convert to FP8": ["binade", "convert", "big.onnx", "--policy", "fp8-current", "-o", "narrow.onnx"],
}  # fmt: skip


def measure_all(folder, nodes):
    """Returns the seconds and the peak memory in bytes of each phase."""
    folder.mkdir()
    write_big_graph(folder / "big.onnx", nodes)
    names = {path for command in PHASES.values() for path in command if "." in path}
    return {
        phase: measure(*(folder / word if word in names else word for word in command))
        for phase, command in PHASES.items()
    }


def test_memory_is_linear(tmp_path):
    """Compares two sizes, so that the constant memory of the tools does not count. For
    example, rebuilding a function's type for each of its arguments takes 80 KiB a node."""
    few, many = (measure_all(tmp_path / str(n), n) for n in (3_000, 9_000))
    for phase in PHASES:
        assert (many[phase][1] - few[phase][1]) / 6_000 < 20 << 10, phase
    # The last nodes have been exported.
    assert onnx.load(tmp_path / "9000" / "grads.onnx").graph.output[0].name == "loss"


@pytest.mark.nightly
def test_a_hundred_thousand_nodes(tmp_path):
    few, many = (measure_all(tmp_path / str(n), n) for n in (25_000, 100_000))
    for phase in PHASES:
        for what, start in ((0, 0.1), (1, 80 << 20)):
            ratio = (many[phase][what] - start) / (few[phase][what] - start)
            # Caches cover less of the larger graph. Quadratic growth would give 16.
            assert ratio < 2 * 4, (phase, what)
