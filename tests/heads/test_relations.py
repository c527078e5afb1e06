"""Accuracy by relation against word maps built by loops from whole eager patterns, and heads built to be right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor, nn

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads import relations
from headwise.heads.questions import Questions
from headwise.heads.relations import RelationScore, relation_scores

Sentence = list[tuple[str, int, str]]  # form, head, relation
SENTENCES: list[Sentence] = [
    [("The", 3, "det"), ("old", 3, "amod"), ("farmer", 4, "nsubj"), ("sold", 0, "root"), ("his", 7, "nmod:poss"),
     ("grey", 7, "amod"), ("horse", 4, "obj"), (".", 4, "punct")],
    [("She", 2, "nsubj"), ("gave", 0, "root"), ("the", 5, "det"), ("hungry", 5, "amod"), ("children", 2, "iobj"),
     ("warm", 7, "amod"), ("bread", 2, "obj"), ("yesterday", 2, "advmod"), (".", 2, "punct")],
    [("Rivers", 4, "nsubj"), ("that", 3, "nsubj"), ("flood", 1, "acl:relcl"), ("carry", 0, "root"),
     ("fertile", 6, "amod"), ("soil", 4, "obj"), ("into", 9, "case"), ("low", 9, "amod"), ("fields", 4, "obl"),
     (".", 4, "punct")],
    [("My", 2, "nmod:poss"), ("sister", 4, "nsubj"), ("quickly", 4, "advmod"), ("painted", 0, "root"),
     ("a", 8, "det"), ("very", 7, "advmod"), ("bright", 8, "amod"), ("door", 4, "obj"), (".", 4, "punct")],
    [("Nobody", 2, "nsubj"), ("knows", 0, "root"), ("where", 5, "advmod"), ("they", 5, "nsubj"), ("hid", 2, "ccomp"),
     ("it", 5, "obj"), (".", 2, "punct")],
    [("Cats", 2, "nsubj"), ("sleep", 0, "root"), ("and", 5, "cc"), ("dogs", 5, "nsubj"), ("bark", 2, "conj"),
     ("loudly", 5, "advmod"), (".", 2, "punct")],
    [("The", 2, "det"), ("letter", 4, "nsubj:pass"), ("was", 4, "aux:pass"), ("opened", 0, "root"), ("by", 7, "case"),
     ("a", 7, "det"), ("stranger", 4, "obl:agent"), (".", 4, "punct")],
    [("Two", 3, "nummod"), ("tall", 3, "amod"), ("trees", 4, "nsubj"), ("shade", 0, "root"), ("the", 7, "det"),
     ("narrow", 7, "amod"), ("path", 4, "obj"), ("in", 9, "case"), ("summer", 4, "obl"), (".", 4, "punct")],
    [("He", 3, "nsubj"), ("has", 3, "aux"), ("lost", 0, "root"), ("the", 5, "det"), ("key", 3, "obj"),
     ("of", 8, "case"), ("the", 8, "det"), ("cellar", 5, "nmod"), (".", 3, "punct")],
    [("Heavy", 2, "amod"), ("rain", 3, "nsubj"), ("kept", 0, "root"), ("the", 6, "det"), ("tired", 6, "amod"),
     ("travellers", 3, "obj"), ("inside", 3, "advmod"), (".", 3, "punct")],
]  # fmt: skip
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def treebank(sentences: Sequence[Sentence], entities: dict[tuple[int, int], str] | None = None) -> str:
    """CoNLL-U, a space behind every word."""
    text = "# newdoc id = d\n# global.Entity = eid-etype-head-other\n"
    for n, words in enumerate(sentences):
        text += f"# sent_id = s{n}\n"
        for at, (form, head, relation) in enumerate(words):
            misc = (entities or {}).get((n, at), "_")
            text += f"{at + 1}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t{misc}\n"
        text += "\n"
    return text


def written(folder: Path, text: str, name: str = "a.conllu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: n for n, token in enumerate(dict.fromkeys(tokens))}


@cache
def byte_level(post: bool) -> Any:
    """A tokenizer of merged bytes, as RoBERTa's (post) and Llama's: a space belongs to the token behind it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), (".", '"'), ("e", "r"), ("i", "n"), ("o", "r"), ("s", "e")]
    merges += [("Ġ", letter) for letter in "abcdefghiklmnopqrstuvwy."]
    vocab = numbered(["<s>", "</s>", *alphabet, *(a + b for a, b in merges)])
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if post:
        made.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


