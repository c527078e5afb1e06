"""A head whose scores are known because it was built, and a tokenizer for texts that are token ids."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SPECIAL = (1, 2)  # the first sign of each text, and signs inside of it and at its end


class Signs:
    """As much of a tokenizer as token ids need."""

    all_special_ids = SPECIAL
    bos_token_id = 1

    @staticmethod
    def get_added_vocab() -> dict[str, int]:
        return {}

    @staticmethod
    def get_vocab() -> dict[str, int]:
        return {f"word{n}": n for n in range(64)}


def previous_token_head() -> Any:
    """A GPT-2 of one head that attends to the token before, whatever the tokens are."""
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=64, vocab_size=32, n_positions=32)
    model = transformers.GPT2LMHeadModel(config).eval()
    attn = model.transformer.h[0].attn
    with torch.no_grad():
        model.transformer.wte.weight.zero_()
        model.transformer.wte.weight[:, 32:] = torch.eye(32)
        model.transformer.wpe.weight.zero_()
        model.transformer.wpe.weight[:, :32] = torch.eye(32)
        attn.c_attn.weight.zero_()
        attn.c_attn.weight[:32, :32] = 10 * torch.eye(32).roll(-1, 1)  # the query of place i is the sign of i - 1
        attn.c_attn.weight[:32, 64:96] = torch.eye(32)
        attn.c_attn.weight[32:, 160:] = torch.eye(32)  # the value is the token
        attn.c_proj.weight.copy_(torch.eye(64))
    return model
