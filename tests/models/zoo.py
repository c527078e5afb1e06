"""Tiny random models of many families, with attention rows sharp enough that a wrong option shows."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from headwise.models import using
from headwise.models.register import NAME
from headwise.models.sites import find_sites

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64, "pad_token_id": 0}
GQA = {**SIZES, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64}
ENCODER = {**SIZES, "intermediate_size": 48, "max_position_embeddings": 64}
MOE = {"num_experts_per_tok": 2, "num_local_experts": 4}
MLA = {
    **SIZES,
    "num_key_value_heads": 4,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "q_lora_rank": 16,
    "kv_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 64,
}
BART = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
IMAGE = {**SIZES, "intermediate_size": 48, "image_size": 16, "patch_size": 4}
T5 = {
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
}
AUDIO = {**SIZES, "intermediate_size": 48, "conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 8)} | {
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}


@dataclass(frozen=True)
class Family:
    """One family: which class, which sizes, what it reads, and which options its attention must get right."""

    kind: str  # decoder, encoder, encoder-decoder, vision, audio
    model: str
    config: str
    sizes: dict[str, Any]
    features: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


def _decoder(name: str, sizes: dict[str, Any], *features: str, **extra: Any) -> Family:
    return Family("decoder", f"{name}ForCausalLM", f"{name}Config", sizes, ("causal", "padding", *features), extra)


def _encoder(name: str, *features: str, **extra: Any) -> Family:
    return Family("encoder", f"{name}Model", f"{name}Config", ENCODER, ("padding", *features), extra)


GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 64, "pad_token_id": 0}
FAMILIES: dict[str, Family] = {
    "llama": _decoder("Llama", GQA),
    "mistral": _decoder("Mistral", GQA, "window", sliding_window=4),
    "mixtral": _decoder("Mixtral", GQA, **MOE),
    "qwen2": _decoder("Qwen2", GQA),
    "qwen3": _decoder("Qwen3", GQA, head_dim=8),
    "gemma": _decoder("Gemma", GQA, head_dim=8),
    "gemma2": _decoder(
        "Gemma2", GQA, "window", "cap", "scale", head_dim=8, sliding_window=4, attn_logit_softcapping=2.0,
        query_pre_attn_scalar=2,
    ),
    "gemma3": Family(
        "decoder", "Gemma3ForCausalLM", "Gemma3TextConfig", GQA, ("causal", "padding", "window", "scale"),
        {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 2,
         "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "phi": _decoder("Phi", GQA),
    "phi3": _decoder("Phi3", GQA),
    "granite": _decoder("Granite", GQA, "scale", attention_multiplier=1.0),
    "olmo2": _decoder("Olmo2", GQA),
    "cohere": _decoder("Cohere", GQA),
    "starcoder2": _decoder("Starcoder2", GQA),
    "stablelm": _decoder("StableLm", GQA),
    "smollm3": _decoder("SmolLM3", GQA),
    "gpt2": Family("decoder", "GPT2LMHeadModel", "GPT2Config", GPT, ("causal", "padding")),
    "gptj": _decoder("GPTJ", GPT, rotary_dim=4),
    "gpt_neox": _decoder("GPTNeoX", ENCODER),
    "opt": _decoder("OPT", SIZES, ffn_dim=48, max_position_embeddings=64, word_embed_proj_dim=32),
    "gpt_oss": _decoder("GptOss", GQA, "sink", "window", head_dim=8, sliding_window=4, **MOE),
    "llama4": Family(
        "decoder", "Llama4ForCausalLM", "Llama4TextConfig", GQA, ("causal", "padding", "chunks"),
        {"head_dim": 8, "attention_chunk_size": 4, "intermediate_size_mlp": 48, "num_local_experts": 2,
         "layer_types": ["chunked_attention", "full_attention"]},
    ),
    "deepseek_v2": _decoder("DeepseekV2", MLA),
    "deepseek_v3": _decoder("DeepseekV3", MLA),
    # its indexer chooses among real keys only, so padding is hidden twice and has no control of its own
    "deepseek_v32": Family(
        "decoder", "DeepseekV32ForCausalLM", "DeepseekV32Config", MLA, ("causal", "choice"),
        {"index_topk": 3, "index_n_heads": 2, "index_head_dim": 8},
    ),
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta"),
    "electra": _encoder("Electra"),
    "albert": _encoder("Albert", embedding_size=32),
    "esm": _encoder("Esm", position_embedding_type="rotary", mask_token_id=3),
    "distilbert": Family(
        "encoder", "DistilBertModel", "DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 64, "pad_token_id": 0}, ("padding",),
    ),
    "modernbert": _encoder("ModernBert", "window", local_attention=4, global_attn_every_n_layers=2),
    "t5": Family(
        "encoder-decoder", "T5ForConditionalGeneration", "T5Config", T5, ("causal", "padding", "bias", "scale")
    ),
    "mt5": Family(
        "encoder-decoder", "MT5ForConditionalGeneration", "MT5Config", T5, ("causal", "padding", "bias", "scale")
    ),
    "bart": Family("encoder-decoder", "BartForConditionalGeneration", "BartConfig", BART, ("causal", "padding")),
    "mbart": Family("encoder-decoder", "MBartForConditionalGeneration", "MBartConfig", BART, ("causal", "padding")),
    "m2m_100": Family("encoder-decoder", "M2M100ForConditionalGeneration", "M2M100Config", BART, ("causal", "padding")),
    "whisper": Family(
        "audio", "WhisperForConditionalGeneration", "WhisperConfig",
        {**BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32}, ("causal",),
    ),
    "wav2vec2": Family("audio", "Wav2Vec2Model", "Wav2Vec2Config", AUDIO),
    "vit": Family("vision", "ViTModel", "ViTConfig", IMAGE),
    "deit": Family("vision", "DeiTModel", "DeiTConfig", IMAGE),
    "dinov2": Family("vision", "Dinov2Model", "Dinov2Config", IMAGE),
    "clip": Family("vision", "CLIPVisionModel", "CLIPVisionConfig", IMAGE),
    "siglip": Family("vision", "SiglipVisionModel", "SiglipVisionConfig", IMAGE),
}  # fmt: skip

_QUERY_KEY = re.compile(
    r"(q_proj|k_proj|query|key|c_attn|query_key_value|qkv_proj|Wqkv|q_lin|k_lin|q_b_proj|kv_b_proj|\.q|\.k|wq_b|q_norm|k_norm)"
    r"\.weight$"
)


def sharpen(model: nn.Module, by: float) -> None:
    """Random weights large enough to matter, and query and key weights larger still, so that rows are peaked."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                parameter.normal_(0, parameter.shape[-1] ** -0.5, generator=generator)
            elif not re.search(r"norm|ln_|layer_?scale", name, re.IGNORECASE):
                parameter.normal_(0, 0.2, generator=generator)
            if _QUERY_KEY.search(name):
                parameter.mul_(by)