@cache
def word_piece() -> Any:
    """A tokenizer of pieces of words, as BERT's."""
    forms = sorted({form for words in SENTENCES for form, _, _ in words} | {"!", "Run", "Yes"})
    letters = sorted({letter for form in forms for letter in form} | set("and"))
    tails = [f"##{letter}" for letter in letters]
    vocab = numbered(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *tails, *(form[:4] for form in forms)])
    made = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]"
    )


def sharp(model: nn.Module) -> Any:
    """Weights that make peaked rows."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
                if any(part in name for part in ("q_proj", "k_proj", "query", "key", ".q.", ".k.")):
                    parameter.mul_(3)
    return model.eval()


@cache
def model_of(family: str, **more: Any) -> Any:
    torch.manual_seed(1)
    sizes = {**SIZES, "vocab_size": 330, "max_position_embeddings": 96, **more}
    if family in ("Llama", "Mistral"):
        sizes["num_key_value_heads"] = 2
    config = getattr(transformers, f"{family}Config")(**sizes)
    return sharp(getattr(transformers, f"{family}Model")(config))


def pieces(tokenizer: Any, words: Sequence[str]) -> list[list[int]]:
    """Places of each word's tokens, by tokenizing words one by one: no offsets."""
    at = len(tokenizer("")["input_ids"]) // 2  # special tokens stand on both sides or nowhere
    found = []
    for n, word in enumerate(words):
        spaced = " " + word if n and "[CLS]" not in tokenizer.get_vocab() else word
        count = len(tokenizer(spaced, add_special_tokens=False)["input_ids"])
        found.append(list(range(at, at + count)))
        at += count
    return found


def dense(model: Any, tokenizer: Any, text: str) -> Tensor:
    """Eager patterns [L, H, T, T] in float64."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(input_ids=tokenizer(text, return_tensors="pt")["input_ids"], output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return torch.stack(found)[:, 0].double()


def word_map(p: Tensor, groups: list[list[int]]) -> list[list[float]]:
    """Sum to, mean from, of one head's pattern [T, T]."""
    rows = p.tolist()
    return [[sum(rows[i][j] for i in a for j in c) / len(a) for c in groups] for a in groups]


Question = tuple[str, int, set[int]]  # relation, the word that asks, right answers


def questions_of(words: Sentence) -> list[Question]:
    found: dict[tuple[str, int], set[int]] = {}
    for at, (_, head, relation) in enumerate(words):
        if head:
            for name in (relation, "all"):
                found.setdefault((name, at), set()).add(head - 1)
                found.setdefault((name + "<-", head - 1), set()).add(at)
    return [(name, source, targets) for (name, source), targets in found.items()]


def textbook(maps: list[list[list[float]]], reach: int | None, back: int | None) -> dict[str, RelationScore]:
    """One head's scores from its word maps, one a sentence; a word sees those up to reach ahead and back behind."""
    right: dict[str, list[bool]] = {}
    where: dict[str, list[tuple[int, set[int]]]] = {}
    for words, table in zip(SENTENCES, maps, strict=True):
        for relation, source, targets in questions_of(words):
            seen = [
                c for c in range(len(words))
                if c != source and (reach is None or c - source <= reach) and (back is None or table[source][c] > 0)
            ]  # fmt: skip
            if not targets & set(seen) or set(seen) <= targets:
                continue
            chosen = max(seen, key=lambda c: table[source][c])
            right.setdefault(relation, []).append(chosen in targets)
            where.setdefault(relation, []).append((source, targets))
    found = {}
    for relation, answers in right.items():
        shares = {
            d: sum(source + d in targets for source, targets in where[relation]) / len(answers)
            for d in range(-12, 13)
            if d
        }
        found[relation] = RelationScore(sum(answers) / len(answers), max(shares.values()), len(answers), shares)
    return found


