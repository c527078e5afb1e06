"""Columns of the table against loops over whole eager patterns in float64; heads built so that scores are known."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from known_heads import SPECIAL, Signs, previous_token_head
from torch import Tensor

import headwise as hw
from headwise.errors import ShapeError, SpecError, UnavailableError, UnsupportedError
from headwise.heads import HeadTable, prune
from headwise.heads.columns import SCORES, clears
from headwise.heads.estimates import Sums, estimate, student
from headwise.heads.even import evenly
from headwise.heads.observed import FARTHEST
from headwise.heads.scores import LOCAL

TEXTS = [
    [1, 5, 9, 3, 5, 9, 7, 11, 2, 8, 5, 9, 11, 7, 12, 5, 13, 9, 2],
    [1, 6, 14, 6, 15, 2, 6, 14, 10, 6, 14, 16, 2],
]
TARGETS = [[7, 8, 7, 9, 4, 7, 8, 2], [4, 5, 4, 6, 5, 4, 5, 11, 13, 2]]


def table_of(model: Any, texts: Any = TEXTS, **more: Any) -> HeadTable:
    return hw.head_table(model, Signs(), texts, **{"random_tokens": False, **more})


Found = dict[str, list[tuple[float, float]]]  # by score, (score, chance) of each query


def of_self(p: Tensor, visible: Tensor, ids: list[int]) -> Found:
    """Scores of one head's whole pattern [T, T] by loops; ``positional`` by offset."""
    T = len(ids)
    found: Found = {}

    def note(name: str, score: float, chance: float) -> None:
        found.setdefault(name, []).append((score, chance))

    for i in range(T):
        seen = [j for j in range(T) if visible[i, j]]
        row = {j: float(p[i, j]) for j in seen}
        shares = {
            "previous_token": [j for j in seen if j == i - 1],
            "next_token": [j for j in seen if j == i + 1],
            "first_token": [j for j in seen if j == 0],
            "separator": [j for j in seen if j > 0 and ids[j] in SPECIAL],
            "locality": [j for j in seen if abs(i - j) < LOCAL],
            "duplicate_token": [j for j in seen if 0 < j < i and ids[j] == ids[i]],
            "induction": [j for j in seen if 0 < j < i and ids[j - 1] == ids[i]],
        }
        for name, keys in shares.items():
            if 0 < len(keys) < len(seen):
                note(name, sum(row[j] for j in keys), len(keys) / len(seen))
        if len(seen) < 2:
            continue
        nats = -sum(x * math.log(x) for x in row.values() if x > 0)
        note("entropy", nats, math.log(len(seen)))
        note("relative_entropy", nats / math.log(len(seen)), 1.0)
        if ids[i] in SPECIAL:
            continue
        words = [j for j in seen if ids[j] not in SPECIAL]
        if words:
            note("confidence", max(row[j] for j in words), 1 / len(seen))
        most = max(seen, key=lambda j: (row[j], -j))
        for o in range(-FARTHEST, FARTHEST + 1):
            note(f"positional{o}", float(most == i + o), (i + o in seen) / len(seen))
    return found


def of_cross(p: Tensor, ids: list[int], target: list[int]) -> Found:
    found: Found = {}
    S = len(ids)
    for i, token in enumerate(target):
        row = p[i].tolist()
        signs = [j for j in range(1, S) if ids[j] in SPECIAL]
        found.setdefault("first_token", []).append((row[0], 1 / S))
        found.setdefault("separator", []).append((sum(row[j] for j in signs), len(signs) / S))
        nats = -sum(x * math.log(x) for x in row if x > 0)
        found.setdefault("entropy", []).append((nats, math.log(S)))
        found.setdefault("relative_entropy", []).append((nats / math.log(S), 1.0))
        if token not in SPECIAL:
            best = max(row[j] for j in range(S) if ids[j] not in SPECIAL)
            found.setdefault("confidence", []).append((best, 1 / S))
    return found


