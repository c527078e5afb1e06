"""A Rule whose result has no batch and head axes, the natural way to write one, crashed observers of distances."""

import torch

import headwise as hw


def test_a_rule_of_queries_and_keys_alone():
    x = torch.randn(2, 3, 6, 4)
    rule = hw.attend(x, x, x, mask=hw.Rule(lambda b, h, i, j: i >= j), observe=[hw.Offsets(2), hw.Received()])
    causal = hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Offsets(2), hw.Received()])
    torch.testing.assert_close(rule.out, causal.out)
    torch.testing.assert_close(rule.seen["offsets"], causal.seen["offsets"])
    torch.testing.assert_close(rule.seen["received"], causal.seen["received"])
