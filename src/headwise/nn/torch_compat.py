"""torch.nn.MultiheadAttention, computed by headwise: the same constructor, forward, attributes and state_dict."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as changed
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from headwise.block import Members, block
from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.nn.torch_nested import TransformerEncoder, nested, padded, real_rows
from headwise.nn.weights import with_weights
from headwise.observers import named
from headwise.ops import Attended, attend, attention
from headwise.spec import Bias, Causal, Dense, Mask, Padding, Rules
from headwise.tracing import followed

__all__ = ["MultiheadAttention", "observe", "replace", "restore"]

_WHO = "MultiheadAttention"

Module = TypeVar("Module", bound=nn.Module)


class MultiheadAttention(nn.MultiheadAttention):
    """A drop-in place for `torch.nn.MultiheadAttention`: its interface and its numbers, headwise's kernels.

        out = [softmax(q_h k_h^T / sqrt(D) + masks) v_h, side by side over heads h] W_O + b_O

    It is a subclass of torch's, so parameters, their names, initial values and state dicts are torch's own. What is
    not torch's, because torch is wrong there, is listed with examples in docs/torch.md: a query without any key gives
    0 and never NaN; returned weights are those before dropout; a hidden key or value is never read; ``is_causal`` is
    enough by itself; ``out_proj`` is really called, and hooks fire in every mode.

    Without ``need_weights`` no T x S tensor is formed, but for the opposite of a boolean ``attn_mask`` that was given.

    Args:
        embed_dim: M, the width of queries and of the output.
        num_heads: H; it divides M.
        dropout: probability that a cell of the pattern is dropped, in training only.
        bias: whether the projections have a bias.
        add_bias_kv: whether one learned key and value stands behind all others.
        add_zero_attn: whether a key and value of zeros stands behind all others.
        kdim: width of the keys; None = M.
        vdim: width of the values; None = M.
        batch_first: whether inputs are [B,T,M] rather than [T,B,M].
        device: where parameters are made.
        dtype: of the parameters.

    Raises:
        SpecError: a width or a number of heads that is not possible.

    Example:
        >>> import torch
        >>> from headwise.nn.torch_compat import MultiheadAttention
        >>> theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        >>> ours = MultiheadAttention(16, 4, batch_first=True)
        >>> ours.load_state_dict(theirs.state_dict())
        <All keys matched successfully>
        >>> x = torch.randn(2, 5, 16)
        >>> (out, weights), (want, _) = ours(x, x, x), theirs(x, x, x)
        >>> weights.shape, torch.allclose(out, want, atol=1e-6)
        (torch.Size([2, 5, 5]), True)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            what = f"embed_dim {embed_dim} cannot be cut into {num_heads} equal heads"
            raise SpecError(sentence(_WHO, what, "num_heads divides embed_dim, and both are at least 1"))
        if not 0 <= dropout <= 1:
            raise SpecError(sentence(_WHO, f"dropout is {dropout!r}", "it is a probability, from 0 to 1"))
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self.register_forward_pre_hook(_called)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The layer's output and, with ``need_weights``, the probabilities before dropout.

        Args:
            query: [B,T,M] if ``batch_first``, else [T,B,M]; or [T,M], one sequence.
            key: [B,S,kdim], [S,B,kdim] or [S,kdim].
            value: [B,S,vdim], [S,B,vdim] or [S,vdim].
            key_padding_mask: [B,S], or [S] for one sequence: bool, True = hidden (torch's polarity), or float, added to
                the scores. A float mask of 0 and -inf is read as the bool mask that it is.
            need_weights: whether probabilities are returned: a T x S tensor that is made for it.
            attn_mask: [T,S], or [B*H,T,S] with a mask a head: bool, True = hidden, or float, added.
            average_attn_weights: whether they are the mean over heads rather than one pattern a head.
            is_causal: whether query i sees keys 0 .. i only, beside what the masks hide.

        Returns:
            Output, shaped like query, and None or probabilities [B,T,S] (averaged) or [B,H,T,S], without B for one
            sequence. Keys that ``add_bias_kv`` and ``add_zero_attn`` append are the last columns.

        Raises:
            ShapeError: inputs and masks that do not fit together.
            SpecError: a mask that is neither bool nor float, or whose meaning cannot be known.

        Example:
            >>> import torch
            >>> from headwise.nn.torch_compat import MultiheadAttention
            >>> layer = MultiheadAttention(8, 2, batch_first=True)
            >>> x = torch.randn(1, 3, 8)
            >>> layer(x, x, x, is_causal=True, average_attn_weights=False)[1][0, 0, 0]
            tensor([1., 0., 0.], grad_fn=...)
        """
        if query.is_nested or key.is_nested or value.is_nested:
            if key_padding_mask is not None or attn_mask is not None:
                rule = "nested inputs say themselves what is padding, and take no mask"
                raise UnsupportedError(sentence(_WHO, "a mask beside nested inputs", rule))
            return self._of_nested(query, key, value, need_weights, average_attn_weights, is_causal)
        operands = self._operands(query, key, value, key_padding_mask, attn_mask, is_causal)
        return self._answered(operands, query, need_weights, average_attn_weights)

    def _answered(
        self, operands: dict[str, Any], query: Tensor, need_weights: bool, average: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Output and weights of one call; whoever observes the module is told of it."""
        asked = _asked(self)
        if not (need_weights or asked):
            return self._joined(attention(**operands), query), None
        attended, weights = with_weights(**operands) if need_weights else (attend(**operands), None)
        for asking in asked:
            asking.put(self, attended)
        out = self._joined(attended.out, query)
        if weights is None:
            return out, None
        weights = weights.mean(1) if average else weights
        return out, weights if query.dim() == 3 else weights.squeeze(0)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        observe: Sequence[Any] = (),
    ) -> Attended:
        """The layer's output and whatever is asked of its pattern, which is not stored.

        Args:
            query, key, value, key_padding_mask, attn_mask, is_causal: as of `forward`.
            observe: observers, such as ``[hw.Entropy(), hw.TopKeys(8)]``.

        Returns:
            What `headwise.attend` returns, with ``out`` shaped like query, the same bits as `forward`'s.

        Example:
            >>> import torch, headwise as hw
            >>> from headwise.nn.torch_compat import MultiheadAttention
            >>> layer, x = MultiheadAttention(8, 2), torch.randn(5, 3, 8)
            >>> layer.attend(x, x, x, observe=[hw.Entropy()]).seen["entropy"].shape
            torch.Size([3, 2, 5])
        """
        operands = self._operands(query, key, value, key_padding_mask, attn_mask, is_causal)
        attended = attend(**operands, observe=observe)
        return changed(attended, out=self._joined(attended.out, query))

    def _operands(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> dict[str, Any]:
        """The arguments of `headwise.attention` for one call."""
        if query.is_nested or key.is_nested or value.is_nested:
            rule = "attend takes padded inputs and a key_padding_mask"
            raise UnsupportedError(sentence(_WHO, "these inputs are nested", rule, todo="Or call the module itself."))
        B, T, S = self._sizes(query, key, value)
        _check_mask("key_padding_mask", key_padding_mask, [(B, S)] if query.dim() == 3 else [(S,)])
        _check_mask("attn_mask", attn_mask, [(T, S), (B * self.num_heads, T, S)])
        q, k, v = (self._split(x) for x in self._projected(query, key, value))
        k, v = self._appended(k, v)
        more = k.shape[2] - S
        masks: list[Mask] = []
        scores: list[Rules] = []
        if is_causal:
            behind = Dense(torch.arange(S + more, device=k.device, dtype=torch.int64) >= S)
            masks.append(Causal(align="start") | behind if more else Causal(align="start"))
        if key_padding_mask is not None:
            _say_padding(key_padding_mask.view(B, S), more, masks, scores)
        if attn_mask is not None:
            cells = attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (B, self.num_heads))
            if cells.dtype == torch.bool:
                masks.append(Dense(F.pad(~cells, (0, more), value=True) if more else ~cells))
            else:
                scores.append(Bias(F.pad(cells, (0, more)) if more else cells))
        mask = None
        for part in masks:
            mask = part if mask is None else mask & part
        dropout = self.dropout if self.training else 0.0
        if dropout == 1:  # all is dropped, and what remains is divided by nothing
            v, dropout = v * 0, 0.0
        rules: dict[str, Any] = {"mask": mask, "scores": tuple(scores), "dropout": float(dropout)}
        backend = "reference" if forward_ad._current_level >= 0 else None  # the only one with forward-mode derivatives
        return {"q": q, "k": k, "v": v, **rules, "backend": backend}

    def _sizes(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[int, int, int]:
        """B, T and S of inputs that fit together; one sequence is a batch of 1."""
        first = 0 if self.batch_first else 1
        letters = ("B T M", "B S M") if self.batch_first else ("T B M", "S B M")
        inputs = (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim))
        named_axes = letters if query.dim() == 3 else ("T M", "S M")
        shapes = ", ".join(axes(name, x, named_axes[name != "query"]) for name, x, _ in inputs)
        if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
            rule = f"query, key and value all have 3 axes ([{letters[0].replace(' ', ',')}]), or 2 for one sequence"
            raise ShapeError(sentence(_WHO, f"query has {query.dim()} axes", rule, shapes))
        for name, x, width in inputs:
            if x.shape[-1] != width:
                raise ShapeError(sentence(_WHO, f"{name} has width {x.shape[-1]}", f"it is {width}", shapes))
        if key.shape[:-1] != value.shape[:-1]:
            raise ShapeError(sentence(_WHO, "key and value differ in length or batch", "a key has one value", shapes))
        if query.dim() == 2:
            return 1, query.shape[0], key.shape[0]
        if query.shape[first] != key.shape[first]:
            what = f"query has {query.shape[first]} batch rows, key has {key.shape[first]}"
            todo = f"batch_first is {self.batch_first}."
            raise ShapeError(sentence(_WHO, what, "both have the same batch size", shapes, todo))
        return query.shape[first], query.shape[1 - first], key.shape[1 - first]

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> Sequence[Tensor]:
        """Queries, keys and values, in the layout of the inputs."""
        packed, bias = self.in_proj_weight, self.in_proj_bias
        if packed is not None and query is key is value:
            return F.linear(query, packed, bias).chunk(3, -1)
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if packed is None else packed.chunk(3)
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]

    def _split(self, projected: Tensor) -> Tensor:
        """[B,T,M], [T,B,M] or [T,M] -> [B,H,T,D], a view."""
        heads = projected.unflatten(-1, (self.num_heads, self.head_dim))
        if heads.dim() == 3:
            return heads.transpose(0, 1)[None]
        return heads.permute(0, 2, 1, 3) if self.batch_first else heads.permute(1, 2, 0, 3)

    def _joined(self, out: Tensor, query: Tensor) -> Tensor:
        """[B,H,T,D] -> heads side by side, in the layout of the query, through the output projection."""
        if query.dim() == 2:
            joined = out[0].transpose(0, 1)
        else:
            joined = out.permute(0, 2, 1, 3) if self.batch_first else out.permute(2, 0, 1, 3)
        return self.out_proj(joined.flatten(-2))

    def _appended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B,H,S,D] with the learned one and the one of zeros behind them, where there are such."""
        B, H, _, D = k.shape
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (
                torch.cat([x, one.to(x.dtype).view(1, H, 1, D).expand(B, H, 1, D)], 2)
                for x, one in ((k, self.bias_k), (v, self.bias_v))
            )
        if self.add_zero_attn:
            k, v = (torch.cat([x, x.new_zeros(B, H, 1, D)], 2) for x in (k, v))
        return k, v

    def _of_nested(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool, average: bool, is_causal: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Nested inputs, as torch's encoder makes them of padded ones: padded again, and nested behind."""
        if not self.batch_first or not all(x.is_nested and x.layout == torch.strided for x in (query, key, value)):
            rule = "query, key and value are all nested in torch.strided layout, and batch_first is True"
            raise UnsupportedError(sentence(_WHO, "these nested inputs are not known", rule))
        if query.dim() != 3 or key.dim() != 3 or value.dim() != 3:
            raise ShapeError(sentence(_WHO, "a nested input holds no sequence", "each is a sequence of tokens, [T,M]"))
        x, lengths = padded(query)
        y, key_lengths = (x, lengths) if key is query else padded(key)
        z, value_lengths = (y, key_lengths) if value is key else padded(value)
        if key_lengths != value_lengths:
            what = f"key has sequences of {key_lengths}, value of {value_lengths} tokens"
            raise ShapeError(sentence(_WHO, what, "a key has one value"))
        operands = self._operands(x, y, z, ~real_rows(key_lengths, y), None, is_causal)
        # Padded queries see no key: their rows of the weights are 0, as torch's, and no observer counts them.
        every = torch.ones((), dtype=torch.bool, device=y.device).expand(len(y), operands["k"].shape[2])
        operands["mask"] = operands["mask"] & Padding(every, real_rows(lengths, x))
        out, weights = self._answered(operands, x, need_weights, average)
        return nested(out, lengths), weights


