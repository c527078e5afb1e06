"""Without a compiler ``pip install .`` succeeds and all runs, some times slower: that is said once, and only then."""

from __future__ import annotations

import os
import subprocess
import sys

# The compiled module hidden, as where nothing had compiled it.
BEGIN = """
import sys, warnings
from importlib.machinery import FileFinder

def find_spec(finder, name, target=None, real=FileFinder.find_spec):
    return None if name == "headwise._native" else real(finder, name, target)

FileFinder.find_spec = find_spec
import torch
import headwise as hw
from headwise.backends import compiled
from headwise.errors import SpeedWarning

q = torch.randn(1, 2, 8, 4)
w = torch.zeros(1, 2, 8, 4, requires_grad=True)

def told(code):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exec(compile(code, "the caller's file", "exec"), dict(globals()))
    return [one for one in said if issubclass(one.category, SpeedWarning)]
"""

WOULD_HAVE_RUN = (
    "hw.attention(q, q, q)",
    "hw.attention(w, w, w, mask=hw.Causal()).sum().backward()",
    "hw.attend(q, q, q, observe=[hw.Entropy()])",
    "hw.Pattern(q, q).entropy()",
    "hw.Pattern(q, q).settle()",
    "hw.MultiHeadAttention(8, heads=2)(torch.randn(1, 3, 8))",
    "torch.func.vmap(lambda x: hw.attention(x, x, x))(q[None])",
)
WOULD_NOT = (
    "pass",
    "hw.attention(q, q, q, backend='blocked')",
    "hw.attend(q, q, q, backend='blocked', observe=[hw.Entropy()])",
    "hw.attention(q, q, q, backend='reference')",
    "str(hw.explain(q, q, q)); str(hw.explain(q, q, q, sinks=torch.zeros(2)))",
    "hw.attention(q.double(), q.double(), q.double())",
    "hw.attention(q, q, q, mask=hw.Rule(lambda b, h, i, j: i >= j))",
    "hw.attention(q, q, q, scores=(hw.ScoreRule(lambda s, b, h, i, j: s),))",
    "from headwise.cli._machine import said\nsaid(False)",
)


def run(program: str, **environment: str) -> list[str]:
    outside = {name: value for name, value in os.environ.items() if name != "HEADWISE_WITHOUT_NATIVE"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=outside | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_call_that_would_have_run_on_the_kernels_says_it_and_no_other() -> None:
    program = f"""
for code in {WOULD_NOT!r}:
    assert not told(code), code
for code in {WOULD_HAVE_RUN!r}:
    compiled._said = False
    one, = told(code)
    assert one.filename == "the caller's file" or "vmap" in code, (code, one.filename)
    assert not any(told(again) for again in {WOULD_HAVE_RUN!r}), code
print(" ".join(str(one.message).split()))
"""
    (said,) = run(program)
    for word in ("2 to 7 times slower", "headwise info", "HEADWISE_WITHOUT_NATIVE=1", "headwise.errors.SpeedWarning"):
        assert word in said


def test_it_can_be_silenced_and_raised() -> None:
    call = "hw.attention(q, q, q)"
    assert run(f"print(len(told({call!r})))", HEADWISE_WITHOUT_NATIVE="1") == ["0"]
    program = f"""
warnings.simplefilter("ignore", SpeedWarning)
{call}
compiled._said = False
warnings.simplefilter("error", SpeedWarning)
try:
    {call}
except SpeedWarning:
    print("raised")
print(tuple({call}.shape))
"""
    assert run(program, HEADWISE_WITHOUT_NATIVE="0") == ["raised", "(1, 2, 8, 4)"]
