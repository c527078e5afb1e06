"""What users of attention libraries suffer from in whole models (USER_CASES A1, A2, A3, A6, A7), kept here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.testing import within

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def llama(layers: int = 3) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=None, bos_token_id=1, initializer_range=0.4,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def prompts() -> tuple[Tensor, Tensor]:
    """Two prompts of 10 and 7 tokens, the second with three of padding on its left."""
    ids = torch.randint(1, 31, (2, 10), generator=torch.Generator().manual_seed(2))
    keep = torch.ones_like(ids)
    ids[1, :3] = keep[1, :3] = 0
    return ids, keep


@torch.no_grad()
def test_a_model_in_use_still_has_its_mask() -> None:
    """A1.22: three of ten tokens are padding on the left, and the logits are those of sdpa at every real token."""
    model, (ids, keep) = llama(), prompts()
    model.set_attn_implementation("sdpa")
    want = model(ids, attention_mask=keep).logits
    got = hw.use(model)(ids, attention_mask=keep).logits
    within(got[keep.bool()], want[keep.bool()], 1e-4, "logits")
    assert float((model(ids).logits - got)[keep.bool()].abs().max()) > 1e-2


@torch.no_grad()
def test_the_model_stays_the_users_own() -> None:
    """A2.43: no port: the same module, and logits that differ by rounding alone."""
    model, (ids, _) = llama(), prompts()
    model.set_attn_implementation("eager")
    want, held = model(ids).logits, [id(p) for p in model.parameters()]
    assert hw.use(model) is model
    within(model(ids).logits, want, 1e-5, "logits")
    assert [id(p) for p in model.parameters()] == held


@torch.no_grad()
def test_a_stack_is_asked_from_outside() -> None:
    """A3.48, A3.49: one block reaches each of three layers, in eval and without gradients."""
    model, (ids, keep) = llama(), prompts()
    with hw.observe(model, hw.Entropy()) as seen:
        model(ids, attention_mask=keep)
    assert seen["entropy"].shape == (3, 2, 4, 10)


@torch.no_grad()
def test_torchs_own_encoder_is_asked_from_outside() -> None:
    """A3.48: the layers that somebody else wrote, in place."""
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 3).eval()
    hw.nn.torch_compat.replace(stack)
    with hw.nn.torch_compat.observe(stack, hw.Entropy()) as seen:
        stack(torch.randn(2, 5, 16))
    assert len(seen) == 3
    assert all(answers["entropy"].shape == (2, 4, 5) for answers in seen.values())


@torch.no_grad()
def test_one_layer_and_one_head_are_watched_alone() -> None:
    """A6.84, A7.92: the others are not asked, and no bit of the output changes."""
    model, (ids, keep) = hw.use(llama()), prompts()
    want = model(ids, attention_mask=keep).logits
    with hw.observe(model, hw.Entropy(), sites=[1], heads=[3]) as seen:
        got = model(ids, attention_mask=keep).logits
    assert torch.equal(got, want)
    assert seen["entropy"].shape == (1, 2, 1, 10)


def test_attaching_copies_no_weight() -> None:
    """A6.86: in place: the same storages, and back again."""
    model = llama()
    before = [p.untyped_storage().data_ptr() for p in model.parameters()]
    hw.use(model)
    assert [p.untyped_storage().data_ptr() for p in model.parameters()] == before
    hw.restore(model)
    assert model.config._attn_implementation in ("sdpa", "eager")


@torch.no_grad()
def test_asked_for_attentions_it_gives_them_or_one_sentence() -> None:
    """A7.91: exact weights up to a size, and beyond it the name of what to do instead; never a tuple of nothing."""
    model, (ids, keep) = llama(1), prompts()
    model.set_attn_implementation("eager")
    want = model(ids, attention_mask=keep, output_attentions=True).attentions
    got = hw.use(model)(ids, attention_mask=keep, output_attentions=True).attentions
    assert len(got) == 1
    real = keep.bool()[:, None].expand(2, 4, 10)
    within(got[0][real], want[0][real], 1e-5, "weights")
    with pytest.raises(hw.HeadwiseError, match="observe"):
        model(torch.ones(1, 9000, dtype=torch.long), output_attentions=True)


@torch.no_grad()
def test_a_short_prompt_in_a_batch_says_what_it_says_alone() -> None:
    """A7.99, A8.113: greedy tokens of two prompts together and one by one."""
    model, (ids, keep) = hw.use(llama()), prompts()
    both = model.generate(ids, attention_mask=keep, max_new_tokens=6, do_sample=False)[:, 10:]
    for row in range(2):
        alone = ids[row : row + 1, keep[row].bool()]
        one = model.generate(alone, attention_mask=torch.ones_like(alone), max_new_tokens=6, do_sample=False)
        assert torch.equal(both[row], one[0, alone.shape[1] :])
