"""Masks at transformers' border: the mask function we register, and masks that users or models made themselves.

transformers asks for a mask once a forward. Our answer looks like the bool tensor [B, 1, T, S] that its code expects
and holds only the recipe; the attention function reads the recipe, and the tensor is written out only where some
model's own code really computes on it.
"""

from __future__ import annotations

import dataclasses
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from headwise.errors import SpecError, axes, sentence
from headwise.models.library import transformers
from headwise.models.lower import Place, holds_causal, lower
from headwise.models.padding import rows_without_keys
from headwise.spec import Bias, Dense, Mask, Padding, Rules
from headwise.tracing import recorded

__all__ = ["Described", "Said", "headwise_mask", "read"]


@dataclasses.dataclass(frozen=True, eq=False)
class Said:
    """A mask in headwise's words.

    Attributes:
        mask: which cells are visible; None = all.
        q_start: where query 0 stands on the key axis; None = last with last.
        scores: what is added to the scores.
        keys_from: position of key 0 in the text; a cache of a window has let go of those before it.
        real_queries: which queries are tokens, not padding, bool [B, T]; None = all. It changes no output.
    """

    mask: Mask | None = None
    q_start: int | Tensor | None = None
    scores: tuple[Rules, ...] = ()
    keys_from: int = 0
    real_queries: Tensor | None = None
    _empty: dict[tuple[int, ...], Tensor | None] = dataclasses.field(default_factory=dict, repr=False)

    def empty_rows(self, query: Tensor, key: Tensor) -> Tensor | None:
        """The queries of a call to which the mask shows no key, found once for all layers; None where there is none."""
        if self.mask is None:
            return None
        if recorded(query):
            return rows_without_keys(self.mask, query, key, self.q_start)
        sizes = (query.shape[0], query.shape[2], key.shape[2])
        if sizes not in self._empty:
            self._empty[sizes] = rows_without_keys(self.mask, query, key, self.q_start)
        return self._empty[sizes]


@dataclasses.dataclass(frozen=True, eq=False)
class _Recipe:
    """What a mask call said."""

    place: Place
    fn: Callable[..., Any]
    real: Tensor | None  # bool [B, n], True = a real token, by absolute index
    own_rows: bool  # the queries are the tokens of `real`, not those of another sequence
    vmapped: bool

    def say(self) -> Said:
        place = self.place
        mask = lower(self.fn, place, self.vmapped)
        keys = self._real(place.key_indices(), beyond=False)
        if keys is not None:
            mask = Padding(keys) if mask is None else mask & Padding(keys)
        queries = self._real(place.query_indices(), beyond=True) if self.own_rows else None
        return Said(mask, place.q_start, keys_from=place.kv_offset, real_queries=queries)

    def _real(self, indices: Tensor, beyond: bool) -> Tensor | None:
        """Which tokens at some absolute indices are real, bool [B, n]; None = all. Past the 2-D mask: ``beyond``."""
        if self.real is None:
            return None
        real = _window_of(self.real, indices, beyond)
        return None if bool(real.all()) else real.expand(self.place.batch, -1)

    def tensor(self) -> Tensor:
        """The mask as transformers' fused path writes it: bool [B, 1, T, S]."""
        place = self.place
        written: Tensor = transformers("use", "masking_utils").sdpa_mask(
            batch_size=place.batch,
            q_length=place.queries,
            kv_length=place.keys,
            q_offset=place.q_offset,
            kv_offset=place.kv_offset,
            mask_function=self.fn,
            attention_mask=self.real,
            allow_is_causal_skip=False,
            allow_is_bidirectional_skip=False,
            use_vmap=self.vmapped,
            device=place.device,
        )
        return written.expand(place.batch, 1, place.queries, place.keys)

    def part(self, axis: int, start: int, stop: int) -> _Recipe | None:
        """The recipe of a part of the rows or keys; None where another axis is cut."""
        place = self.place
        if axis == 2:
            place = dataclasses.replace(place, q_offset=place.q_offset + start, queries=stop - start)
        elif axis == 3:
            place = dataclasses.replace(place, kv_offset=place.kv_offset + start, keys=stop - start)
        else:
            return None
        return dataclasses.replace(self, place=place)


def _window_of(real: Tensor, indices: Tensor, beyond: bool) -> Tensor:
    """The columns of a 2-D mask at some absolute indices; what the mask does not reach is ``beyond``."""
    inside = indices < real.shape[1]
    found = real.index_select(1, indices.clamp(0, max(real.shape[1] - 1, 0)))
    return torch.where(inside, found, torch.full_like(found, beyond))


