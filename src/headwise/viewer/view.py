"""``hw.view``: every head of a run on a page that zooms, in a notebook, or as a picture."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Never, Self

from headwise.elsewhere import not_taken, without_others
from headwise.errors import HeadwiseError, SpecError, UnavailableError, sentence
from headwise.heads import Head, Reading
from headwise.placing import replacing
from headwise.viewer.all_heads import all_heads
from headwise.viewer.answers import Answers
from headwise.viewer.given import scene_of
from headwise.viewer.picture import pictured
from headwise.viewer.saved import saved_page
from headwise.viewer.scene import Labels, Scene
from headwise.viewer.shown import Shown
from headwise.viewer.widget import widget_class

if TYPE_CHECKING:
    from headwise.viewer.server import Server
    from headwise.viewer.sheet import Sheet

__all__ = ["View", "view"]


@without_others
def view(
    what: Any,
    *others: Never,
    tokens: Labels | None = None,
    key_tokens: Labels | None = None,
    tokenizer: Any = None,
    title: str | None = None,
    heads: Sequence[Head] | Reading | None = None,
    text: str | None = None,
    **batch: Any,
) -> View:
    """Shows the attention patterns of a run: all heads at a glance, and each of them from the whole to single cells.

    Patterns are not computed before somebody looks, and never stored: a view takes the memory of the trace, O(T).

    Args:
        what: a trace (``hw.trace``), a pattern, a list of patterns, which are the layers of one run; a model of
            transformers; attention probabilities that were computed elsewhere, [B, H, T, S], one tensor a layer, or a
            model's output that holds them; or a dict of these but models by the name of their run, whose differences
            can then be looked at. A view of two runs opens on the second minus the first.
        tokens: of the queries: one string a token, one such list for each row of the batch, or ``Tokens`` or ``Grid``
            of ``headwise.viewer``. None = those of the trace, as far as they are known; positions otherwise.
        key_tokens: of the keys of cross attention, and of the encoder; likewise.
        tokenizer: names the tokens of a trace, and reads ``text`` for a model.
        title: of the page.
        heads: what each head does, ``score_heads(...).heads``. A model that reads one text is scored on the way.
        text: what a model reads.
        batch: or its inputs, ``**tokenizer(text, return_tensors="pt")``.

    Returns:
        The view. At the end of a notebook's cell it is a widget; ``.open()`` shows it in a browser, ``.save(path)``
        writes a page or a picture.

    Raises:
        ShapeError: tokens that do not match the patterns' lengths; runs of different shapes.
        SpecError: something that has no pattern, or inputs that do not fit it.

    Example:
        >>> import tempfile, pathlib, torch, headwise as hw
        >>> pattern = hw.Pattern(torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4), mask=hw.Causal())
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> seen = hw.view(pattern, tokens=["The", " cat", " sat", " on", " it"])
        >>> seen.save(folder / "head.svg", head=(0, 1)).name
        'head.svg'
        >>> (folder / "head.svg").read_text().startswith("<svg")
        True

        A model, run once and scored on the way:

        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> hw.view(model, input_ids=torch.tensor([[3, 4, 5, 3, 4, 6]]))
        View(GPT2LMHeadModel: 2 layers, 4 heads)

        Two runs, and what an edit changed:

        >>> other = hw.Pattern(pattern.q, pattern.k)
        >>> two = hw.view({"causal": pattern, "both ways": other})
        >>> two.save(folder / "apart.png", head=(0, 0), run="both ways", minus="causal").stat().st_size > 1000
        True
    """
    if others:
        raise not_taken("view", view, others, {}, 'Write hw.view(model, tokenizer=tokenizer, text="...").')
    scene = scene_of(
        what,
        tokens=tokens,
        key_tokens=key_tokens,
        tokenizer=tokenizer,
        title=title,
        heads=heads,
        text=text,
        batch=batch,
    )
    return View(scene)


class View:
    """What ``hw.view`` returns.

    Attributes:
        scene: what there is to look at.
        answers: answers the page's questions about it.

    Example:
        >>> import torch, headwise as hw
        >>> q = torch.zeros(1, 2, 5, 4)
        >>> with hw.view(hw.Pattern(q, q, mask=hw.Causal()), title="uniform") as seen:
        ...     seen.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.answers = Answers(scene)
        self._server: Server | None = None
        self._widget: Any = None

    @property
    def url(self) -> str:
        """The address of the page, for this machine alone; the first time it starts to be served.

        Raises:
            UnavailableError: starlette or uvicorn is not installed.
        """
        return self._serving().url

    def _serving(self) -> Server:
        if self._server is None:
            from headwise.viewer.server import serve

            self._server = serve(self.answers)
        return self._server

    def open(self) -> None:
        """Opens the page in a browser of this machine; a script that does so goes on serving until it is interrupted.

        At a prompt and in a notebook it returns at once, and the process that is there goes on serving.

        Raises:
            UnavailableError: starlette or uvicorn is not installed, or there is no browser; that says the address.
        """
        import webbrowser

        if not webbrowser.open(self.url):
            todo = f"Open {self.url} yourself, while this process runs."
            raise UnavailableError(sentence("view", "no browser could be opened", todo=todo))
        if not (_at_a_prompt() or _in_notebook()):
            self.wait()

    def wait(self) -> None:
        """Serves the page until the process is interrupted (Ctrl-C), for scripts that have nothing else to do.

        Raises:
            UnavailableError: starlette or uvicorn is not installed.
        """
        server = self._serving()
        with contextlib.suppress(KeyboardInterrupt):
            server.wait()
        self.close()

    def widget(self) -> Any:
        """The page as a notebook widget, which is what a view at the end of a cell shows.

        Raises:
            UnavailableError: anywidget is not installed.
        """
        if self._widget is None:
            self._widget = widget_class()(self.answers)
        return self._widget

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        head: tuple[int, int] | None = None,
        b: int = 0,
        rows: slice | None = None,
        cols: slice | None = None,
        scale: str = "sqrt",
        pool: str = "mean",
        hide: bool = False,
        norm: bool = False,
        run: int | str = 0,
        minus: int | str | None = None,
        dark: bool = False,
        heads: Literal["all"] | Sequence[tuple[int, int]] | None = None,
    ) -> Path:
        """Writes a page that opens offline (.html), or a picture (.svg, .png) of one head or of all on one sheet.

        A page of any model and text stays below about 5 MB unless ``heads`` asks for more: small maps and top keys of
        every head, and the most telling ones down to single cells. A picture of one head shows at most 512 x 512 cells,
        each the mean or the maximum of a square of probabilities, and up to 64 x 64 single ones with their numbers. A
        sheet shows a small map of each head, layers down and heads across, in the colours of one scale; the letter of
        what a head does where it was scored.

        Args:
            path: what its ending says.
            head: (layer, head), the one that a picture shows; None = the one that a page opens with.
            b: row of the batch, of a picture.
            rows: slice of queries, of a picture; None = all.
            cols: slice of keys, likewise.
            scale: of a picture's colours, "linear", "sqrt" or "log".
            pool: "mean" or "max", where a picture's cell stands for several probabilities.
            hide: a picture without the sink, the first key that can be attended to; no other probability changes.
            norm: a picture whose rows are each divided by their largest probability.
            run: which run a picture is of, by number or name.
            minus: the run whose probabilities are taken away.
            dark: a picture light on dark.
            heads: "all" or (layer, head) pairs: the heads of a sheet, where the file is a picture; those that a page
                holds whole, down to single cells, whatever that takes.

        Returns:
            The path.

        Raises:
            SpecError: another ending, a place that cannot be written (said before any work is done), no such head,
                both head and heads, or something of a picture for a page.
            UnavailableError: a PNG without Pillow.

        Example:
            >>> import tempfile, pathlib, torch, headwise as hw
            >>> q = torch.zeros(1, 2, 300, 4)
            >>> seen = hw.view(hw.Pattern(q, q, mask=hw.Causal()))
            >>> page = seen.save(pathlib.Path(tempfile.mkdtemp()) / "heads.html")
            >>> page.stat().st_size < 5e6
            True
            >>> seen.save(page.with_name("heads.png"), heads="all").name  # every head, on one sheet
            'heads.png'
            >>> seen.save("heads.pdf")
            Traceback (most recent call last):
            headwise.errors.SpecError: view: heads.pdf ends in '.pdf'; a view is saved as .html, .svg or .png.
        """
        named = self.scene.named(heads)
        if heads is not None and not named:
            todo = 'Name some, or heads="all", or leave it out.'
            raise SpecError(sentence("view", "heads is empty", "they are those that a file holds", todo=todo))

        def picture() -> Sheet:
            layer, at = self.scene.opening() if head is None else _pair(head)
            taken = None if minus is None else self._run(minus)
            shown = Shown(layer, at, b, self._run(run), taken, pool, bool(hide), bool(norm))
            if heads is None:
                return pictured(self.answers, shown, rows=rows, cols=cols, scale=scale, dark=dark).sheet()
            some = None if heads == "all" else named
            return all_heads(self.answers, shown, heads=some, rows=rows, cols=cols, scale=scale, dark=dark)

        writers: dict[str, Callable[[], bytes]] = {
            ".html": lambda: saved_page(self.answers, heads=heads).encode("utf-8"),
            ".svg": lambda: picture().svg().encode("utf-8"),
            ".png": lambda: picture().png(),
        }
        if not isinstance(path, (str, os.PathLike)):
            what = f"the place is a {type(path).__name__}"
            raise SpecError(sentence("view", what, "it is a path that ends in .html, .svg or .png"))
        place = Path(path)
        if place.suffix.lower() not in writers:
            what = f"{place} ends in {place.suffix!r}"
            raise SpecError(sentence("view", what, "a view is saved as .html, .svg or .png"))
        page = place.suffix.lower() == ".html"
        of_picture = {
            "head": head is not None, "b": b != 0, "rows": rows is not None, "cols": cols is not None,
            "scale": scale != "sqrt", "pool": pool != "mean", "hide": bool(hide), "norm": bool(norm), "run": run != 0,
            "minus": minus is not None, "dark": bool(dark),
        }  # fmt: skip
        for name in (name for name, given in of_picture.items() if page and given):
            rule = f"{name} says what a picture shows"
            raise SpecError(sentence("view", f"{name} was given for {place}", rule, todo="Leave it out."))
        if head is not None and heads is not None:
            rule = "head is the one that a picture shows, heads are those of a sheet of several"
            raise SpecError(sentence("view", "head and heads were both given", rule, todo="Leave one out."))
        with replacing(place, "view") as file:
            file.write(writers[place.suffix.lower()]())
        return place

    def close(self) -> None:
        """Ends the server and the widget, if there are any; a view that was closed can be shown again."""
        server, widget = self._server, self._widget
        self._server = self._widget = None
        if server is not None:
            server.close()
        if widget is not None:
            widget.close()

    def _run(self, run: int | str) -> int:
        """A run by number or name, as a number."""
        names = list(self.scene.runs)
        if isinstance(run, str):
            if run not in names:
                raise SpecError(
                    sentence("view", f"there is no run {run!r}", f"there are {', '.join(map(repr, names))}")
                )
            return names.index(run)
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        patterns = next(iter(self.scene.runs.values())).values()
        heads = sum(pattern.shape[1] for pattern in patterns)
        layers = f"{len(patterns)} layer{'' if len(patterns) == 1 else 's'}"
        runs = f"{len(self.scene.runs)} runs of " if len(self.scene.runs) > 1 else ""
        told = f"{self.scene.title}: {runs}{layers}, {heads} head{'' if heads == 1 else 's'}"
        address = self._address()
        return f"View({told}{f', {address}' if address else ''})"

    def _address(self) -> str:
        """Where it is served; at a prompt it is served for whoever looks at it there."""
        if self._server is None and not _at_a_prompt():
            return ""
        try:
            return self.url
        except HeadwiseError:  # a representation raises nothing: what is missing is said by .url
            return ""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """The widget in a notebook, the address at any other prompt."""
        if not _in_notebook():
            return {"text/plain": repr(self)}
        try:
            return self.widget()._repr_mimebundle_(include=include, exclude=exclude)
        except UnavailableError as missing:
            return {"text/plain": f"{self!r}\n{missing}"}

    def _display_(self) -> Any:
        """What marimo shows."""
        try:
            return self.widget()
        except UnavailableError as missing:
            return f"{self!r}\n{missing}"


def _pair(head: Any) -> tuple[Any, Any]:
    if not isinstance(head, (tuple, list)) or len(head) != 2:
        raise SpecError(sentence("view", f"head is {head!r}", "it is (layer, head), as in head=(3, 0)"))
    return head[0], head[1]


def _at_a_prompt() -> bool:
    """Whether somebody types at this process and sees what it answers."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _in_notebook() -> bool:
    """Whether a kernel runs this process, so that what a cell ends with is shown in a page."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
