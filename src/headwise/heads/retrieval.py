"""Retrieval heads: which heads fetch what a model copies out of a long text (Wu et al. 2024).

A sentence k that has nothing to do with its surroundings, the needle, is hidden in a long text, and the model is asked
for it. While it answers, greedily, head h *copies* token w where the key that h attends to most, in the step that
gives w, lies in the needle and is a w:

    g_h = {j in k : in some step, j = argmax of the row of h, and x_j = the w of that step}        score = |g_h| / |k|

averaged over all runs (needles x lengths x depths), those in which the model fails to answer included. Both count
positions of the needle, so a token that stands there twice counts twice, and copying one place again adds nothing.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.alignment import encoded
from headwise.heads.estimates import Sums, estimate
from headwise.heads.prose import prose
from headwise.heads.texts import context
from headwise.heads.watching import layers_of
from headwise.models import observe
from headwise.models import sites as sites_of
from headwise.observers import Accumulator, Frame, Observer, Tile, TopKeys, Whole
from headwise.spec.geometry import Geometry

__all__ = ["DEPTHS", "NEEDLES", "Needle", "RetrievalScore", "retrieval_scores"]

WHO = "retrieval_scores"
LONGEST = 2048  #: tokens of the longest prompt, where nobody says how long.
MORE = 16  #: tokens that the model may say beyond the length of the needle.
ANSWERED = 0.5  #: an answer holds more than this share of the needle's words that are not in the question.


class Needle(NamedTuple):
    """What is hidden and how it is asked for.

    Attributes:
        sentence: the needle, one sentence that answers the question, of no relation to the haystack.
        question: what is asked.
    """

    sentence: str
    question: str


NEEDLES = (
    Needle(
        "The old ferryman of Tarnow keeps his spare compass inside a hollow loaf of rye bread.",
        "Where does the old ferryman of Tarnow keep his spare compass?",
    ),
    Needle(
        "Every winter the librarian of Quillford feeds seven blue herons with dried apricots.",
        "What does the librarian of Quillford feed seven blue herons with every winter?",
    ),
    Needle(
        "The password that opens the clock tower of Brackwater is purple marmalade.",
        "What is the password that opens the clock tower of Brackwater?",
    ),
)  #: three facts with answers that nobody would guess.
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)  #: where needles are hidden, 0 = before the haystack, 1 = behind it.


class RetrievalScore(NamedTuple):
    """What one head scores.

    Attributes:
        score: share of the needle's tokens that it copies, mean over runs; above 0.1 the paper calls it a retrieval
            head.
        chance: what a head scores, on the same steps, whose most attended key is any visible one with equal odds.
        n: how many runs.
        answered: share of the runs in which the model answered, with more than half of the needle's words that are not
            in the question.
        error: standard error of ``score - chance``, the larger of that over needles and that over runs, since runs that
            hide one needle are no independent draws; infinite for a single run.
    """

    score: float
    chance: float
    n: int
    answered: float
    error: float


class _Pointed(NamedTuple):
    """Where the last query of a call points: distances are counted back from it.

    Attributes:
        back: int64 [B, H], how far before the query its most attended key stands.
        visible: int64 [B, H], how many keys it sees.
        shown: bool [B, H, K], whether it sees the keys that were asked about.
    """

    back: Tensor
    visible: Tensor
    shown: Tensor


@dataclass(frozen=True, eq=False)
class _Pointing(Observer):
    """Asks the last query for its most attended key; distances hold where a cache has dropped what lies far behind.

    Args:
        asked: int64 [K], keys to ask about, as distances before the query.
    """

    asked: Tensor

    def rows(self, geometry: Geometry) -> slice:
        return slice(geometry.T - 1, geometry.T)

    def begin(self, frame: Frame) -> Accumulator:
        return _Following(frame, self.asked.to(frame.geometry.device))

    def define(self, whole: Whole) -> _Pointed:
        geometry = whole.geometry
        last = _last_position(geometry, slice(0, geometry.B))
        top = TopKeys(1).define(whole).indices[:, :, -1, 0]
        seen = whole.visible.expand_as(whole.p)[:, :, -1]
        at = (last - self.asked.to(last.device))[:, None].expand(*seen.shape[:2], -1)
        shown = seen.gather(-1, at.clamp(0, geometry.S - 1)) & (at >= 0) & (at < geometry.S)
        return _Pointed(last - top, seen.sum(-1), shown)


def _last_position(geometry: Geometry, batch: slice) -> Tensor:
    """Position of the last query, int64 [b or 1, 1]."""
    return geometry.positions(batch, slice(geometry.T - 1, geometry.T))


class _Following:
    def __init__(self, frame: Frame, asked: Tensor) -> None:
        self.frame, self.asked = frame, asked
        self.top: Any = TopKeys(1).begin(frame)
        self.visible = frame.zeros(dtype=torch.int64)
        self.shown = frame.zeros(len(asked), dtype=torch.bool)

    def see(self, tile: Tile) -> None:
        cells, geometry = tile.cells, tile.cells.geometry
        self.top.see(tile)
        if cells.rows.stop != geometry.T or cells.keys.start == cells.keys.stop:
            return
        b, h = self.frame.at(cells)
        seen = torch.ones_like(tile.p, dtype=torch.bool) if tile.visible is None else tile.visible.expand_as(tile.p)
        seen = seen[:, :, -1]
        self.visible[b, h] += seen.sum(-1)
        at = (_last_position(geometry, cells.batch) - self.asked)[:, None].expand(*seen.shape[:2], -1)
        here = (at >= cells.keys.start) & (at < cells.keys.stop)
        self.shown[b, h] |= seen.gather(-1, (at - cells.keys.start).clamp(0, seen.shape[-1] - 1)) & here

    def merge(self, other: _Following) -> None:
        self.top.merge(other.top)
        self.visible += other.visible
        self.shown |= other.shown

    def result(self) -> _Pointed:
        top = self.top.result().indices[:, :, -1, 0]
        return _Pointed(_last_position(self.frame.geometry, self.frame.batch) - top, self.visible, self.shown)


def retrieval_scores(
    model: nn.Module,
    tokenizer: Any,
    *,
    lengths: Sequence[int] | None = None,
    depths: Sequence[float] = DEPTHS,
    needles: Sequence[Needle | tuple[str, str]] = NEEDLES,
    haystack: str | None = None,
    seed: int = 0,
) -> dict[tuple[int, int], RetrievalScore]:
    """Scores every head of a language model on the needle test.

    The paper runs 3 needles x 20 lengths up to 50,000 tokens x 10 depths; the default, 45 runs of at most 2,048 tokens,
    takes some minutes on a CPU for a model of 0.1 B weights. A needle stands between two sentences of the haystack. A
    model whose tokenizer has a chat template is asked through it. It answers greedily, from its cache, until it ends,
    begins a new line, or has said 16 tokens more than the needle has; each step asks one row of each pattern.

    Args:
        model: a transformers decoder with a head over the vocabulary, in eval mode.
        tokenizer: its tokenizer, a fast one.
        lengths: tokens of the prompts, all included; None = a quarter, half and all of what the model takes, at most
            2,048. A length that does not hold a needle and its question is left out.
        depths: where needles are hidden, 0 to 1.
        needles: (sentence, question) each.
        haystack: prose to hide them in, repeated where it is too short; None = pages of Python's own documentation.
        seed: says which sentence of the haystack each run begins with.

    Returns:
        ``{(layer, head): RetrievalScore}``: layer is the site's index in ``hw.sites(model)``; where a site runs several
        times in a forward (ALBERT), each run counts as a layer, by site and then by run. Empty where no length holds a
        needle: there is no score then, not one of zero.

    Raises:
        SpecError: lengths beyond what the model takes; depths outside of 0 to 1; nothing to hide or to hide it in.
        UnsupportedError: a model that is no decoder with a head over the vocabulary; a tokenizer without offsets;
            attention that does not go through transformers' interface.

    Source: Wu et al. 2024 (arXiv 2404.15574). Its code leaves out runs that failed, and counts every step that copies.

    Example:
        >>> import headwise as hw
        >>> from headwise.heads.retrieval import retrieval_scores
        >>> model, tokenizer = hw.load("smollm2")
        >>> scores = retrieval_scores(model, tokenizer, lengths=[128], depths=[0.5])
        >>> len(scores), scores[0, 0].n
        (270, 3)
    """
    _check_model(model)
    asked = [Needle(*needle) for needle in needles]
    room = MORE + max((len(encoded(WHO, tokenizer, needle.sentence).ids) for needle in asked), default=0)
    lengths = _checked(lengths, depths, asked, context(model), room)
    hay = _Haystack(tokenizer, prose() if haystack is None else haystack)
    draw = random.Random(seed)
    sums: dict[str, list[Sums]] = {}
    runs = answered = 0
    for needle in asked:
        scored: dict[str, list[Tensor]] = {}
        for length in lengths:
            for depth in depths:
                prompt = _Prompt.of(tokenizer, needle, hay, length, depth, draw.random())
                if prompt is None:
                    continue
                run = _Run(model, tokenizer, prompt)
                runs, answered = runs + 1, answered + run.answered
                for site, found in run.scores().items():
                    scored.setdefault(site, []).append(found)
        for site, each in scored.items():
            score, chance = torch.stack(each, -1)[:, None].unbind()  # [1, H, runs] each
            sums.setdefault(site, []).append(Sums.over(score, chance, torch.ones_like(score, dtype=torch.bool)))
    return {
        (layer, head): RetrievalScore(score, chance, runs, answered / runs, error)
        for site, layer in layers_of(sums, sites_of(model)).items()
        for head, (score, chance, error) in enumerate(_told(sums[site]))
    }


def _told(needles: Sequence[Sums]) -> list[tuple[float, float, float]]:
    """Score, chance and error of each head, from what each needle says."""
    found = estimate(needles)
    return list(zip(found.score.tolist(), found.chance.tolist(), found.error.tolist(), strict=True))


def _check_model(model: Any) -> None:
    sites_of(model)  # refuses a model that cannot be watched
    decoder = not getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    if not (decoder and callable(getattr(model, "can_generate", None)) and model.can_generate()):
        raise UnsupportedError(
            sentence(
                WHO,
                f"{type(model).__name__} is no decoder with a head over the vocabulary",
                "retrieval is scored while a model goes on with a text",
                todo="Load it as one, as AutoModelForCausalLM.",
            )
        )


def _checked(
    lengths: Sequence[int] | None, depths: Sequence[float], needles: Sequence[Needle], most: int | None, room: int
) -> Sequence[int]:
    """Lengths to use."""
    if not needles or not depths or (lengths is not None and not lengths):
        raise SpecError(sentence(WHO, "needles, depths or lengths are empty", "runs are all their combinations"))
    wrong = next((depth for depth in depths if not 0 <= depth <= 1), None)
    if wrong is not None:
        raise SpecError(sentence(WHO, f"a depth is {wrong}", "depths go from 0, before the haystack, to 1, behind it"))
    if lengths is None:
        longest = LONGEST if most is None else min(LONGEST, most - room)
        return [max(longest // 4, 1), max(longest // 2, 1), max(longest, 1)]
    if min(lengths) < 1:
        raise SpecError(sentence(WHO, f"a length is {min(lengths)}", "lengths count tokens"))
    if most is not None and max(lengths) + room > most:
        what = f"a length is {max(lengths):,} tokens, and the answer may have {room}"
        raise SpecError(sentence(WHO, what, f"the model takes {most:,}", todo=f"Use {most - room:,} or less."))
    return lengths


class _Haystack:
    """Sentences of a text, and how many tokens each has."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.sentences = [part for part in re.split(r"(?<=[.!?])\s+", " ".join(text.split())) if part]
        if not self.sentences:
            raise SpecError(sentence(WHO, "the haystack is empty", "needles are hidden between its sentences"))
        self.sizes = [len(encoded(WHO, tokenizer, " " + part, special=False).ids) for part in self.sentences]

    def around(self, needle: str, tokens: int, depth: float, start: float) -> str:
        """A needle with at most so many tokens of sentences around it, share ``depth`` of them before."""
        at, chosen, sizes = int(start * len(self.sentences)), list[str](), list[int]()
        while sum(sizes) + self.sizes[at % len(self.sizes)] <= tokens:
            chosen.append(self.sentences[at % len(self.sizes)])
            sizes.append(self.sizes[at % len(self.sizes)])
            at += 1
        before = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
        place = min(range(len(before)), key=lambda n: abs(before[n] - depth * before[-1]))
        return " ".join([*chosen[:place], needle, *chosen[place:]])


