"""Small models of Hugging Face's families, with random weights and without dropout."""

from __future__ import annotations

from collections.abc import Callable

import torch

TOKENS = {"vocab_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {"intermediate_size": 64, "max_position_embeddings": 40}
CAUSAL = {**TOKENS, **SIZES, **WIDE, "use_cache": False}
GROUPED = {**CAUSAL, "num_key_value_heads": 2}
ENCODER = {
    **TOKENS, **SIZES, **WIDE,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
TWO_STACKS = {
    **TOKENS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "use_cache": False, "decoder_start_token_id": 2,
}  # fmt: skip
IMAGE = {**SIZES, "intermediate_size": 64, "image_size": 32, "patch_size": 8}


def draw_tokens(axis: int = 16) -> torch.Tensor:
    return torch.randint(3, 64, (2, axis))


def text() -> dict[str, torch.Tensor]:
    return {"input_ids": draw_tokens()}


def masked() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 12:] = 0
    return {"input_ids": draw_tokens(), "attention_mask": mask}


def pair() -> dict[str, torch.Tensor]:
    return {"input_ids": draw_tokens(), "decoder_input_ids": draw_tokens()}


def image() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


# Model class, config class, settings, inputs. PyTorch 2.13 cannot export T5 without dropout.
FAMILIES: dict[str, tuple[str, str, dict, Callable]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config",
             {**TOKENS, "n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 4,
              "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}, text),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, text),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 8}, text),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED, text),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config",
               {**GROUPED, "head_dim": 8, "query_pre_attn_scalar": 8}, text),
    "neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", CAUSAL, text),
    "phi": ("PhiForCausalLM", "PhiConfig", CAUSAL, text),
    "opt": ("OPTForCausalLM", "OPTConfig",
            {**TOKENS, **SIZES, "ffn_dim": 64, "max_position_embeddings": 40, "dropout": 0.0,
             "word_embed_proj_dim": 32, "use_cache": False}, masked),
    "falcon": ("FalconForCausalLM", "FalconConfig", {**TOKENS, **SIZES, "use_cache": False}, text),
    "bert": ("BertForSequenceClassification", "BertConfig", ENCODER, masked),
    "roberta": ("RobertaForTokenClassification", "RobertaConfig", ENCODER, masked),
    "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig",
                   {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
                    "max_position_embeddings": 40, "dropout": 0.0, "attention_dropout": 0.0,
                    "seq_classif_dropout": 0.0}, masked),
    "electra": ("ElectraForSequenceClassification", "ElectraConfig",
                {**ENCODER, "embedding_size": 16}, masked),
    "albert": ("AlbertForSequenceClassification", "AlbertConfig",
               {**ENCODER, "embedding_size": 16, "classifier_dropout_prob": 0.0}, masked),
    "deberta": ("DebertaV2ForSequenceClassification", "DebertaV2Config",
                {**ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                 "position_buckets": 8}, masked),
    "bart": ("BartForConditionalGeneration", "BartConfig",
             {**TWO_STACKS, "max_position_embeddings": 40}, pair),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGE, image),
    "resnet": ("ResNetForImageClassification", "ResNetConfig",
               {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
                "layer_type": "basic"}, image),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig",
                 {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, image),
}  # fmt: skip


def make_family(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Returns a model in training mode and its inputs by name."""
    import transformers

    model_class, config_class, settings, inputs = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**settings)
    return getattr(transformers, model_class)(config).train(), inputs()
