"""Whether a model still tells a fact that is hidden in a text when heads are left out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.retrieval.scoring import Head
from experiments.retrieval.sets import CONTROLS, by_layer, several
from headwise.heads.prose import prose
from headwise.heads.retrieval import Needle

__all__ = ["DEPTHS", "FACTS", "Prompts", "prompts", "recalled", "recalls", "told"]

#: Others than the needles that heads are scored on.
FACTS = (
    Needle("The baker of Ostervik hides her gold coins under a cracked green flowerpot.",
           "Where does the baker of Ostervik hide her gold coins?"),
    Needle("The painter Lorenz Abt mixes his blue colour from crushed snail shells.",
           "What does the painter Lorenz Abt mix his blue colour from?"),
    Needle("The night train to Velmora leaves from platform seventeen at sunset.",
           "Where and when does the night train to Velmora leave?"),
    Needle("The dragon in the tale of Harrowgate is afraid of wooden spoons and violins.",
           "What is the dragon in the tale of Harrowgate afraid of?"),
    Needle("The best soup in Kesterling is made from walnuts, rainwater and white pepper.",
           "What is the best soup in Kesterling made from?"),
    Needle("The clockmaker Ida Brenn gave her youngest son a silver trumpet for his birthday.",
           "What did the clockmaker Ida Brenn give her youngest son for his birthday?"),
    Needle("The lighthouse of Port Sorrel is painted with orange stripes every seventh spring.",
           "How is the lighthouse of Port Sorrel painted, and when?"),
    Needle("The captain of the Marigold always carries a jar of pickled lemons in his coat.",
           "What does the captain of the Marigold always carry in his coat?"),
)  # fmt: skip
DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)  #: of the facts in turn, 0 = before the text, 1 = behind it.
ANSWER = 28  #: tokens that the model may say.


@dataclass(frozen=True, eq=False)
class Prompts:
    """Prompts of one length, so that they run as one batch.

    Attributes:
        ids: int64 [N, T].
        facts: what is hidden in each.
    """

    ids: Tensor
    facts: Sequence[Needle]


def prompts(tokenizer: Any, facts: Sequence[Needle], tokens: int) -> Prompts:
    """Each fact in a stretch of its own of Python's documentation, at one of `DEPTHS`, then the question.

    Args:
        tokenizer: of the model, with a chat template.
        facts: what is hidden and asked.
        tokens: T, of each prompt.
    """
    sentences = [f"{one} " for one in re.split(r"(?<=[.!?])\s+", " ".join(prose().split()))]
    hay = [tokenizer(one, add_special_tokens=False)["input_ids"] for one in sentences]
    rows = []
    for number, fact in enumerate(facts):
        start = len(hay) * number // len(facts)
        rows.append(_prompt(tokenizer, fact, hay[start:] + hay[:start], DEPTHS[number % len(DEPTHS)], tokens))
    return Prompts(torch.tensor(rows), facts)


def _prompt(tokenizer: Any, fact: Needle, hay: Sequence[list[int]], depth: float, tokens: int) -> list[int]:
    """Whole sentences before the fact, and behind it as many tokens as make the length."""
    mark = "@@@@"
    asked = f"Read this text.\n\n{mark}\n\nAnswer from the text, in one sentence: {fact.question}"
    said = [{"role": "user", "content": asked}]
    written = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    pieces: list[list[int]] = [
        tokenizer(part, add_special_tokens=False)["input_ids"]
        for part in (written.split(mark)[0], f"{fact.sentence} ", written.split(mark)[1])
    ]
    head, middle, tail = pieces
    room = tokens - len(head) - len(middle) - len(tail)
    before: list[int] = []
    for one in hay:
        if len(before) + len(one) / 2 > depth * room or len(before) + len(one) > room:
            break
        before += one
    flat = [token for one in hay for token in one]
    return head + before + middle + flat[len(before) : room] + tail


def told(fact: Needle, answer: str) -> float:
    """Share of the words of a fact that are not in its question which an answer tells.

    Example:
        >>> from experiments.retrieval.needle import told
        >>> told(("The cat eats fish and rice.", "What does the cat eat?"), "It eats rice")
        0.5
    """
    sentence, question, said = (set(re.findall(r"\w+", part.casefold())) for part in (*fact, answer))
    wanted = sentence - question
    return len(wanted & said) / len(wanted)


def recalled(model: Any, tokenizer: Any, asked: Prompts, heads: Sequence[Head]) -> tuple[list[float], list[str]]:
    """What share of each fact a model tells without some heads, greedily, and its words."""
    with hw.ablate(model, by_layer(heads)) if heads else contextlib.nullcontext(), torch.no_grad():
        out = model.generate(
            asked.ids,
            attention_mask=torch.ones_like(asked.ids),
            max_new_tokens=ANSWER,
            do_sample=False,
            pad_token_id=tokenizer.eos_token_id,
        )
    said = [tokenizer.decode(row, skip_special_tokens=True) for row in out[:, asked.ids.shape[1] :]]
    return [told(fact, answer) for fact, answer in zip(asked.facts, said, strict=True)], said


def recalls(
    model: Any,
    tokenizer: Any,
    asked: Prompts,
    rankings: Mapping[str, Sequence[Head]],
    sizes: Sequence[int],
    draws: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Recall with all heads, without those that lead each list, and without random ones beside the first list.

    Args:
        model: in use.
        tokenizer: of the model.
        asked: the prompts.
        rankings: lists of all heads.
        sizes: how many heads are left out.
        draws: random sets of each kind.
        say: is told of progress.

    Returns:
        ``whole``: recall of each fact with all heads, ``answers`` its words; ``sets``: one entry a set, ``recall`` its
        mean over facts.
    """
    shares, said = recalled(model, tokenizer, asked, [])
    found: dict[str, Any] = {
        "prompts": len(asked.ids),
        "tokens": asked.ids.shape[1],
        "whole": round(sum(shares) / len(shares), 4),
        "whole_by_fact": [round(one, 4) for one in shares],
        "answers": said,
        "sets": [],
    }

    def add(size: int, ranking: str, which: str, heads: Sequence[Head]) -> None:
        shares, said = recalled(model, tokenizer, asked, heads)
        row = {"size": size, "ranking": ranking, "set": which, "how": "zero", "heads": heads}
        found["sets"].append({**row, "recall": round(sum(shares) / len(shares), 4), "answer": said[0]})

    first = next(iter(rankings))
    for size in sizes:
        for ranking, order in rankings.items():
            add(size, ranking, "top", order[:size])
        for name, control in CONTROLS.items():
            for drawn in several(control, rankings[first][:size], rankings[first], draws):
                add(size, first, name, drawn)
        say(f"needle without {size}: {[one['recall'] for one in found['sets'] if one['size'] == size]}")
    return found