def _called(_module: nn.Module, _args: Any) -> None:
    """A hook that does nothing. torch's encoder layer goes round its attention in inference unless a hook is there."""


def _check_mask(name: str, mask: Tensor | None, allowed: list[tuple[int, ...]]) -> None:
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        rule = "a mask is bool, True = hidden, or float, added to the scores"
        raise SpecError(sentence(_WHO, f"{name} is {mask.dtype}", rule, todo=f"Write {name}.bool() if 1 means hidden."))
    if tuple(mask.shape) not in allowed:
        rule = f"it is {' or '.join(str(list(shape)) for shape in allowed)}"
        raise ShapeError(sentence(_WHO, f"{name} is {list(mask.shape)}", rule))


def _say_padding(padding: Tensor, more: int, masks: list[Mask], scores: list[Rules]) -> None:
    """Adds what a key_padding_mask [B,S] says: where it only hides, a mask, so that hidden keys cost nothing.

    Args:
        padding: bool, True = hidden, or float, added.
        more: visible keys that stand behind those.
        masks: gets one more mask, or
        scores: one more rule.
    """
    keep = _kept(padding)
    if keep is None:
        scores.append(Bias(F.pad(padding, (0, more))[:, None, None, :]))
    else:
        masks.append(Padding(F.pad(keep, (0, more), value=True) if more else keep))


