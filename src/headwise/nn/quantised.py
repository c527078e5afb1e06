"""A cache of eight bits a number: a quarter of float32's memory, with an error that is known."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from headwise.nn.any_cache import Cache, Form
from headwise.nn.growing import Growing
from headwise.spec import Quantised

__all__ = ["QuantisedCache", "quantised"]


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds the numbers of each token to one of 255 steps: ``q = round(x / scale)``, ``scale = max|x| / 127``.

    Args:
        x: [B,Hk,S,D], any float dtype.

    Returns:
        q, int8 [B,Hk,S,D] from -127 to 127, and the scales, float32 [B,Hk,S,1]. A token that holds NaN or inf, or a
        number beyond 4e40, has the scale NaN.

    Example:
        >>> import torch
        >>> from headwise.nn.quantised import quantised
        >>> q, scale = quantised(torch.tensor([[[[127.0, -63.6, 0.4]]]]))
        >>> q.flatten(), scale.flatten()
        (tensor([127, -64,   0], dtype=torch.int8), tensor([1.]))
    """
    wide = x.to(_wide(x.dtype))
    if not x.shape[-1]:
        return wide.to(torch.int8), wide.new_zeros((*x.shape[:-1], 1), dtype=torch.float32)
    scale = (wide.abs().amax(-1, keepdim=True) / 127).float()
    # 127 steps from the largest float32 must not overflow because the step was rounded up
    scale = torch.where((scale * 127).isinf(), torch.nextafter(scale, torch.zeros_like(scale)), scale)
    scale = scale.masked_fill(~(scale * 127).isfinite(), torch.nan)
    steps = (wide / scale).round().clamp(-127, 127).nan_to_num(0.0)  # 0 / 0 in a token of zeros, and a token of NaN
    return steps.to(torch.int8), scale


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


class QuantisedCache(Cache):
    """Keys and values in int8, with one float32 scale a token and head.

    A number x of a token whose largest is m = max|x| comes back as x' with

        |x - x'| <= m / 254 + 2^-22 m,    then rounded to the dtype: u m more, u = 2^-11 in float16, 2^-8 in bfloat16

    where 2^-22 m are the roundings of float32, in which the scale is; below m = 1.5e-36 it is no longer that fine.
    Every key is rounded once, when it comes, and never again. `append` returns the rounded numbers of the new tokens
    as well: what a query sees does not depend on how the text was cut into calls.

    A token whose key, or value, holds NaN or inf stays no number: all of that key, or value, is NaN.

    int8 and scale are kept, (D + 4) bytes a key; `append` makes numbers of the operands' dtype of all of them anew,
    while `appending`, and so a module, hands them on as they lie, `headwise.Quantised`. Gradients are refused: rounding
    has none.

    Example:
        >>> import torch
        >>> from headwise.nn.quantised import QuantisedCache
        >>> cache, k = QuantisedCache(), torch.randn(1, 2, 5, 8)
        >>> keys, values = cache.append(k, k)
        >>> (
        ...     bool(((keys - k).abs() <= k.abs().amax(-1, keepdim=True) / 250).all()),
        ...     cache.stored()[0].numbers.dtype,
        ... )
        (True, torch.int8)
    """

    def __init__(self) -> None:
        self._reset()

    @property
    def length(self) -> int:
        return 0 if self._k.held is None else self._k.held.shape[2]

    def _reset(self) -> None:
        self._k, self._v = Growing(), Growing()
        self._k_scale, self._v_scale = Growing(), Growing()
        self._dtype: torch.dtype | None = None

    def _parts(self) -> tuple[Growing, Growing, Growing, Growing]:
        return self._k, self._k_scale, self._v, self._v_scale

    def _forms(self) -> tuple[Form, Form] | None:
        k, v = self._k.held, self._v.held
        if k is None or v is None or self._dtype is None:
            return None
        return Form(tuple(k.shape), self._dtype, k.device), Form(tuple(v.shape), self._dtype, v.device)

    def _read(self) -> tuple[Quantised, Quantised]:
        held = [part.held for part in self._parts() if part.held is not None]
        assert self._dtype is not None
        return self._stored(held, self._dtype)

    def _stored(self, held: list[Tensor], dtype: torch.dtype) -> tuple[Quantised, Quantised]:
        k, k_scale, v, v_scale = held
        return Quantised(k, k_scale.squeeze(-1), dtype), Quantised(v, v_scale.squeeze(-1), dtype)

    def _grown(self, k: Tensor, v: Tensor) -> Iterator[tuple[Quantised, Quantised]]:
        self._refuse_gradients(k, v)
        new = (*quantised(k.detach()), *quantised(v.detach()))
        grown = [part.extended(more) for part, more in zip(self._parts(), new, strict=True)]
        yield self._stored(grown, k.dtype)
        for part, held in zip(self._parts(), grown, strict=True):
            part.held = held
        self._dtype = k.dtype

    def _crop(self, kept: int) -> None:
        for part in self._parts():
            assert part.held is not None
            part.held = part.held.narrow(2, 0, kept)

    def _reorder(self, rows: Tensor) -> None:
        for take in [part.taken(rows) for part in self._parts()]:
            take()
