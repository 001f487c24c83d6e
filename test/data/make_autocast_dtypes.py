#!/usr/bin/env python3
"""Records the formats in which PyTorch's autocast computes, op by op.

For each op kind that Binade and PyTorch both have, one call is made under autocast with
operands in f32 ("wide"), in the autocast format ("narrow"), and the first in the
autocast format and the others in f32 ("mixed"). What reaches the kernels is read below
autocast, by a dispatch mode: ``compute`` is the format that the kernel's floating-point
operands have or promote to (or that its ``dtype`` asks for), ``result`` the format of
its result. Gradients run outside of autocast, as PyTorch's manual asks for.

Autocast on the CPU is run for real. Autocast on CUDA is run on fake tensors of that
device: they pass through the same dispatcher, and its autocast key, and need no GPU.
PyTorch differentiates tensors of CUDA only where it was built for CUDA: their gradients
are recorded on the CPU, with operands in the format that autocast gave the kernel.

    python3 test/data/make_autocast_dtypes.py            # writes the record
    python3 test/data/make_autocast_dtypes.py --print    # prints it
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

OUT = Path(__file__).resolve().parent / "autocast-dtypes.json"
NAMES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.bool: "i1",
}
ROWS, COLUMNS = 4, 8


@dataclass(frozen=True)
class Call:
    """A PyTorch call that corresponds to one op of Binade."""

    run: Callable[..., Tensor]
    #: Shapes of the floating-point operands that take a format.
    shapes: list[tuple[int, ...]]
    #: The kernel that computes it, as ATen names it; alternatives for devices.
    kernel: str | tuple[str, ...]
    #: Kernels of the gradient, by the op of Binade.
    gradients: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    #: Whether the kernel's other operands are parameters of a format of their own.
    follows_first: bool = False


X = [(ROWS, COLUMNS)]
XX = X * 2


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    if query.device.type == "cpu":
        return F.scaled_dot_product_attention(query, key, value)
    # The choice of the CUDA kernel would depend on the GPU.
    flash = torch.ops.aten._scaled_dot_product_flash_attention
    return flash(query, key, value)[0]


def norm(x: Tensor) -> Tensor:
    ones = torch.ones(COLUMNS, device=x.device, requires_grad=x.requires_grad)
    return F.layer_norm(x, (COLUMNS,), ones, ones)


def rms_norm(x: Tensor) -> Tensor:
    ones = torch.ones(COLUMNS, device=x.device, requires_grad=x.requires_grad)
    return F.rms_norm(x, (COLUMNS,), ones)


def batch_norm(x: Tensor) -> Tensor:
    ones = torch.ones(COLUMNS, device=x.device, requires_grad=x.requires_grad)
    return F.batch_norm(x, None, None, ones, ones, training=True)


def labels(x: Tensor) -> Tensor:
    return torch.zeros(ROWS, dtype=torch.int64, device=x.device)


def mask(x: Tensor) -> Tensor:
    return torch.ones(ROWS, COLUMNS, dtype=torch.bool, device=x.device)


CALLS = {
    "matmul": Call(torch.matmul, [(4, 8), (8, 4)], "mm", {"matmul": "mm"}),
    "conv": Call(
        F.conv2d,
        [(1, 2, 4, 4), (2, 2, 1, 1)],
        "convolution",
        {
            "conv_input_grad": "convolution_backward",
            "conv_weight_grad": "convolution_backward",
        },
    ),
    "attention": Call(
        attention,
        [(1, 2, 4, 8)] * 3,
        (
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
        ),
        {"attention_grad": "_scaled_dot_product_flash_attention_for_cpu_backward"},
        follows_first=True,
    ),
    "neg": Call(torch.neg, X, "neg"),
    "abs": Call(torch.abs, X, "abs"),
    "sign": Call(torch.sign, X, "sign"),
    "exp": Call(torch.exp, X, "exp"),
    "log": Call(torch.log, X, "log"),
    "sqrt": Call(torch.sqrt, X, "sqrt"),
    "reciprocal": Call(torch.reciprocal, X, "reciprocal"),
    "tanh": Call(torch.tanh, X, "tanh"),
    "erf": Call(torch.erf, X, "erf"),
    "sigmoid": Call(torch.sigmoid, X, "sigmoid"),
    "relu": Call(torch.relu, X, "relu", {"relu_grad": "threshold_backward"}),
    "gelu": Call(F.gelu, X, "gelu", {"gelu_grad": "gelu_backward"}),
    "silu": Call(F.silu, X, "silu", {"silu_grad": "silu_backward"}),
    "add": Call(torch.add, XX, "add"),
    "sub": Call(torch.sub, XX, "sub"),
    "mul": Call(torch.mul, XX, "mul"),
    "div": Call(torch.div, XX, "div"),
    "pow": Call(torch.pow, XX, "pow"),
    "max": Call(torch.maximum, XX, "maximum"),
    "min": Call(torch.minimum, XX, "minimum"),
    "compare": Call(torch.lt, XX, "lt"),
    "select": Call(lambda x, y: torch.where(mask(x), x, y), XX, "where"),
    "softmax": Call(
        lambda x: F.softmax(x, -1),
        X,
        "_softmax",
        {"softmax_grad": "_softmax_backward_data"},
    ),
    "log_softmax": Call(
        lambda x: F.log_softmax(x, -1),
        X,
        "_log_softmax",
        {"log_softmax_grad": "_log_softmax_backward_data"},
    ),
    "layer_norm": Call(
        norm,
        X,
        "native_layer_norm",
        {
            "layer_norm_grad": "native_layer_norm_backward",
            "layer_norm_param_grad": "native_layer_norm_backward",
        },
        follows_first=True,
    ),
    # On a CPU it is several kernels, and so is its gradient.
    "rms_norm": Call(rms_norm, X, ("_fused_rms_norm", "rsqrt"), follows_first=True),
    "batch_norm": Call(
        batch_norm,
        X,
        ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"),
        {
            "batch_norm_grad": (
                "native_batch_norm_backward",
                "cudnn_batch_norm_backward",
            ),
            "batch_norm_param_grad": (
                "native_batch_norm_backward",
                "cudnn_batch_norm_backward",
            ),
        },
        follows_first=True,
    ),
    "cross_entropy": Call(
        lambda x: F.cross_entropy(x, labels(x), reduction="none"),
        X,
        "_log_softmax",
        {"cross_entropy_grad": "_log_softmax_backward_data"},
    ),
    "gather": Call(
        lambda x: F.embedding(labels(x), x),
        X,
        "embedding",
        {"gather_grad": "embedding_dense_backward"},
    ),
    "dropout": Call(F.dropout, X, ("native_dropout", "mul")),
    "reduce_sum": Call(lambda x: torch.sum(x, -1), X, "sum"),
    "reduce_mean": Call(lambda x: torch.mean(x, -1), X, "mean"),
    "reduce_max": Call(lambda x: torch.amax(x, -1), X, "amax"),
    "reshape": Call(lambda x: x.reshape(-1), X, "view"),
    "transpose": Call(lambda x: x.permute(1, 0), X, "permute"),
    "broadcast": Call(
        lambda x: x.expand(2, ROWS, COLUMNS), X, "expand", {"reduce_sum": "sum"}
    ),
    "slice": Call(lambda x: x.narrow(1, 1, 2), X, "slice"),
    "pad": Call(lambda x: F.pad(x, (1, 1)), X, "constant_pad_nd"),
    "concat": Call(lambda *x: torch.cat(x), XX, "cat"),
}


#: Gradients that are not the first result of their kernel.
SECOND_RESULTS = ("conv_weight_grad", "layer_norm_param_grad", "batch_norm_param_grad")


class Recorder(TorchDispatchMode):
    """Lists the kernels that run, with their operands and results."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[str, list[Any], Any]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        operands = tree_leaves((args, kwargs or {}))
        self.kernels.append((func.overloadpacket.__name__, operands, result))
        return result

    def find(
        self, names: str | tuple[str, ...], follows_first: bool, index: int = 0
    ) -> dict[str, str]:
        """Formats of the first kernel that has one of ``names``."""
        names = (names,) if isinstance(names, str) else names
        name, operands, result = next(
            kernel for kernel in self.kernels if kernel[0] in names
        )
        floats = [
            operand.dtype
            for operand in operands
            if isinstance(operand, Tensor) and operand.is_floating_point()
        ]
        # `sum(x, dtype=f32)` computes in f32; the dtype that a softmax's gradient
        # names is that of its result.
        if not name.endswith("_backward_data"):
            floats += [x for x in operands if isinstance(x, torch.dtype)]
        if name in ("_softmax", "_log_softmax") and operands[-1]:  # half_to_float
            floats.append(torch.float32)
        compute = floats[0]
        for dtype in [] if follows_first else floats:
            compute = torch.promote_types(compute, dtype)
        result = [x for x in tree_leaves(result) if isinstance(x, Tensor)][index]
        return {
            "kernel": name,
            "compute": NAMES[compute],
            "result": NAMES[result.dtype],
        }