@dataclass(frozen=True, eq=False)
class _Prompt:
    """Token ids int64 [T] of a prompt, and the places of the needle in it, int64 [K]."""

    ids: Tensor
    places: Tensor
    needle: Needle

    @classmethod
    def of(
        cls, tokenizer: Any, needle: Needle, hay: _Haystack, length: int, depth: float, start: float
    ) -> _Prompt | None:
        """A prompt of at most so many tokens; None where it would not hold its needle."""
        bare = cls._written(tokenizer, needle, needle.sentence)
        spare = length - len(bare.ids)
        while spare >= 0:
            prompt = cls._written(tokenizer, needle, hay.around(needle.sentence, spare, depth, start))
            if len(prompt.ids) <= length:
                return prompt
            spare -= len(prompt.ids) - length
        return None

    @classmethod
    def _written(cls, tokenizer: Any, needle: Needle, text: str) -> _Prompt:
        asked = f"{text}\n\nBased on the text above, answer in one sentence.\nQuestion: {needle.question}"
        if getattr(tokenizer, "chat_template", None):
            said = [{"role": "user", "content": asked}]
            whole = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
            found = encoded(WHO, tokenizer, whole, special=False)
        else:
            whole = f"{asked}\nAnswer:"
            found = encoded(WHO, tokenizer, whole)
        start = whole.find(needle.sentence)
        stop = start + len(needle.sentence)
        places = [n for n, (a, b) in enumerate(found.offsets) if a < stop and start < b and a < b]
        if start < 0 or not places:
            what = f"needle {needle.sentence!r} is not to be found in its prompt"
            raise SpecError(sentence(WHO, what, "a tokenizer's chat template leaves a text as it is"))
        return cls(found.ids, torch.tensor(places, dtype=torch.int64, device="cpu"), needle)


