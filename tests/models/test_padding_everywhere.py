"""A model in use gives what transformers gives at every position, padding included: some types of every kind.

All types that transformers knows are compared by ``make sweep``, which takes minutes.
"""

from __future__ import annotations

import pytest
import torch
from agreement import SAME, compare, implementation, references, results
from sweep_families import SIDES, batches, build, judge

#: What reads its padding: last positions pooled, convolutions and subsampling over frames, speech made from text.
READ_PADDING = (
    "siglip", "siglip2", "speech_to_text", "wav2vec2-conformer", "parakeet_ctc", "lasr_ctc", "granite_speech5_ctc",
    "seamless_m4t",
)  # fmt: skip
#: Decoders with windows, caps, sinks, latent keys and a choice of keys; encoders; encoder-decoders; other modalities.
OTHERS = (
    "llama", "gemma2", "gpt_oss", "deepseek_v3", "glm5_next_text", "gpt2", "bert", "modernbert", "clip", "bart", "t5",
    "wav2vec2", "idefics2_perceiver", "moonshine",
)  # fmt: skip


@pytest.mark.parametrize("model_type", READ_PADDING + OTHERS)
def test_every_output_and_gradient_is_that_of_transformers(model_type: str) -> None:
    verdict = judge(model_type)
    assert verdict.state == "ok", verdict.notes
    assert verdict.padded, "the batch has padding, and the model reads its mask"
    assert verdict.coverage > 0.5, "transformers' own implementations agree at most positions"


def test_a_difference_at_one_padded_position_is_seen() -> None:
    model = build("bert", generating=False)
    by_side, _ = batches(model)
    assert set(by_side) == set(SIDES)
    with implementation(model, "sdpa"):
        outputs = results(model, by_side["right"], None)
    reference = references(outputs, outputs)
    assert compare(outputs, reference).share == 0
    last = by_side["right"]["attention_mask"].shape[1] - 1
    assert not by_side["right"]["attention_mask"][2, last]
    wrong = {name: value.clone() for name, value in outputs.items()}
    wrong["last_hidden_state"][2, last, 0] += 0.1
    assert compare(wrong, reference).name == "last_hidden_state"
    assert compare(wrong, reference).share > SAME
    del wrong["last_hidden_state"]
    assert compare(wrong, reference).share == float("inf")


def test_where_transformers_disagrees_with_itself_nothing_is_compared() -> None:
    one = {"logits": torch.arange(24.0).reshape(2, 3, 4)}
    other = {"logits": one["logits"].clone()}
    other["logits"][1, 2, 0] += 1
    reference = references(one, other)
    assert reference.agreed["logits"].all(-1).tolist() == [[True, True, True], [True, True, False]]
    wrong = {"logits": one["logits"].clone()}
    wrong["logits"][1, 2] = float("nan")
    assert compare(wrong, reference).share == 0
    wrong["logits"][0, 0, 0] = float("nan")
    assert not compare(wrong, reference).share <= SAME
