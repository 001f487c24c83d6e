"""Times training steps in NVFP4 against PyTorch with torchao's quantizer, for both char-GPTs.

torchao's layers for training in NVFP4 do not run on a CPU, which this prints with their errors.
What does run is its quantizer, so that the peer's layers are composed of it: both operands of all
three products are quantized and dequantized, and multiplied in bf16. Transforms, stochastic
rounding and blocks of 16 x 16 are missing there: torchao has them in CUDA kernels only.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable

import torch
from char_gpt import EXAMPLE
from fp8 import load, repeat
from pairs import compare
from runtime import Program
from torch import Tensor, nn

POLICY = "nvfp4"
MODELS = {"mini.onnx": 4, "char-gpt.onnx": 1}  # Steps that are timed as one.
BF16 = torch.bfloat16


def round_nvfp4(x: Tensor) -> Tensor:
    """What torchao's quantizer keeps of a tensor, by scales along its rows, in bf16."""
    from torchao.prototype.mx_formats import nvfp4_tensor

    scale = nvfp4_tensor.per_tensor_amax_to_scale(x.abs().amax())
    quantized = nvfp4_tensor.NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale)
    return quantized.dequantize(BF16)


# The whole model cannot be compiled: inductor of PyTorch 2.13 fails with an AssertionError.
QUANTIZERS = {
    "eager": round_nvfp4,
    "compiled": torch.compile(round_nvfp4, dynamic=False),
}


class Products(torch.autograd.Function):
    """The three products of a layer. Scales follow the axis that each sums over."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, kind: str) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.kind, take = kind, QUANTIZERS[kind]
        return take(x) @ take(weight).t()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        def take(value: Tensor) -> Tensor:
            return QUANTIZERS[ctx.kind](value.contiguous())

        x, weight = ctx.saved_tensors
        by_input = take(gradient) @ take(weight.t()).t()
        by_weight = take(gradient.t()) @ take(x.t()).t()
        return by_input, by_weight, None


class Linear(nn.Module):
    """A linear layer whose products are in NVFP4."""

    def __init__(self, layer: nn.Linear, kind: str) -> None:
        super().__init__()
        self.weight, self.bias, self.kind = layer.weight, layer.bias, kind

    def forward(self, x: Tensor) -> Tensor:
        rows = x.to(BF16).flatten(0, -2)
        y = Products.apply(rows, self.weight.to(BF16), self.kind) + self.bias.to(BF16)
        return y.unflatten(0, x.shape[:-1])


def replace_layers(module: nn.Module, kind: str) -> None:
    for name, layer in list(module.named_children()):
        if isinstance(layer, nn.Linear):
            setattr(module, name, Linear(layer, kind))
        else:
            replace_layers(layer, kind)


class Peer:
    """The same step in PyTorch, from the same weights. As in the policy, the last block and the
    last layer stay in bf16."""

    def __init__(self, program: Program, name: str, kind: str) -> None:
        import model

        makers = {"mini.onnx": model.make_mini, "char-gpt.onnx": model.make_model}
        module = makers[name]()
        for key, parameter in module.named_parameters():
            parameter.data.copy_(torch.from_numpy(program["parameter", key].copy()))
        for block in module.blocks[:-1]:
            replace_layers(block, kind)
        self.optimizer = torch.optim.AdamW(
            module.parameters(), lr=1e-3, weight_decay=0.01, fused=True
        )
        self.batch = {
            key: torch.from_numpy(program["batch", key].copy())
            for key in ("input_ids", "labels")
        }

        def loss(input_ids: Tensor, labels: Tensor) -> Tensor:
            with torch.autocast("cpu", BF16):
                return model.cross_entropy(module(input_ids), labels)

        self.loss = loss

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.last = self.loss(**self.batch)
        self.last.backward()
        self.optimizer.step()


def repeat_peer(peer: Peer, count: int) -> Callable[[], None]:
    def steps() -> None:
        for _ in range(count):
            peer.step()

    return steps


def run_training_layer() -> None:
    """The layer of torchao's recipe: all three products in NVFP4."""
    from torchao.prototype.moe_training.nvfp4_training.nvfp4_training import (
        NVFP4TrainingConfig,
    )
    from torchao.quantization import quantize_

    module = nn.Sequential(nn.Linear(128, 128, bias=False, dtype=BF16))
    quantize_(module, NVFP4TrainingConfig())
    module(torch.randn(128, 128, dtype=BF16)).sum().backward()


def run_fake_layer() -> None:
    """The layer of its quantization-aware training: the forward product in NVFP4."""
    from torchao.prototype.qat.nvfp4 import (
        NVFP4FakeQuantizeConfig,
        NVFP4FakeQuantizedLinear,
    )

    keys = {"activation_config": NVFP4FakeQuantizeConfig(),
            "weight_config": NVFP4FakeQuantizeConfig()}  # fmt: skip
    layer = NVFP4FakeQuantizedLinear(128, 128, dtype=BF16, **keys)
    layer(torch.randn(128, 128, dtype=BF16)).sum().backward()


def report_layers() -> None:
    """Prints whether torchao's own layers run on this machine's CPU."""
    for name, call in (("NVFP4Linear", run_training_layer),
                       ("NVFP4FakeQuantizedLinear", run_fake_layer)):  # fmt: skip
        try:
            call()
            print(f"  torchao's {name} runs on the CPU", flush=True)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            print(
                f"  torchao's {name} does not run: {type(error).__name__}: {reason}",
                flush=True,
            )


def measure(arguments: argparse.Namespace) -> None:
    try:
        import torchao
    except ImportError:
        print("  torchao is not installed: utils/setup.sh --with peers")
        return
    warnings.filterwarnings("ignore", module="torch")
    # Of as many shapes as the operands have; beyond the limit they would run uncompiled.
    torch._dynamo.config.recompile_limit = 64
    print(f"  torchao {torchao.__version__}, torch {torch.__version__}", flush=True)
    report_layers()
    with tempfile.TemporaryDirectory() as folder:
        for name, count in MODELS.items():
            program = load(EXAMPLE / name, POLICY, folder)
            for kind in QUANTIZERS:
                peer = Peer(program, name, kind)
                ratio = compare(
                    (f"binade {POLICY}", repeat(program, count)),
                    (f"torchao's {kind} quantizer", repeat_peer(peer, count)),
                    arguments.pairs,
                )
                print(f"  {name}, {count} steps: {ratio}", flush=True)
                losses = float(program["metric", "loss"]), peer.last.item()
                print(f"  losses after as many steps: {losses[0]:.4f}, {losses[1]:.4f}")