CASES: dict[str, tuple[str, dict[str, Any], Any, int | None, int | None]] = {
    "BERT, pieces of words": ("Bert", {}, word_piece, None, None),
    "RoBERTa, bytes": ("Roberta", {"pad_token_id": 1}, lambda: byte_level(True), None, None),
    "Llama, causal": ("Llama", {}, lambda: byte_level(False), 0, None),
    "Mistral, causal in a window": ("Mistral", {"sliding_window": 7}, lambda: byte_level(False), 0, 7),
}


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_whole_patterns(case: str, tmp_path: Path) -> None:
    family, more, tokenizer, reach, back = CASES[case]
    model, tokenizer = model_of(family, **more), tokenizer()
    scores = relation_scores(model, tokenizer, written(tmp_path, treebank(SENTENCES)))
    texts = [[form for form, _, _ in words] for words in SENTENCES]
    patterns = [dense(model, tokenizer, " ".join(words)) for words in texts]
    groups = [pieces(tokenizer, words) for words in texts]
    assert any(len(group) > 1 for sentence in groups for group in sentence)  # words are split
    assert list(scores) == [(layer, head) for layer in range(2) for head in range(4)]
    differ = set()
    for (layer, head), found in scores.items():
        maps = [word_map(p[layer, head], g) for p, g in zip(patterns, groups, strict=True)]
        wanted = textbook(maps, reach, back)
        assert found.keys() == wanted.keys()
        for relation, score in found.items():
            assert score.n == wanted[relation].n, relation
            assert score.accuracy == pytest.approx(wanted[relation].accuracy), relation
            assert score.baseline == pytest.approx(wanted[relation].baseline), relation
            ((name, share),) = score.baselines.items()
            assert share == pytest.approx(wanted[relation].baselines[int(name.removeprefix("offset "))])
            differ.add(score.accuracy)
    assert len(differ) > 5


def attended(words: Sentence, lead: int = 1) -> tuple[Tensor, Tensor]:
    """q, k [1, 1, T, T] of a head that attends from each word to its head, and what it asks a model for nothing."""
    T = len(words) + lead
    k = torch.eye(T)
    q = torch.stack([k[0]] * lead + [k[head - 1 + lead] if head else k[0] for _, head, _ in words])
    return 60 * q[None, None], k[None, None]


@pytest.mark.parametrize("backend", ["blocked", "reference"])
def test_a_head_built_to_follow_the_tree_is_right_and_distances_are_not(backend: str) -> None:
    tally = relations._Tally({"site": 0})
    for words in SENTENCES:
        T = len(words) + 1
        text = relations.Aligned(torch.zeros(1, T, dtype=torch.int64), torch.arange(-1, T - 1), tuple(range(T - 1)))
        links = tuple(
            relations._Judged(
                name, frozenset({source}), frozenset(targets), frozenset(set(range(T - 1)) - {source}),
                {f"offset {target - source:+d}": True for target in targets},
            )
            for name, source, targets in questions_of(words)
        )  # fmt: skip
        passage = relations._InTokens(text, text, False, links)
        q, k = attended(words)
        seen = hw.attend(q, k, k, scale=1.0, observe=[passage.questions()], backend=backend).seen
        tally.take(passage, [("site", seen["questions"])])
    found = tally.scores()[0, 0]
    forward = {name: score for name, score in found.items() if not name.endswith("<-")}
    assert all(score.accuracy == 1 for score in forward.values())
    assert found["nsubj"].baseline < 1
    assert found["all"].baseline < 0.5
    assert found["amod"].n == sum(relation == "amod" for words in SENTENCES for _, _, relation in words)
    assert found["det<-"].accuracy < 1


