"""The record on the strict fake engine, and the figures made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench import quality
from bench.case_log import CaseLog
from bench.errors import BenchError
from bench.faults import Offer
from bench.offers import RULES, Replayed
from bench.places import Place
from bench.quality_report import Judging, figures, grouped, table, thresholds
from bench.recording import GROUP, MOST_TOKENS, Recorder
from inference.clients.base import EngineClient
from inference.run import Run
from inference.types import Costs
from tests.bench.test_faults import place
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.virtual import SteppedClient, run_virtual

ASKED = {
    "n", "offered", "offered_baseline", "mean_length_ratio", "exact", "exact_baseline", "edit_similarity", "new_syntax_errors",
    "duplicates", "repetition", "control_tokens", "undefined_names", "generated_tokens_ratio", "rules",
}  # fmt: skip
HEAD = "import data\n\ndef total(items):\n    result = "
LINE = replace(place(HEAD + "le", "n(data)", "\n    return result\n", language="python"), name="python/mid_line/1")
CALL = replace(place(HEAD + "len(", "data)", "\n", closers=")", kind="closer", language="python"), name="python/closer/1")
BODY = replace(
    place("def total(items):\n    ", "return len(items)", "\n\n\nprint(total([]))\n", kind="block_start", language="python"),
    name="python/block_start/1",
)
PLACES = (LINE, CALL, BODY)
SAYS = {  # beyond the cursor
    LINE.name: "n(data)\n    return result\n",
    CALL.name: "data)\n",
    BODY.name: "return len(items)\n\n\nprint(total([]))\n",
}


def recorded(path: Path, places: tuple[Place, ...] = PLACES) -> tuple[CaseLog, SteppedClient]:
    async def main() -> tuple[CaseLog, SteppedClient]:
        vocab = FakeVocab()
        client = SteppedClient(FakeBackend(vocab, n_ctx=8192, n_seq_max=5), n_ctx=2048, costs=Costs(0.0, 0.0), n_sequences=4)
        recorder = Recorder(cast(EngineClient, client), 2)
        for each in places:
            prompt = recorder.prompt(each)
            client.backend.scripts[prompt.tokens] = vocab.encode(prompt.heal) + vocab.encode(SAYS[each.name].encode())
        log = CaseLog(path, {"bench": "quality"})
        await recorder.record(places, log, "abc")
        await recorder.aclose()
        return log, client

    return cast(tuple[CaseLog, SteppedClient], run_virtual(main))


def test_each_place_is_asked_for_once_and_recorded_token_by_token(tmp_path: Path) -> None:
    accept = Run.accept
    log, client = recorded(tmp_path / "log")
    assert len(client.requests) == 3
    assert Run.accept is accept, "nothing is looked at any more"
    said = log.get(GROUP, LINE.name)
    assert said is not None
    assert "".join(said["pieces"]) == SAYS[LINE.name]
    assert len(said["pieces"]) == len(said["ends"]) and said["ends"] == sorted(said["ends"])
    assert said["finish"] == "stop" and said["end_logprob"] <= 0
    assert all(logprob <= 0 for logprob in said["logprobs"]) and len(said["logprobs"]) >= said["n_generated"] > 3
    assert said["commit"] == "abc"


def test_a_second_run_goes_on(tmp_path: Path) -> None:
    recorded(tmp_path / "log", PLACES[:2])
    log, client = recorded(tmp_path / "log")
    assert len(client.requests) == 1
    assert all(log.get(GROUP, each.name) for each in PLACES)


def test_the_model_sees_the_line_as_it_was_typed(tmp_path: Path) -> None:
    """The plan is that of the empty line: no closer of the editor is in the prompt, and what was removed is not either."""

    async def main() -> bytes:
        vocab = FakeVocab()
        client = SteppedClient(FakeBackend(vocab, n_ctx=8192), n_ctx=2048)
        recorder = Recorder(cast(EngineClient, client), 1)
        text = vocab.text(recorder.prompt(CALL).tokens)
        await recorder.aclose()
        return text

    text = run_virtual(main)
    assert text.endswith((b"    result = len(", b"    result = len"))
    assert b")" not in text.replace(b"total(items)", b"")


def test_the_report_has_what_was_asked_for(tmp_path: Path) -> None:
    log, _ = recorded(tmp_path / "log")
    made, offers = quality.report(PLACES, log)
    assert set(made) >= ASKED and set(made["rules"]) == set(RULES)
    assert (made["n"], made["offered"], made["offered_baseline"]) == (3, 3, 3)
    assert (made["exact"], made["mean_length_ratio"]) == (1.0, 1.0)
    assert made["duplicates"] == made["new_syntax_errors"] == 0
    assert made["baseline"]["duplicates"] >= 2, "the closer, and the lines below"
    assert made["generated_tokens_ratio"] < 1
    assert made["rules"]["line"]["generated_tokens_ratio"] >= made["generated_tokens_ratio"]
    assert [offer["offered"] for offer in offers if offer["place"] == BODY.name] == ["return len(items)"]
    assert set(made["kinds"]) == {"mid_line", "closer", "block_start"} and set(made["languages"]) == {"python"}
    assert json.loads(json.dumps(made)) == made
    shown = table(made)
    assert all(name in shown for name in ("all rules", "baseline", "closer", "python", *RULES))


def judged(where: Place, offer: Offer, *, raw: bool = False) -> Any:
    return Judging().judge(where, Replayed(offer, 5), is_raw=raw)


def test_what_is_exact() -> None:
    assert judged(LINE, Offer("n(data)")).is_exact
    assert judged(LINE, Offer("n(data)\n    other")).is_exact, "one line is compared"
    assert not judged(LINE, Offer("n(data")).is_exact
    assert judged(CALL, Offer("data")).is_exact and judged(CALL, Offer("data)", 1)).is_exact
    assert not judged(CALL, Offer("data)")).is_exact, "the document has two closers then"
    assert judged(CALL, Offer("data)"), raw=True).is_exact, "nobody settles the baseline's closers"
    assert judged(BODY, Offer("return len(items)")).is_exact
    assert not judged(BODY, Offer("return len(items)\n    x = 1")).is_exact, "a block is compared as a whole"


def test_a_judgement_of_the_baseline_is_none_of_the_rules() -> None:
    judging = Judging()
    assert judging.judge(CALL, Replayed(Offer("data)"), 5), is_raw=True).is_exact
    assert not judging.judge(CALL, Replayed(Offer("data)"), 5)).is_exact


def test_lengths_and_shares() -> None:
    short, long, none = judged(BODY, Offer("return")), judged(BODY, Offer(3 * "return len(items)")), judged(BODY, Offer(" "))
    made = figures([short, long, none], [long, long, long])
    assert made["offered"] == 2 and made["offered_baseline"] == 3
    assert made["mean_length_ratio"] == pytest.approx((6 / 17 + 1) / 2, abs=1e-3)
    assert made["mean_length_ratio_open"] == pytest.approx((6 / 17 + 3) / 2, abs=1e-3)
    assert made["exact"] == 0 and 0 < made["edit_similarity"] < 1
    assert made["generated_tokens_ratio"] == 1


def test_thresholds_and_groups() -> None:
    judging = Judging()
    sure = judging.judge(LINE, Replayed(Offer("n(data)"), 5, confidence=-0.05))
    unsure = judging.judge(BODY, Replayed(Offer("pass"), 5, confidence=-1.4))
    rows = {row["least"]: row for row in thresholds([sure, unsure])}
    assert (rows[-3.0]["offered"], rows[-3.0]["right"]) == (2, 0.5)
    assert (rows[-1.0]["offered"], rows[-1.0]["right"]) == (1, 1.0)
    by_kind = grouped((LINE, BODY), [sure, unsure], [sure, unsure], lambda where: where.kind)
    assert by_kind["mid_line"]["exact"] == 1.0 and by_kind["block_start"]["exact"] == 0.0


def test_a_replay_without_a_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="--replay"):
        quality.report(PLACES, CaseLog(None, {}))


def test_the_command_line_replays_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over folders of code, from a record of one place; nothing is loaded."""
    from bench import corpus, places, recording

    folder = tmp_path / "code"
    folder.mkdir()
    code = "".join(f"def function_{i}(value):\n    result = value + {i}\n    return result\n\n\n" for i in range(40))
    (folder / "it.py").write_text(code)
    (sampled,) = places.sample(corpus.of_folders([folder]), 1, 7)
    decisive = {"bench": "quality", "model": "m", "max_tokens": MOST_TOKENS, "window": recording.WINDOW.n_total}
    said = {"pieces": [sampled.truth], "ends": [1], "logprobs": [-0.1], "finish": "stop", "n_generated": 1, "commit": "abc"}
    CaseLog(tmp_path / "log", decisive).add(GROUP, sampled.name, said)
    options = ["--root", str(folder), "--n", "1", "--model", "m", "--out", str(tmp_path / "log"), "--replay", "--json"]
    assert quality.main([*options, "--offers", str(tmp_path / "offers")]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["n"], made["exact_baseline"], made["recorded"]) == (1, 1.0, "abc")
    assert json.loads((tmp_path / "offers").read_text())["place"] == sampled.name
