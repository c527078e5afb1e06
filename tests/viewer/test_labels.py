"""Tokens as text: what each stands for, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest
import tokenizers
import transformers

from headwise.models.token_text import names_of, pieces
from headwise.viewer.labels import columns, shortened, visible


def byte_level() -> Any:
    """A byte-level tokenizer without merges: every byte is a token, so characters are cut apart."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made = tokenizers.Tokenizer(tokenizers.models.BPE({char: n for n, char in enumerate(sorted(alphabet))}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def word_pieces() -> Any:
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3, "cat": 4, "##s": 5, ".": 6}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def spaced() -> Any:
    """Words that carry their space as a mark, as SentencePiece has them."""
    vocabulary = {"<unk>": 0, "\u2581the": 1, "\u2581cat": 2, "s": 3}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


def test_the_pieces_of_a_text_are_the_text() -> None:
    text = "Straße 🎉\n  naïve <b>"
    tokenizer = byte_level()
    ids = tokenizer(text)["input_ids"]
    found, special = pieces(tokenizer, text, ids)
    assert len(found) == len(ids) > len(text)
    assert "".join(found) == text
    assert special == []
    assert "".join(pieces(tokenizer, text, ids[:5])[0]) == "Straß"[:5]

    tokenizer = word_pieces()
    text = "The  cats sat."
    ids = tokenizer(text)["input_ids"]
    found, special = pieces(tokenizer, text, ids)
    assert found == ["[CLS]", "The", "  cat", "s", " sat", ".", "[SEP]"]
    assert special == [0, 6]


def test_names_where_only_ids_are_known() -> None:
    tokenizer = byte_level()
    assert names_of(tokenizer, tokenizer(" a\n")["input_ids"]) == ([" ", "a", "\n"], [])
    assert names_of(word_pieces(), [1, 4, 5, 2]) == (["[CLS]", "cat", "##s", "[SEP]"], [0, 3])
    assert names_of(spaced(), [1, 2, 3]) == ([" the", " cat", "s"], [])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "·the"), ("the ", "the·"), ("  ", "␣␣"), ("", "◌"), ("a b", "a b"), ("\n\n", "⏎⏎"), ("\t", "⇥"),
        ("\x00", "␀"), ("\x7f", "␡"), ("\x85", "⟨85⟩"), ("\u200b", "⟨200b⟩"), ("\u202eabc", "⟨202e⟩abc"),
        ("\u0301", "◌\u0301"), ("\xa0", "⍽"), ("\ud800", "\ufffd"), ("שלום", "שלום"), ("🎉", "🎉"),
    ],
)  # fmt: skip
def test_everything_can_be_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_label_is_cut_by_its_columns() -> None:
    assert shortened("attention", 9) == "attention"
    assert shortened("attention", 5) == "atte…"
    assert columns("漢字") == 4
    assert shortened("漢字漢字", 5) == "漢字…"
    assert columns("e\u0301") == 1
