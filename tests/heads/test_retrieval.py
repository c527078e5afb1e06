"""Retrieval scores against whole eager patterns of the text and the model's own answer, by loops."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads import retrieval
from headwise.heads.retrieval import Needle, retrieval_scores

HAY = (
    "The tram stops here. A heron reads the list! Some tests are late. Others seldom so. "
    "Is there a letter? Rain is red."
)
NEEDLES = (Needle("Ten seals eat tea leaves.", "Who eats leaves?"), Needle("A tin star sits there.", "What is tin?"))
LETTERS = " .,?!:\n" + "".join(map(chr, range(97, 123))) + "TASROBQWI"


@cache
def letters(template: bool) -> Any:
    """A tokenizer of few letters, so that an untrained model says what the needle holds."""
    merges = [("t", "e"), ("e", "a"), ("a", "t"), ("h", "e"), ("s", " ")]
    tokens = ["<unk>", "<s>", "</s>", *LETTERS, *(a + b for a, b in merges)]
    made = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, merges, unk_token="<unk>"))
    made.decoder = decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    if template:
        tokenizer.chat_template = (
            "{% for m in messages %}<s>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}</s>{% endif %}"
        )
    return tokenizer


FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {"num_key_value_heads": 2},
    "Mistral": {"num_key_value_heads": 2, "sliding_window": 150},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512, "bos_token_id": None},
    "GPTNeoX": {},
}

SEEDS = {"Llama": 5, "Mistral": 18, "GPT2": 9, "GPTNeoX": 1}  # models that say something of what the needles hold


@cache
def model_of(family: str) -> Any:
    torch.manual_seed(SEEDS[family])
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    sizes = {"max_position_embeddings": 512, **sizes} if family != "GPT2" else {}
    config = getattr(transformers, f"{family}Config")(vocab_size=60, eos_token_id=2, **sizes, **FAMILIES[family])
    name = f"{family}LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
                if any(part in name for part in ("q_proj", "k_proj", "c_attn", "query_key_value")):
                    parameter.mul_(2)
            if "embed" in name or "wte" in name:
                parameter.mul_(2)
    return model


def by_hand(model: Any, prompt: retrieval._Prompt, said: list[int]) -> Tensor:
    """Score and chance [2, L, H] of one run, from one dense forward over prompt and answer."""
    ids = torch.cat([prompt.ids, torch.tensor(said[:-1], dtype=torch.int64)])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(input_ids=ids[None], output_attentions=True)
    model.set_attn_implementation("sdpa")
    p = torch.stack(out.attentions)[:, 0]
    start = len(prompt.ids) - 1
    assert out.logits[0, start:].argmax(-1).tolist() == said  # greedy
    window = getattr(model.config, "sliding_window", None) or len(ids)
    places = prompt.places.tolist()
    result = torch.zeros(2, *p.shape[:2], dtype=torch.float64)
    for layer in range(p.shape[0]):
        for head in range(p.shape[1]):
            copied, missed = set(), dict.fromkeys(places, 1.0)
            for step, token in enumerate(said):
                row = start + step
                seen = range(max(0, row - window + 1), row + 1)
                most = int(p[layer, head, row].argmax())
                if most in places and ids[most] == token:
                    copied.add(most)
                for j in places:
                    if j in seen and ids[j] == token:
                        missed[j] *= 1 - 1 / len(seen)
            result[0, layer, head] = len(copied) / len(places)
            result[1, layer, head] = sum(1 - m for m in missed.values()) / len(places)
    return result


@pytest.mark.parametrize(
    ("family", "template"), [("Llama", True), ("Llama", False), ("Mistral", True), ("GPT2", False), ("GPTNeoX", False)]
)
def test_scores_are_those_of_whole_patterns(family: str, template: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = model_of(family), letters(template)
    runs: list[tuple[retrieval._Prompt, list[int]]] = []
    say = retrieval._Run._say

    def noted(run: retrieval._Run, tokenizer: Any) -> list[int]:
        said = say(run, tokenizer)
        runs.append((run.prompt, said))
        return said

    monkeypatch.setattr(retrieval._Run, "_say", noted)
    scores = retrieval_scores(model, tokenizer, lengths=[170], depths=[0.2, 0.9], needles=NEEDLES, haystack=HAY)
    assert len(runs) == 4
    assert any(len(said) > 3 for _, said in runs)
    each = torch.stack([by_hand(model, prompt, said) for prompt, said in runs])
    wanted, above = each.mean(0), each[:, 0] - each[:, 1]
    # two runs of each needle: over runs, and over the means of needles
    error = torch.maximum(above.std(0) / 4**0.5, above.view(2, 2, *above.shape[1:]).mean(1).std(0) / 2**0.5)
    for (layer, head), found in scores.items():
        assert found.n == 4
        assert found.score == pytest.approx(float(wanted[0, layer, head]), abs=1e-9)
        assert found.chance == pytest.approx(float(wanted[1, layer, head]), abs=1e-9)
        assert found.error == pytest.approx(float(error[layer, head]), abs=1e-7)
    assert wanted[1].min() > 0
    assert len({found.score for found in scores.values()}) > 1


def test_an_answer_tells_what_the_question_does_not() -> None:
    needle = Needle("The red door leads to the old cellar.", "Where does the red door lead?")
    assert retrieval._answers(needle, "It leads to an old Cellar")
    assert not retrieval._answers(needle, "The red door leads to the red door.")
    assert retrieval._answers(Needle("Red door.", "Red door?"), "a red door")


def test_needles_stand_between_sentences_where_they_are_asked_to() -> None:
    tokenizer = letters(True)
    hay = retrieval._Haystack(tokenizer, HAY)
    needle = NEEDLES[0]
    seen = []
    for depth in (0.0, 0.5, 1.0):
        prompt = retrieval._Prompt.of(tokenizer, needle, hay, 400, depth, 0.0)
        assert prompt is not None
        assert 330 < len(prompt.ids) <= 400
        text = tokenizer.decode(prompt.ids)
        assert tokenizer.decode(prompt.ids[prompt.places]) == needle.sentence
        before, after = text.split(needle.sentence)
        assert re.search(r"(<s>|[.!?] )$", before)
        assert re.match(r" [A-Z]|\n\n", after)
        assert text.startswith("<s>")
        assert text.endswith(f"{needle.question}</s>")
        seen.append(len(before))
    assert seen[0] == len("<s>")
    assert seen[0] < seen[1] < seen[2]


def test_the_seed_says_where_the_haystack_begins() -> None:
    hay = retrieval._Haystack(letters(False), HAY)
    assert hay.around("N.", 60, 0.0, 0.0).startswith("N. The tram")
    assert hay.around("N.", 60, 1.0, 0.99).startswith("Rain is red. The tram")
    model, tokenizer = model_of("Llama"), letters(False)
    options: dict[str, Any] = {"lengths": [180], "depths": [0.5], "needles": NEEDLES[:1], "haystack": HAY}
    once, again, other = (retrieval_scores(model, tokenizer, **options, seed=seed) for seed in (0, 0, 3))
    assert once == again
    assert once != other


def test_a_length_that_holds_no_needle_gives_no_score() -> None:
    model, tokenizer = model_of("Llama"), letters(False)
    assert retrieval_scores(model, tokenizer, lengths=[20], needles=NEEDLES, haystack=HAY) == {}
    some = retrieval_scores(model, tokenizer, lengths=[20, 180], depths=[1], needles=NEEDLES, haystack=HAY)
    assert {found.n for found in some.values()} == {2}


def test_lengths_follow_the_context_of_the_model() -> None:
    needles = [Needle("A b.", "C?")]
    assert retrieval._checked(None, [0.5], needles, 512, 40) == [118, 236, 472]
    assert retrieval._checked(None, [0.5], needles, 100_000, 40) == [512, 1024, 2048]
    assert retrieval._checked(None, [0.5], needles, None, 40) == [512, 1024, 2048]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": [500]}, r"a length is 500 tokens, and the answer may have \d+; the model takes 512"),
        ({"lengths": [0]}, "a length is 0"),
        ({"lengths": []}, "empty"),
        ({"needles": []}, "empty"),
        ({"depths": []}, "empty"),
        ({"depths": [0.5, 1.5]}, "a depth is 1.5"),
        ({"haystack": " "}, "haystack is empty"),
    ],
)
def test_what_makes_no_test_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        retrieval_scores(model_of("Llama"), letters(False), **{"needles": NEEDLES, "haystack": HAY, **options})


def test_models_that_do_not_go_on_with_a_text_are_refused() -> None:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "vocab_size": 60,
    }
    t5 = transformers.T5Config(vocab_size=60, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    for model in (
        transformers.BertModel(transformers.BertConfig(**sizes)),
        transformers.LlamaModel(transformers.LlamaConfig(**sizes)),
        transformers.T5ForConditionalGeneration(t5),
    ):
        with pytest.raises(UnsupportedError, match=f"{type(model).__name__} is no decoder with a head"):
            retrieval_scores(model, letters(False))
    with pytest.raises(UnsupportedError, match="interface"):
        retrieval_scores(torch.nn.Linear(2, 2), letters(False))


def test_a_template_that_changes_the_text_is_refused() -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=letters(False).backend_tokenizer, eos_token="</s>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | lower }}{% endfor %}"
    with pytest.raises(SpecError, match="is not to be found in its prompt"):
        retrieval_scores(model_of("Llama"), tokenizer, lengths=[200], needles=NEEDLES, haystack=HAY)


def test_scoring_leaves_the_model_as_it_was() -> None:
    model, ids = model_of("Llama"), torch.arange(3, 20)[None]
    with torch.no_grad():
        before = model(ids).logits
        retrieval_scores(model, letters(False), lengths=[180], depths=[0.5], needles=NEEDLES[:1], haystack=HAY)
        after = model(ids).logits
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(before, after)


@pytest.mark.parametrize("mask", ["causal", "window", "ahead", "padding"])
def test_the_last_row_is_pointed_at_from_tiles_as_from_whole_patterns(mask: str) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = torch.randn(2, 4, 5, 8, generator=generator), torch.randn(2, 2, 83, 8, generator=generator)
    chosen = {
        "causal": hw.Causal(), "window": hw.Causal() & hw.Window(30, 0), "ahead": hw.Causal(),
        "padding": hw.Causal() & hw.Padding(torch.tensor([83, 50])),
    }[mask]  # fmt: skip
    start = 20 if mask == "ahead" else None
    asked = retrieval._Pointing(torch.tensor([0, 3, 29, 30, 31, 77, 300]), name="pointing")
    answers = [
        hw.attend(q, k, k, mask=chosen, q_start=start, observe=[asked], backend=backend).seen["pointing"]
        for backend in ("blocked", "reference")
    ]
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)
    dense = hw.attend(q, k, k, mask=chosen, q_start=start, backend="reference").pattern.to_dense()[:, :, -1]
    last = 24 if start is not None else 82
    assert torch.equal(answers[0].back, last - dense.argmax(-1))
    assert torch.equal(answers[0].visible, (dense > 0).sum(-1))
    for n, back in enumerate(asked.asked.tolist()):
        seen = dense[..., last - back] > 0 if back <= last else torch.zeros(2, 4, dtype=torch.bool)
        assert torch.equal(answers[0].shown[..., n], seen)


@pytest.mark.xdist_group("smollm2")
def test_a_real_model_has_retrieval_heads() -> None:
    model, tokenizer = hw.load("smollm2")
    scores = retrieval_scores(model, tokenizer, lengths=[128], depths=[0.5], needles=retrieval.NEEDLES[:1])
    strong = {place for place, found in scores.items() if found.score > 0.1}
    assert scores[17, 3].score > 0.4
    assert scores[17, 3].answered == 1
    assert len(strong) < 0.15 * len(scores)
    assert max(found.chance for found in scores.values()) < 0.02
