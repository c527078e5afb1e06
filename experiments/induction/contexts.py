"""The model's own tokenizer, and contexts of one length cut from documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.texts import Corpus, Document

__all__ = ["SHORT", "START", "Contexts", "byte_pairs", "contexts"]

START = "<s>"  #: its id is 0, and every context begins with it.
SAMPLE = 20_000_000  #: byte pairs are counted in so many characters of the training documents.
SHORT = 64  #: tokens of a context that repeats a span;
SPAN = (8, 32)  #: the span has at least so many, and less than so many.


@dataclass(frozen=True)
class Contexts:
    """Tokens of the two parts of a corpus, and how contexts are cut from them.

    Attributes:
        length: tokens in a context, the start token included.
        tokens: int64 [N], the training documents one after another, those shorter than a context left out.
        starts: int64 [documents], how many contexts begin before each document; the last entry counts all.
        offsets: int64 [documents], where each document begins in ``tokens``.
        held_out: int64 [contexts, length], contexts of held-out documents that do not overlap, in a random order.
        ordinary: int64, ids in order of training frequency without the most and least common tenth.
        facts: what a result should say about the tokens.
    """

    length: int
    tokens: Tensor
    starts: Tensor
    offsets: Tensor
    held_out: Tensor
    ordinary: Tensor
    facts: dict[str, Any]

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Contexts [count, length] of training documents: every place where one fits is as likely as any other."""
        drawn = torch.randint(int(self.starts[-1]), (count,), generator=generator)
        document = torch.searchsorted(self.starts, drawn, right=True) - 1
        first = self.offsets[document] + drawn - self.starts[document]
        body = self.tokens[first[:, None] + torch.arange(self.length - 1)]
        return torch.nn.functional.pad(body, (1, 0), value=0)

    def spans(self, count: int, generator: torch.Generator) -> Tensor:
        """Short contexts [count, 64], each the start token and one span of a training document over and over."""
        rows = []
        for body in self.draw(count, generator)[:, 1:]:
            size = int(torch.randint(*SPAN, (), generator=generator))
            rows.append(body[:size].repeat(SHORT // size + 1)[: SHORT - 1])
        return torch.nn.functional.pad(torch.stack(rows), (1, 0), value=0)

    def repeats(self, count: int, tokens: int, times: int, generator: torch.Generator) -> Tensor:
        """The start token, then ``tokens`` different ordinary tokens ``times`` over, [count, 1 + tokens * times]."""
        drawn = [self.ordinary[torch.randperm(len(self.ordinary), generator=generator)[:tokens]] for _ in range(count)]
        return torch.nn.functional.pad(torch.stack(drawn).repeat(1, times), (1, 0), value=0)


def byte_pairs(documents: Sequence[Document], vocabulary: int) -> Any:
    """Trains byte-level byte pairs and wraps them so that transformers saves and loads them.

    Args:
        documents: to count pairs in, up to `SAMPLE` characters.
        vocabulary: number of tokens, the start token and the 256 bytes included.

    Returns:
        A `transformers.PreTrainedTokenizerFast` that puts the start token before each text.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    taken, size = [], 0
    for one in documents:
        if size < SAMPLE:
            taken.append(one.text)
            size += len(one.text)
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        taken,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[START],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    inner.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=START,
        eos_token=START,
        pad_token=START,
        clean_up_tokenization_spaces=False,
    )


def contexts(corpus: Corpus, tokenizer: Any, length: int, cache: Path, seed: int) -> Contexts:
    """Encodes a corpus, once: the ids are kept beside the packages."""
    kept = cache / f"tokens-{corpus.digest[:16]}-{len(tokenizer)}-{seed}.npz"
    if not kept.is_file():
        train, held = _encoded(tokenizer, corpus.train), _encoded(tokenizer, corpus.held_out)
        np.savez(
            kept,
            train=np.concatenate(train),
            train_sizes=[len(one) for one in train],
            held=np.concatenate(held),
            held_sizes=[len(one) for one in held],
        )
    with np.load(kept) as stored:
        train = np.split(stored["train"], np.cumsum(stored["train_sizes"])[:-1])
        held = np.split(stored["held"], np.cumsum(stored["held_sizes"])[:-1])
    body = length - 1
    long = [one for one in train if len(one) >= body]
    tokens = torch.from_numpy(np.concatenate(long).astype(np.int64))
    sizes = torch.tensor([len(one) for one in long])
    whole = [one[: len(one) // body * body].reshape(-1, body) for one in held]
    pieces = torch.nn.functional.pad(torch.from_numpy(np.concatenate(whole).astype(np.int64)), (1, 0), value=0)
    order = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(seed))
    ranked = torch.bincount(tokens, minlength=len(tokenizer)).argsort(descending=True, stable=True)
    tenth = len(ranked) // 10
    characters = sum(len(one.text) for one in corpus.train)
    return Contexts(
        length,
        tokens,
        torch.nn.functional.pad((sizes - body + 1).cumsum(0), (1, 0)),
        torch.nn.functional.pad(sizes.cumsum(0), (1, 0))[:-1],
        pieces[order],
        ranked[tenth:-tenth],
        {
            "vocabulary": len(tokenizer),
            "context": length,
            "training_tokens_available": len(tokens),
            "training_documents_of_a_context_or_more": len(long),
            "characters_per_token": round(characters / sum(map(len, train)), 3),
            "held_out_contexts": len(pieces),
        },
    )


def _encoded(tokenizer: Any, documents: Sequence[Document]) -> list[np.ndarray[Any, Any]]:
    """The ids of each document, without a start token."""
    inner = tokenizer.backend_tokenizer
    found = inner.encode_batch([one.text for one in documents], add_special_tokens=False)
    return [np.array(one.ids, dtype=np.uint16) for one in found]