class _Run:
    """One answer: what each head copied, and what it would have by chance.

    Attributes:
        answered: whether the needle was in the answer.
    """

    def __init__(self, model: Any, tokenizer: Any, prompt: _Prompt) -> None:
        self.model, self.prompt = model, prompt
        self.copied: dict[str, Tensor] = {}  # bool [H, K]
        self.missed: dict[str, Tensor] = {}  # float64 [H, K], odds that chance copied it in no step
        said = self._say(tokenizer)
        self.answered = _answers(prompt.needle, tokenizer.decode(said, skip_special_tokens=True))

    def _say(self, tokenizer: Any) -> list[int]:
        """Greedy decoding from the cache; the last query of each call is the one that gives the next token."""
        device = next(self.model.parameters()).device
        known = inspect.signature(self.model.forward).parameters
        past = "cache" if "cache" in known else "past_key_values"  # the name that transformers 5.24 gave up for it
        options = {"use_cache": True, past: None, **({"logits_to_keep": 1} if "logits_to_keep" in known else {})}
        ids, said = self.prompt.ids[None].to(device), list[int]()
        ends = _ends(self.model, tokenizer)
        for step in range(len(self.prompt.places) + MORE):
            last = len(self.prompt.ids) - 1 + step
            pointing = _Pointing(last - self.prompt.places, name="pointing")
            with observe(self.model, pointing) as seen, torch.no_grad():
                out = self.model(input_ids=ids, **options)
            token, options[past] = out.logits[0, -1].argmax(), out[past]
            for site in seen.sites:
                self._take(site, seen[site]["pointing"], last, int(token))
            said.append(int(token))
            if said[-1] in ends or "\n" in tokenizer.decode(said).lstrip():
                break
            ids = token.reshape(1, 1)
        return said

    def _take(self, site: str, pointed: _Pointed, last: int, token: int) -> None:
        """Notes one step of one site, in which the query at ``last`` gave a token."""
        same = self.prompt.ids[self.prompt.places] == token
        back, visible, shown = (part[0].cpu() for part in pointed)
        hit = same & (self.prompt.places == (last - back)[:, None])
        odds = (same & shown).double() / visible.clamp(min=1)[:, None]
        self.copied[site] = self.copied.get(site, torch.zeros_like(hit)) | hit
        self.missed[site] = self.missed.get(site, torch.ones_like(odds)) * (1 - odds)

    def scores(self) -> dict[str, Tensor]:
        """Score and chance of each head, float64 [2, H], by site."""
        return {
            site: torch.stack([copied.double().mean(-1), (1 - self.missed[site]).mean(-1)])
            for site, copied in self.copied.items()
        }


def _answers(needle: Needle, text: str) -> bool:
    """Whether a text tells what the needle says beyond the question."""
    held, asked, told = (set(re.findall(r"\w+", part.casefold())) for part in (*needle, text))
    wanted = held - asked or held
    return len(wanted & told) > ANSWERED * len(wanted)


def _ends(model: Any, tokenizer: Any) -> set[int]:
    ends = {getattr(tokenizer, "eos_token_id", None)}
    for config in (getattr(model, "generation_config", None), model.config):
        found = getattr(config, "eos_token_id", None)
        ends |= set(found) if isinstance(found, (list, tuple)) else {found}
    return {end for end in ends if end is not None}