class Described(Tensor):
    """A bool mask [B, 1, T, S] that is written out only when it is computed on.

    Shape, dtype, device and type checks answer as the written tensor would. Cutting rows or keys off gives another
    described mask. Any other operation writes the mask first and works on that, so its meaning is always the tensor's;
    a mask changed in place is what it was changed to.
    """

    recipe: _Recipe
    _cut: tuple[Described, int, int] | None  # the mask this one is a part of, with axis and start
    _written: Tensor | None
    _version_written: int
    _said: Said | None

    @staticmethod
    def __new__(cls, recipe: _Recipe, cut: tuple[Described, int, int] | None = None) -> Self:
        place = recipe.place
        size = (place.batch, 1, place.queries, place.keys)
        made: Self = Tensor._make_wrapper_subclass(cls, size, dtype=torch.bool, device=place.device)
        made.recipe, made._cut, made._written, made._version_written, made._said = recipe, cut, None, 0, None
        return made

    def __init__(self, recipe: _Recipe, cut: tuple[Described, int, int] | None = None) -> None:
        super().__init__()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"{type(self).__name__}({list(self.shape)}, written={self._written is not None})"

    def written(self) -> Tensor:
        """The mask as an ordinary tensor, made once; a part is a view of its whole, so that changes reach both."""
        if self._written is None:
            if self._cut is not None:
                whole, axis, start = self._cut
                self._written = whole.written().narrow(axis, start, self.shape[axis])
            else:
                with torch.inference_mode(False):
                    self._written = self.recipe.tensor().contiguous()
            self._version_written = self._written._version
        return self._written

    def changed(self) -> bool:
        """Whether somebody wrote into the mask, so that the recipe no longer tells."""
        if self._written is not None:
            return self._written._version != self._version_written
        return self._cut is not None and self._cut[0].changed()

    def say(self) -> Said:
        """The mask in headwise's words, worked out once a forward."""
        if self.changed():
            place = self.recipe.place
            real = self.recipe.say().real_queries
            return Said(Dense(self.written()), place.q_start, keys_from=place.kv_offset, real_queries=real)
        if self._said is None:
            self._said = self.recipe.say()
        return self._said

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _only_asks(func):
            with torch._C.DisableTorchFunctionSubclass():  # the way of torch's own default, less its re-wrapping
                return func(*args, **kwargs)
        if func is Tensor.__getitem__ and isinstance(args[0], Described):
            part = _part(args[0], args[1])
            if part is not None:
                return part
        # Above autograd, so that views and changes in place are ordinary ones, and count versions.
        plain_args, plain_kwargs = torch.utils._pytree.tree_map_only(Described, Described.written, (args, kwargs))
        result = func(*plain_args, **plain_kwargs)
        unchanged = args and isinstance(args[0], Described) and result is plain_args[0]
        return args[0] if unchanged else result

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        plain_args, plain_kwargs = torch.utils._pytree.tree_map_only(Described, Described.written, (args, kwargs or {}))
        return func(*plain_args, **plain_kwargs)


#: Questions about a tensor, and conversions that give it back where there is nothing to convert: they write nothing.
_ASKS = frozenset(
    {
        "shape", "dtype", "device", "ndim", "layout", "requires_grad", "grad_fn", "is_leaf", "is_cuda", "is_cpu",
        "is_meta", "is_sparse", "is_quantized", "is_nested", "is_mps", "is_xpu", "_version", "size", "dim", "numel",
        "nelement", "ndimension", "is_floating_point", "is_complex", "is_inference", "get_device", "to", "cpu",
        "contiguous", "__len__", "__repr__", "__hash__", "element_size", "is_contiguous", "stride",
    }
)  # fmt: skip


def _only_asks(func: Any) -> bool:
    """Whether a function of torch reads facts that the description knows (getters come as ``__get__`` of a slot)."""
    name = getattr(func, "__name__", "")
    return (getattr(func.__self__, "__name__", "") if name == "__get__" else name) in _ASKS


