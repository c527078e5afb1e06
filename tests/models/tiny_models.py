"""A tiny random model of any type that transformers knows: its config shrunk by rules on the names of its fields."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from zoo import sharpen

__all__ = ["NoModelError", "classes_of", "tiny_config", "tiny_model"]

VOCABULARY = 96
WIDTH = 64
HEADS = 4

#: Fields by name, first match first; a rule gives the value, or makes it of the default. Only whole numbers are shrunk
#: so; what is None is derived by the config itself, mostly from what was shrunk.
RULES: list[tuple[str, Any]] = [
    (r"(pad|bos|eos|sep|cls|mask|unk|decoder_start|forced_bos|forced_eos)_token_id$", None),
    (r"(_token_id|_token_index)$", None),
    (r"^(type_vocab_size|num_labels|num_channels|in_channels|n_langs)$", lambda n: n),
    (r"vocab_size$|^num_embeddings$|vocab_size_per_layer_input$", VOCABULARY),
    (r"^codebook_size$|^num_codevectors_per_group$", 32),
    (r"(max.*position|n_positions|max_(source|target|speech|text)_positions|n_ctx|max_seq_len|max_img_size)", 128),
    (r"(num_key_value_heads|num_kv_heads|n_kv_heads)$", 2),
    (r"linear_num_(key|value)_heads$", 2),
    (r"qk_rope_head_dim$|^rotary_dim$", 8),
    (r"(head_dim|d_kv|dim_head|d_head|head_size|key_head_dim|value_head_dim|v_head_dim|qk_nope_head_dim)$", 16),
    (r"(num|n)_.*heads$|^(num|n)_heads?$|attention_heads$|^heads$|_heads$", HEADS),
    (r"lora_rank$", 16),
    (r"(num_experts_per_tok|moe_topk|num_experts_per_token|moe_k|top_k)$", 2),
    (r"(n_shared_experts|num_shared_experts|n_group|topk_group|first_k_dense_replace)$", lambda n: min(n, 1)),
    (r"(num_experts|num_local_experts|n_routed_experts|moe_num_experts)$", 4),
    (r"index_topk$", 3),
    (r"^(encoder|decoder)_layers$", 2),
    (r"(hidden_layers|_layers|^n_layers?|^depth|^layers|num_blocks|encoder_blocks)$", lambda n: min(n, 2)),
    (r"(hidden_size|d_model|n_embd|embed_dim|hidden_dim|projection_dim|embedding_size|embedding_dim|emb_dim)$", WIDTH),
    (r"(intermediate_size|intermediate_dim|ffn_dim|d_ff|mlp_dim|ffn_hidden_size|d_inner)$", 64),
    (r"(dim_feedforward|linear_units)$", 64),
    (r"(output_dim|hidden_dimension|out_dim|dim_ff|proj_size)$", WIDTH),
    (r"image_size$|^resolution$", 32),
    (r"^patch_size$", 8),
    (r"(num_mel_bins|n_mels|mel_bins|feature_size|input_feat_per_channel)$", 16),
    (r"(sliding_window|attention_window|local_attention|attention_chunk_size|sliding_window_size)$", 4),
    (r"^num_conv_pos_embeddings$", 4),
    (r"^num_conv_pos_embedding_groups$", 2),
    (r"^(num_queries|num_query_tokens|num_latents|latent_query_num)$", 8),
    (r"^relative_attention_num_buckets$", 8),
]  # fmt: skip

#: What no default says and some model needs; elsewhere None stays None.
UNSAID = {
    "head_dim": 16,
    "num_key_value_heads": HEADS,
    "num_experts": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "top_k_experts": 2,
    "moe_intermediate_size": 16,
    "vocab_size": VOCABULARY,
    "prediction_length": 8,
}

#: What the rules get wrong, by type of config.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "granite_speech5_encoder": {"context_size": 16},
    "gemma3n_text": {"num_hidden_layers": 6, "num_kv_shared_layers": 1},
    "layoutlmv3": {
        "input_size": 32, "patch_size": 8, "coordinate_size": 11, "shape_size": 10, "max_2d_position_embeddings": 128,
    },
    "dory": {"n_input_layers": 2, "n_recurrent_layers": 2, "n_output_layers": 2, "num_hidden_layers": 6},
    "mimi": {"upsample_groups": 64, "num_filters": 4, "codebook_dim": 16, "vector_quantization_hidden_dimension": 16},
    "chameleon": {"vocabulary_map": {"<image>": 90, **{f"IMGIMG{chr(65 + n)}Z": 80 + n for n in range(8)}}},
    "emu3": {"vocabulary_map": {"<image>": 90, **{f"<|visual token {n:06d}|>": 80 + n for n in range(8)}}},
    "glm5_next_text": {"index_kpool": 2, "index_topk": 4, "head_dim": 0, "qk_rope_head_dim": 0},
    "qwen4_exp_text": {
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4,
        "indexer_compress_ratio": 2, "ngram_vocab_size_base": 97, "split_ngram_parts": 1,
    },
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]},
        }
    },
    "blip-2": {"image_token_index": 90},
    "instructblip": {"image_token_index": 90},
    "instructblipvideo": {"video_token_index": 90},
    "dots3_note_text": {"per_layer_config": {}, "num_key_value_heads": HEADS, "head_dim": 24},
    "ernie4_5_vl_moe_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]},
    },
    "longcat_flash": {"head_dim": 8},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 64},
    "step3p5": {"sliding_window": 4},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "unlimited_ocr_text": {"num_key_value_heads": HEADS},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
    "moonshine_streaming": {"num_key_value_heads": HEADS},
    "dots3_note_vision_encoder": {"per_layer_config": {}, "adapter_in_dim": WIDTH},
    "dots3_note_audio_encoder": {"adapter_input_size": WIDTH},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "diffusion_gemma_text": {"per_layer_config": {}},
    "FunAsrNanoAdaptorConfig": {"intermediate_size": 16},
    "esmfold2": {"head_dim": 32},
    "esm": {"vocab_size": VOCABULARY, "mask_token_id": 4, "pad_token_id": 1},
}  # fmt: skip


class NoModelError(Exception):
    """There is no model of a type, or none that can be built without files."""


def _rule(name: str, default: Any) -> Any:
    for pattern, value in RULES:
        if re.search(pattern, name):
            return value(default) if callable(value) else value
    return default


def tiny_config(kind: type[PreTrainedConfig]) -> PreTrainedConfig:
    """A config of a class, with every size small.

    Args:
        kind: a class of config; its nested configs are shrunk as well.
    """
    inherited = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    fields = {f.name: f for f in dataclasses.fields(kind) if f.name not in inherited and f.init}
    full = _default(kind)
    sizes: dict[str, Any] = {}
    for name, field in fields.items():
        if name in kind.sub_configs:
            continue
        default = field.default
        if isinstance(default, int) and not isinstance(default, bool):
            small = _rule(name, default)
            if small is not None and small != default:
                sizes[name] = small
        elif name in ("conv_dim", "tdnn_dim") and isinstance(default, (list, tuple)):
            sizes[name] = type(default)([16] * len(default))
        elif default is None and name in UNSAID and getattr(full, name, 0) is None:
            sizes[name] = UNSAID[name]
    if "num_hidden_layers" in fields:
        sizes["num_hidden_layers"] = _layers(full)
    if "kv_lora_rank" in fields and "num_key_value_heads" in fields:
        sizes["num_key_value_heads"] = HEADS
    rope = getattr(full, "rope_parameters", None)
    if isinstance(rope, dict) and _reads(kind, "mrope_section"):
        half = int((8 if "qk_rope_head_dim" in fields else 16) * rope.get("partial_rotary_factor", 1.0)) // 2
        sizes["rope_parameters"] = {**rope, "mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}
    exceptions = {**EXCEPTIONS.get(kind.model_type, {}), **EXCEPTIONS.get(kind.__name__, {})}
    for name, nested in kind.sub_configs.items():
        sizes[name] = _nested(kind, name, nested)
    token_ids(kind, {**sizes, **exceptions}, sizes)
    return kind(**{**sizes, **exceptions})


def _default(kind: type[PreTrainedConfig]) -> PreTrainedConfig | None:
    try:
        return kind()
    except Exception:  # noqa: BLE001 - some configs say nothing without an argument
        return None


def _layers(full: PreTrainedConfig | None) -> int:
    """Two layers, or as many of the default's as hold one of every kind."""
    kinds = next((v for n in ("layer_types", "layers_block_type") if (v := getattr(full, n, None))), None)
    if not isinstance(kinds, (list, tuple)):
        return 2
    return min(8, max(2, *(list(kinds).index(kind) + 1 for kind in set(kinds))))


