"""What an attention layer is, as one frozen value: every size and option of `MultiHeadAttention`, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from headwise.elsewhere import said_here
from headwise.errors import SpecError, sentence
from headwise.nn.checking import at_least_one, dropout_of, listed, mask_of, one_of, positive, scale_of
from headwise.nn.rotary import Rotary
from headwise.spec import Mask, Rules
from headwise.spec.checks import of_class

__all__ = ["AttentionConfig"]

_WHO = "MultiHeadAttention"


@dataclass(frozen=True, eq=False)
class AttentionConfig:
    """The sizes and options of an attention layer, with every default filled in.

    Args:
        d_model: M, the width of the input and the output.
        heads: H, the number of query heads.
        kv_heads: Hk, the number of key/value heads; None = H. It divides H; 1 is multi-query attention.
        head_dim: D, the width of a head; None = M / H, which then has to come out even.
        kdim: the width of what keys are projected from, in cross attention; None = M.
        vdim: the width of what values are projected from; None = kdim.
        bias: whether q_proj, k_proj and v_proj have a bias.
        out_bias: whether o_proj has one; None = as ``bias``.
        dropout: probability that a cell of the pattern is dropped, in training only.
        scale: what q k^T is multiplied by; None = 1/sqrt(D).
        mask: what every call hides, such as ``Causal()``; the mask of a call narrows it further.
        scores: score rules, applied in order. Parameters inside them are trained with the module.
        rotary: rotary position embedding of queries and keys, such as ``Rotary(base=500_000.0)``; None = none.
        qk_norm: norm of queries and keys before they are turned and compared: "rms" or "layer" over each head's width,
            with one weight for all heads (Qwen3; ViT-22B), "rms-wide" over all heads together (OLMo 2), None = none.
        norm_eps: the epsilon of those norms.
        sinks: "learned": each head learns one extra logit in its denominator (gpt-oss), first 0; "off-by-one": that
            logit is 0 for good, p = exp(s) / (1 + sum exp(s)); None = none. True is "learned", False None.
        gate: what a head's output is multiplied by, a sigmoid of a projection of x: "head", one number a head and
            token, "element", one for each of its numbers (Qwen3-Next); None = nothing.
        backend: as in `headwise.attention`.

    Raises:
        SpecError: if d_model is not a multiple of heads, heads not one of kv_heads, or a field is out of its range.

    Example:
        >>> from headwise.nn import AttentionConfig
        >>> AttentionConfig(64, heads=8, kv_heads=2).head_dim
        8
    """

    d_model: int
    heads: int
    kv_heads: int = None  # type: ignore[assignment]  # None is filled in: a config has all its numbers
    head_dim: int = None  # type: ignore[assignment]
    kdim: int = None  # type: ignore[assignment]
    vdim: int = None  # type: ignore[assignment]
    bias: bool = True
    out_bias: bool = None  # type: ignore[assignment]
    dropout: float = 0.0
    scale: float | None = None
    mask: Mask | None = None
    scores: Sequence[Rules] = ()
    rotary: Rotary | None = None
    qk_norm: Literal["rms", "layer", "rms-wide"] | None = None
    norm_eps: float = 1e-6
    sinks: Literal["learned", "off-by-one"] | None = None
    gate: Literal["head", "element"] | None = None
    backend: Any = None

    def __post_init__(self) -> None:
        fill = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731  # the value is frozen outside
        for name, default in (("d_model", 0), ("heads", 0), ("kv_heads", self.heads), ("kdim", self.d_model)):
            fill(name, at_least_one(_WHO, name, default if getattr(self, name) is None else getattr(self, name)))
        fill("vdim", at_least_one(_WHO, "vdim", self.kdim if self.vdim is None else self.vdim))
        fill("head_dim", _divided(self) if self.head_dim is None else at_least_one(_WHO, "head_dim", self.head_dim))
        if self.heads % self.kv_heads:
            what = f"{self.heads} heads cannot share {self.kv_heads} key/value heads"
            todo = f"Use {listed(_divisors(self.heads))} key/value heads."
            raise SpecError(sentence(_WHO, what, "kv_heads must divide heads", todo=todo))
        fill("out_bias", self.bias if self.out_bias is None else self.out_bias)
        fill("dropout", dropout_of(_WHO, self.dropout))
        fill("scale", scale_of(_WHO, self.scale))
        fill("norm_eps", positive(_WHO, "norm_eps", self.norm_eps))
        mask_of(_WHO, self.mask)
        for name in ("bias", "out_bias"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(sentence(_WHO, f"{name} is {getattr(self, name)!r}", "it is True or False"))
        if not isinstance(self.scores, (tuple, list)) or not all(isinstance(rule, Rules) for rule in self.scores):
            raise SpecError(_not_rules(self.scores))
        fill("scores", tuple(self.scores))
        if isinstance(self.sinks, bool):
            fill("sinks", "learned" if self.sinks else None)
        words = {
            "sinks": ("learned", "off-by-one"),
            "qk_norm": ("rms", "layer", "rms-wide"),
            "gate": ("head", "element"),
        }
        for name, known in words.items():
            if getattr(self, name) is not None:
                one_of(_WHO, name, getattr(self, name), known)
        if self.rotary is not None:
            if not isinstance(self.rotary, Rotary):
                what, made = of_class(self.rotary, Rotary, "rotary embedding") or (f"rotary is {self.rotary!r}", "")
                todo = f"Write rotary={made or 'headwise.nn.Rotary()'}."
                raise SpecError(sentence(_WHO, what, "it is a headwise.nn.Rotary or None", todo=todo))
            fill("rotary", self.rotary.fitted(self.head_dim))

    @classmethod
    def of(cls, *sizes: Any, **options: Any) -> AttentionConfig:
        """A config from the arguments of a constructor; a misspelt one gets a sentence with its near names.

        Example:
            >>> from headwise.nn import AttentionConfig
            >>> AttentionConfig.of(64, 8, rotry=None)
            Traceback (most recent call last):
            ...
            headwise.errors.SpecError: MultiHeadAttention: there is no option 'rotry'; ... Did you mean 'rotary'?
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                what = f"there is no option {name!r}"
                raise SpecError(sentence(_WHO, what, f"there are {', '.join(known)}", todo=said_here(name, known)))
        if sizes and isinstance(sizes[0], AttentionConfig):
            rule, todo = "d_model is a number", said_here("config", known)
            raise SpecError(sentence(_WHO, "a config was given in place of sizes", rule, todo=todo))
        for name, size in zip(("d_model", "heads"), sizes, strict=False):
            if size is None:
                raise SpecError(sentence(_WHO, f"{name} is missing", "a layer has a width and a number of heads"))
        return cls(*sizes, **options)

    def changed(self, **changes: Any) -> AttentionConfig:
        """The same config with some fields changed; numbers that follow from others follow the new ones.

        Args:
            **changes: fields. Of kv_heads, head_dim, kdim, vdim and out_bias those that are what they would be if they
                were not given are worked out anew.

        Raises:
            SpecError: if the new fields do not fit together.

        Example:
            >>> from headwise.nn import AttentionConfig
            >>> AttentionConfig(64, 8).changed(heads=4).head_dim
            16
        """
        plain = AttentionConfig(self.d_model, self.heads, bias=self.bias) if self._is_cut_evenly() else None
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("kv_heads", "head_dim", "kdim", "vdim", "out_bias"):
            if plain is not None and given[name] == getattr(plain, name):
                given[name] = None
        if given["head_dim"] is None and given["rotary"] is not None and given["rotary"].width == self.head_dim:
            given["rotary"] = replace(given["rotary"], width=None)  # the whole head turns, whatever its width
        return type(self).of(**{**given, **changes})

    def _is_cut_evenly(self) -> bool:
        return self.d_model % self.heads == 0


def _not_rules(scores: Any) -> str:
    rules = scores if isinstance(scores, (tuple, list)) else (scores,)
    wrong = next((rule for rule in rules if not isinstance(rule, Rules)), scores)
    what, made = of_class(wrong, Rules, "score rule") or (
        f"scores is {scores!r}",
        repr(scores) if isinstance(scores, Rules) else "",
    )
    return sentence(_WHO, what, "scores is a tuple of score rules", todo=f"Write scores=({made},)." if made else "")


def _divided(config: AttentionConfig) -> int:
    d_model, heads = config.d_model, config.heads
    if d_model % heads:
        near = sorted(sorted(_divisors(d_model), key=lambda n: abs(n - heads))[:4])
        todo = f"Use {listed(near)} heads, or say head_dim=... for heads of a width of their own."
        what = f"d_model {d_model} cannot be cut into {heads} equal heads"
        raise SpecError(sentence(_WHO, what, "heads must divide d_model unless head_dim is given", todo=todo))
    return d_model // heads


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