@pytest.mark.parametrize("mask", ["all", "causal", "window", "padding", "empty"])
def test_questions_are_answered_from_tiles_as_from_whole_patterns(mask: str) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = torch.randn(2, 3, 97, 8, generator=generator), torch.randn(2, 3, 97, 8, generator=generator)
    words = torch.randint(-1, 23, (97,), generator=generator).sort().values
    pick = torch.rand(31, 23, generator=generator)
    asked = Questions(words % 11, words, pick[:, :11] > 0.9, pick > 0.4, pick > 0.8)
    chosen = {
        "all": None, "causal": hw.Causal(), "window": hw.Causal() & hw.Window(9, 0),
        "padding": hw.Padding(torch.tensor([97, 40])), "empty": hw.Padding(torch.tensor([0, 97])),
    }[mask]  # fmt: skip
    answers = [
        hw.attend(q, k, k, mask=chosen, scale=1.5, observe=[asked], backend=backend).seen["questions"]
        for backend in ("blocked", "reference")
    ]
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)
    assert answers[0].counted.any()
    assert answers[0].right.any()


def test_all_mass_elsewhere_is_no_right_answer() -> None:
    # everything on key 0, which is no word: the others underflow to exactly zero
    q, k = torch.full((1, 1, 4, 1), 400.0), torch.tensor([1.0, 0, 0, 0])[None, None, :, None]
    one = torch.tensor([[True, False, False]])
    asked = Questions(torch.tensor([-1, 2, 1, 0]), torch.tensor([-1, 0, 1, 2]), one, ~one.flip(1), one)
    answer = hw.attend(q, k, k, scale=1.0, observe=[asked]).seen["questions"]
    assert bool(answer.counted.all())
    assert not answer.right.any()


def test_multiword_tokens_are_asked_as_one(tmp_path: Path) -> None:
    text = treebank(SENTENCES[:1])
    joined = text.replace("4\tsold\t_", "4-5\tsoldhis\t_\t_\t_\t_\t_\t_\t_\t_\n4\tsold\t_")
    scores = relation_scores(model_of("Bert"), word_piece(), written(tmp_path, joined))[0, 0]
    assert scores["nmod:poss"].n == 1  # the word that holds "his" asks for horse
    assert scores["all"].n == 7  # and so does "sold", which is root: they are one word
    assert scores["all<-"].baselines  # of farmer, horse and soldhis
    assert scores["obj"].baselines == {"offset -2": 1.0}


def test_a_pair_of_words_asks_nothing(tmp_path: Path) -> None:
    two = [[("Run", 0, "root"), ("!", 1, "punct")], [("Yes", 0, "root")]]
    scores = relation_scores(model_of("Bert"), word_piece(), written(tmp_path, treebank(two)))
    assert set(map(len, scores.values())) == {0}
    one = written(tmp_path, treebank(two[1:]))
    assert relation_scores(model_of("Bert"), word_piece(), one) == {}


def answers_by_hand(
    model: Any, tokenizer: Any, text: str, source: list[int], right: list[int], among: list[int]
) -> Tensor:
    """Whether the most attended of some words is right, bool [L, H]; words of a text that spaces part."""
    groups = pieces(tokenizer, text.split(" "))
    p = dense(model, tokenizer, text)
    mass = torch.stack(
        [p[:, :, [i for s in source for i in groups[s]]][..., groups[c]].sum((-1, -2)) for c in among], -1
    )
    return torch.isin(torch.tensor(among)[mass.argmax(-1)], torch.tensor(right))


def test_lines_ask_from_spans_to_spans(tmp_path: Path) -> None:
    text = "Cats sleep and dogs bark loudly . The old farmer sold his grey horse ."
    lines = [
        {"text": text, "from": [34, 48], "to": [15, 24], "relation": "before"},  # The old farmer; dogs bark
        {"text": text, "from": [34, 48], "to": [0, 4], "relation": "before"},  # or Cats
        {"text": text, "from": [5, 10], "to": [0, 4], "relation": "theme"},
        {"text": text, "from": [0, 4], "to": [5, 10], "relation": "theme"},
    ]
    path = written(tmp_path, "\n".join(json.dumps(line) for line in lines), "a.jsonl")
    for family, tokenizer in (("Bert", word_piece()), ("Llama", byte_level(False))):
        model = model_of(family)
        scores = relation_scores(model, tokenizer, path)
        others = [n for n in range(15) if n not in (7, 8, 9) and (family == "Bert" or n < 7)]
        wanted = answers_by_hand(model, tokenizer, text, [7, 8, 9], [0, 3, 4], others)
        for (layer, head), found in scores.items():
            assert found["before"].accuracy == float(wanted[layer, head])
            assert found["before"].n == 1
            assert found["before"].baselines == {"offset -3": 1.0}  # from "The" to "bark"
            assert ("theme" in found) == (family == "Bert")  # "sleep" has nothing but "Cats" before it
        assert len(set(wanted.flatten().tolist())) == 2


