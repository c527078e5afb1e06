"""``headwise info``: what is installed, what machine this is, and which backends can run on it."""

from __future__ import annotations

from typing import Annotated

import typer

from headwise.cli import _machine

__all__ = ["info"]


def info(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Versions, this machine, and why each backend can or cannot run. Needs no extra of headwise.

    \b
    Example:
        headwise info
        headwise info --json > machine.json
    """
    print(_machine.said(as_json))