def _reads(kind: type[PreTrainedConfig], name: str) -> bool:
    """Whether the model of a config reads a name."""
    try:
        module = importlib.import_module(kind.__module__.replace(".configuration_", ".modeling_"))
        return name in inspect.getsource(module)
    except (ImportError, OSError):
        return False


def _nested(kind: type[PreTrainedConfig], name: str, nested: type) -> Any:
    if issubclass(nested, PreTrainedConfig):
        return tiny_config(nested)
    default = getattr(kind(), name)  # an AutoConfig: what it is by default says its class
    return None if default is None else tiny_config(type(default))


def token_ids(kind: type[PreTrainedConfig], known: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Special tokens beyond a small vocabulary get numbers of their own at its end."""
    vocabulary = known.get("vocab_size", VOCABULARY)
    free = iter(range(vocabulary - 1, 2, -1))
    for field in dataclasses.fields(kind):
        number = field.default
        named = re.search(r"(_token_id|_token_index|_index)$", field.name)
        if named and isinstance(number, int) and number >= vocabulary:
            sizes[field.name] = next(free)


def classes_of(model_type: str) -> tuple[type[PreTrainedModel] | None, type[PreTrainedModel] | None]:
    """The classes of a model type: the one without a head, and the one that generates.

    Args:
        model_type: a key of transformers' config mapping.
    """
    kind = CONFIG_MAPPING[model_type]
    bare = _listed(modeling_auto.MODEL_MAPPING_NAMES, model_type)
    if bare is None:
        bare = _of_config(kind)
    if bare is not None and bare.config_class is not kind:
        bare = _of_config(kind) or bare
    generating = None
    for table in (
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
        "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
        "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    ):
        named = _listed(getattr(modeling_auto, table), model_type)
        generating = generating or (named if named is not None and named.config_class is kind else None)
    return bare, generating


def _listed(table: Any, model_type: str) -> type[PreTrainedModel] | None:
    import transformers

    names = table.get(model_type)
    names = [names] if isinstance(names, str) else list(names or ())
    for name in names:
        found = getattr(transformers, name, None)
        if isinstance(found, type) and issubclass(found, PreTrainedModel):
            return found
    return None


def _of_config(kind: type[PreTrainedConfig]) -> type[PreTrainedModel] | None:
    """A model of a config that no table names: the first public one of its file that takes this config."""
    home = kind.__module__.replace(".configuration_", ".modeling_")
    try:
        module = importlib.import_module(home)
    except ImportError:
        return None
    found = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type)
        and issubclass(thing, PreTrainedModel)
        and thing.__module__ == home
        and getattr(thing, "config_class", None) is kind
        and "forward" in vars(thing)
    ]
    found.sort(key=lambda thing: not thing.__name__.endswith("Model"))
    return found[0] if found else None


def tiny_model(cls: type[PreTrainedModel], config: PreTrainedConfig, sharpness: float = 3.0) -> nn.Module:
    """A model with random weights, on the eager path, whose attention rows are peaked, without dropout.

    Args:
        cls: the class of model.
        config: its config; changed in place.
        sharpness: factor of the query and key weights.
    """
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    model = cls(config).eval()
    sharpen(model, sharpness)
    generation = getattr(model, "generation_config", None)
    if generation is not None:
        generation.eos_token_id = generation.forced_eos_token_id = None
        if getattr(generation, "decoder_start_token_id", 0) is None and config.is_encoder_decoder:
            generation.decoder_start_token_id = 1
    for part in model.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.zero_(), part.running_var.fill_(1.0)
    return model