def _kept(padding: Tensor) -> Tensor | None:
    """The keys that a padding mask keeps, bool [B,S]; None where it does more to scores than to hide them."""
    if padding.dtype == torch.bool:
        return ~padding
    if padding.requires_grad or followed(padding):
        return None
    zero, hidden = padding == 0, padding == float("-inf")
    if bool((zero | hidden).all()):
        return zero
    if bool((zero | (padding == 1)).all()):
        raise SpecError(
            sentence(
                _WHO,
                "key_padding_mask is a float tensor of only 0 and 1",
                "a float mask is added to the scores, so 1 would hide nothing, and nobody can tell what was meant",
                todo="Pass mask.bool() if 1 means hidden, ~mask.bool() if 1 means a real token.",
            )
        )
    return None


def replace(module: Module) -> Module:
    """Puts every torch.nn.MultiheadAttention in a module, itself included, on headwise, in place.

    Modules and parameters stay the same objects, so optimisers, hooks and references elsewhere go on as before. It
    reaches `torch.nn.TransformerEncoder`, `TransformerDecoder` and `Transformer`. Modules of classes that were derived
    from torch's are left alone. A `TransformerEncoder` becomes one that also runs where all of a batch is padding.

    Args:
        module: any module.

    Returns:
        The same module. `restore` takes it back.

    Example:
        >>> import torch
        >>> from headwise.nn import torch_compat
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> torch_compat.replace(layer).self_attn.__class__.__module__
        'headwise.nn.torch_compat'
        >>> torch_compat.restore(layer).self_attn.__class__.__module__
        'torch.nn.modules.activation'
    """
    for part in module.modules():
        if type(part) is nn.MultiheadAttention:
            part.__class__ = MultiheadAttention
            part._was_torchs = True  # type: ignore[assignment]  # so that restore finds it, in copies and files too
            part.register_forward_pre_hook(_called)
        elif type(part) is nn.TransformerEncoder:
            part.__class__ = TransformerEncoder
            part._was_torchs = True  # type: ignore[assignment]
    return module