def _part(mask: Described, index: Any) -> Described | None:
    """The described part of a mask that only loses rows or keys; None for any other indexing."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if parts.count(Ellipsis) == 1:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (5 - len(parts))
    parts += [slice(None)] * (4 - len(parts))
    if len(parts) != 4 or not all(isinstance(part, slice) for part in parts) or mask.changed():
        return None
    for axis, part in enumerate(parts):
        begin, end, step = part.indices(mask.shape[axis])
        if step != 1:
            return None
        if (begin, end) == (0, mask.shape[axis]):
            continue
        recipe = mask.recipe.part(axis, begin, max(begin, end))
        if recipe is None:
            return None
        mask = Described(recipe, (mask, axis, begin))
    return mask


def _for_another_sequence(frame: FrameType | None) -> bool:
    """Whether the mask is wanted for queries of another sequence than the 2-D mask's (cross-attention).

    The mask call does not say it, and where both sequences happen to be equally long nothing else tells a decoder's
    tokens from the encoder's padding. The function of transformers that makes the call knows, so it is asked.
    """
    for _ in range(8):
        frame = frame.f_back if frame is not None else None
        if frame is None:
            break
        name, here = "encoder_hidden_states", frame.f_locals
        if frame.f_code.co_name.startswith("create_bidirectional"):
            if name not in frame.f_code.co_varnames:
                return False
            return name not in here or (here[name] is not None and here[name] is not here.get("inputs_embeds"))
    return True  # nobody to ask: no row is emptied on a guess


def headwise_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> Tensor | None:
    """The mask function that transformers calls under the name "headwise"; its arguments are transformers'.

    It never leaves a causal mask out: what None would mean then depends on flags that several model families set wrong.
    The keywords it does not name (a dtype, hints when to leave the mask out, the config) change no cell.

    Returns:
        A described mask [B, 1, T, S]; None only for "every key is visible", and only where the caller allows it.
    """
    library = transformers("use", "masking_utils")
    fn = mask_function if mask_function is not None else library.causal_mask_function
    place = Place(batch_size, q_length, kv_length, _frozen(q_offset), int(kv_offset), torch.device(device))
    frame = inspect.currentframe()
    # A 2-D mask that is longer than the keys it was asked for belongs to another sequence as well.
    same_axis = attention_mask is not None and attention_mask.shape[-1] <= kv_length + int(kv_offset)
    # Causal queries are tokens of the masked sequence; others are where they are as many (a resampler's latents are
    # not) and nobody says that they come from elsewhere.
    own_rows = same_axis and (holds_causal(fn) or (q_length == kv_length and not _for_another_sequence(frame)))
    real = None if attention_mask is None else attention_mask.to(device=place.device, dtype=torch.bool)
    described = Described(_Recipe(place, fn, real, own_rows, use_vmap))
    if allow_is_bidirectional_skip and described.say().mask is None:
        return None
    return described


def _frozen(offset: int | Tensor) -> int | Tensor:
    """A static cache counts in place: its tensor moves on before the first layer asks where the queries stand."""
    if not isinstance(offset, Tensor):
        return int(offset)
    return int(offset) if offset.device.type == "cpu" else offset.clone()


_read: dict[int, tuple[weakref.ref[Tensor], int, Said]] = {}


def read(mask: Tensor | None, keys: int) -> Said:
    """Reads whatever mask a model hands to its attention.

    Args:
        mask: None (every key is visible), a described mask, or a tensor that broadcasts to [B, H, T, S]: bool, True =
            may attend; or float, added to the scores, where the dtype's minimum or less means hidden.
        keys: S; columns beyond are cut off, as transformers' eager path does.

    Returns:
        The mask in headwise's words.

    Raises:
        SpecError: a mask of integers.
    """
    if mask is None:
        return Said()
    if mask.shape[-1] > keys > 0:
        mask = mask[..., :keys]
    if isinstance(mask, Described):
        return mask.say()
    if mask.dtype == torch.bool:
        return Said(Dense(mask))
    if not mask.is_floating_point():
        raise SpecError(
            sentence(
                "use",
                f"the model was given a mask of {mask.dtype}",
                "a mask is bool, True = may attend, or float, added to the scores",
                axes("mask", mask, "B H T S"),
                "Use .bool() if 1 means keep.",
            )
        )
    return _read_float(mask)


def _read_float(mask: Tensor) -> Said:
    """Splits a float mask into what it hides and what it adds; once a forward, not once a layer."""
    if recorded(mask):
        visible = mask > torch.finfo(mask.dtype).min
        visible = visible | (~visible.any(-1, keepdim=True) & (mask > float("-inf")))
        return Said(Dense(visible), None, (Bias(torch.where(visible, mask, 0.0)),))
    if mask.requires_grad or mask.is_inference():
        return _split(mask)
    found = _read.get(id(mask))
    if found is not None and found[0]() is mask and found[1] == mask._version:
        return found[2]
    said, key = _split(mask), id(mask)

    def forget(gone: weakref.ref[Tensor]) -> None:
        if key in _read and _read[key][0] is gone:
            del _read[key]

    _read[key] = (weakref.ref(mask, forget), mask._version, said)
    return said


def _split(mask: Tensor) -> Said:
    """What a float mask hides and what it adds; two T x S tensors are made where both are kept, and none besides.

    The dtype's minimum hides a cell beside one that is not hidden. A row of nothing but minima hides none: its scores
    are all equal once the mask is added, so it attends evenly.
    """
    visible = (mask <= torch.finfo(mask.dtype).min).logical_not_()
    shown = int(visible.count_nonzero())
    # What is hidden is never 0, so where more than that is not 0, something is added.
    adds = mask.requires_grad or int(mask.count_nonzero()) > mask.numel() - shown
    empty = ~visible.any(-1, keepdim=True) if shown < mask.numel() else None
    minima: tuple[Rules, ...] = ()
    if empty is not None and bool(empty.any()):
        visible |= empty & (mask > float("-inf"))
        if not adds:
            minima = (Bias(torch.zeros_like(empty, dtype=mask.dtype).masked_fill_(empty, torch.finfo(mask.dtype).min)),)
    # A copy: models may go on changing their mask, and a layer's pattern is that of the mask it was called with.
    scores = (Bias(torch.where(visible, mask, 0.0)),) if adds else minima
    return Said(None if shown == mask.numel() else Dense(visible), None, scores)
