#!/usr/bin/env python3
"""Records what PyTorch's autocast computes on the CPU for the shared models.

The tests of the 16-bit policies compare with these records, so that they need no
PyTorch. For each model and optimizer ten steps are run in f32, in bf16 autocast and in
f16 autocast with a GradScaler; ``autocast/<model>.json`` keeps every step's loss, norm
of the gradients, loss scale and whether it was skipped, and of the gradients of step 1
and of the parameters after step 10 each tensor's norm and a few elements.

The f32 run is first compared with the models' own ``reference.npz``: the modules of
reference_models.py must compute what the exported graphs compute.

    BINADE_MODELS=../shared/models python3 test/data/make_autocast_reference.py [MODEL ...]
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models"))
OUT = Path(__file__).resolve().parent / "autocast"
STEPS = 10
ELEMENTS = 4
sys.path.insert(0, str(ROOT / "python"))

from binade import safetensors
from reference_models import GPT2, CharLSTM, DigitsMLP, Llama, ResNet18

# The model's class, and for how many steps its f32 losses must agree with the
# reference (the ResNet at batch 8 amplifies rounding: torch's own f32 and f64 part).
ZOO: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "mlp-digits": (DigitsMLP, STEPS),
    "gpt2-tiny": (GPT2, STEPS),
    "resnet18-cifar-w8": (ResNet18, 2),
    "llama-tiny": (Llama, STEPS),
    "lstm-char": (CharLSTM, STEPS),
}
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(
        parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01
    ),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
}
# Format of autocast and settings of the GradScaler. The last one lets the scale grow
# until gradients overflow, so that the record holds growth, skips and backoff.
POLICIES: dict[str, tuple[torch.dtype | None, dict | None]] = {
    "fp32": (None, None),
    "bf16-amp": (torch.bfloat16, None),
    "fp16-amp": (torch.float16, {"init_scale": 65536.0, "growth_interval": 2000}),
    "fp16-amp-growing": (torch.float16, {"init_scale": 65536.0, "growth_interval": 1}),
}


def load_model(name: str) -> nn.Module:
    """The module with the stored initial weights."""
    model = ZOO[name][0]()
    prefix = getattr(model, "PREFIX", "")
    weights = safetensors.load(MODELS / name / "weights.safetensors")
    model.load_state_dict(
        {
            key.removeprefix(prefix): torch.from_numpy(value)
            for key, value in weights.items()
        }
    )
    return model.train()


def digest(tensors: dict[str, Tensor], prefix: str) -> dict[str, dict]:
    """Norm and evenly spaced elements of each tensor, flattened in row-major order."""
    result = {}
    for name, tensor in tensors.items():
        flat = tensor.detach().float().reshape(-1)
        places = np.linspace(0, flat.numel() - 1, min(ELEMENTS, flat.numel()))
        result[prefix + name] = {
            "norm": number(flat.double().norm().item()),
            "elements": {
                str(int(place)): number(flat[int(place)].item()) for place in places
            },
        }
    return result


def number(value: float) -> float | None:
    """JSON has no infinity and no NaN: null represents both."""
    return float(f"{value:.9g}") if math.isfinite(value) else None


def train(name: str, policy: str, optimizer_name: str) -> dict:
    """Runs the steps and returns their record."""
    dtype, scaling = POLICIES[policy]
    torch.manual_seed(0)
    model = load_model(name)
    prefix = getattr(model, "PREFIX", "")
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=scaling is not None, **(scaling or {}))
    inputs = {
        key: torch.from_numpy(value)
        for key, value in np.load(MODELS / name / "inputs.npz").items()
    }
    labels = inputs.pop("labels")
    record: dict = {"loss": [], "grad_norm": [], "loss_scale": [], "skipped": []}
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(
            "cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None
        ):
            prediction = model(*(value[step] for value in inputs.values()))
            loss = F.cross_entropy(
                prediction.flatten(0, -2).float(), labels[step].flatten()
            )
        scale = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        gradients = {key: value.grad for key, value in model.named_parameters()}
        norm = math.sqrt(
            sum(g.double().square().sum().item() for g in gradients.values())
        )
        if step == 0:
            record["step1_gradients"] = digest(gradients, prefix)
        scaler.step(optimizer)
        scaler.update()
        record["loss"].append(number(loss.item()))
        record["grad_norm"].append(number(norm))
        record["loss_scale"].append(scale)
        record["skipped"].append(not math.isfinite(norm))
    state = {
        key: value
        for key, value in model.state_dict().items()
        if not key.endswith("num_batches_tracked")
    }
    record["step10_parameters"] = digest(state, prefix)
    if policy == "fp16-amp-growing":
        # Its subject is the trace; the tensors say nothing new.
        del record["step1_gradients"], record["step10_parameters"]
    return record


def check(name: str, optimizer_name: str, record: dict) -> None:
    """Stops if an f32 run is not the run that the shared reference stores."""
    reference = np.load(MODELS / name / "reference.npz")
    expected = reference[f"loss.{optimizer_name}"]
    steps = ZOO[name][1]
    error = np.abs(np.array(record["loss"]) - expected)[:steps].max()
    print(
        f"{name} {optimizer_name} fp32: loss differs by {error:.2g} from the "
        f"reference in {steps} steps"
    )
    # The widest of the references' own distances between f32 and f64.
    if error > 2e-5:
        raise SystemExit(f"{name}: the module does not compute what the reference did")


def main() -> None:
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or ZOO:
        runs = {}
        for policy in POLICIES:
            for optimizer_name in OPTIMIZERS:
                record = train(name, policy, optimizer_name)
                if policy == "fp32":
                    check(name, optimizer_name, record)
                print(
                    f"{name} {policy} {optimizer_name}: loss {record['loss'][0]:.6f} "
                    f"to {record['loss'][-1]:.6f}, {sum(record['skipped'])} skipped"
                )
                runs.setdefault(policy, {})[optimizer_name] = record
        document = {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "seed": 0,
            "adamw": "lr 1e-3, betas 0.9 0.999, eps 1e-8, weight decay 0.01",
            "sgd": "lr 0.05, momentum 0.9",
            "runs": runs,
        }
        text = json.dumps(document, indent=None, separators=(",", ":"))
        (OUT / f"{name}.json").write_text(text.replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