class Zoo:
    """Builds models and their inputs; every model is built once a session and copied."""

    families = FAMILIES

    @staticmethod
    def sharpen(model: nn.Module) -> None:
        """Weights that make peaked rows, for a model built elsewhere."""
        sharpen(model, 3.0)

    def __init__(self) -> None:
        self._built: dict[str, nn.Module] = {}

    def model(self, name: str, **changes: Any) -> Any:
        """A fresh copy of a family's tiny model on the eager path, in eval mode."""
        # T5 does not scale its scores, so it needs less for rows as peaked
        by = 1.5 if "scale" in FAMILIES[name].features and FAMILIES[name].kind == "encoder-decoder" else 3.0
        key = f"{name} {by} {sorted(changes.items())}"
        if key not in self._built:
            family = FAMILIES[name]
            torch.manual_seed(0)
            config = getattr(transformers, family.config)(**{**family.sizes, **family.extra, **changes})
            config._attn_implementation = "eager"
            model = getattr(transformers, family.model)(config).eval()
            if hasattr(model, "generation_config"):
                model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
            sharpen(model, by)
            self._built[key] = model
        return copy.deepcopy(self._built[key])

    def batch(self, name: str, padding: str = "none", length: int = 10) -> dict[str, Tensor]:
        """Inputs of a family: two rows; padded on the left or right, row 1 has four tokens less."""
        generator = torch.Generator().manual_seed(3)
        kind = FAMILIES[name].kind
        ids = torch.randint(3, 64, (2, length), generator=generator)
        if kind == "vision":
            return {"pixel_values": torch.randn(2, 3, 16, 16, generator=generator)}
        if kind == "audio":
            if name == "wav2vec2":
                return {"input_values": torch.randn(2, 200, generator=generator)}
            return {
                "input_features": torch.randn(2, 8, 32, generator=generator),
                "decoder_input_ids": ids,
            }
        batch = {"input_ids": ids}
        if kind == "encoder-decoder":
            batch["decoder_input_ids"] = torch.randint(3, 64, (2, length), generator=generator)
        if padding != "none":
            mask = torch.ones(2, length, dtype=torch.int64)
            mask[1, slice(length - 4, None) if padding == "right" else slice(0, 4)] = 0
            batch["attention_mask"] = mask
            batch["input_ids"] = ids.masked_fill(mask == 0, 0)
        return batch

    def result(self, model: Any, batch: dict[str, Tensor], **more: Any) -> Tensor:
        """The model's main output at real tokens, [n, width]."""
        with torch.no_grad():
            output = model(**batch, **more)
        found = output.logits if "logits" in output else output.last_hidden_state
        if "attention_mask" in batch and "decoder_input_ids" not in batch and batch["attention_mask"].dim() == 2:
            return found[batch["attention_mask"][:, -found.shape[1] :].bool()]
        return found.flatten(0, 1)

    @staticmethod
    def in_use(model: nn.Module) -> bool:
        """Whether all attention of a model runs through headwise now."""
        return all(site.config._attn_implementation == NAME for site in find_sites(model).values())

    @staticmethod
    def state(model: nn.Module) -> list[Any]:
        """Everything that watching could leave on a model."""
        found: list[Any] = [sorted(vars(model))]
        for name, module in model.named_modules():
            found.append(
                (
                    name,
                    len(module._forward_hooks),
                    len(module._forward_pre_hooks),
                    sorted(vars(module)),
                    module.training,
                )
            )
            found.append(len(module._forward_hooks_always_called))
        return [*found, [config._attn_implementation_internal for config in using._configs(model)]]


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    """The tiny models."""
    return Zoo()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """transformers' notes about tiny configs are no news here."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(level)
