"""The widget: a question over the notebook's channel gets what the answers say, or a sentence; never an exception."""

from __future__ import annotations

import struct
import sys
from typing import Any

import dense
import pytest

import headwise as hw
from headwise.errors import UnavailableError
from headwise.viewer import Answers, Scene
from headwise.viewer import widget as module
from headwise.viewer.saved import script
from headwise.viewer.widget import answered, widget_class


def answers() -> Answers:
    return Answers(Scene.of({"run": {"layers.0.attn": dense.patterns(40, mask=hw.Causal())}}))


def test_the_answer_is_that_of_the_answers() -> None:
    asked = answers()
    params = {"run": 0, "heads": "0.1", "b": 1, "i": 30}
    told = answered(asked, {"id": "q7", "name": "row", "params": params})
    assert told is not None
    content, (numbers,) = told
    wanted = asked.answer("row", params)
    assert content == {"id": "q7", "meta": wanted.meta}
    assert list(struct.unpack("<40f", numbers)) == wanted.data.tolist()


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("roe", {}, "no question 'roe'"),
        (None, {}, "no question 'None'"),
        ("row", {"run": 0, "heads": "0.9", "b": 0, "i": 0}, "there is no head '0.9'"),
        ("row", "heads", "missing"),
        ("row", None, "missing"),
    ],
)
def test_a_question_that_has_no_answer_gets_one_sentence(name: Any, params: Any, said: str) -> None:
    told = answered(answers(), {"id": 3, "name": name, "params": params})
    assert told is not None
    assert told[0]["id"] == 3
    assert said in told[0]["refusal"]
    assert "\n" not in told[0]["refusal"]
    assert told[1] == []


@pytest.mark.parametrize("content", [None, "scene", {}, {"name": "scene"}, 3])
def test_what_is_no_question_gets_nothing(content: Any) -> None:
    assert answered(answers(), content) is None


def test_a_fault_of_ours_is_logged_and_said(caplog: pytest.LogCaptureFixture) -> None:
    asked = answers()
    asked.answer = lambda *_: 1 / 0  # type: ignore[assignment,method-assign]
    told = answered(asked, {"id": 1, "name": "scene", "params": {}})
    assert told is not None
    assert "has failed" in told[0]["refusal"]
    assert "ZeroDivisionError" in caplog.text


def test_looking_at_the_small_maps_brings_them_on() -> None:
    asked = answers()
    question = {"id": 1, "name": "overview", "params": {"run": 0, "b": 0, "since": 0}}
    exact = []
    for _ in range(50):
        told = answered(asked, question)
        assert told is not None
        exact.append(told[0]["meta"]["exact"])
        if told[0]["meta"]["done"]:
            break
    assert exact[-1] == 3


def test_a_widget_asks_and_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget", reason="the widget is one of anywidget's")
    made = widget_class()(answers())
    assert made._esm == script()
    sent: list[Any] = []
    monkeypatch.setattr(made, "send", lambda content, buffers: sent.append((content, buffers)))
    made._handle_custom_msg({"id": "a", "name": "scene", "params": {}}, [])
    made._handle_custom_msg("nothing", [])
    ((content, buffers),) = sent
    assert content["id"] == "a"
    assert content["meta"]["layers"][0]["heads"] == 3
    assert buffers == [b""]
    assert widget_class() is widget_class()
    made.close()


def test_without_anywidget_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    module.widget_class.cache_clear()
    with pytest.raises(UnavailableError, match="pip install anywidget"):
        widget_class()
