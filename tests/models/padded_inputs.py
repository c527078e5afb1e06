"""Inputs of any model that transformers knows, as batches of unequal lengths, padded on one side."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["SIDES", "candidates", "prompt"]

SIDES = ("left", "right")

#: The share of each row of the batch that is real; the first row has no padding.
SHARES = (1.0, 0.6, 0.4)
TOKENS = 12
FRAMES = (64, 256, 128)
SAMPLES = (6400, 16000)

#: Names under which a config, or one of its parts, keeps a size.
MELS = (
    "num_mel_bins", "n_mels", "num_mels", "mel_bins", "n_mel_bins", "input_feat_per_channel", "feature_size",
    "feat_dim", "feature_projection_input_dim", "input_dim", "input_feat_size", "input_size", "num_hidden_features",
)  # fmt: skip


def _find(config: Any, names: tuple[str, ...]) -> int | None:
    todo = [config]
    while todo:
        part = todo.pop(0)
        for name in names:
            size = getattr(part, name, None)
            if isinstance(size, (list, tuple)) and size:
                size = size[0]
            if isinstance(size, int) and not isinstance(size, bool):
                return size
        todo += [getattr(part, name) for name in getattr(part, "sub_configs", {}) if getattr(part, name, None)]
    return None


def _real(length: int, side: str) -> Tensor:
    """The mask of a batch, int64 [B, length]: 1 = real."""
    mask = torch.zeros(len(SHARES), length, dtype=torch.int64)
    for row, share in enumerate(SHARES):
        n = max(1, round(length * share))
        mask[row, slice(length - n, None) if side == "left" else slice(0, n)] = 1
    return mask if side != "none" else torch.ones_like(mask)


class _Maker:
    """Makes the tensors of one model; the same numbers whenever it is asked."""

    def __init__(self, model: nn.Module, side: str) -> None:
        self.model, self.side, self.config = model, side, model.config
        self.generator = torch.Generator().manual_seed(3)
        self.names = set(inspect.signature(model.forward).parameters)

    def noise(self, *shape: int) -> Tensor:
        dtype = next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)
        return torch.randn(*shape, generator=self.generator).to(dtype)

    def ids(self, length: int, vocabulary: tuple[str, ...] = ("vocab_size",)) -> Tensor:
        n = _find(self.config, vocabulary) or 64
        return torch.randint(3, max(8, min(n // 2, 48)), (len(SHARES), length), generator=self.generator)

    def text(self, prefix: str = "", side: str | None = None, length: int = TOKENS) -> dict[str, Tensor]:
        mask = _real(length, self.side if side is None else side)
        pad = getattr(self.config, "pad_token_id", None)
        pad = pad if isinstance(pad, int) and 0 <= pad < 90 else 0
        batch = {f"{prefix}input_ids": self.ids(length).masked_fill(mask == 0, pad)}
        if f"{prefix}attention_mask" in self.names:
            batch[f"{prefix}attention_mask"] = mask
        return batch

    def decoder(self) -> dict[str, Tensor]:
        """The decoder's own tokens, padded on the other rows' side as well."""
        return self.text("decoder_", length=7) if "decoder_input_ids" in self.names else {}

    def extra_text(self) -> dict[str, Tensor]:
        extra = {}
        if "bbox" in self.names:
            corners = torch.randint(0, 50, (len(SHARES), TOKENS, 4), generator=self.generator)
            extra["bbox"] = torch.cat([corners[..., :2], corners[..., 2:] + 50], -1)
        for name in ("mm_token_type_ids",):
            if name in self.names:
                extra[name] = torch.zeros(len(SHARES), TOKENS, dtype=torch.int64)
        return extra

    def masked(self, mask: Tensor) -> dict[str, Tensor]:
        """A mask over frames or samples under the name that the model reads."""
        for name in ("input_features_mask", "feature_attention_mask", "padding_mask", "attention_mask"):
            if name in self.names and (name != "attention_mask" or "input_ids" not in self.names):
                return {name: mask.bool() if name == "padding_mask" else mask}
        return {}

    def pictures(self, *lead: int) -> Tensor:
        side = _find(self.config, ("image_size", "img_size", "resolution")) or 32
        channels = _find(self.config, ("num_channels", "in_channels", "in_chans")) or 3
        return self.noise(len(SHARES), *lead, channels, side, side)


def _pixels(make: _Maker) -> Iterator[dict[str, Tensor]]:
    if "pixel_values" in make.names:
        yield {"pixel_values": make.pictures()}
        frames = _find(make.config, ("num_frames",))
        yield {"pixel_values": make.pictures(frames or 2)}
        side = _find(make.config, ("patch_size",)) or 8
        flat = make.noise(len(SHARES), 16, 3 * side * side)
        mask = _real(16, "right")
        shapes = torch.tensor([[4, 4], [2, 5], [2, 3]])
        yield {"pixel_values": flat, "pixel_attention_mask": mask, "spatial_shapes": shapes}
        yield {"pixel_values": flat, "attention_mask": mask, "spatial_shapes": shapes}


def _among_text(make: _Maker) -> Iterator[dict[str, Tensor]]:
    """A picture whose features take the places of some of the text's tokens, and a text of its own beside it."""
    if {"image_embeds_position_mask", "pixel_values"} <= make.names:
        places = torch.zeros(len(SHARES), TOKENS, dtype=torch.int64)
        places[:, -(_find(make.config, ("latent_query_num",)) or 8) :] = 1
        yield {"pixel_values": make.pictures(), "image_embeds_position_mask": places}
    if "qformer_input_ids" in make.names:
        picture = make.pictures(2) if "video" in make.config.model_type else make.pictures()
        question = {"qformer_input_ids": make.ids(5), "qformer_attention_mask": _real(5, make.side)}
        more = {"pixel_values": picture, **question}
        token = getattr(make.config, "image_token_id", None) or getattr(make.config, "video_token_id", None)
        yield more if token is None else {**more, **_with_tokens(make, token)}
    elif "pixel_values" in make.names and getattr(make.config, "image_token_id", None) is not None:
        yield {"pixel_values": make.pictures(), **_with_tokens(make, make.config.image_token_id)}


