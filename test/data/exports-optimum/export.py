"""Exports small Hugging Face models with Optimum, and trains them with PyTorch.

    PYTHONPATH=python python export.py DIRECTORY

writes `<model>.onnx` and `<model>.safetensors`: the parameters after three steps of SGD,
the batch and the losses. The models have random weights, so nothing is downloaded. The
files in this directory are the output of Optimum 2.1.0 (optimum-onnx 0.1.0), Transformers
4.57.6 and PyTorch 2.13.0.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import transformers
from binade import safetensors
from optimum.exporters.onnx import onnx_export_from_model

import torch

LR, STEPS = 0.1, 3

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
BERT = transformers.BertConfig(
    vocab_size=16,
    intermediate_size=8,
    max_position_embeddings=16,
    num_labels=4,
    pad_token_id=15,
    **SIZES,
)
GPT2 = transformers.GPT2Config(
    vocab_size=16,
    n_positions=16,
    n_embd=8,
    n_layer=1,
    n_head=2,
    bos_token_id=0,
    eos_token_id=0,
)
VIT = transformers.ViTConfig(
    image_size=8, patch_size=4, intermediate_size=8, num_labels=4, **SIZES
)
MODELS = {
    "bert": (transformers.BertForSequenceClassification, BERT, "text-classification"),
    "gpt2": (transformers.GPT2LMHeadModel, GPT2, "text-generation"),
    "vit": (transformers.ViTForImageClassification, VIT, "image-classification"),
}


def make_batch(name: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    generator = np.random.default_rng(8)
    if name == "vit":
        pixels = generator.standard_normal((3, 3, 8, 8)).astype(np.float32)
        return {"pixel_values": torch.from_numpy(pixels)}, torch.tensor([0, 3, 1])
    tokens = torch.from_numpy(generator.integers(0, 15, (3, 6)))
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if name == "bert":
        batch["token_type_ids"] = torch.zeros_like(tokens)
        return batch, torch.tensor([0, 3, 1])
    batch["position_ids"] = torch.arange(6).repeat(3, 1)
    return batch, torch.from_numpy(generator.integers(0, 16, (3, 6)))


def export(model: torch.nn.Module, task: str, path: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        onnx_export_from_model(model, directory, task=task, do_validation=False)
        proto = onnx.load(Path(directory) / "model.onnx")
    for node in proto.graph.node:
        node.doc_string = ""
    onnx.save(proto, path)


def train(name: str, model: torch.nn.Module) -> dict[str, np.ndarray]:
    batch, labels = make_batch(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(**batch).logits.flatten(0, -2)
        loss = torch.nn.functional.cross_entropy(logits, labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    values = {f"batch/{key}": value.numpy() for key, value in batch.items()}
    for key, value in model.named_parameters():
        values[f"after/{key}"] = value.detach().numpy()
    values["labels"] = labels.numpy()
    return values | {"losses": np.array(losses, np.float32)}


def main() -> None:
    directory = Path(sys.argv[1])
    for name, (make, config, task) in MODELS.items():
        torch.manual_seed(1)
        model = make(config).eval()
        export(model, task, directory / f"{name}.onnx")
        safetensors.save(directory / f"{name}.safetensors", train(name, model))


if __name__ == "__main__":
    main()
