"""Nested tensors, as torch's encoder makes them of padded batches in inference, and that encoder itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["TransformerEncoder", "nested", "padded", "real_rows"]


@dataclass
class _Batch:
    """The padded batch of the encoder that runs.

    Attributes:
        length: of its sequences, padding included; nested tensors do not tell it.
        all_padding: whether a layer found no token in it.
    """

    length: int
    all_padding: bool = False


_batch: ContextVar[_Batch | None] = ContextVar("headwise_padded_batch", default=None)


class TransformerEncoder(nn.TransformerEncoder):
    """torch's encoder, which also runs where all of a batch is padding, and whose length its layers know.

    In inference torch leaves padding out, and writes 0 where it was. A batch of nothing else it refuses.

    Example:
        >>> import torch
        >>> from headwise.nn import torch_compat
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> encoder = torch_compat.replace(torch.nn.TransformerEncoder(layer, 1)).eval()
        >>> with torch.no_grad():
        ...     encoder(torch.randn(1, 2, 8), src_key_padding_mask=torch.tensor([[True, True]])).abs().sum()
        tensor(0.)
    """

    def forward(self, src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The encoder's output; arguments and result are torch's."""
        if src.is_nested or src.dim() != 3 or torch.compiler.is_compiling():  # torch nests no batch there
            return super().forward(src, *args, **kwargs)
        batch = _Batch(src.shape[1])
        token = _batch.set(batch)
        try:
            return super().forward(src, *args, **kwargs)
        except RuntimeError as error:
            # All layers ran on sequences of no token, which torch cannot pad again.
            if not (batch.all_padding and "non-zero numel" in str(error)):
                raise
        finally:
            _batch.reset(token)
        out = torch.zeros_like(src)
        return out if self.norm is None else self.norm(out)


def real_rows(lengths: Sequence[int], like: Tensor) -> Tensor:
    """Which rows of a padded batch are real: bool [B,T], for sequences of so many tokens, on the device of ``like``."""
    at = torch.arange(like.shape[1], dtype=torch.int64, device=like.device)
    return at < torch.tensor(lengths, dtype=torch.int64, device=like.device)[:, None]


def padded(x: Tensor) -> tuple[Tensor, list[int]]:
    """A nested tensor padded with 0, [B,T,M], and how many tokens each sequence has.

    T is the length that the batch had where torch's encoder nested it, else that of the longest sequence.
    """
    rows = x.unbind()
    lengths = [len(row) for row in rows]
    longest, batch = max(lengths, default=0), _batch.get()
    if batch is not None and longest <= batch.length:
        longest, batch.all_padding = batch.length, longest == 0
    if any(lengths):
        return torch.nested.to_padded_tensor(x, 0.0, (len(rows), longest, rows[0].shape[1])), lengths
    return torch.stack([F.pad(row, (0, 0, 0, longest)) for row in rows]), lengths


def nested(out: Tensor, lengths: Sequence[int]) -> Tensor:
    """The real rows of a padded batch [B,T,M], as a nested tensor."""
    return torch.nested.as_nested_tensor([row[:n] for row, n in zip(out, lengths, strict=True)])
