"""Unmodified models of the transformers library train as in PyTorch, step by step, with the
loss that they return."""

import copy

import onnx
import pytest
import torch

transformers = pytest.importorskip("transformers")

import binade.torch  # noqa: E402
from support.torch_training import train  # noqa: E402

pytestmark = pytest.mark.nightly
WORDS, WIDTH, LENGTH = 64, 32, 8
# Small models, without dropout, because PyTorch draws other masks.
BERT = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 16,
    "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0,
}  # fmt: skip
LLAMA = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 16, "head_dim": 8, "use_cache": False,
}  # fmt: skip
IMAGES = {"num_labels": 5}
MODELS = {
    "bert": ("Bert", "ForSequenceClassification", BERT | {"num_labels": 3}),
    "masked": ("Bert", "ForMaskedLM", BERT),
    "gpt2": ("GPT2", "LMHeadModel", {
        "vocab_size": WORDS, "n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 16,
        "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "use_cache": False}),
    "llama": ("Llama", "ForCausalLM", LLAMA),
    "qwen3": ("Qwen3", "ForCausalLM", LLAMA),
    "gemma2": ("Gemma2", "ForCausalLM",
               LLAMA | {"sliding_window": 4, "attn_implementation": "eager"}),
    "t5": ("T5", "ForConditionalGeneration", {
        "vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2,
        "num_heads": 4, "dropout_rate": 0, "decoder_start_token_id": 0,
        "pad_token_id": 0, "use_cache": False}),
    "mamba": ("Mamba", "ForCausalLM", {
        "vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 1,
        "use_cache": False}),
    "whisper": ("Whisper", "ForConditionalGeneration", {
        "vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 16,
        "max_target_positions": 16, "num_mel_bins": 8, "dropout": 0, "pad_token_id": 0,
        "decoder_start_token_id": 1, "eos_token_id": 2, "bos_token_id": 1,
        "use_cache": False}),
    "vit": ("ViT", "ForImageClassification", IMAGES | {
        "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "image_size": 16, "patch_size": 4}),
    "resnet": ("ResNet", "ForImageClassification", IMAGES | {
        "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
        "layer_type": "basic"}),
    "convnext": ("ConvNext", "ForImageClassification", IMAGES | {
        "num_stages": 2, "hidden_sizes": [8, 16], "depths": [1, 1], "patch_size": 2}),
    "segformer": ("Segformer", "ForSemanticSegmentation", {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1],
        "hidden_sizes": [8, 16], "patch_sizes": [3, 3], "strides": [2, 2],
        "num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16,
        "num_labels": 4, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0,
        "classifier_dropout_prob": 0, "drop_path_rate": 0}),
}  # fmt: skip
# The relative difference of the losses under a policy from those of PyTorch in f32.
POLICIES = {"fp32": 2e-6, "bf16-amp": 1e-2, "fp16-amp": 1e-2}


def make(name):
    family, task, options = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**options)
    return getattr(transformers, family + task)(config).train()


def make_batch(name):
    draw = torch.Generator().manual_seed(1)
    words = torch.randint(3, WORDS, (2, LENGTH), generator=draw)
    if name == "bert":
        mask = torch.tensor([[1] * LENGTH, [1] * 5 + [0] * (LENGTH - 5)])
        labels = torch.tensor([0, 2])
        return {"input_ids": words, "attention_mask": mask, "labels": labels}
    if name == "whisper":
        return {
            "input_features": torch.randn(2, 8, 32, generator=draw),
            "labels": words,
        }
    if "For" in MODELS[name][1] and not MODELS[name][2].get("vocab_size"):
        side = MODELS[name][2].get("image_size", 32)
        pixels = torch.randn(2, 3, side, side, generator=draw)
        labels = torch.tensor([0, 3])
        if name == "segformer":
            labels = torch.randint(0, 4, (2, side, side), generator=draw)
        return {"pixel_values": pixels, "labels": labels}
    labels = torch.randint(3, WORDS, (2, LENGTH), generator=draw)
    return {"input_ids": words, "labels": labels}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODELS)
def test_models_train_as_in_pytorch(name, policy):
    model, batch = make(name), make_batch(name)
    theirs = copy.deepcopy(model)
    step = binade.torch.capture(
        model, None, batch, policy=policy, settings={"lr": 1e-3}
    )
    # The first loss scales of f16 overflow, and these steps are skipped, as by GradScaler.
    steps = [metrics for _ in range(20) if not (metrics := step(batch)).skipped]
    losses = [metrics.loss for metrics in steps[:5]]
    expected = train(theirs, lambda model: model(**batch).loss, 5, 1e-3)
    assert losses == pytest.approx(expected, rel=POLICIES[policy])
    assert expected[-1] < expected[0]


class Logits(torch.nn.Module):
    """Returns the logits of a model, with positional arguments as torch.onnx.export passes."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        return self.model(**dict(zip(self.names, values))).logits


# PyTorch's exporters, called as docs/Import.md describes, and the models that they can export.
EXPORTERS = {
    "dynamo": {"dynamo": True, "optimize": False, "verbose": False},
    "script": {"dynamo": False, "do_constant_folding": False, "opset_version": 17,
               "training": torch.onnx.TrainingMode.TRAINING},
}  # fmt: skip
EXPORTED = [
    (name, exporter)
    for exporter, names in {
        "dynamo": ["bert", "masked", "gpt2", "llama", "gemma2", "mamba", "whisper",
                   "vit", "convnext"],
        "script": ["bert", "masked", "t5", "mamba", "vit", "resnet", "convnext"],
    }.items()
    for name in names
]  # fmt: skip


@pytest.mark.parametrize("name, exporter", EXPORTED)
def test_models_that_pytorch_exports(name, exporter, tmp_path):
    model, batch = make(name), make_batch(name)
    labels = batch.pop("labels")
    if name in ("t5", "whisper"):
        batch["decoder_input_ids"] = labels
    logits, path = Logits(model, list(batch)), tmp_path / "m.onnx"
    torch.onnx.export(
        logits, tuple(batch.values()), path, input_names=list(batch),
        output_names=["logits"], **EXPORTERS[exporter],
    )  # fmt: skip
    buffers = dict(logits.named_buffers())
    stored = onnx.load(path, load_external_data=False).graph.initializer
    trained = [t.name for t in stored if "." in t.name and t.name not in buffers]
    step = binade.compile(
        path, loss="cross_entropy(logits, labels)", settings={"lr": 1e-3}, train=trained
    )
    assert len(step.parameters) == len(list(model.parameters()))
    losses = [step(batch | {"labels": labels}).loss for _ in range(4)]
    expected = train(
        logits,
        lambda model: torch.nn.functional.cross_entropy(
            model(*batch.values()).flatten(0, -2), labels.flatten()
        ),
        4,
        1e-3,
    )
    assert losses == pytest.approx(expected, rel=1e-4)