@contextlib.contextmanager
def autocast(device: str, dtype: torch.dtype) -> Iterator[None]:
    """As ``torch.autocast``, which refuses CUDA where there is no GPU."""
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, False)


def make_operands(call: Call, device: str, dtypes: list[torch.dtype]) -> list[Tensor]:
    return [
        torch.ones(shape, dtype=dtype, device=device, requires_grad=device == "cpu")
        for shape, dtype in zip(call.shapes, dtypes)
    ]


def record(call: Call, device: str, narrow: torch.dtype, case: str) -> dict[str, Any]:
    dtypes = [torch.float32 if case == "wide" else narrow for _ in call.shapes]
    if case == "mixed":
        dtypes[1:] = [torch.float32] * (len(dtypes) - 1)
    fake = FakeTensorMode() if device == "cuda" else contextlib.nullcontext()
    with fake:
        operands = make_operands(call, device, dtypes)
        with autocast(device, narrow), Recorder() as forward:
            y = call.run(*operands)
    formats = {"forward": forward.find(call.kernel, call.follows_first)}
    formats["forward"]["result"] = NAMES[y.dtype]  # Of all kernels of the call.
    if not call.gradients:
        return formats
    if device == "cuda":
        compute = next(d for d in NAMES if NAMES[d] == formats["forward"]["compute"])
        y = call.run(*make_operands(call, "cpu", [compute] * len(dtypes)))
    with Recorder() as backward:
        y.backward(torch.ones_like(y))
    formats["backward"] = {
        op: backward.find(kernel, call.follows_first, op in SECOND_RESULTS)
        for op, kernel in call.gradients.items()
    }
    return formats


def record_all(device: str, narrow: torch.dtype) -> dict[str, Any]:
    return {
        op: {
            case: record(call, device, narrow, case)
            for case in ("wide", "narrow", "mixed")
            if case != "mixed" or len(call.shapes) > 1
        }
        for op, call in CALLS.items()
    }


def main() -> None:
    configurations = {
        "torch-cpu-bf16": ("cpu", torch.bfloat16),
        "torch-cuda-bf16": ("cuda", torch.bfloat16),
        "torch-cuda-fp16": ("cuda", torch.float16),
    }
    lines = [f'{{"torch": "{torch.__version__}"']
    for policy, (device, narrow) in configurations.items():
        records = record_all(device, narrow)
        ops = ",\n".join(f'"{op}": {json.dumps(records[op])}' for op in records)
        lines.append(f',\n"{policy}": {{\n{ops}}}')
    text = "".join(lines) + "}\n"
    if sys.argv[1:] == ["--print"]:
        print(text, end="")
    else:
        OUT.write_text(text)


if __name__ == "__main__":
    main()