def _with_tokens(make: _Maker, token: int) -> dict[str, Tensor]:
    """A text whose first or last places are a picture's."""
    n = _find(make.config, ("num_query_tokens", "image_seq_length", "mm_tokens_per_image")) or 8
    text = make.text(length=TOKENS + n)
    ids, real = text["input_ids"], text["attention_mask"]
    for row in range(len(SHARES)):
        first = min(int(real[row].argmax()), TOKENS - 1)
        real[row, first : first + n + 1] = 1
        ids[row, first : first + n] = token
    return text


def _sounds(make: _Maker) -> Iterator[dict[str, Tensor]]:
    if "input_features" in make.names:
        mel = _find(make.config, MELS) or 80
        stacked = _find(make.config, ("num_stacked_frames",)) or 4
        for frames in FRAMES:
            for mask in (_real(frames, make.side), _real(frames, make.side).bool()):
                for shape in ((frames, mel), (mel, frames), (frames, stacked * mel)):
                    yield {"input_features": make.noise(len(SHARES), *shape), **make.masked(mask)}
            yield {"input_features": make.noise(len(SHARES), mel, frames)}
    if "input_values" in make.names:
        for samples in SAMPLES:
            mask = _real(samples, make.side)
            yield {"input_values": make.noise(len(SHARES), samples), **make.masked(mask)}
            yield {"input_values": make.noise(len(SHARES), 1, samples), **make.masked(mask)}
        mel = _find(make.config, MELS) or 80
        yield {"input_values": make.noise(len(SHARES), _find(make.config, ("max_length",)) or 64, mel)}
    if "flattened_patches" in make.names:
        n, size = 10, _find(make.config, ("patch_embed_hidden_size",)) or 64
        places = torch.arange(1, n + 1).float()[None, :, None].expand(len(SHARES), n, 2) % 7 + 1
        yield {
            "flattened_patches": torch.cat([places, make.noise(len(SHARES), n, size)], -1),
            "attention_mask": _real(n, make.side),
        }