def together(texts: list[Found]) -> dict[str, tuple[float, float, float]]:
    """Score, chance and half of the interval over texts, from the queries of each text."""
    found = {}
    for name in {name for text in texts for name in text}:
        parts = [text[name] for text in texts if name in text]
        queries = [pair for part in parts for pair in part]
        score, chance = (sum(pair[at] for pair in queries) / len(queries) for at in (0, 1))
        half = math.nan
        if len(parts) == 2:  # Student's t with one degree of freedom
            off = sum((sum(s for s, _ in part) - score * len(part)) ** 2 for part in parts)
            half = 12.7062047 * math.sqrt(2 * off) / len(queries)
        found[name] = (score, chance, half)
    offsets = {int(name.removeprefix("positional")): found.pop(name) for name in list(found) if "positional" in name}
    if offsets:
        best = max(offsets, key=lambda o: (round(offsets[o][0], 9), -abs(o), -o))
        found["positional"], found["best_offset"] = offsets[best], (best, 0.0, 0.0)
    return found


def check(row: Any, wanted: dict[str, tuple[float, float, float]]) -> None:
    best = wanted.pop("best_offset", None)
    scores = {name for name in SCORES if row.get(name) is not None} - {"contribution", "ov_copying"}
    assert scores == set(wanted)
    for name, (score, chance, half) in wanted.items():
        assert row[name] == pytest.approx(score, abs=1e-4 if "entropy" in name else 1e-5), name
        assert row[f"{name}_chance"] == pytest.approx(chance, abs=1e-9), name
        if math.isnan(half):
            assert row[f"{name}_low"] is row[f"{name}_high"] is None
        else:
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            assert (high - low) / 2 == pytest.approx(half, abs=1e-3 if "entropy" in name else 2e-4), name
            assert (high + low) / 2 == pytest.approx(score, abs=1e-4), name
    assert row["best_offset"] == (None if best is None else best[0])


