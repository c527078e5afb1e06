"""What every head of a model does, as a table."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn
from typing_extensions import Never

from headwise.elsewhere import not_taken, without_others
from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.circuits import copying
from headwise.heads.columns import SCORES, clears
from headwise.heads.estimates import Estimate
from headwise.heads.frame import HeadTable
from headwise.heads.observed import observe_texts
from headwise.heads.random_tokens import random_token_scores
from headwise.heads.relations import relation_scores
from headwise.heads.retrieval import retrieval_scores
from headwise.heads.texts import read_texts
from headwise.heads.watching import Run, runs_of
from headwise.models.projections import projections
from headwise.models.sites import sites

__all__ = ["head_table"]

_WHO = "head_table"
#: Scores whose columns are there whatever the model; those of the others only where some head has one.
_ALWAYS = (
    "entropy", "previous_token", "first_token", "duplicate_token", "induction", "prefix_matching", "copying",
)  # fmt: skip

Progress = Callable[[str, int, int], None]


@without_others
def head_table(
    model: nn.Module,
    tokenizer: Any,
    texts: Sequence[Any] | None = None,
    *,
    targets: Sequence[Any] | None = None,
    tokens: int | None = None,
    contribution: bool = True,
    random_tokens: bool = True,
    retrieval: bool = False,
    relations: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **names: Never,
) -> HeadTable:
    """Scores every head of a model, each score beside its chance level and an interval over texts.

    Scores are means over all queries of all texts that have a choice. Chance is exact: what a head that spreads evenly
    over the keys that the model's own mask shows gets on the same queries. The interval is Student's at 95 % over the
    texts (over the samples, of random tokens), and absent with one text. Texts run one by one, so there is no padding,
    and no pattern is stored: it works at any length that the model takes.

    Of texts (see ``headwise.heads.observed`` for the formulas): ``entropy`` and ``relative_entropy``; ``confidence``;
    ``positional``, the share of words that attend most to one offset, ``best_offset`` (-1 = the token before; up to 16
    either way); ``previous_token``, ``next_token``, ``first_token``, ``separator``, ``locality`` (fewer than 8 tokens
    away), ``duplicate_token``, ``induction``, shares of attention; ``contribution``, the head's share of the norms that
    its layer moves. Of random repeated tokens: ``prefix_matching``, ``copying`` (``headwise.heads.random_tokens``). Of
    the weights: ``ov_copying``. If asked for: ``retrieval``; ``relation:x`` with ``relation:x_chance``, the best fixed
    offset, and ``relation:x_n``.

    Heads of cross attention have those scores that make sense between two sequences. A score that nothing in the texts
    or the model can show is absent (None, NaN), never zero, and so is a column that would be absent for every head,
    other than the seven plain ones.

    Args:
        model: a transformers model that reads tokens: decoder, encoder, or both. It runs as it is; call ``eval()``.
        tokenizer: of the model; None where texts are token ids.
        texts: strings, or token ids as lists or int64 [T]; None = eight pages of Python's documentation.
        targets: what the decoder of an encoder-decoder model reads beside each text; None = the text again.
        tokens: how many tokens to read of each text; None = all, of the pages 256.
        contribution: whether to score ``contribution``, where the weights of the family are known.
        random_tokens: whether to score ``prefix_matching`` and ``copying``, on an input of their own.
        retrieval: whether to run the needle test, which generates text: minutes.
        relations: a file of annotated sentences, as of ``relation_scores``.
        seed: of what is drawn.
        progress: called with a part of the work, how many steps of it are done, and how many there are.

    Returns:
        The table: ``.rows``, ``.columns``, ``.labels``, ``.seconds`` by part of the work, ``.to_pandas()``,
        ``.to_parquet(path)``, ``.to_csv(path)``, ``.to_json()``. A head gets every label whose score clears its chance
        level by a margin (``headwise.heads.columns``) and by 3 standard errors. A layer is a site's index in
        ``hw.sites(model)``; where a site runs several times in a forward (ALBERT), each run counts as a layer.

    Raises:
        SpecError: texts that cannot be read: none, empty, longer than the context; strings without a tokenizer.
        UnsupportedError: a model that reads no tokens, or whose attention does not go through transformers' interface;
            retrieval from a model that generates no text.

    Sources: Voita et al. 2019 (arXiv 1905.09418), Clark et al. 2019 (1906.04341), Olsson et al. 2022 (2209.11895),
    Elhage et al. 2021, Kobayashi et al. 2020 (2004.10102), Xiao et al. 2023 (2309.17453), Wu et al. 2024 (2404.15574),
    Wang et al. 2022 (2211.00593).

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=256, n_positions=128)
        ... ).eval()
        >>> table = hw.head_table(model, None, [[3, 4, 5, 3, 4, 6], [7, 8, 7, 8, 7]])
        >>> len(table), round(table.rows[0]["first_token_chance"], 3)  # (1/2 + ... + 1/6 + 1/2 + ... + 1/5) / 9
        (4, 0.304)
    """
    if names:
        raise not_taken(_WHO, head_table, (), names)
    if isinstance(tokenizer, str):
        rule = "it is the model's tokenizer, or None where texts are token ids"
        raise SpecError(
            sentence(_WHO, "tokenizer is a str", rule, todo="Write hw.head_table(model, tokenizer, [text]).")
        )
    for name, flag in (("contribution", contribution), ("random_tokens", random_tokens), ("retrieval", retrieval)):
        if not isinstance(flag, bool):
            raise SpecError(sentence(_WHO, f"{name} is {flag!r}", "it is True or False"))
    read = read_texts(_WHO, model, tokenizer, texts, targets, tokens)
    device = next(model.parameters()).device
    clock = _Clock(progress)
    runs = clock.time("layout", lambda: runs_of(_WHO, model, read[0].start().batch(device)))
    # What may be refused, a file or a model that generates nothing, comes first: nothing is lost then.
    related = clock.time("relations", lambda: relation_scores(model, tokenizer, relations)) if relations else {}
    retrieved = clock.time("retrieval", lambda: retrieval_scores(model, tokenizer, seed=seed)) if retrieval else {}
    steps = len(runs) * len(read)

    def step(done: int) -> None:
        clock.say("texts", done + 1, steps)

    observed = clock.time("texts", lambda: observe_texts(model, runs, read, contribution=contribution, progress=step))
    estimates: dict[str, dict[str, Estimate]] = {name: dict(found.scores) for name, found in observed.items()}
    if random_tokens:
        drawn = clock.time("random_tokens", lambda: _of_random_tokens(model, tokenizer, runs, seed))
        for name, scores in drawn.items():
            estimates[name].update(scores)
    rows = _rows(model, runs, estimates, {name: found.best_offset for name, found in observed.items()})
    clock.time("ov_copying", lambda: _add_ov_copying(model, runs, rows))
    _add_retrieval(rows, retrieved)
    named = _add_relations(rows, related)
    counts = [text.ids.shape[1] for text in read]
    columns, labels = _columns(rows, named, random_tokens), [_labels(row) for row in rows]
    return HeadTable.of(rows, labels, columns, clock.seconds, counts)


class _Clock:
    """Times the parts of the work and tells how far they are."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}

    def say(self, part: str, done: int, steps: int) -> None:
        if self.progress is not None:
            self.progress(part, done, steps)

    def time(self, part: str, work: Callable[[], Any]) -> Any:
        self.say(part, 0, 1)
        start = time.perf_counter()
        found = work()
        self.seconds[part] = time.perf_counter() - start
        self.say(part, 1, 1)
        return found


