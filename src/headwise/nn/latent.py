"""Multi-head latent attention: keys and values of all heads are projections of one narrow vector a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import Never, Self

from headwise.elsewhere import near, not_taken, without_others
from headwise.errors import SpecError, sentence
from headwise.nn.cache import Cache
from headwise.nn.calls import both, bypassable, check_cache, check_input, reset, through
from headwise.nn.checking import at_least_one, dropout_of, listed, mask_of, one_of, positive, scale_of
from headwise.nn.rotary import Rotary
from headwise.nn.rules import Held
from headwise.nn.scaling import Yarn
from headwise.ops import Attended, attend, attention
from headwise.spec import Causal, Mask, Stored
from headwise.spec.stored import columns_of, dense_of

__all__ = ["LatentAttention"]

_WHO = "LatentAttention"
_TODO = "Write layer(x): its queries, keys and values all come from x."


class LatentAttention(nn.Module):
    """Multi-head latent attention (MLA): a token is remembered as one latent vector c and one turned key r.

        c_t = norm(x_t W_DKV) [R],    r_t = turned(x_t W_KR) [W],    q_h = [x W_Q^h | turned(x W_QR^h)]
        score_h(t, s) = scale (q_h^nope . W_UK^h c_s + q_h^rope . r_s),    head_h = sum_s p_h(t, s) W_UV^h c_s

    Two ways to the same numbers. **Expanded**: keys and values of every head are formed, W_UK^h c and W_UV^h c.
    **Absorbed**: W_UK^h goes to the query and W_UV^h behind the sum, so that all heads read the latents themselves as
    one key/value head of width R + W, and decoding reads R + W numbers a token instead of H (D + E).

    Parameters are named as in DeepSeek's checkpoints, so that their state dicts load.

    Args:
        d_model: M, the width of the input and the output.
        heads: H.
        kv_rank: R, the width of the latent of keys and values.
        q_rank: the width of the latent of queries; None = queries are projected from x.
        nope_dim: the width of a head's query and key that is not turned.
        rope_dim: W, the width that is.
        v_dim: E, the width of a head's value.
        rotary: how it is turned; None = ``Rotary(rope_dim, pairing="neighbours")``, as DeepSeek's.
        scale: of q.k; None = 1/sqrt(nope_dim + rope_dim). DeepSeek's with Yarn is that times the square of its mscale.
        mask: what every call hides, such as ``Causal()``.
        bias: whether the projections from x, and o_proj, have a bias.
        norm_eps: of the norms of the latents.
        dropout: probability that a cell of the pattern is dropped, in training only.
        form: "expanded" or "absorbed"; None = the one with fewer multiply-adds, call by call. Only expanded calls
            kv_b_proj, so it is the one that None takes, and "absorbed" an error, where that is no ordinary Linear or
            has hooks.
        backend: as in `headwise.attention`.
        device: where the parameters are made.
        dtype: of the parameters.

    Raises:
        SpecError: if a number is out of its range.

    Source:
        DeepSeek-AI 2024, "DeepSeek-V2" (arXiv 2405.04434), section 2.1 and appendix C.

    Example:
        >>> import torch, headwise as hw
        >>> layer = hw.nn.LatentAttention(
        ...     64, 4, kv_rank=16, nope_dim=8, rope_dim=4, v_dim=8, mask=hw.Causal()
        ... ).eval()
        >>> x, cache = torch.randn(1, 6, 64), hw.nn.KVCache()
        >>> with torch.no_grad():
        ...     parts = [layer(x[:, n : n + 1], cache=cache) for n in range(6)]
        ...     torch.allclose(torch.cat(parts, 1), layer(x), atol=1e-5)
        True
        >>> cache  # one head of 16 + 4 numbers a token, where 4 heads have 4 * (12 + 8)
        KVCache(B=1, Hk=1, S=6, D=20, E=0)
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        kv_rank: int,
        q_rank: int | None = None,
        nope_dim: int = 128,
        rope_dim: int = 64,
        v_dim: int = 128,
        rotary: Rotary | None = None,
        scale: float | None = None,
        mask: Mask | None = None,
        bias: bool = False,
        norm_eps: float = 1e-6,
        dropout: float = 0.0,
        form: Literal["expanded", "absorbed"] | None = None,
        backend: Any = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = {"d_model": d_model, "heads": heads, "kv_rank": kv_rank, "nope_dim": nope_dim}
        sizes |= {"rope_dim": rope_dim, "v_dim": v_dim, "q_rank": 1 if q_rank is None else q_rank}
        for name, value in sizes.items():
            at_least_one(_WHO, name, value)
        if form is not None:
            one_of(_WHO, "form", form, ("expanded", "absorbed"))
        if rotary is not None and not isinstance(rotary, Rotary):
            raise SpecError(sentence(_WHO, f"rotary is {rotary!r}", "it is a headwise.nn.Rotary or None"))
        mask_of(_WHO, mask)
        self.d_model, self.heads, self.kv_rank, self.q_rank = d_model, heads, kv_rank, q_rank
        self.nope_dim, self.rope_dim, self.v_dim, self.form = nope_dim, rope_dim, v_dim, form
        self.rotary = (Rotary(rope_dim, pairing="neighbours") if rotary is None else rotary).fitted(rope_dim)
        given = scale_of(_WHO, scale)
        self.scale = (nope_dim + rope_dim) ** -0.5 if given is None else given
        self.dropout, self.backend = dropout_of(_WHO, dropout), backend
        norm_eps = positive(_WHO, "norm_eps", norm_eps)
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        queries = heads * (nope_dim + rope_dim)
        if q_rank is None:
            self.q_proj = nn.Linear(d_model, queries, bias=False, **make)
        else:
            self.q_a_proj = nn.Linear(d_model, q_rank, bias=bias, **make)
            self.q_a_layernorm = nn.RMSNorm(q_rank, eps=norm_eps, **make)
            self.q_b_proj = nn.Linear(q_rank, queries, bias=False, **make)
        self.kv_a_proj_with_mqa = nn.Linear(d_model, kv_rank + rope_dim, bias=bias, **make)
        self.kv_a_layernorm = nn.RMSNorm(kv_rank, eps=norm_eps, **make)
        self.kv_b_proj = nn.Linear(kv_rank, heads * (nope_dim + v_dim), bias=False, **make)
        self.o_proj = nn.Linear(heads * v_dim, d_model, bias=bias, **make)
        self.mask = Held(mask).to(device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew: Xavier uniform for the matrices, zero for biases, one for norms.

        Example:
            >>> import headwise as hw
            >>> hw.nn.LatentAttention(8, 2, kv_rank=4).reset_parameters()
        """
        reset(self)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The attention layer of a published model, with fresh weights.

        Args:
            name: "deepseek-v2-lite", "deepseek-v2" or "deepseek-v3".
            **changes: arguments of the constructor that replace those of the preset.

        Raises:
            SpecError: if there is no preset of that name.

        Example:
            >>> import headwise as hw
            >>> hw.nn.LatentAttention.preset("deepseek-v2-lite", device="meta").kv_rank
            512
        """
        if name not in _PRESETS:
            what, rule = f"there is no preset {name!r}", f"known are {listed(_PRESETS)}"
            raise SpecError(sentence(f"{_WHO}.preset", what, rule, todo=near(name, _PRESETS)))
        return cls(**{**_PRESETS[name], **changes})

    @without_others
    def forward(
        self,
        x: Tensor,
        *others: Never,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        **names: Never,
    ) -> Tensor:
        """The layer's output.

        Args:
            x: [B,T,M].
            mask: what this call hides beside the module's own mask, over all keys, those in the cache included.
            cache: a `KVCache` or another of headwise.nn's; it holds the latents, [B,1,S,R + W].
            positions: of the tokens of x, [T] or [B,T]; None = one after the other, behind those in the cache.

        Returns:
            [B,T,M].

        Raises:
            ShapeError: if x, mask and cache do not fit together in shape, dtype or device.
            SpecError: if the mask is not a mask, or the cache belongs to something else.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.nn.LatentAttention(64, 4, kv_rank=16, q_rank=24, nope_dim=8, rope_dim=4, v_dim=8)
            >>> layer(torch.randn(2, 5, 64)).shape
            torch.Size([2, 5, 64])
        """
        if others or names:
            raise not_taken(_WHO, type(self).forward, others, names, _TODO)
        with self._operands(x, mask, cache, positions) as (operands, absorbed):
            return self._projected(attention(**operands), absorbed)

    @without_others
    def attend(
        self,
        x: Tensor,
        *others: Never,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        observe: Sequence[Any] = (),
        **names: Never,
    ) -> Attended:
        """The layer's output and whatever is asked of its pattern.

        Args:
            x, mask, cache, positions: as of `forward`.
            observe: observers; they see probabilities before dropout.

        Returns:
            What `headwise.attend` returns, with ``out`` [B,T,M] behind the output projection.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.nn.LatentAttention(64, 4, kv_rank=16, nope_dim=8, rope_dim=4, v_dim=8)
            >>> layer.attend(torch.randn(2, 5, 64), observe=[hw.Received()]).seen["received"].shape
            torch.Size([2, 4, 5])
        """
        if others or names:
            raise not_taken(_WHO, type(self).attend, others, names, _TODO)
        with self._operands(x, mask, cache, positions) as (operands, absorbed):
            attended = attend(**operands, observe=observe)
            return replace(attended, out=self._projected(attended.out, absorbed))

    def extra_repr(self) -> str:
        """The sizes, for ``print(module)``."""
        ranks = f"kv_rank={self.kv_rank}, q_rank={self.q_rank}"
        widths = f"nope_dim={self.nope_dim}, rope_dim={self.rope_dim}, v_dim={self.v_dim}"
        return f"M={self.d_model}, H={self.heads}, {ranks}, {widths}, form={self.form!r}"

    @contextmanager
    def _operands(
        self, x: Tensor, mask: Mask | None, cache: Cache | None, positions: Tensor | None
    ) -> Iterator[tuple[dict[str, Any], bool]]:
        """The arguments of `headwise.attention`, and whether they are the absorbed form's."""
        check_input(_WHO, "x", x, "B T M", self.d_model, self.kv_a_proj_with_mqa)
        shown, mask = self.mask(), mask_of(_WHO, mask)
        check_cache(_WHO, cache)
        if cache is None:
            shown = both(shown, mask)
        else:
            shown, _ = through(_WHO, self, cache, shown, mask, (), x)
        at: int | Tensor = (0 if cache is None else cache.length) if positions is None else positions
        q = self._queries(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain, turned = q.split((self.nope_dim, self.rope_dim), dim=-1)
        turned = self.rotary.rotate(turned, at)
        latent, key = self.kv_a_proj_with_mqa(x).split((self.kv_rank, self.rope_dim), dim=-1)
        joined = torch.cat((self.kv_a_layernorm(latent), self.rotary.rotate(key[:, None], at)[:, 0]), dim=-1)[:, None]
        options = {
            "mask": shown,
            "scale": self.scale,
            "dropout": self.dropout if self.training else 0.0,
            "backend": self.backend,
        }
        if cache is None:
            formed, absorbed = self._formed(plain, turned, joined)
            yield {**formed, **options}, absorbed
            return
        # All there is to remember is the joined vector: values are a part of it, so they are held with no width.
        with cache.appending(joined, joined[..., :0]) as (held, _):
            formed, absorbed = self._formed(plain, turned, held)
            yield {**formed, **options}, absorbed

    def _queries(self, x: Tensor) -> Tensor:
        if self.q_rank is None:
            return self.q_proj(x)
        return self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def _formed(self, plain: Tensor, turned: Tensor, joined: Tensor | Stored) -> tuple[dict[str, Any], bool]:
        """q, k and v from queries [B,H,T,.] and joined latents [B,1,S,R + W], and whether they are absorbed."""
        if self._absorbs(plain.shape[2], joined.shape[2]):
            to_keys, _ = self._up()
            values = columns_of(joined, 0, self.kv_rank)
            return {"q": torch.cat((plain @ to_keys, turned), dim=-1), "k": joined, "v": values}, True
        latent, key = dense_of(joined).split((self.kv_rank, self.rope_dim), dim=-1)
        wide = self.kv_b_proj(latent[:, 0]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = wide.split((self.nope_dim, self.v_dim), dim=-1)
        k = torch.cat((k, key.expand(-1, self.heads, -1, -1)), dim=-1)
        return {"q": torch.cat((plain, turned), dim=-1), "k": k, "v": v}, False

    def _absorbs(self, T: int, S: int) -> bool:
        """Whether the absorbed form is taken: by multiply-adds a head, unless somebody chose."""
        if self.form == "expanded" or (self.form is None and not bypassable(self.kv_b_proj)):
            return False
        if self.form == "absorbed":
            if not bypassable(self.kv_b_proj):
                kind = type(self.kv_b_proj).__name__
                what = f"form is 'absorbed', and kv_b_proj, a {kind}, is wrapped, quantised or has hooks"
                rule = "the absorbed form reads the weight of an ordinary Linear and never calls it"
                raise SpecError(sentence(_WHO, what, rule, todo="Use form=None, which then expands."))
            return True
        up = self.nope_dim + self.v_dim
        expanded = S * self.kv_rank * up + T * S * (up + self.rope_dim)
        return T * self.kv_rank * up + T * S * (2 * self.kv_rank + self.rope_dim) < expanded

    def _up(self) -> tuple[Tensor, Tensor]:
        """W_UK [H,nope_dim,R] and W_UV [H,E,R], views of kv_b_proj's weight."""
        weight = self.kv_b_proj.weight.unflatten(0, (self.heads, -1))
        return weight[:, : self.nope_dim], weight[:, self.nope_dim :]

    def _projected(self, out: Tensor, absorbed: bool) -> Tensor:
        if absorbed:
            out = out @ self._up()[1].mT
        return self.o_proj(out.transpose(1, 2).flatten(2))


def _deepseek(d_model: int, mscale: float, **more: Any) -> Mapping[str, Any]:
    # mscale on both sides of Yarn's quotient leaves cosines alone; the scale of q.k takes its square instead.
    yarn = Yarn(40.0, 4096, mscale=mscale, mscale_all_dim=mscale)
    rotary = Rotary(64, pairing="neighbours", scaling=yarn)
    scale = 192**-0.5 * yarn.sharpened(mscale) ** 2
    return {"d_model": d_model, "kv_rank": 512, "mask": Causal(), "rotary": rotary, "scale": scale, **more}


_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "deepseek-v2-lite": _deepseek(2048, 0.707, heads=16),
    "deepseek-v2": _deepseek(5120, 0.707, heads=128, q_rank=1536),
    "deepseek-v3": _deepseek(7168, 1.0, heads=128, q_rank=1536),
}