def restore(module: Module) -> Module:
    """Makes every attention that `replace` has put on headwise torch's own again, in place.

    Args:
        module: any module.

    Returns:
        The same module.

    Example:
        >>> import torch
        >>> from headwise.nn import torch_compat
        >>> layer = torch_compat.replace(torch.nn.MultiheadAttention(8, 2))
        >>> type(torch_compat.restore(layer)) is torch.nn.MultiheadAttention
        True
    """
    for part in module.modules():
        if type(part) is MultiheadAttention and vars(part).pop("_was_torchs", False):
            part.__class__ = nn.MultiheadAttention  # type: ignore[assignment]  # back to the parent class
            hooks = part._forward_pre_hooks
            for key in [key for key, hook in hooks.items() if hook is _called]:
                del hooks[key]
        elif type(part) is TransformerEncoder and vars(part).pop("_was_torchs", False):
            part.__class__ = nn.TransformerEncoder  # type: ignore[assignment]
    return module


class _Asking:
    """Questions to the attention modules of one tree, and what they answered."""

    def __init__(self, names: Mapping[Any, str], observers: Sequence[Any]) -> None:
        self.names = names
        self.observers = observers
        self.seen: dict[str, dict[str, Any]] = {}

    def put(self, module: nn.Module, attended: Attended) -> None:
        """Asks the pattern of one call."""
        site, run = self.names[module], 1
        name = site
        while name in self.seen:
            name, run = f"{site}#{run}", run + 1
        self.seen[name] = dict(attended.pattern.ask(*self.observers))