def dense(model: Any, **batch: Any) -> Any:
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**batch, output_attentions=True)


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2", "gpt_oss", "bert", "roberta", "albert"])
def test_columns_equal_those_of_whole_patterns(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    causal, window = "causal" in zoo.families[family].features, 4 if "window" in zoo.families[family].features else 99
    texts: list[list[Found]] = []
    for ids in TEXTS:
        patterns = [p[0].double() for p in dense(model, input_ids=torch.tensor([ids])).attentions]
        i, j = torch.arange(len(ids))[:, None], torch.arange(len(ids))
        each = []
        for layer, p in enumerate(patterns):
            short = window if family == "mistral" or layer == 0 else 99
            visible = (j <= i) & (i - j < short) if causal else torch.ones(len(ids), len(ids), dtype=torch.bool)
            each += [of_self(head, visible, ids) for head in p]
        texts.append(each)
    table = table_of(model)
    assert len(table) == 8
    assert {row["attention"] for row in table.rows} == {"self"}
    for row, *found in zip(table.rows, *texts, strict=True):
        check(row, together(found))
    assert table.columns.index("induction_chance") == table.columns.index("induction") + 1
    assert ("next_token" in table.columns) == (not causal)
    assert max(row["first_token"] for row in table.rows) > 0.05  # no flat rows
    assert min(row["entropy"] for row in table.rows) < 1.5


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_encoder_decoder_and_cross_attention(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    start = model.config.decoder_start_token_id
    targets = [[start, *target] for target in TARGETS]
    table = table_of(model, targets=TARGETS)
    texts: list[dict[str, Found]] = []
    for ids, target in zip(TEXTS, targets, strict=True):
        output = dense(model, input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([target]))
        full, lower = torch.ones(len(ids), len(ids)), torch.ones(len(target), len(target)).tril()
        each = {}
        for at in range(2):
            for head in range(4):
                p = [x[at][0, head].double() for x in (output.encoder_attentions, output.decoder_attentions)]
                each[f"encoder {at}.{head}"] = of_self(p[0], full.bool(), ids)
                each[f"decoder {at}.{head}"] = of_self(p[1], lower.bool(), target)
                each[f"cross {at}.{head}"] = of_cross(output.cross_attentions[at][0, head].double(), ids, target)
        texts.append(each)
    assert len(table) == 24
    names = {site: n for n, site in enumerate(hw.sites(model))}
    for row in table.rows:
        site = row["site"]
        kind = "encoder" if site.startswith(("encoder", "model.encoder")) else "decoder"
        kind = "cross" if row["attention"] == "cross" else kind
        assert (kind == "cross") == ("EncDec" in site or "encoder_attn" in site)
        assert row["layer"] == names[site]
        number = next(int(part) for part in site.split(".") if part.isdigit())
        check(row, together([text[f"{kind} {number}.{row['head']}"] for text in texts]))


def test_without_targets_the_decoder_reads_the_text_again(zoo: Any) -> None:
    model = zoo.model("bart")
    again, given = table_of(model), table_of(model, targets=TEXTS)
    assert [dict(row) for row in again.rows] == [dict(row) for row in given.rows]


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_contribution_is_a_share_of_the_norms_that_a_layer_moves(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    table = table_of(model, TEXTS[:1])
    trace = hw.trace(model, input_ids=torch.tensor(TEXTS[:1]))
    patterns = dense(model, input_ids=torch.tensor(TEXTS[:1])).attentions
    for layer in range(2):
        v = trace.pattern(layer).v.double()[0]
        v = v.repeat_interleave(4 // len(v), 0)
        name = hw.sites(model)[layer]
        path = {"llama": f"{name}.o_proj", "gpt2": f"{name}.c_proj"}.get(family)
        weight = model.get_submodule(path or name.replace(".self", ".output.dense")).weight.detach()
        weight = weight.T if family == "gpt2" else weight
        carried = torch.stack([v[h] @ weight[:, 8 * h : 8 * h + 8].double().T for h in range(4)]).norm(dim=-1)
        mass = (patterns[layer][0].double() * carried[:, None]).sum(-1)  # [H, T]
        wanted = (mass / mass.sum(0)).mean(-1)
        for row in table.rows[4 * layer : 4 * layer + 4]:
            assert row["contribution"] == pytest.approx(float(wanted[row["head"]]), abs=1e-5)
            assert row["contribution_chance"] == 0.25
    assert "contribution" not in table_of(model, contribution=False).columns


def test_what_nothing_shows_is_absent(zoo: Any) -> None:
    table = table_of(zoo.model("llama"), [[5, 6, 7, 8]])
    for row in table.rows:
        assert row["induction"] is row["induction_chance"] is row["duplicate_token"] is None
        assert row["previous_token"] is not None
        assert row["previous_token_low"] is None  # one text has no interval
    assert "next_token" not in table.columns
    assert "locality" not in table.columns  # four tokens are all near each other
    assert "induction" in table.columns
    # a context of 64 is too short for 101 random tokens, and a model without logits copies nothing
    more = hw.head_table(zoo.model("bert"), None, TEXTS)
    assert all(row["prefix_matching"] is row["copying"] is None for row in more.rows)
    assert "ov_copying" not in more.columns


def test_one_query_makes_no_label(zoo: Any) -> None:
    one = torch.ones(1, dtype=torch.float64)
    found = estimate([Sums(one, one, 0 * one, one)])
    assert float(found.score) == 1
    assert float(found.error) == math.inf
    assert not clears(SCORES["induction"], 1.0, 0.0, float(found.error))


def test_the_interval_is_students_over_the_means_of_equal_texts() -> None:
    generator = torch.Generator().manual_seed(0)
    values, chance = torch.rand(5, 3, 7, generator=generator).double(), torch.full((5, 3, 7), 0.25).double()
    where = torch.ones(1, 3, 7, dtype=torch.bool)
    found = estimate([Sums.over(values[n : n + 1], chance[n : n + 1], where) for n in range(5)])
    means = values.mean(-1)
    half = 2.7764451 * means.std(0) / 5**0.5
    torch.testing.assert_close(found.score, means.mean(0))
    torch.testing.assert_close(found.high - found.score, half)
    torch.testing.assert_close(found.score - found.low, half)
    over_queries = (values - 0.25).transpose(0, 1).flatten(1).std(-1) / 35**0.5
    torch.testing.assert_close(found.error, torch.maximum(means.std(0) / 5**0.5, over_queries))
    assert [round(student(n), 3) for n in (1, 2, 3, 4, 5, 30)] == [12.706, 4.303, 3.182, 2.776, 2.571, 2.042]


def test_a_head_built_to_look_at_the_token_before() -> None:
    (row,) = table_of(previous_token_head()).rows
    assert row["previous_token"] == pytest.approx(1, abs=1e-4)
    assert row["positional"] == 1
    assert row["best_offset"] == -1
    assert row["entropy"] == pytest.approx(0, abs=1e-3)
    assert row["ov_copying"] > 0.9
    assert row["label"] == "positional, previous token, local"


def test_flat_heads_score_their_chance_level(zoo: Any) -> None:
    model = zoo.model("mistral")
    with torch.no_grad():
        for site in hw.sites(model):
            model.get_submodule(site).q_proj.weight.zero_()
    for row in table_of(model).rows:
        for name in ("previous_token", "first_token", "separator", "induction", "duplicate_token", "entropy"):
            if row[name] is not None:
                assert row[name] == pytest.approx(row[f"{name}_chance"], abs=1e-5)
        assert row["label"] == "broad"


def test_even_heads_see_what_a_mask_or_a_bias_shows() -> None:
    x = torch.randn(2, 3, 7, 4)
    bias = torch.zeros(1, 3, 7, 7).masked_fill(torch.rand(1, 3, 7, 7) > 0.5, float("-inf"))
    rules = {"mask": hw.Causal() & hw.Padding(torch.tensor([7, 4])), "scores": (hw.Bias(bias),), "q_start": 0}
    p = hw.Pattern(x, x, **rules)[:]
    even = evenly(hw.Pattern(x, x, **rules, sinks=torch.ones(3)))[:]
    visible = p > 0
    torch.testing.assert_close(even, visible / visible.sum(-1, keepdim=True).clamp(min=1))


def test_heads_of_a_pruned_model_keep_their_numbers(zoo: Any) -> None:
    model = zoo.model("llama")
    whole = {(row["layer"], row["head"]): row for row in table_of(model).rows}
    prune(model, {0: [1, 2]})
    table = table_of(model)
    assert [(row["head"], row["original_head"]) for row in table.rows[:2]] == [(0, 0), (1, 3)]
    assert [row["original_head"] for row in table.rows[2:]] == [0, 1, 2, 3]
    assert table.rows[1]["entropy"] == pytest.approx(whole[0, 3]["entropy"], abs=1e-5)  # layer 0 reads the same


def test_layers_that_share_a_module_have_a_row_for_each_run(zoo: Any) -> None:
    table = table_of(zoo.model("albert"))
    first, second = table.rows[0]["site"], table.rows[4]["site"]
    assert second == f"{first}#1"
    assert [row["layer"] for row in table.rows] == [0] * 4 + [1] * 4
    assert set(table.labels) == {(layer, head) for layer in range(2) for head in range(4)}


def test_scoring_leaves_the_model_as_it_was(zoo: Any) -> None:
    model = zoo.model("llama")
    ids = torch.tensor(TEXTS[:1])
    with torch.no_grad():
        before, state = model(ids).logits, zoo.state(model)
        table_of(model)
        assert zoo.state(model) == state
        assert torch.equal(model(ids).logits, before)

    def stop(part: str, done: int, steps: int) -> None:
        if part == "texts" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table_of(model, progress=stop)
    assert zoo.state(model) == state


def test_progress_tells_how_far_each_part_is(zoo: Any) -> None:
    told: list[tuple[str, int, int]] = []
    table = table_of(zoo.model("llama"), progress=lambda *step: told.append(step))
    assert [step for step in told if step[0] == "texts"] == [
        ("texts", 0, 1), *(("texts", n, 4) for n in range(1, 5)), ("texts", 1, 1),
    ]  # fmt: skip
    assert list(table.seconds) == ["layout", "texts", "ov_copying"]
    assert all(seconds >= 0 for seconds in table.seconds.values())


def test_formats_hold_the_same_numbers(zoo: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is an extra")
    pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    table = table_of(zoo.model("bart"))
    for name in ("a.csv", "a.json", "a.parquet"):
        table.save(tmp_path / name)
    frame = table.to_pandas()
    assert list(frame.columns) == list(table.columns)
    assert len(frame) == len(table) == 24
    assert {str(frame[name].dtype) for name in ("layer", "head", "original_head")} == {"int64"}
    assert str(frame["best_offset"].dtype) == "Int64"  # heads of cross attention have none
    parquet = pandas.read_parquet(tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open() as file:
        lines = list(csv.DictReader(file))
    objects = json.loads((tmp_path / "a.json").read_text())
    assert table.to_json() == (tmp_path / "a.json").read_text()
    for at, row in enumerate(table.rows):
        assert objects[at] == dict(row)
        for name, value in row.items():
            assert lines[at][name] == ("" if value is None else str(value))
            for written in (frame[name][at], parquet[name][at]):
                assert pandas.isna(written) if value is None else written == value


def test_a_missing_package_is_one_sentence(zoo: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = table_of(zoo.model("llama"), TEXTS[:1])

    def without(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("headwise.heads.frame.import_module", without)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        table.to_pandas()
    with pytest.raises(UnavailableError, match="pip install pyarrow"):
        table.save(tmp_path / "a.parquet")
    table.save(tmp_path / "a.csv")
    assert [place.name for place in tmp_path.iterdir()] == ["a.csv"]


def test_sorted_shown_and_frozen(zoo: Any) -> None:
    table = table_of(zoo.model("llama"))
    ordered = table.sorted("induction", 3)
    scores = sorted((row["induction"] for row in table.rows), reverse=True)
    assert [row["induction"] for row in ordered.rows] == scores[:3]
    assert "8 heads" in repr(table)
    assert len(str(table).splitlines()) == 10
    header, cells = table.shown(["entropy", "induction"])
    assert header == ["head", "label", "entropy", "induction"]
    assert cells[5][0] == "1.1"
    with pytest.raises(TypeError):
        table.rows[0]["entropy"] = 3  # type: ignore[index]
    with pytest.raises(AttributeError):
        table.rows = ()  # type: ignore[misc]
    for bad in ({"by": "nothing"}, {"by": "site"}, {"top": 0}):
        with pytest.raises(SpecError, match="head_table"):
            table.sorted(**bad)  # type: ignore[arg-type]


def test_relations_and_retrieval_stand_in_the_table(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwise.heads import table as module
    from headwise.heads.relations import RelationScore
    from headwise.heads.retrieval import RetrievalScore

    # above 0.1 and sure; 0.1 itself; unsure; below chance
    scores, errors = (0.3, 0.1, 0.3, 0.01), (0.02, 0.001, 0.1, 0.001)
    retrieved = {(1, head): RetrievalScore(scores[head], 0.05, 45, 0.8, errors[head]) for head in range(4)}
    related = {(0, 2): {"nsubj": RelationScore(0.5, 0.25, 12, {"offset +1": 0.25})}}
    monkeypatch.setattr(module, "retrieval_scores", lambda *_, **__: retrieved)
    monkeypatch.setattr(module, "relation_scores", lambda *_: related)
    table = table_of(zoo.model("llama"), retrieval=True, relations="some.conllu")
    assert {"retrieval", "relations"} <= set(table.seconds)
    rows = {(row["layer"], row["head"]): row for row in table.rows}
    assert rows[0, 0]["retrieval"] is None
    assert (rows[1, 0]["retrieval"], rows[1, 0]["retrieval_chance"], rows[1, 0]["retrieval_n"]) == (0.3, 0.05, 45)
    assert [head for head in range(4) if "retrieval" in table.labels[1, head]] == [0]
    assert table.labels[1, 0][-1] == "retrieval"
    assert rows[1, 0]["label"] == ", ".join(table.labels[1, 0])
    ordered = table.sorted("retrieval")
    assert ordered.labels == table.labels
    assert "retrieval" in ordered.row_labels[0]
    assert (rows[0, 2]["relation:nsubj"], rows[0, 2]["relation:nsubj_chance"]) == (0.5, 0.25)
    assert rows[0, 2]["relation:nsubj_n"] == 12
    assert rows[0, 1]["relation:nsubj"] is None
    assert "retrieval" not in table_of(zoo.model("llama")).columns


@pytest.mark.parametrize(
    ("texts", "more", "kind", "told"),
    [
        ("a text", {}, SpecError, r"texts is a str; it is a list of texts. Write texts=\[text\]"),
        ([], {}, SpecError, "texts is empty"),
        ([[1]], {}, SpecError, "text 0 is 1 token;"),
        ([[1, 2], []], {}, SpecError, "text 1 is 0 tokens;"),
        ([[3, 4, 64]], {}, SpecError, "text 0 holds token 64; LlamaForCausalLM knows the tokens 0 to 63"),
        ([[3, 4], [-1, 3]], {}, SpecError, "text 1 holds token -1;"),
        ([[1] * 65], {}, SpecError, "text 0 has 65 tokens, the context is 64. Read its beginning with tokens=64"),
        ([[[1, 2]]], {}, ShapeError, r"text 0 is torch.int64; a text is a string or token ids, int64 \[T\]"),
        ([[0.5, 1.0]], {}, ShapeError, "text 0 is torch.float32"),
        ([3], {}, SpecError, "text 0 is a int; a text is a string or token ids"),
        ([{"a": 1}], {}, SpecError, "text 0 is a dict; a text is a string or token ids"),
        (["words"], {"tokenizer": None}, SpecError, "a text is a string and there is no tokenizer"),
        (["a \ud800 b"], {}, SpecError, "at position 2 of a text is half of a pair"),
        (TEXTS, {"tokens": 1}, SpecError, "tokens is 1;"),
        (TEXTS, {"tokens": 65}, SpecError, "tokens is 65, the context of LlamaForCausalLM is 64"),
        (TEXTS, {"targets": TARGETS}, SpecError, "has no decoder beside an encoder"),
        (TEXTS, {"retrieval": "yes"}, SpecError, "retrieval is 'yes'; it is True or False"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(zoo: Any, texts: Any, more: Any, kind: Any, told: str) -> None:
    model = zoo.model("llama")
    state = zoo.state(model)
    more = {"tokenizer": Signs(), "random_tokens": False, **more}
    with pytest.raises(kind, match=told) as raised:
        hw.head_table(model, texts=texts, **more)
    assert str(raised.value).startswith("head_table: ")
    assert zoo.state(model) == state


def test_models_that_cannot_be_scored_are_refused(zoo: Any) -> None:
    with pytest.raises(UnsupportedError, match="reads pixel_values"):
        table_of(zoo.model("vit"))
    with pytest.raises(SpecError, match="2 targets beside 1 texts"):
        table_of(zoo.model("bart"), TEXTS[:1], targets=TARGETS)
    with pytest.raises(UnsupportedError, match="interface"):
        hw.head_table(torch.nn.Linear(2, 2), None, TEXTS)


def test_a_longer_text_is_cut_where_tokens_says(zoo: Any) -> None:
    model = zoo.model("llama")
    cut, given = table_of(model, [TEXTS[0]], tokens=8), table_of(model, [TEXTS[0][:8]])
    assert [dict(row) for row in cut.rows] == [dict(row) for row in given.rows]
    assert cut.texts == (8,)


def test_places_that_cannot_be_written_are_said(zoo: Any, tmp_path: Path) -> None:
    table = table_of(zoo.model("llama"), TEXTS[:1])
    with pytest.raises(SpecError, match=r"ends in '.txt'; a table is a .csv, .json or .parquet file"):
        table.save(tmp_path / "a.txt")
    with pytest.raises(SpecError, match="cannot write"):
        table.save(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(SpecError, match="cannot write"):
        table.to_csv(tmp_path)


@pytest.mark.xdist_group("smollm2")
def test_a_real_model_on_our_own_texts() -> None:
    model, tokenizer = hw.load("smollm2")
    table = hw.head_table(model, tokenizer, tokens=16)
    assert len(table) == 270
    assert table.texts == (16,) * 8
    scores = sorted((row["prefix_matching"], row["layer"], row["head"]) for row in table.rows)
    assert scores[-1][1:] == (18, 6)
    assert scores[-1][0] > 0.85
    assert scores[-4][0] > 0.7
    assert scores[len(scores) // 2][0] < 0.03  # the median head is at chance
    assert "prefix matching" in table.labels[18, 6]
    sinks = [row for row in table.rows if row["first_token"] > 0.6]
    assert len(sinks) > 20
    assert all(row["previous_token_low"] <= row["previous_token"] <= row["previous_token_high"] for row in table.rows)
