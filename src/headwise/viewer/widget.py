"""The viewer as a notebook widget: the same page, its questions over the notebook's own channel."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headwise.errors import HeadwiseError, UnavailableError, sentence
from headwise.viewer.answers import Answers
from headwise.viewer.saved import script

__all__ = ["answered", "widget_class"]

_LOG = logging.getLogger(__name__)
_GROWING = 0.15  # seconds of background work before each look at the small maps; a notebook has no idle thread for it


@lru_cache(maxsize=1)
def widget_class() -> Any:
    """The widget's class, ``Widget(answers)``, made when it is first asked for.

    Its questions are answered at once, in the kernel's own thread, as in JupyterLab, VS Code, Colab and marimo alike.

    Raises:
        UnavailableError: anywidget is not installed, or the page's script was not built.
    """
    try:
        import anywidget
    except ImportError as missing:
        raise UnavailableError(
            sentence(
                "view",
                f"package {missing.name} is not installed",
                "a notebook shows the viewer as a widget of it",
                todo="Install it: pip install anywidget.",
            )
        ) from missing

    class Widget(anywidget.AnyWidget):
        """The viewer in a notebook."""

        _esm = script()

        def __init__(self, answers: Answers) -> None:
            super().__init__()
            self._answers = answers
            self.on_msg(self._heard)

        def _heard(self, _widget: Any, content: Any, _buffers: Any) -> None:
            told = answered(self._answers, content)
            if told is not None:
                self.send(told[0], buffers=told[1])

    return Widget


def answered(answers: Answers, content: Any) -> tuple[dict[str, Any], list[bytes]] | None:
    """What goes back for a message ``{id, name, params}``: ``{id, meta}`` and the numbers, or ``{id, refusal}``.

    Args:
        answers: of the scene.
        content: the message, whatever it is; None comes back for one that is no question.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer import Answers, Scene
        >>> from headwise.viewer.widget import answered
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> answers = Answers(Scene.of({"run": {"layer": hw.Pattern(x, x)}}))
        >>> question = {"id": "q1", "name": "row", "params": {"run": 0, "heads": "0.0", "b": 0, "i": 1}}
        >>> told, numbers = answered(answers, question)
        >>> told["id"], len(numbers[0])
        ('q1', 8)
        >>> answered(answers, {"id": "q2", "name": "roe", "params": {}})[0]["refusal"][:24]
        "view: no question 'roe';"
    """
    if not isinstance(content, Mapping) or "id" not in content:
        return None
    name, params = content.get("name"), content.get("params")
    refusal = "The viewer has failed at this question; the log of the kernel says where."
    try:
        if name == "overview":
            _grow(answers)
        found = answers.answer(str(name), params if isinstance(params, Mapping) else {})
        return {"id": content["id"], "meta": found.meta}, [found.payload()]
    except HeadwiseError as error:
        refusal = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  one failing question must not end the others
        _LOG.exception("a question of the viewer has failed")
    return {"id": content["id"], "refusal": refusal}, []


def _grow(answers: Answers) -> None:
    """Background work, for a moment."""
    end = time.monotonic() + _GROWING
    while time.monotonic() < end and answers.work():
        pass
