"""Texts on which heads are scored: their tokens, which of these are special, and what a decoder reads beside them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.heads.prose import pages
from headwise.models.sites import refuse_if_outside

__all__ = [
    "OWN",
    "Text",
    "check_reads_tokens",
    "check_tokens",
    "context",
    "read_texts",
    "reads_two_texts",
    "start_of_decoder",
]

OWN = 256  #: tokens read of each page of our own prose, where nobody says how many.
_LONGEST = 500  # characters; no token of a vocabulary is longer, runs of spaces included


@dataclass(frozen=True, eq=False)
class Text:
    """One text, without padding.

    Attributes:
        ids: int64 [1, T], what the model reads.
        special: bool [T], which tokens are the tokenizer's own signs ([CLS], end of sentence) and stand for no word.
        target: int64 [1, T'], what the decoder of an encoder-decoder model reads; None for other models.
        target_special: bool [T'], likewise.
    """

    ids: Tensor
    special: Tensor
    target: Tensor | None = None
    target_special: Tensor | None = None

    def batch(self, device: torch.device) -> dict[str, Any]:
        """The model's inputs."""
        batch = {"input_ids": self.ids.to(device)}
        return batch if self.target is None else {**batch, "decoder_input_ids": self.target.to(device)}

    def start(self) -> Text:
        """The first few tokens, of the two sequences differently many, so that their lengths tell them apart."""
        if self.target is None or self.target_special is None:
            return Text(self.ids[:, :4], self.special[:4])
        return Text(self.ids[:, :3], self.special[:3], self.target[:, :2], self.target_special[:2])


def read_texts(
    who: str,
    model: nn.Module,
    tokenizer: Any,
    texts: Sequence[Any] | None,
    targets: Sequence[Any] | None = None,
    tokens: int | None = None,
) -> list[Text]:
    """Tokenizes texts, each for itself: there is no padding.

    Args:
        who: the function that asks, for the messages.
        model: what will read them.
        tokenizer: of the model; None where all texts are token ids already.
        texts: strings, or token ids as lists or int64 [T]; None = our own prose, 8 pages.
        targets: what the decoder of an encoder-decoder model reads beside each; None = the text again.
        tokens: how many tokens to read of each; None = all of them, of our own prose 256.

    Raises:
        SpecError: no text, an empty one, one longer than the model's context, one with tokens that the model does not
            know; strings without a tokenizer.
        ShapeError: token ids of another shape.
        UnsupportedError: a model that reads no token ids.
    """
    check_reads_tokens(who, model)
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 2):
        raise SpecError(sentence(who, f"tokens is {tokens!r}", "a head has a choice from two tokens on"))
    longest = context(model)
    if tokens is not None and longest is not None and tokens > longest:
        what = f"tokens is {tokens:,}, the context of {type(model).__name__} is {longest:,}"
        raise SpecError(sentence(who, what, todo=f"Use {longest} or less."))
    if texts is None:
        texts, tokens = pages(), tokens or min(OWN, longest or OWN)
    given = _listed(who, "texts", texts)
    paired = [None] * len(given) if targets is None else _listed(who, "targets", targets)
    if len(paired) != len(given):
        what = f"{len(paired)} targets beside {len(given)} texts"
        raise SpecError(sentence(who, what, "each text has one, in the same order"))
    limit = _Limit(who, tokens, longest)
    both = reads_two_texts(model)
    if targets is not None and not both:
        what = f"targets were given, and {type(model).__name__} has no decoder beside an encoder"
        raise SpecError(sentence(who, what, "only an encoder-decoder model reads two texts"))
    found = []
    for at, (text, target) in enumerate(zip(given, paired, strict=True)):
        ids = limit.ids(f"text {at}", tokenizer, text)
        check_tokens(who, f"text {at}", model, ids)
        if not both:
            found.append(Text(ids, _special(tokenizer, ids)))
            continue
        start = torch.tensor([[start_of_decoder(who, model)]], dtype=torch.int64, device="cpu")
        second = limit.ids(f"target {at}", tokenizer, text if target is None else target)
        check_tokens(who, f"target {at}", model, second)
        second = torch.cat([start, second], 1)[:, :longest]
        signs = _special(tokenizer, second)
        signs[0] = True
        found.append(Text(ids, _special(tokenizer, ids), second, signs))
    return found


def check_reads_tokens(who: str, model: nn.Module) -> None:
    """Raises UnsupportedError where a model reads no token ids, or cannot be watched."""
    refuse_if_outside(who, model)
    wanted = getattr(model, "main_input_name", "input_ids")
    if wanted != "input_ids":
        raise UnsupportedError(
            sentence(
                who,
                f"{type(model).__name__} reads {wanted}",
                "heads are scored on texts, which come as input_ids",
                todo="Score a part that reads tokens, or ask hw.observe(model, ...) on inputs of your own.",
            )
        )


def _listed(who: str, name: str, texts: Any) -> list[Any]:
    if isinstance(texts, (str, Tensor)) or not isinstance(texts, Sequence):
        shown = f"a {type(texts).__name__}"
        raise SpecError(sentence(who, f"{name} is {shown}", "it is a list of texts", todo=f"Write {name}=[text]."))
    if not texts:
        raise SpecError(sentence(who, f"{name} is empty", "heads are watched on one text or more"))
    return list(texts)


@dataclass(frozen=True)
class _Limit:
    """How much is read of a text."""

    who: str
    tokens: int | None
    longest: int | None

    def ids(self, name: str, tokenizer: Any, text: Any) -> Tensor:
        """Token ids [1, T]."""
        if isinstance(text, str):
            ids = self._tokenized(tokenizer, text)
        else:
            ids = _as_ids(self.who, name, text)[: self.tokens]
        count = len(ids)
        if count < 2:
            what = f"{name} is {count} token{'' if count == 1 else 's'}"
            raise SpecError(sentence(self.who, what, "a head has a choice from two tokens on"))
        if self.longest is not None and count > self.longest:
            what = f"{name} has {count:,} tokens, the context is {self.longest:,}"
            raise SpecError(sentence(self.who, what, todo=f"Read its beginning with tokens={self.longest}."))
        return ids[None]

    def _tokenized(self, tokenizer: Any, text: str) -> Tensor:
        if tokenizer is None:
            raise SpecError(
                sentence(
                    self.who,
                    "a text is a string and there is no tokenizer",
                    "a string is read through one",
                    todo="Give the tokenizer, or token ids as texts.",
                )
            )
        half = next((at for at, sign in enumerate(text) if "\ud800" <= sign <= "\udfff"), None)
        if half is not None:
            what = f"the sign {text[half]!r} at position {half} of a text is half of a pair"
            raise SpecError(sentence(self.who, what, "a text is Unicode", todo='Read it with errors="replace".'))
        if self.tokens is None:
            found = tokenizer(text, truncation=False, verbose=False)["input_ids"]
        else:  # what will not be read is not tokenized
            found = tokenizer(text[: _LONGEST * self.tokens], truncation=True, max_length=self.tokens)["input_ids"]
        return torch.tensor(found, dtype=torch.int64, device="cpu")


def _as_ids(who: str, name: str, text: Any) -> Tensor:
    try:
        ids = (
            text
            if isinstance(text, Tensor)
            else torch.tensor(text, dtype=None if len(text) else torch.int64, device="cpu")
        )
    except (TypeError, ValueError, RuntimeError):
        ids = None
    rule = "a text is a string or token ids, int64 [T]"
    if ids is None:
        raise SpecError(sentence(who, f"{name} is a {type(text).__name__}", rule))
    if ids.dim() != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ShapeError(sentence(who, f"{name} is {ids.dtype}", rule, axes(name, ids, "T")))
    return ids.cpu().long()


def check_tokens(who: str, name: str, model: Any, ids: Tensor) -> None:
    """Raises SpecError where a model has no embedding for some token of a text."""
    try:
        embedding = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return
    size = getattr(embedding, "num_embeddings", None)
    if size is None:
        return
    wrong = ids[(ids < 0) | (ids >= size)]
    if wrong.numel():
        what = f"{name} holds token {int(wrong[0])}"
        raise SpecError(sentence(who, what, f"{type(model).__name__} knows the tokens 0 to {size - 1}"))


def _special(tokenizer: Any, ids: Tensor) -> Tensor:
    """Which tokens are signs of the tokenizer's own, bool [T]."""
    signs = list(getattr(tokenizer, "all_special_ids", None) or [])
    unknown = getattr(tokenizer, "unk_token_id", None)
    # An unknown word is a word; several tokenizers use its sign for others as well, and then it counts as one of those.
    same = [getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "cls", "sep", "pad")]
    if unknown is not None and unknown not in same:
        signs = [sign for sign in signs if sign != unknown]
    return torch.isin(ids[0], torch.tensor(signs, dtype=torch.int64, device="cpu"))


def reads_two_texts(model: Any) -> bool:
    """Whether a model is an encoder with a decoder beside it; the encoder by itself, of the same config, is not."""
    both = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return bool(both) and "decoder_input_ids" in inspect.signature(model.forward).parameters


def start_of_decoder(who: str, model: Any) -> int:
    """The token that a decoder beside an encoder starts with."""
    for config in (getattr(model, "generation_config", None), model.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            found = getattr(config, name, None)
            if isinstance(found, int):
                return found
    what = f"the config of {type(model).__name__} names no decoder_start_token_id"
    raise SpecError(sentence(who, what, "the decoder starts with a token of its own", todo="Set it in model.config."))


def context(model: Any) -> int | None:
    """How many tokens a model takes; None = as many as one likes.

    Example:
        >>> from headwise.heads.texts import context
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> context(GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)))
        8
    """
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    limit = next(
        (getattr(config, key) for key in ("max_position_embeddings", "n_positions") if hasattr(config, key)), None
    )
    if not limit or not isinstance(limit, int):
        return None
    for name, part in model.named_modules():
        # RoBERTa and its kin count positions from past the padding index.
        if isinstance(part, nn.Embedding) and "position" in name and part.padding_idx is not None:
            return limit - part.padding_idx - 1
    return limit