def test_coreference_is_asked_among_earlier_mentions(tmp_path: Path) -> None:
    entities = {(0, 0): "Entity=(e1-person-3-", (0, 2): "Entity=e1)", (0, 4): "Entity=(e2-animal-3-(e1-person-1-)",
                (0, 6): "Entity=e2)", (1, 0): "Entity=(e1-person-1-)", (1, 6): "Entity=(e2-animal-1-)"}  # fmt: skip
    path = written(tmp_path, treebank(SENTENCES[:2], entities))
    text = " ".join(form for words in SENTENCES[:2] for form, _, _ in words)
    asked = [(4, [2], [2]), (8, [2, 4], [2, 4, 6]), (14, [6], [2, 4, 6, 8])]  # word, antecedents, candidates
    for family, tokenizer in (("Bert", word_piece()), ("Llama", byte_level(False))):
        model = model_of(family)
        by_hand = [answers_by_hand(model, tokenizer, text, [s], right, among) for s, right, among in asked[1:]]
        wanted = torch.stack(by_hand).double().mean(0)
        for (layer, head), found in relation_scores(model, tokenizer, path).items():
            assert found["coref"].accuracy == float(wanted[layer, head])
            assert found["coref"].n == 2  # "his" has one candidate
            assert found["coref"].baselines == {"nearest": 0.0, "head match": 0.0}


def test_documents_are_cut_and_sentences_are_refused_by_name(tmp_path: Path) -> None:
    entities = {(n, 0): "Entity=(e1-x-1-)" for n in range(len(SENTENCES))} | {
        (n, 1): "Entity=(e2-x-1-)" for n in range(9)
    }
    path = written(tmp_path, treebank(SENTENCES, entities))
    model, tokenizer = model_of("Bert"), word_piece()
    text = " ".join(form for words in SENTENCES for form, _, _ in words)
    ends = [group[-1] for group in pieces(tokenizer, text.split(" "))]
    for most in (40, 64, 96, 300):
        kept = sum(end + 1 < min(most, 96) for end in ends)  # and [SEP] behind
        starts = torch.tensor([0] + [len(words) for words in SENTENCES]).cumsum(0)[:-1].tolist()
        mentions = [at for start in starts for at in (start, start + 1) if at < kept]
        n = relation_scores(model, tokenizer, path, document_tokens=most)[0, 0]["coref"].n
        assert n == len(mentions) - 2
    short = model_of("Bert", max_position_embeddings=16)
    with pytest.raises(SpecError, match=r"sentence 's\d' of .*a.conllu has \d+ tokens; the model takes 16"):
        relation_scores(short, tokenizer, path)
    with pytest.raises(SpecError, match="document_tokens is 0"):
        relation_scores(model, tokenizer, path, document_tokens=0)


def test_a_word_without_a_token_is_refused_by_sentence(tmp_path: Path) -> None:
    made = Tokenizer.from_str(word_piece().backend_tokenizer.to_str())
    from tokenizers import normalizers

    made.normalizer = normalizers.Replace("grey", "")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")
    path = written(tmp_path, treebank(SENTENCES))
    with pytest.raises(SpecError, match=r"word 6 of sentence 's0' of .*'grey', has no token"):
        relation_scores(model_of("Bert"), tokenizer, path)


def test_a_tokenizer_without_offsets_is_refused(tmp_path: Path) -> None:
    slow = SimpleNamespace(is_fast=False)
    with pytest.raises(UnsupportedError, match="SimpleNamespace does not say where"):
        relation_scores(model_of("Bert"), slow, written(tmp_path, treebank(SENTENCES)))


