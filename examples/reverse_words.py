"""A first training run: a Transformer learns to write words backwards, and its cross attention shows how.

    make train                                   # or: python examples/reverse_words.py

Words are those of Python's own documentation, letters are the tokens; one word in ten is held out. It prints the loss
and the share of held-out words that come out right, and draws both, with what the decoder attends to when it spells a
word that it never saw, to docs/reverse_words.svg. Seeded: the same machine draws the same figure.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn

import headwise as hw

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD, START = 0, 1  # then the letters
VOCABULARY = 2 + len(LETTERS)


def words() -> tuple[list[str], list[str]]:
    """The words of 3 to 16 letters in Python's documentation, each once: those to learn from, and those held out."""
    found = sorted(set(re.findall(r"\b[a-z]{3,16}\b", " ".join(topics.values()).lower())))
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(0)).tolist()
    held_out = len(found) // 10
    return [found[n] for n in order[held_out:]], [found[n] for n in order[:held_out]]


def batch_of(chosen: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Words and the same backwards as tokens [B,T], and their lengths [B]."""
    lengths = torch.tensor([len(word) for word in chosen])
    source, target = (torch.full((len(chosen), int(lengths.max())), PAD) for _ in range(2))
    for row, word in enumerate(chosen):
        tokens = torch.tensor([2 + LETTERS.index(letter) for letter in word])
        source[row, : len(word)], target[row, : len(word)] = tokens, tokens.flip(0)
    return source, target, lengths


def shifted(target: Tensor) -> Tensor:
    """What the decoder reads: the target one place later, behind the start."""
    return torch.cat((torch.full_like(target[:, :1], START), target[:, :-1]), 1)


def loss_of(model: hw.nn.Transformer, chosen: list[str]) -> Tensor:
    """Cross entropy a letter, in nats."""
    source, target, lengths = batch_of(chosen)
    logits = model(source, shifted(target), source_lengths=lengths, target_lengths=lengths)
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)


def share_right(model: hw.nn.Transformer, chosen: list[str]) -> float:
    """The share of words that are spelled backwards without a fault, letter after letter."""
    source, target, lengths = batch_of(chosen)
    made = model.generate(source, start=START, tokens=target.shape[1], source_lengths=lengths)
    return float(((made == target) | (target == PAD)).all(1).float().mean())


def train(steps: int, every: int, seed: int = 0) -> tuple[hw.nn.Transformer, list[tuple[int, float, float]]]:
    """The trained model, and (step, loss, share of held-out words that are right)."""
    torch.manual_seed(seed)
    known, held_out = words()
    model = hw.nn.Transformer(VOCABULARY, hw.nn.AttentionConfig(64, heads=4), layers=2, d_ff=128, norm="pre")
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps + 1)
    history, start = [], time.perf_counter()
    for step in range(steps + 1):
        chosen = [known[n] for n in torch.randint(len(known), (64,)).tolist()]
        loss = loss_of(model.train(), chosen)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % every == 0:
            with torch.no_grad():
                right = share_right(model.eval(), held_out)
                loss_out = float(loss_of(model, held_out))
            history.append((step, loss_out, right))
            seconds = time.perf_counter() - start
            print(
                f"step {step:5}  loss {loss_out:.4f} nats a letter  held-out words right {right:6.1%}  {seconds:4.0f} s"
            )
    return model, history


def cross_patterns(model: hw.nn.Transformer, word: str) -> Tensor:
    """What the last decoder layer attends to in a word while it spells it backwards: [H,T,S]."""
    source, target, lengths = batch_of([word])
    seen: list[Tensor] = []
    layer = model.decoder.layers[-1].cross_attn

    def look(module: hw.MultiHeadAttention, args: tuple[Tensor, Tensor], kwargs: dict[str, object]) -> None:
        seen.append(module.attend(*args, mask=kwargs["mask"]).pattern.to_dense()[0])  # type: ignore[arg-type]

    handle = layer.register_forward_pre_hook(look, with_kwargs=True)
    with torch.no_grad():
        model.eval()(source, shifted(target), source_lengths=lengths)
    handle.remove()
    return seen[0]


def draw(history: list[tuple[int, float, float]], patterns: Tensor, word: str, path: Path) -> None:
    """Writes the figure: loss and accuracy over steps, and the pattern of each head."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    from matplotlib import pyplot as plt

    figure, panes = plt.subplots(1, 1 + len(patterns), figsize=(4 + 2.4 * len(patterns), 3.2), layout="constrained")
    steps, losses, shares = zip(*history, strict=True)
    panes[0].plot(steps, losses, color="#1f5fa8")
    panes[0].set(xlabel="step", ylabel="loss, nats a letter", yscale="log", title="held-out words")
    right = panes[0].twinx()
    right.plot(steps, shares, color="#b5541c")
    right.set(ylabel="share spelled right", ylim=(0, 1.02))
    for head, (pane, pattern) in enumerate(zip(panes[1:], patterns, strict=True)):
        pane.imshow(pattern, cmap="Blues", vmin=0, vmax=1)
        pane.set(title=f"cross attention, head {head}", xticks=range(len(word)), yticks=range(len(word)))
        pane.set_xticklabels(list(word))
        pane.set_yticklabels(list(word[::-1]))
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Trains, prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--steps", type=int, default=2000, help="the learning rate rises and falls once over them (2000)"
    )
    parser.add_argument("--every", type=int, default=100, help="steps between lines of the table (100)")
    parser.add_argument("--out", type=Path, default=Path("docs/reverse_words.svg"), help="where the figure goes")
    options = parser.parse_args()
    model, history = train(options.steps, options.every)
    word = max(words()[1], key=len)
    draw(history, cross_patterns(model, word), word, options.out)
    print(f"{options.out}: the loss, and how {word!r}, which was held out, is spelled backwards")


if __name__ == "__main__":
    main()
