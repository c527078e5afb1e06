"""What a test of whole models runs for, and the tiny models that it is given."""

from __future__ import annotations

import pytest
from zoo import FAMILIES, quiet, zoo

__all__ = ["quiet", "zoo"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What a test runs for, by its arguments.

    One with ``family`` runs for every family, one with ``padding`` too for every side that the family's
    inputs can be padded on, one with ``feature_of`` for each feature of each.
    """
    marks = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    named = {name for names in marks for name in (names.split(",") if isinstance(names, str) else names)}
    if "padding" in metafunc.fixturenames and "padding" not in named:
        pairs = [(name, side) for name, family in FAMILIES.items() for side in ("none", "left", "right")]
        pairs = [
            (name, side) for name, side in pairs if side == "none" or FAMILIES[name].kind not in ("vision", "audio")
        ]
        metafunc.parametrize(("family", "padding"), pairs, ids=["-".join(pair) for pair in pairs])
    elif "family" in metafunc.fixturenames and "family" not in named:
        metafunc.parametrize("family", list(FAMILIES))
    if "feature_of" in metafunc.fixturenames:
        pairs = [(name, feature) for name, family in FAMILIES.items() for feature in family.features]
        metafunc.parametrize("feature_of", pairs, ids=["-".join(pair) for pair in pairs])