def _grids(make: _Maker) -> Iterator[dict[str, Tensor]]:
    """Patches of several pictures in one row, told apart by their grids; their towers take no padding."""
    for name in ("grid_thw", "image_grid_thw"):
        if name not in make.names:
            continue
        merge = _find(make.config, ("spatial_merge_size", "merge_size")) or 2
        grid = torch.tensor([[1, 2 * merge, 2 * merge], [1, merge, 2 * merge]])
        n = int(grid.prod(-1).sum())
        patch = _find(make.config, ("patch_size",)) or 8
        times = _find(make.config, ("temporal_patch_size",)) or 1
        channels = _find(make.config, ("in_channels", "in_chans", "num_channels")) or 3
        width = channels * times * patch * patch
        for first in ("hidden_states", "pixel_values"):
            if first in make.names:
                yield {first: make.noise(n, width), name: grid}
                yield {first: make.noise(n, channels, patch, patch), name: grid}
                yield {first: make.noise(1, n, channels, patch, patch), name: grid}


def _states(make: _Maker) -> Iterator[dict[str, Tensor]]:
    """Models that read what others have embedded."""
    width = _find(make.config, ("hidden_size", "d_model")) or 64
    n = len(SHARES)
    mask = _real(TOKENS, make.side)
    hidden = make.noise(n, TOKENS, width)
    for name in ("inputs_embeds", "hidden_states", "context", "patch_embeds", "query_embeds"):
        if name in make.names:
            for kind in ("attention_mask", "mask"):
                if kind in make.names:
                    yield {name: hidden, kind: mask}
                    yield {name: hidden, kind: mask.bool()}
            yield {name: hidden}
    if "past_values" in make.names:
        length = _find(make.config, ("context_length",)) or 32
        values = make.noise(n, length)
        padding = {"past_values_padding": 1 - _real(length, make.side).float()}
        more = {"freq": torch.zeros(n, 1, dtype=torch.int64)} if "freq" in make.names else {}
        yield {"past_values": values, **padding, **more}
        series = make.noise(n, length, _find(make.config, ("num_input_channels",)) or 1)
        yield {"past_values": series}


def candidates(model: nn.Module, side: str) -> Iterator[dict[str, Tensor]]:
    """Batches that a model may take, the richest first; which one it takes is seen by trying.

    Args:
        model: a transformers model.
        side: where shorter rows are padded, "left" or "right"; "none" = no row is shorter.
    """
    make = _Maker(model, side)
    decoder = make.decoder()
    if "input_ids" in make.names:
        text = {**make.text(), **make.extra_text()}
        for more in (*_among_text(make), *_pixels(make), *_sounds(make)):
            yield {**text, **more, **decoder}
        yield {**text, **decoder}
        yield text
        if "encoder_hidden_states" in make.names:
            width = _find(make.config, ("hidden_size", "d_model")) or 64
            crossed = {"encoder_hidden_states": make.noise(len(SHARES), 9, width)}
            if "encoder_attention_mask" in make.names:
                crossed["encoder_attention_mask"] = _real(9, side)
            yield {**text, **crossed}
    for batch in (*_sounds(make), *_grids(make), *_pixels(make), *_states(make)):
        yield {**batch, **decoder}
        if decoder:
            yield batch


def prompt(model: nn.Module, batch: dict[str, Any]) -> dict[str, Any]:
    """What ``generate`` is given: the batch without the decoder's tokens."""
    return {name: value for name, value in batch.items() if not name.startswith("decoder_")}
