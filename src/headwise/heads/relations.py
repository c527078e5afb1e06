"""How often the word that a head attends to most is the one a relation links it to.

For a relation from word a to word b, a head is right where b is the word that a attends to most:

    mass(a, c) = mean over tokens i of a of ( sum over tokens j of c of p_ij )       predicted(a) = argmax_c mass(a, c)

over the words c other than a that the model's mask shows to a; special tokens are no words. A question counts where
there is a choice: some right answer and some wrong one is visible. So a causal model is asked about pairs whose answer
stands before, and a sentence of two words asks nothing. The baseline answers with the word at one fixed distance, the
best one for the relation on the same questions.

Sources: Clark et al. 2019 (arXiv 1906.04341), Voita et al. 2019 (arXiv 1905.09418). As in both, heads that are picked
out by these numbers were picked on the same text: to claim that a head does a relation, pick it on one file and score
it on another.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.alignment import Aligned, aligned
from headwise.heads.annotations import Link, Passage, Span, read_passages
from headwise.heads.batches import is_causal_lm
from headwise.heads.questions import Answered, Questions
from headwise.heads.texts import context, start_of_decoder
from headwise.heads.watching import runs_of
from headwise.models import observe
from headwise.models import sites as sites_of

__all__ = ["RelationScore", "relation_scores"]

WHO = "relation_scores"


class RelationScore(NamedTuple):
    """What one head scores on one relation.

    Attributes:
        accuracy: share of the questions it answers right, 0 to 1.
        baseline: the best share that a rule without a model gets on the same questions.
        n: how many questions those are, the ones with a choice.
        baselines: by rule. ``{"offset +1": 0.5}`` is the best fixed distance in words; coreference has "nearest", the
            candidate before, and "head match", the nearest candidate of the same form (wrong where there is none).
    """

    accuracy: float
    baseline: float
    n: int
    baselines: Mapping[str, float]


def relation_scores(
    model: nn.Module, tokenizer: Any, path: str | os.PathLike[str], *, document_tokens: int | None = 128
) -> dict[tuple[int, int], dict[str, RelationScore]]:
    """Scores every head of a model on every relation of an annotated file, text by text.

    Dependencies (``.conllu``): "nsubj" asks each nsubj for its head, "nsubj<-" each head for its nsubj (any of several
    is right), "all" and "all<-" the same whatever the label. Words of one multiword token, and words that share a
    token of the model, are one word, and a pair inside of it is not asked. Root has no head; punctuation counts.

    Coreference (``.conllu`` with ``Entity=``): "coref" asks the head word of each mention that has an antecedent which
    of the head words of earlier mentions it attends to most; any earlier mention of its entity is right. Documents are
    cut after ``document_tokens`` tokens.

    Others (``.jsonl``): one JSON object a line, ``{"text": ..., "from": [start, stop], "to": [start, stop], "relation":
    "before"}``, spans in characters, half open; right is any word in the to-span, and lines that differ in it alone are
    one question. Words are what spaces part, punctuation at their ends apart, cut at the spans' ends.
    With ``"target_text"``, which the from-span is then of, the question goes to the cross attention of an
    encoder-decoder model, from the places where the decoder reads the from-span. Its other files go to its encoder.

    Args:
        model: a transformers model, an encoder, a decoder or both, in eval mode.
        tokenizer: its tokenizer, a fast one.
        path: the file, ``.conllu`` or ``.jsonl``.
        document_tokens: the most tokens of a document, special ones included; None = what the model takes.

    Returns:
        ``{(layer, head): {relation: RelationScore}}``, for the sites that were asked: layer is the site's index in
        ``hw.sites(model)``; where a site runs several times in a forward (ALBERT), each run counts as a layer, by site
        and then by run. A relation about which a head could be asked nothing is absent.

    Raises:
        SpecError: a file that cannot be read, by sentence or line; a word without a token; a sentence that is longer
            than the model's input.
        UnsupportedError: a tokenizer without offsets; a ``target_text`` for a model without cross attention; attention
            that does not go through transformers' interface.
        UnavailableError: the package ``conllu`` is missing.

    Sources: Clark et al. 2019 (arXiv 1906.04341), which also asks, in the other direction, who attends to a dependent
    most; Voita et al. 2019 (arXiv 1905.09418), whose other direction is the one here.

    Example:
        >>> import json, pathlib, tempfile
        >>> import headwise as hw
        >>> from headwise.heads.relations import relation_scores
        >>> line = {"text": "She ate, then slept.", "from": [14, 19], "to": [4, 7], "relation": "after"}
        >>> file = pathlib.Path(tempfile.mkdtemp(), "time.jsonl")
        >>> _ = file.write_text(json.dumps(line))
        >>> scores = relation_scores(*hw.load("minilm"), file)
        >>> len(scores), scores[0, 0]["after"].n, scores[0, 0]["after"].baselines
        (72, 1, {'offset -3': 1.0})
    """
    if document_tokens is not None and (type(document_tokens) is not int or document_tokens < 1):
        raise SpecError(sentence(WHO, f"document_tokens is {document_tokens!r}", "it is an int of at least 1, or None"))
    where = _Places(model, tokenizer)
    asked = [_InTokens.of(passage, where, tokenizer, document_tokens) for passage in read_passages(path)]
    tally = _Tally(where.layers)
    for passage in asked:
        if passage.links:
            tally.take(passage, where.ask(passage))
    scores = tally.scores()
    if is_causal_lm(model) and not any(scores.values()):
        what = f"none of the {sum(len(passage.links) for passage in asked)} links of {path} can be asked of this model"
        rule = "a head is asked where the word it looks from sees both right and wrong ones: in a causal model, earlier"
        raise SpecError(sentence(WHO, what, rule, todo="Swap from and to, or use an encoder."))
    return scores


@dataclass(frozen=True)
class _Judged:
    """A question in numbers of words, and which rules answer it right; offsets are named where they do."""

    relation: str
    source: frozenset[int]
    targets: frozenset[int]
    candidates: frozenset[int]
    rules: Mapping[str, bool]


@dataclass(frozen=True, eq=False)
class _InTokens:
    """A passage in tokens: what the model reads, who asks (the same, or a decoder), and its links."""

    read: Aligned
    asker: Aligned
    decoder: bool
    links: tuple[_Judged, ...]

    @classmethod
    def of(cls, passage: Passage, where: _Places, tokenizer: Any, document_tokens: int | None) -> _InTokens:
        """Aligns a passage with its tokens, and cuts it if it is a document."""
        most = where.most
        if passage.may_be_cut and document_tokens is not None:
            most = document_tokens if most is None else min(most, document_tokens)
        passage, read = _fitted(passage, tokenizer, most)
        asker = read
        if passage.asker is not None:
            where.check_cross(passage.links[0].where)
            text, words = passage.asker
            asker = where.shifted(aligned(WHO, tokenizer, text, words, passage.name))
            _check_length(asker, most, f"the target_text of {passage.links[0].where}")
        return cls(read, asker, passage.asker is not None, tuple(_judged(passage, read, asker)))

    def questions(self) -> Questions:
        """What to ask of a pattern of this passage."""
        asking = sorted({word for link in self.links for word in link.source})
        group = torch.full(
            (self.asker.words + 1,), -1, dtype=torch.int64, device="cpu"
        )  # the last entry is that of tokens of no word
        group[asking] = torch.arange(len(asking), dtype=torch.int64, device="cpu")
        place = {word: n for n, word in enumerate(asking)}
        sources = _table([{place[word] for word in link.source} for link in self.links], len(asking))
        candidates = _table([link.candidates for link in self.links], self.read.words)
        targets = _table([link.targets for link in self.links], self.read.words)
        return Questions(group[self.asker.word_of], self.read.word_of, sources, candidates, targets)


def _table(chosen: Sequence[frozenset[int] | set[int]], width: int) -> Tensor:
    table = torch.zeros(len(chosen), width, dtype=torch.bool, device="cpu")
    for row, members in zip(table, chosen, strict=True):
        row[sorted(members)] = True
    return table


def _fitted(passage: Passage, tokenizer: Any, most: int | None) -> tuple[Passage, Aligned]:
    """A passage that the model can take, in tokens: a document is cut behind a word, anything else is refused."""
    read = aligned(WHO, tokenizer, passage.text, passage.words, passage.name)
    if not passage.may_be_cut:
        _check_length(read, most, passage.name)
    elif most is not None and read.ids.shape[1] > most:
        beyond = read.word_of[most:]
        left = int(beyond[beyond >= 0].min()) if bool((beyond >= 0).any()) else read.words
        for kept in range(sum(number < left for number in read.number), -1, -1):  # special tokens need places too
            passage = passage.up_to(kept)
            read = aligned(WHO, tokenizer, passage.text, passage.words, passage.name)
            if read.ids.shape[1] <= most:
                break
    return passage, read


def _check_length(text: Aligned, most: int | None, name: str) -> None:
    if most is not None and text.ids.shape[1] > most:
        what = f"{name} has {text.ids.shape[1]} tokens"
        raise SpecError(sentence(WHO, what, f"the model takes {most}", todo="Leave it out, or split it."))


def _judged(passage: Passage, read: Aligned, asker: Aligned) -> Iterator[_Judged]:
    """The questions of a passage; links of one relation from one word are one, and a word is no answer to itself."""
    words = passage.words
    asking, same = (words, True) if passage.asker is None else (passage.asker[1], False)
    together: dict[tuple[str, frozenset[int]], list[Link]] = {}
    for link in passage.links:
        together.setdefault((link.relation, _numbers([link.source], asking, asker)), []).append(link)
    for (relation, source), links in together.items():
        own = source if same else frozenset()
        targets = _numbers([target for link in links for target in link.targets], words, read) - own
        if not targets:
            continue  # inside of what is one word to the model
        link = links[0]
        if link.candidates is None:
            first, last = min(source), max(source)
            steps = {t - last if t > last else min(t - first, 0) for t in targets}
            rules = {f"offset {step:+d}": True for step in sorted(steps)}
            yield _Judged(relation, source, targets, frozenset(range(read.words)) - own, rules)
        else:
            rules = {name: bool(span and _numbers([span], words, read) & targets) for name, span in link.guesses}
            yield _Judged(relation, source, targets, _numbers(link.candidates, words, read) - own, rules)


def _numbers(spans: Sequence[Span], words: Sequence[Span], text: Aligned) -> frozenset[int]:
    """The words that spans meet, by their numbers among the words that tokens tell apart."""
    found: set[int] = set()
    for span in spans:
        first = bisect_right(words, span.start, key=lambda word: word.stop)
        found.update(text.number[first : bisect_left(words, span.stop, key=lambda word: word.start)])
    return frozenset(found)


class _Places:
    """Where a model is asked: all of it, or the encoder or the cross attention of an encoder-decoder model."""

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.sites = sites_of(model)  # refuses a model that cannot be watched, before anything is computed
        self.model: Any = model
        self.most = context(model)
        self.device = next(model.parameters()).device
        runs = runs_of(WHO, model)
        self.layers = {name: run.layer for name, run in runs.items()}
        self.start = 0
        self.encoder, self.cross = self.sites, list[str]()
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            self.start = start_of_decoder(WHO, model)
            own = {run.site for run in runs.values() if run.kind == "self" and not run.decoding}
            cross = {run.site for run in runs.values() if run.kind == "cross"}
            self.encoder, self.cross = ([site for site in self.sites if site in part] for part in (own, cross))

    def check_cross(self, where: str) -> None:
        """Raises UnsupportedError where there is no cross attention to ask."""
        if not self.cross:
            raise UnsupportedError(
                sentence(
                    WHO,
                    f"{where} has a target_text, and {type(self.model).__name__} no cross attention",
                    "a from-span in another text than the to-span is asked of an encoder-decoder model",
                )
            )

    def shifted(self, said: Aligned) -> Aligned:
        """What a decoder reads to say a text: its tokens behind the start token."""
        start = torch.tensor([self.start], dtype=torch.int64, device="cpu")
        return Aligned(
            torch.cat([start[None], said.ids], 1),
            torch.cat([torch.tensor([-1], dtype=torch.int64, device="cpu"), said.word_of]),
            said.number,
        )

    def ask(self, passage: _InTokens) -> list[tuple[str, Answered]]:
        """Runs the model on one passage: the answers, by run of a site."""
        ids = passage.read.ids.to(self.device)
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        runner, sites = self.model, self.encoder
        if passage.decoder:
            batch["decoder_input_ids"], sites = passage.asker.ids.to(self.device), self.cross
        elif self.cross:
            runner = self.model.get_encoder()
        with observe(self.model, passage.questions(), sites=sites) as seen, torch.no_grad():
            runner(**batch)
        return [(run, seen[run]["questions"]) for run in seen.sites]


class _Tally:
    """Answers of all passages, link by link."""

    def __init__(self, layers: Mapping[str, int]) -> None:
        self.layers = layers
        self.links: dict[str, list[_Judged]] = {}  # by run: runs of an encoder-decoder model differ in their passages
        self.answers: dict[str, list[Answered]] = {}

    def take(self, passage: _InTokens, answers: Sequence[tuple[str, Answered]]) -> None:
        """Takes in what the runs of one forward answered."""
        for run, answered in answers:
            self.links.setdefault(run, []).extend(passage.links)
            self.answers.setdefault(run, []).append(Answered(*(part[0].cpu() for part in answered)))

    def scores(self) -> dict[tuple[int, int], dict[str, RelationScore]]:
        """By layer and head."""
        found: dict[tuple[int, int], dict[str, RelationScore]] = {}
        for run, answers in self.answers.items():
            layer = self.layers[run]
            right, counted = (torch.cat(parts, dim=1) for parts in zip(*answers, strict=True))
            for head in range(len(right)):
                found[layer, head] = {}
            for relation, which in _by_relation(self.links[run]).items():
                links = [self.links[run][n] for n in which]
                for head, score in _scored(links, right[:, which], counted[:, which]):
                    found[layer, head][relation] = score
        return dict(sorted(found.items()))


def _by_relation(links: Sequence[_Judged]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, link in enumerate(links):
        found.setdefault(link.relation, []).append(n)
    return found


def _scored(links: Sequence[_Judged], right: Tensor, counted: Tensor) -> Iterator[tuple[int, RelationScore]]:
    """One relation, for each head that could be asked about it; right and counted are bool [H, A]."""
    rules = sorted({rule for link in links for rule in link.rules})
    obeyed = torch.tensor(
        [[link.rules.get(rule, False) for link in links] for rule in rules], dtype=torch.bool, device="cpu"
    ).reshape(len(rules), len(links))
    hits = obeyed.double() @ counted.double().T  # rules, heads
    for head, n in enumerate(counted.sum(1).tolist()):
        if n:
            shares = {rule: hit / n for rule, hit in zip(rules, hits[:, head].tolist(), strict=True)}
            best = max(shares, key=shares.__getitem__, default="")
            by_offset = best.startswith("offset")
            told = {best: shares[best]} if by_offset else shares
            yield head, RelationScore(int(right[head].sum()) / n, shares.get(best, 0.0), n, told)