def _of_random_tokens(
    model: nn.Module, tokenizer: Any, runs: Mapping[str, Run], seed: int
) -> Mapping[str, Mapping[str, Estimate]]:
    """Scores of random repeats; none where a context or vocabulary is too small for them."""
    try:
        return random_token_scores(model, tokenizer, runs, seed=seed)
    except SpecError:
        return {}


def _rows(
    model: nn.Module,
    runs: Mapping[str, Run],
    estimates: Mapping[str, Mapping[str, Estimate]],
    offsets: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """One row a head, with what was estimated; beside the columns each score has its ``x_error``."""
    rows = []
    for name, run in runs.items():
        originals = _originals(model, run)
        values = {score: [part.tolist() for part in found] for score, found in estimates[name].items()}
        best = None if offsets[name] is None else offsets[name].tolist()
        for head in range(run.heads):
            row: dict[str, Any] = {"layer": run.layer, "head": head, "original_head": originals[head], "site": name}
            row |= {"attention": run.kind, "best_offset": None if best is None else best[head]}
            for score in SCORES:
                if score not in values:
                    continue
                value, chance, low, high, error, _ = (part[head] for part in values[score])
                row |= {score: value, f"{score}_chance": chance, f"{score}_low": low, f"{score}_high": high}
                row[f"{score}_error"] = error
            if math.isnan(row.get("positional", math.nan)):
                row["best_offset"] = None
            rows.append(row)
    return rows


def _originals(model: nn.Module, run: Run) -> Sequence[int]:
    """The heads' numbers before pruning."""
    try:
        found = projections(model, run.site, who=_WHO).original_heads
    except UnsupportedError:
        found = ()
    return found if len(found) == run.heads else range(run.heads)


def _labels(row: Mapping[str, Any]) -> list[str]:
    """The labels of a head: the titles of what it clears."""
    found = []
    for name, score in SCORES.items():
        value, chance, error = (row.get(f"{name}{part}", math.nan) for part in ("", "_chance", "_error"))
        if not (math.isnan(value) or math.isnan(error)) and clears(score, value, chance, error):
            found.append(score.title)
    return found


def _add_ov_copying(model: nn.Module, runs: Mapping[str, Run], rows: Sequence[dict[str, Any]]) -> None:
    """Copying by eigenvalues, where the family is known and has an unembedding; random weights score 0."""
    try:
        found = copying(model)
    except UnsupportedError:
        return
    names = sites(model)
    for row in rows:
        value = float(found[names.index(runs[row["site"]].site), row["head"]])
        row |= {"ov_copying": value, "ov_copying_chance": math.nan if math.isnan(value) else 0.0}


def _add_retrieval(rows: Sequence[dict[str, Any]], found: Mapping[tuple[int, int], Any]) -> None:
    for row in rows:
        told = found.get((row["layer"], row["head"]))
        if told is None:
            continue
        row |= {"retrieval": told.score, "retrieval_chance": told.chance, "retrieval_n": told.n}
        row |= {"retrieval_answered": told.answered, "retrieval_error": told.error}


def _add_relations(rows: Sequence[dict[str, Any]], found: Mapping[tuple[int, int], Mapping[str, Any]]) -> list[str]:
    """Adds accuracies by relation; returns their names."""
    names: dict[str, None] = {}
    for row in rows:
        for relation, told in found.get((row["layer"], row["head"]), {}).items():
            name = f"relation:{relation}"
            names[name] = None
            row |= {name: told.accuracy, f"{name}_chance": told.baseline, f"{name}_n": told.n}
    return list(names)


def _columns(rows: Sequence[Mapping[str, Any]], relations: Sequence[str], random_tokens: bool) -> list[str]:
    """The names of all columns, in order."""
    found = ["layer", "head", "original_head", "site", "attention", "label"]
    for score in SCORES:
        there = any(not math.isnan(row.get(score, math.nan)) for row in rows)
        if not there and not (score in _ALWAYS and (random_tokens or score not in ("prefix_matching", "copying"))):
            continue
        found += [score, f"{score}_chance"]
        found += [f"{score}_low", f"{score}_high"] if score not in ("ov_copying", "retrieval") else []
        found += ["retrieval_n", "retrieval_answered"] if score == "retrieval" else []
        found += ["best_offset"] if score == "positional" else []
    for name in relations:
        found += [name, f"{name}_chance", f"{name}_n"]
    return found
