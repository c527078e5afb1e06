"""What people who look at patterns suffer from (USER_CASES A9), kept here; the rest is clicked in tests/viewer."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import torch

import headwise as hw
from headwise.viewer import Grid


def long(T: int, H: int = 4) -> hw.Pattern:
    made = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, H, T, 16, generator=made), torch.randn(1, H, T, 16, generator=made)
    return hw.Pattern(q, k, mask=hw.Causal())


def test_a_page_does_not_grow_with_the_square_of_the_text(tmp_path: Path) -> None:
    """A9.116: saved pages of 2,048 and of 32,768 tokens, each below 5 MB; the matrix of one head has 4 GiB."""
    for T in (2048, 32_768):
        page = hw.view(long(T, H=1), tokens=["w"] * T).save(tmp_path / f"{T}.html")
        assert page.stat().st_size < 5e6


def test_a_saved_page_is_one_file_that_asks_nobody(tmp_path: Path) -> None:
    """A9.118, A9.119: no address but its own data, and a policy that forbids any; nothing is bundled at draw time."""
    text = hw.view(long(64)).save(tmp_path / "page.html").read_text("utf-8")
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)\s*=\s*\"(?!data:)", markup)
    assert "default-src 'none'" in text and "connect-src" not in text
    # The script names no host. Namespaces of SVG are names that look like addresses and are never asked.
    hosts = set(re.findall(r"https?://([\w.]+)", text))
    assert hosts <= {"www.w3.org"}, hosts


def test_pictures_come_without_a_browser(tmp_path: Path) -> None:
    """A9.120: SVG and PNG of a head from Python."""
    seen = hw.view(long(40), tokens=[f"t{n}" for n in range(40)])
    root = ET.fromstring(seen.save(tmp_path / "head.svg", head=(0, 2)).read_text("utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert seen.save(tmp_path / "head.png", head=(0, 2)).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_anything_with_queries_and_keys_can_be_seen() -> None:
    """A9.123: no model is needed, and queries and keys may be of two texts: 5 x 9."""
    made = torch.Generator().manual_seed(0)
    pattern = hw.Pattern(torch.randn(1, 2, 5, 8, generator=made), torch.randn(1, 2, 9, 8, generator=made))
    with hw.view(pattern, tokens=list("abcde"), key_tokens=list("123456789")) as seen:
        asked = {"run": 0, "layer": 0, "head": 1, "b": 0, "pool": "mean", "hide": 0, "norm": 0, "z": 0, "r": 0, "c": 0}
        torch.testing.assert_close(seen.answers.answer("tile", asked).data, pattern.to_dense()[0, 1])
        assert [len(axis["labels"]) for axis in seen.answers.answer("scene", {}).meta["axes"]] == [5, 9]


def test_patches_of_an_image_are_an_axis() -> None:
    """A9.124: 24 x 24 patches behind a class token."""
    with hw.view(long(577, H=1), tokens=Grid(24, 24, before=1)) as seen:
        (axis,) = seen.answers.answer("scene", {}).meta["axes"]
        assert (axis["kind"], axis["height"], axis["width"], axis["before"]) == ("grid", 24, 24, 1)
        row = seen.answers.answer("row", {"run": 0, "heads": "0.0", "b": 0, "i": 576}).data
        assert row[1:].view(24, 24).shape == (24, 24) and float(row.sum()) == pytest.approx(1, abs=1e-5)
