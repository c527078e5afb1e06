"""A cache that keeps the first tokens and the last ones, in memory that does not grow with the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.nn.any_cache import Cache, Form
from headwise.nn.growing import Growing
from headwise.spec import Alibi, Causal, Mask, Prefix, RelativeBias, Rules, SoftCap, T5Bias, Window

__all__ = ["RingCache"]


class RingCache(Cache):
    """The first ``sinks`` tokens and a window of the last ones; the tokens between are let go.

    ``window`` counts as the ``sliding_window`` of a model does, the query itself included: before the next token the
    ring holds the window - 1 tokens before it, and the sinks. What a query sees through it is, exactly and however the
    text is cut into calls, what it sees without a cache under

        Causal() & (Window(window - 1, 0) | Prefix(sinks))

    `append` returns [sinks | tail | new], all new ones among them, whose last key is the last token. On that axis the
    mask above means the same cells, and so do ``Causal()``, ``Window(before)`` with before <= window - 1 and nothing
    ahead, ``Prefix(n)`` with n <= sinks, and what ``&`` and ``|`` make of them. `mask` narrows a mask made of these by
    the ring's own; it refuses any other, which would count keys that are no longer where they were.

    The last ``window`` tokens that left are kept aside, so that as many can be cropped; there is no way back behind
    them. Memory: at most sinks + 2 window tokens and the room that buffers have, twice that.

    Gradients go through, by concatenation, as in a `KVCache`.

    Args:
        window: how many tokens a query sees, itself included, beside the sinks.
        sinks: how many tokens at the beginning stay visible.

    Raises:
        SpecError: if window is no whole number of at least 1, or sinks none of at least 0.

    Source:
        Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks". The paper turns the keys of the
        ring to positions inside of it; here keys are as they come, at the positions of `key_positions`.

    Example:
        >>> import torch
        >>> from headwise.nn.ring import RingCache
        >>> cache = RingCache(window=4, sinks=1)
        >>> for token in range(10):
        ...     k, v = cache.append(torch.full((1, 1, 1, 1), float(token)), torch.zeros(1, 1, 1, 1))
        >>> k.flatten().int().tolist(), cache.length, cache.held
        ([0, 6, 7, 8, 9], 10, 4)
        >>> cache.mask(None)
        Causal(align='end') & (Window(before=3, after=0) | Prefix(lengths=1))
    """

    def __init__(self, window: int, sinks: int = 0) -> None:
        for name, value, least in (("window", window, 1), ("sinks", sinks, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SpecError(
                    sentence("RingCache", f"{name} is {value!r}", f"it counts tokens, an int of at least {least}")
                )
        self.window, self.sinks = window, sinks
        self._reset()

    @property
    def length(self) -> int:
        return self._length

    @property
    def held(self) -> int:
        return min(self._length, self.sinks + self.window - 1)

    def _reset(self) -> None:
        self._length = 0
        # [sinks | what has left and is not yet dropped | tail]
        self._k, self._v = Growing(), Growing()
        # The last tokens that left, as many as a window.
        self._gone_k, self._gone_v = Growing(), Growing()

    def key_positions(self, new: int) -> Tensor | None:
        k = self._k.held
        if not self.sinks or self.held == self._length or k is None:
            return None
        tail = torch.arange(self._length - self.window + 1, self._length + new, device=k.device, dtype=torch.int64)
        return torch.cat((torch.arange(self.sinks, device=k.device, dtype=torch.int64), tail))

    def mask(self, given: Mask | None, scores: Sequence[Rules] = ()) -> Mask | None:
        for part in () if given is None else given.parts():
            if not self._means_the_same(part):
                raise SpecError(self._refusal(f"the mask {type(part).__name__}", part))
        for rule in scores:
            if not self._scores_the_same(rule):
                raise SpecError(self._refusal(f"the score rule {type(rule).__name__}", rule))
        seen: Mask = Window(self.window - 1, 0)
        own = Causal() & (seen | Prefix(self.sinks) if self.sinks else seen)
        return own if given is None or isinstance(given, Causal) else own & given

    def _means_the_same(self, part: Mask) -> bool:
        """Whether a mask says of the keys that are left what it says of all keys."""
        if isinstance(part, Window):
            return not part.after and (part.before is None or part.before < self.window)
        if isinstance(part, Prefix):
            return bool(torch.as_tensor(part.lengths <= self.sinks, dtype=torch.bool, device="cpu").all())
        return isinstance(part, Causal) and part.align == "end"

    def _scores_the_same(self, rule: Rules) -> bool:
        """Whether a rule says of the keys that are left what it says of all keys."""
        # Where queries and keys are counted alike, a distance is the same to every key if the run of keys has no gap.
        if isinstance(rule, Alibi):
            told = (rule.positions is not None, rule.key_positions is not None)
            return self.held == self._length or all(told) or not (self.sinks or any(told))
        # A cap reads the score alone.
        return isinstance(rule, SoftCap) or (isinstance(rule, (RelativeBias, T5Bias)) and not self.sinks)

    def _refusal(self, what: str, which: object) -> str:
        return sentence(
            "RingCache",
            f"{what} counts keys that the ring lets go, or moves",
            f"over a ring of window {self.window} and {self.sinks} sinks stand Causal(), Window(before) with before "
            f"at most {self.window - 1}, Prefix(n) with n at most {self.sinks}, SoftCap, and Alibi told the "
            "positions of queries and keys, both" + ("" if self.sinks else " or neither, RelativeBias and T5Bias"),
            f"Got {which}",
            "Use one of these, or a cache that keeps every token, such as KVCache.",
        )

    def _options(self) -> tuple[str, ...]:
        return (f"window={self.window}", f"sinks={self.sinks}")

    def _forms(self) -> tuple[Form, Form] | None:
        k, v = self._k.held, self._v.held
        return None if k is None or v is None else (Form.of(k), Form.of(v))

    def _read(self) -> tuple[Tensor, Tensor]:
        self._drop()
        k, v = self._k.held, self._v.held
        assert k is not None
        assert v is not None
        return k, v

    def _grown(self, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        self._drop()
        keys, values = self._k.extended(k), self._v.extended(v)
        yield keys, values
        length = self._length + k.shape[2]
        leaving = keys.shape[2] - min(length, self.sinks + self.window - 1)
        parts = [(self._k, keys), (self._v, values)]
        if leaving:
            for gone, every in ((self._gone_k, keys), (self._gone_v, values)):
                left = _last(every.narrow(2, self.sinks, leaving), self.window)
                parts.append((gone, _last(gone.extended(left), self.window)))
        if leaving > self.window:  # as copies: the buffers of a long prompt do not outlive the call
            for at, every in enumerate((keys, values)):
                tail = _last(every, self.window - 1)
                parts[at] = (parts[at][0], torch.cat((every.narrow(2, 0, self.sinks), tail), 2))
        self._become(length, parts)

    def _become(self, length: int, parts: list[tuple[Growing, Tensor]]) -> None:
        """What the parts are from now on. All that can fail, for want of memory say, came before."""
        for part, held in parts:
            part.held = held
        self._length = length

    def _drop(self) -> None:
        """Moves the sinks up to the tail. Not before keys are wanted again: by then nobody reads them, mostly."""
        for part in (self._k, self._v):
            undropped = 0 if part.held is None else part.held.shape[2] - self.held
            if undropped:
                part.drop(self.sinks, undropped)

    def _crop(self, kept: int) -> None:
        k, v = self._read()
        sinks = min(self.sinks, self._length)
        gone = self._gone_k.held
        aside = 0 if gone is None else gone.shape[2]
        first = self._length - (k.shape[2] - sinks) - aside  # the first token behind the sinks that is still here
        least = first + self.window - 1  # a shorter text would want tokens before that one
        if sinks < kept < least and first > sinks:
            raise SpecError(
                sentence(
                    "RingCache.crop",
                    f"{kept} of {self._length} tokens cannot be had back",
                    f"the ring has let go of tokens {sinks} to {first - 1}",
                    todo=f"Crop to {least} or more, or to {sinks} or fewer; else reset() and feed the text again.",
                )
            )
        parts = []
        for live, gone_part, held in ((self._k, self._gone_k, k), (self._v, self._gone_v, v)):
            if not aside:
                parts.append((live, held.narrow(2, 0, kept)))
                continue
            assert gone_part.held is not None
            run = torch.cat((gone_part.held, held.narrow(2, sinks, held.shape[2] - sinks)), 2)
            run = run.narrow(2, 0, max(kept - first, 0))
            tail = _last(run, self.window - 1)
            parts.append((gone_part, run.narrow(2, 0, run.shape[2] - tail.shape[2])))
            parts.append((live, torch.cat((held.narrow(2, 0, min(sinks, kept)), tail), 2)))
        self._become(kept, parts)

    def _reorder(self, rows: Tensor) -> None:
        self._drop()
        parts = (self._k, self._v, self._gone_k, self._gone_v)
        for take in [part.taken(rows) for part in parts if part.held is not None]:
            take()


def _last(tensor: Tensor, n: int) -> Tensor:
    """The last n keys, or all where there are fewer."""
    n = min(n, tensor.shape[2])
    return tensor.narrow(2, tensor.shape[2] - n, n)