@cache
def pair(family: str) -> Any:
    torch.manual_seed(3)
    if family == "T5":
        config: Any = transformers.T5Config(
            vocab_size=330, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
        return sharp(transformers.T5ForConditionalGeneration(config))
    config = transformers.BartConfig(
        vocab_size=330, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=96,
        decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    return sharp(transformers.BartForConditionalGeneration(config))


@pytest.mark.parametrize("family", ["T5", "Bart"])
def test_cross_attention_is_asked_where_the_decoder_reads(family: str, tmp_path: Path) -> None:
    model, tokenizer = pair(family), byte_level(True)
    said, read = "Nobody knows where they hid it", "The old farmer sold his grey horse ."
    lines = [
        {"text": read, "target_text": said, "from": [7, 12], "to": [15, 19], "relation": "aligned"},  # knows; sold
        {
            "text": read,
            "target_text": said,
            "from": [19, 27],
            "to": [4, 14],
            "relation": "aligned",
        },  # they hid; old farmer
        {"text": read, "from": [4, 7], "to": [8, 14], "relation": "within"},
    ]
    path = written(tmp_path, "\n".join(json.dumps(line) for line in lines), "a.jsonl")
    scores = relation_scores(model, tokenizer, path)
    ids = tokenizer(said, return_tensors="pt")["input_ids"]
    decoder = torch.cat([torch.tensor([[model.config.decoder_start_token_id]]), ids[:, :-1]], 1)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(
            input_ids=tokenizer(read, return_tensors="pt")["input_ids"],
            decoder_input_ids=decoder,
            output_attentions=True,
        )
    model.set_attn_implementation("sdpa")
    p = torch.stack(out.cross_attentions)[:, 0].double()
    froms = [[i + 1 for i in group] for group in pieces(tokenizer, said.split(" "))]  # behind the start token
    tos = pieces(tokenizer, read.split(" "))
    crossing = [n for n, site in enumerate(hw.sites(model)) if "EncDec" in site or "encoder_attn" in site]
    encoding = [n for n, site in enumerate(hw.sites(model)) if "encoder." in site and "decoder." not in site]
    assert {layer for layer, _ in scores} == {*crossing, *encoding}
    for place, layer in enumerate(crossing):
        for head in range(4):
            right = 0
            for source, targets in (([1], {3}), ([3, 4], {1, 2})):
                rows = [i for s in source for i in froms[s]]
                mass = [float(p[place, head][rows][:, group].sum()) for group in tos]
                right += mass.index(max(mass)) in targets
            assert scores[layer, head]["aligned"].accuracy == right / 2
            assert scores[layer, head].keys() == {"aligned"}
    assert all(scores[layer, 0].keys() == {"within"} for layer in encoding)


def test_a_model_without_cross_attention_has_none_to_ask(tmp_path: Path) -> None:
    line = {"text": "Cats sleep .", "target_text": "Dogs bark .", "from": [0, 4], "to": [0, 4], "relation": "aligned"}
    path = written(tmp_path, json.dumps(line), "a.jsonl")
    with pytest.raises(UnsupportedError, match=r"line 1 of .*BertModel no cross attention"):
        relation_scores(model_of("Bert"), word_piece(), path)


def test_scoring_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model, tokenizer = model_of("Bert"), word_piece()
    ids = tokenizer("Cats sleep", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        before = model(ids).last_hidden_state
        relation_scores(model, tokenizer, written(tmp_path, treebank(SENTENCES)))
        after = model(ids).last_hidden_state
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(before, after)


@pytest.mark.xdist_group("minilm")
def test_a_real_encoder_has_heads_above_every_fixed_distance(tmp_path: Path) -> None:
    scores = relation_scores(*hw.load("minilm"), written(tmp_path, treebank(SENTENCES)))
    assert len(scores) == 72
    for name, n in {"det": 9, "obj": 8, "obj<-": 8, "punct<-": 10, "all": 75}.items():
        asked = [found[name] for found in scores.values()]
        assert {score.n for score in asked} == {n}
        assert max(score.accuracy for score in asked) > asked[0].baseline + 0.2, name
    assert scores[3, 1]["obj<-"].accuracy == 0.875  # one head stands out; the best distance has 3 of 8
    assert scores[3, 1]["obj<-"].baseline == 0.375