_open = 0  # blocks that observe, in all threads: one number, so that unwatched modules look at nothing else
_lock = threading.Lock()
_asking: Members[_Asking] = Members("headwise_asking")


def _asked(module: nn.Module) -> list[_Asking]:
    if not _open:
        return []
    return [asking for asking in _asking.here() if module in asking.names]


@block("torch_compat.observe")
def observe(module: nn.Module, *observers: Any) -> Iterator[Mapping[str, Mapping[str, Any]]]:
    """Asks every `MultiheadAttention` of ours in a module while it runs, such as all layers of an encoder.

    Outputs keep their bits. Padded keys are hidden ones; what padded queries would attend to is answered like the rest,
    but where torch's encoder leaves padding out, in inference: there their rows are empty, in a batch as long as ever
    (of an encoder that `replace` has reached; else as long as its longest sequence).

    Args:
        module: any module; `replace` it first if its attention is torch's.
        observers: the questions, ``hw.Entropy()``, ``hw.TopKeys(8)``, ...

    Yields:
        Answers by the name of the module, then of the observer; further runs are ``name#1``, ``name#2``, ...

    Raises:
        SpecError: there is nothing to ask.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn import torch_compat
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> model = torch_compat.replace(torch.nn.TransformerEncoder(layer, 3)).eval()
        >>> with torch.no_grad(), torch_compat.observe(model, hw.Entropy()) as seen:
        ...     _ = model(torch.randn(1, 5, 8))
        >>> list(seen), seen["layers.2.self_attn"]["entropy"].shape
        (['layers.0.self_attn', 'layers.1.self_attn', 'layers.2.self_attn'], torch.Size([1, 2, 5]))
    """
    global _open
    named(observers)
    names = {part: name for name, part in module.named_modules() if isinstance(part, MultiheadAttention)}
    if not (names and observers):
        what = "no observer was given" if names else f"{type(module).__name__} holds no MultiheadAttention of headwise"
        of_torch = any(type(part) is nn.MultiheadAttention for part in module.modules())
        missing = "Call torch_compat.replace(module) first." if of_torch else "It holds none of torch.nn's to replace."
        todo = "Try hw.Entropy()." if names else missing
        raise SpecError(sentence("torch_compat.observe", what, "it asks questions to attention modules", todo=todo))
    asking = _Asking(names, observers)
    with _lock:
        _open += 1
    try:
        with _asking.joined(asking):
            yield asking.seen
    finally:
        with _lock:
            _open -= 1
