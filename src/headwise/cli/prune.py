"""``headwise prune``: takes the least important heads out of a model, and draws what each step costs."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli._given import dtype_of
from headwise.errors import SpecError, UnavailableError, UnsupportedError, sentence

if TYPE_CHECKING:
    from headwise.heads import Curve, Point

__all__ = ["prune"]

_STEPS = tuple(n / 10 for n in range(1, 10))  # shares of heads to be gone, for the figure


def prune(
    model: Annotated[
        str, typer.Argument(help="smollm2, minilm, two-layer, a folder that save_pretrained wrote, or a .gguf file.")
    ] = "smollm2",
    out: Annotated[Path, typer.Option(help="The new folder to write the pruned model and its curve to.")] = Path(
        "pruned"
    ),
    keep: Annotated[float, typer.Option(help="The share of all heads to keep.")] = 0.7,
    text_file: Annotated[
        Path | None,
        typer.Option(help="Read this UTF-8 file. Default: text that ships with Python.", show_default=False),
    ] = None,
    tokens: Annotated[
        int, typer.Option(help="Read so many tokens: one half to weigh heads on, the other to measure.")
    ] = 4096,
    window: Annotated[int, typer.Option(help="Cut them into stretches of so many.")] = 256,
    iterative: Annotated[bool, typer.Option("--iterative", help="Weigh what is left after each step.")] = False,
    dtype: Annotated[str, typer.Option(help="Of the weights: float32, bfloat16 or float16.")] = "float32",
) -> None:
    """Takes the least important heads out of a model, for good.

    Language models are weighed by the gradient of their loss with respect to a gate on each head (Michel et al. 2019);
    encoders by how far their hidden states drift when a head is left out. Writes the pruned model, which hw.load reads,
    curve.json and curve.svg: the loss against the share of heads removed, on text the heads were not weighed on.

    \b
    Example:
        headwise prune smollm2 --keep 0.7 --out smollm2-70
        headwise prune minilm --keep 0.5 --tokens 1024 --out minilm-50
    """
    from rich.console import Console

    from headwise.heads.prose import text_in

    wanted = dtype_of("prune", dtype)
    _check(keep, tokens, window)
    if importlib.util.find_spec("matplotlib") is None:
        raise UnavailableError(
            sentence(
                "prune", "package matplotlib is not installed", "it draws the curve", todo="pip install matplotlib"
            )
        )
    text = None if text_file is None else text_in("prune", text_file)
    err = Console(stderr=True, highlight=False, markup=False)
    with _new_folder(out) as folder:
        done = _pruned(_Job(model, keep, text, tokens, window, iterative), wanted, folder, err)
    _say(Console(highlight=False, markup=False), done, out)


@dataclass(frozen=True)
class _Job:
    """What is to be done."""

    name: str
    keep: float
    text: str | None
    tokens: int
    window: int
    iterative: bool


@dataclass(frozen=True)
class _Done:
    """What was done."""

    curve: Curve
    point: Point
    loss: str
    parameters: tuple[int, int]
    seconds: tuple[float, float]
    window: int


def _check(keep: float, tokens: int, window: int) -> None:
    if not 0 < keep < 1:
        raise SpecError(sentence("prune", f"--keep is {keep}", "it is a share of the heads, above 0 and below 1"))
    if window < 2 or tokens < 2 * window:
        raise SpecError(
            sentence(
                "prune",
                f"--tokens is {tokens} and --window {window}",
                "a window has 2 tokens or more, and there is one to weigh heads on and another to measure",
                todo=f"Use --tokens {2 * max(window, 2)} or more.",
            )
        )


@contextlib.contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A folder beside its place, moved there when it is whole."""
    if out.exists() or out.is_symlink():
        raise SpecError(
            sentence("prune", f"{out} is there already", "the pruned model gets a new folder", todo="Name another.")
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as cause:
        raise SpecError(sentence("prune", f"cannot write {out}", cause.strerror or str(cause))) from cause
    try:
        yield beside
        beside.chmod(0o755)
        beside.rename(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _pruned(job: _Job, dtype: Any, folder: Path, err: Any) -> _Done:
    import headwise as hw
    from headwise.heads import Drift, pruning_curve
    from headwise.models.library import transformers
    from headwise.models.projections import projections

    def doing(what: str) -> contextlib.AbstractContextManager[Any]:
        return err.status(what) if err.is_terminal else contextlib.nullcontext()

    with doing(f"loading {job.name}"):
        model, tokenizer = hw.load(job.name, dtype=dtype)
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedError(
            sentence(
                "prune",
                f"{job.name} is an encoder-decoder model",
                "its loss needs targets, which a text does not give",
                todo="In Python: hw.importance(model, batches with labels), then hw.prune.",
            )
        )
    total = sum(projections(model, site, "prune").heads for site in hw.sites(model))
    if int((1 - job.keep) * total + 1e-6) < 1:
        raise SpecError(sentence("prune", f"--keep {job.keep} of {total} heads takes none out", todo="Keep fewer."))
    windows = _windows(job, model, tokenizer)
    half = len(windows) // 2
    causal = model.can_generate()
    loss = None if causal else Drift(model, windows)
    method = "gradient" if causal else "leave_one_out"
    shares = sorted({*_STEPS, round(1 - job.keep, 6)})
    with doing("weighing heads"):
        curve = pruning_curve(
            model,
            windows[:half],
            loss,
            evaluate=windows[half:],
            shares=shares,
            iterative=job.iterative,
            method=method,
        )
    point = curve.keeping(job.keep)
    with doing("pruning"):
        whole = copy.deepcopy(model)
        hw.prune(model, point.heads)
    done = _Done(
        curve,
        point,
        "cross entropy a token, nats" if causal else "1 - cosine of hidden states",
        (_size(whole), _size(model)),
        _seconds(whole, model, windows[-1]),
        windows[-1].shape[1],
    )
    transformers("prune").utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _draw(done, job, folder)
    return done


def _windows(job: _Job, model: Any, tokenizer: Any) -> list[Any]:
    """The text as token ids [1, window] each."""
    import torch

    from headwise.heads.prose import prose
    from headwise.heads.texts import context

    if tokenizer is None:
        raise SpecError(
            sentence(
                "prune", f"{job.name} has no tokenizer", "a text is read through one", todo="Save it with the model."
            )
        )
    if not tokenizer.is_fast:
        what = f"the tokenizer of {job.name} is a {type(tokenizer).__name__}, written in Python"
        raise SpecError(sentence("prune", what, "a text is cut into windows by a fast tokenizer"))
    longest = context(model)
    if longest is not None and job.window > longest:
        raise SpecError(
            sentence(
                "prune",
                f"--window is {job.window}, the context of {job.name} is {longest}",
                todo=f"Use --window {longest} or less.",
            )
        )
    text = prose() if job.text is None else job.text
    cut = tokenizer(text, truncation=True, max_length=job.window, return_overflowing_tokens=True, verbose=False)
    pieces = [ids for ids in cut["input_ids"] if len(ids) == job.window][: job.tokens // job.window]
    if len(pieces) < 2:
        raise SpecError(
            sentence(
                "prune",
                f"the text has fewer tokens than two windows of {job.window}",
                "one is to weigh heads on, another to measure",
                todo="Give a longer text or a shorter --window.",
            )
        )
    return [torch.tensor([ids], dtype=torch.int64, device="cpu") for ids in pieces]


def _size(model: Any) -> int:
    """Number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def _seconds(whole: Any, pruned: Any, ids: Any) -> tuple[float, float]:
    """The median times of forwards that headwise runs, the two models in turn."""
    import torch

    from headwise.models.using import held

    taken: tuple[list[float], list[float]] = ([], [])
    with held(whole), held(pruned), torch.no_grad():
        for _ in range(8):
            for model, times in zip((whole, pruned), taken, strict=True):
                start = time.perf_counter()
                model(input_ids=ids)
                times.append(time.perf_counter() - start)
    slow, fast = (statistics.median(times[1:]) for times in taken)  # the first call finds nothing ready
    return slow, fast


def _draw(done: _Done, job: _Job, folder: Path) -> None:
    """curve.json and curve.svg."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    told = {
        "model": job.name,
        "keep": job.keep,
        "loss": done.loss,
        "weighed": "anew after each step" if job.iterative else "once",
        "heads": done.curve.total,
        "points": [asdict(point) for point in done.curve.points],
    }
    (folder / "curve.json").write_text(json.dumps(told, indent=1))
    points = done.curve.points
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot([100 * point.share for point in points], [point.loss for point in points], "o-", color="#2a6f97")
    written = f"written: {done.point.removed} heads gone"
    axes.plot([100 * done.point.share], [done.point.loss], "o", color="#d1495b", label=written)
    axes.set(xlabel="heads removed, %", ylabel=done.loss, title=f"{job.name}: {done.curve.total} heads")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "curve.svg", bbox_inches="tight")
    plt.close(figure)


def _say(out: Any, done: _Done, place: Path) -> None:
    from rich.table import Table

    out.print(f"loss: {done.loss}")
    table = Table(box=None)
    for column in ("removed", "share", "loss"):
        table.add_column(column, justify="right")
    for point in done.curve.points:
        style = "bold" if point is done.point else ""
        table.add_row(str(point.removed), f"{point.share:.0%}", f"{point.loss:.4f}", style=style)
    out.print(table)
    before, after = done.parameters
    slow, fast = done.seconds
    out.print(
        f"\n{done.point.removed} of {done.curve.total} heads removed: {before / 1e6:.1f} M parameters became "
        f"{after / 1e6:.1f} M; a forward of {done.window} tokens {1000 * slow:.1f} ms became {1000 * fast:.1f} ms",
        soft_wrap=True,
    )
    out.print(f"Model, curve.json and curve.svg: {place}", soft_wrap=True)
