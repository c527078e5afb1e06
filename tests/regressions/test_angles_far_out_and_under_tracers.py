"""A token at position two million built the table of all positions before it; a run on fake tensors left fake angles in
the table for every later call; and make_fx recorded a rotation as memory that nothing had written."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import headwise as hw
from headwise.nn import Rotary, rotary


def test_a_far_token_costs_a_table_of_its_own() -> None:
    base = 777.0  # whose angles nobody else has asked for
    x = torch.randn(1, 1, 1, 64)
    made = rotary._table.cache_info().misses
    for at in (2_000_000, 100_000_000):
        cos, _ = Rotary(base=base).angles(at, x)
        exact = torch.cos(at * base ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64))
        torch.testing.assert_close(cos[0].double(), exact, atol=1e-7, rtol=0)
    assert rotary._table.cache_info().misses == made + 2
    across = Rotary(base=base).angles(rotary.ROWS - 2, torch.randn(1, 1, 5, 64))[0]
    near = torch.cat([Rotary(base=base).angles(rotary.ROWS - 2 + n, x)[0] for n in range(5)])
    torch.testing.assert_close(across, near)


def test_fake_tensors_leave_nothing_behind() -> None:
    layer = hw.MultiHeadAttention(12, 2, rotary=Rotary(base=778.0))
    with FakeTensorMode(allow_non_fake_inputs=True):
        layer(torch.randn(1, 4, 12))
    assert bool(layer(torch.randn(1, 4, 12)).isfinite().all())


def test_what_make_fx_records_can_be_run_again() -> None:
    layer = hw.MultiHeadAttention(12, 2, rotary=Rotary(), mask=hw.Causal())
    with torch.no_grad():
        graph = make_fx(layer)(torch.randn(1, 4, 12))
        for _ in range(3):
            x = torch.randn(1, 4, 12)
            torch.testing.assert_close(graph(x), layer(x), atol=1e-6, rtol=1e-5)
