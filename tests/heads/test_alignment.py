"""Tokens and words: words that share a token, blanks, and words that no token is of."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from headwise.errors import SpecError
from headwise.heads.alignment import aligned
from headwise.heads.annotations import Span, words_of


@cache
def byte_level() -> Any:
    """A tokenizer of merged bytes: a space belongs to the token behind it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(".", '"'), ("t", "h"), ("th", "e"), ("h", "e"), *(("Ġ", letter) for letter in "abcdefghi")]
    vocab = {token: n for n, token in enumerate(["<s>", "</s>", *alphabet, *(a + b for a, b in merges)])}
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


def test_words_of_one_token_are_one_word() -> None:
    text = 'Then "go." He'
    found = aligned(
        "test",
        byte_level(),
        text,
        [Span(0, 4), *(Span(at, at + n) for at, n in [(5, 1), (6, 2), (8, 1), (9, 1), (11, 2)])],
        "x",
    )
    assert [t for t in byte_level().tokenize(text) if '."' in t] == ['."']
    assert found.number == (0, 1, 2, 3, 3, 4)
    assert found.words == 5
    assert sorted(set(found.word_of.tolist())) == [0, 1, 2, 3, 4]


def test_a_space_on_its_own_is_of_the_word_behind_it_and_a_line_break_is_of_none() -> None:
    text = "He zapped\n\nshe"
    words = [Span(0, 2), Span(3, 9), Span(11, 14)]
    found = aligned("test", byte_level(), text, words, "x")
    tokens = byte_level().convert_ids_to_tokens(found.ids[0])
    assert tokens[tokens.index("Ġ") + 1] == "z"
    assert found.word_of[tokens.index("Ġ")] == 1
    assert [found.word_of[n] for n, token in enumerate(tokens) if token == "Ċ"] == [-1, -1]


def test_bytes_of_one_letter_are_of_its_word() -> None:
    found = aligned("test", byte_level(), "a 🙂é.", words_of("a 🙂é."), "x")
    assert found.word_of.tolist() == [0, 1, 1, 1, 1, 1, 2, 2, 3]


def test_special_tokens_are_no_words_and_words_may_hold_spaces() -> None:
    found = aligned("test", byte_level(), "<s>a b c</s>", [Span(3, 6), Span(7, 8)], "x")
    assert found.word_of.tolist() == [-1, 0, 0, 1, -1]


def test_a_word_that_is_normalised_away_is_named() -> None:
    made = Tokenizer.from_str(byte_level().backend_tokenizer.to_str())
    made.normalizer = normalizers.Replace("be", "")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    with pytest.raises(SpecError, match=r"test: word 2 of line 4, 'be', has no token; each word"):
        aligned("test", tokenizer, "to be.", words_of("to be."), "line 4")
