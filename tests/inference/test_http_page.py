"""`docs/http.md` against the engine: what it can be asked, what it answers, and every bound that the page names."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from inference import call
from inference.call import Call, decode_call
from inference.endpoint import make_key
from inference.serve import metrics
from inference.serve.limits import Limits
from inference.types import ClaimKind, Costs, Counters, EngineStats, FinishReason, GenerationStats, Priority
from inference.wire import PROTOCOL, EngineState, Hello, News
from tests.support.served import Served, run, serving

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
SERVE = ROOT / "inference" / "serve"


def section(title: str) -> str:
    (found,) = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return str(found)


def first_cells(text: str) -> list[str]:
    """What stands in backticks in the first cell of each row."""
    return [
        name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]


def test_every_page_is_on_the_page_and_no_other(tmp_path: Path) -> None:
    async def main() -> set[tuple[str, str]]:
        async with serving(tmp_path) as served:
            return {(r.method, r.resource.canonical) for r in application(served).router.routes() if r.resource is not None}

    named = {
        (method, path)
        for method, cell in re.findall(r"^\| (GET|POST|PUT) \| ([^|]+) \|", section("Pages"), re.M)
        for path in re.findall(r"`([^`]+)`", cell)
    }
    assert named == run(main)


def application(served: Served) -> Any:
    return served.listening._runner.app


def test_every_field_of_a_request_is_on_the_page_and_no_other() -> None:
    openai, own = section("Completions").split("Fields of our own")
    understood, refused = openai.split("These are refused")
    body = set(re.findall(r'body\.get\("(\w+)"\)', Path(call.__file__).read_text(encoding="utf-8"))) - {"midfill"}
    assert set(first_cells(understood)) == body
    named = re.findall(r"`(\w+)`", refused.split("Others")[0])
    assert sorted(named) == sorted(call._UNSUPPORTED)
    assert set(first_cells(own.split("###")[0])) == call._OWN


def test_the_defaults_and_bounds_are_those_of_the_code() -> None:
    text = section("Completions")
    usual = decode_call({"prompt": "a", "seed": 1})
    rows = {row[0]: row[1] for row in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text, re.M)}
    sampling = usual.sampling
    for name, value in {
        "max_tokens": usual.n_max, "n": usual.n_candidates, "temperature": sampling.temperature, "top_p": sampling.top_p,
        "min_p": sampling.min_p, "adopt_ms": usual.adopt_ms, "repeat_penalty": sampling.repeat_penalty,
        "repeat_last_n": sampling.repeat_last_n,
    }.items():  # fmt: skip
        assert float(rows[name]) == value, name
    assert rows["priority"] == f"`{usual.priority.name.lower()}`"
    assert rows["stream"] == rows["first_line"] == "false" and not usual.is_stream and not usual.first_line
    assert f"up to {call.MAX_STOPS} texts of 1 to {call.MAX_STOP} characters" in text
    assert f"of up to {call.MAX_HEAL:,} bytes" in text and f"1 to {call.MAX_CANDIDATES}" in text
    assert ", ".join(f"`{p.name.lower()}`" for p in list(Priority)[:-1]) in text


def test_the_requests_in_the_examples_are_taken_as_they_are_meant() -> None:
    bodies = [json.loads(found) for found in re.findall(r"/v1/completions .*?-d '\n?(.*?)'", PAGE, re.S)]
    whole, stream = map(decode_call, bodies)
    assert whole.stops == ("\n",) and not whole.is_stream and whole.n_max == 8
    assert isinstance(stream, Call) and stream.heal == b" wid" and stream.deadline_ms == 400 and stream.is_stream
    (cancel,) = [json.loads(found) for found in re.findall(r"/midfill/cancel -d '(.*?)'", PAGE)]
    assert cancel == {"name": stream.name}


def like(example: Any, real: Any, place: str = "") -> None:
    """The real value has what the example has, in the same places; what the example tells in full has nothing more."""
    if isinstance(example, dict):
        shown_in_part = place.rpartition(".")[2] in ("stats", "counters", "costs")
        assert example.keys() <= real.keys() if shown_in_part else example.keys() == real.keys(), place
        for name, value in example.items():
            like(value, real[name], f"{place}.{name}")
    elif isinstance(example, list):
        for one, other in zip(example, real, strict=bool(example)):
            like(one, other, f"{place}[]")


def test_the_answers_in_the_examples_have_the_shape_of_real_ones(tmp_path: Path) -> None:
    answer, refusal = (json.loads(found) for found in re.findall(r"```json\n(.*?)```", PAGE, re.S))

    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            body = {"prompt": "value = ", "max_tokens": 3, "temperature": 0}
            async with session.post("/v1/completions", json=body) as response:
                like(answer, await response.json())
            async with session.get("/health") as response:
                assert set(await response.json()) == {"status", "share", "why"}
            async with session.get("/midfill/stats") as response:
                assert all(f"`{name}`" in section("Greeting") for name in await response.json())
        strange = {"Authorization": "Bearer x"}
        async with (
            serving(tmp_path, tcp=True) as served,
            served.session() as session,
            session.get("/health", headers=strange) as response,
        ):
            assert (response.status, await response.json()) == (401, refusal)

    run(main)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Completions", GenerationStats),
        ("Completions", Counters),
        ("Completions", Costs),
        ("Greeting", Hello),
        ("Leases and the end", News),
    ],
)
def test_every_field_of_an_answer_is_named(title: str, kind: Any) -> None:
    text = section(title)
    assert not [field.name for field in fields(kind) if not re.search(rf"[`\"]{field.name}[`\"]", text)]


def test_ends_states_and_kinds_are_all_told() -> None:
    ends = section("Completions").split("`midfill.finish`")[1]
    assert set(first_cells(ends)) == set(FinishReason)
    assert set(first_cells(section("Leases and the end"))) - {"state"} == set(EngineState)
    assert all(kind in section("Metrics") for kind in ClaimKind)
    assert f"`protocol` ({PROTOCOL})" in PAGE


def test_every_code_and_status_of_a_refusal_is_told() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SERVE.glob("*.py"))
    text = section("Errors")
    refusals = re.findall(r'Refused\((\d{3}),(?:[^()]|\([^()]*\))*?(?:, "([a-z_]+)")?[,)]', source)
    assert len(refusals) > 15
    told = {int(status): row for status, row in re.findall(r"^\| (\d{3}) \| (.*)$", text, re.M)}
    assert {int(status) for status, _ in refusals} <= set(told)
    codes = set(
        re.findall(r'"((?:[a-z]+_)+(?:exceeded|key|found|url|taken|large)|busy|loading|failed|draining|engine_error)"', source)
    )
    assert {code for code in codes if f"`{code}`" not in text} == set()


def test_the_limits_are_those_of_the_code() -> None:
    limits, text = Limits(), section("Limits")
    n_ctx = 4096
    assert limits.body_bytes == 8 << 20 and limits.body_bytes_for(n_ctx) == (64 << 10) + 64 * n_ctx
    assert dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.M)) == {
        "body": "64 KiB and 64 bytes for each token of the context, never more than 8 MiB",
        "time for a body to arrive": f"{limits.body_s:g} s",
        "connection without a request, or with a header that does not end": f"{limits.idle_s:g} s",
        "time for a client to read what was written, before it is cut off": f"{limits.write_s:g} s",
        "connections, of one peer": f"{limits.n_connections}, {limits.n_connections_per_peer}",
        "requests at once, of one peer": f"{limits.n_running}, {limits.n_running_per_peer}",
        "leases": f"{limits.n_leases}",
    }
    assert f"quiet for {limits.quiet_s:g} seconds" in PAGE


def test_every_metric_is_on_the_page_and_no_other() -> None:
    source = Path(metrics.__file__).read_text(encoding="utf-8")
    made = set(re.findall(r'"((?:midfill|process)_\w+)"', source))
    numbers = [field.name for field in fields(EngineStats) if field.type not in ("str", "Counters")]
    made |= {f"midfill_engine_{name.removeprefix('n_')}" for name in numbers if name != "drafts"}
    made |= {f"midfill_draft_{name.removeprefix('n_')}" for name in metrics.DRAFTS}
    assert set(first_cells(section("Metrics"))) == made


def test_a_key_is_as_long_as_the_page_says(tmp_path: Path) -> None:
    assert "16 to 512 printable\ncharacters" in PAGE and 16 <= len(make_key(tmp_path / "key")) <= 512


def test_the_architecture_names_the_same_pages() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    own = set(re.findall(r"`(/midfill/[^`]+)`", section("Pages")))
    table = text.split("## Protocol beyond LSP", 1)[1].split("\n## ", 1)[0]
    assert {
        path for line in table.splitlines() if line.startswith("| ") for path in re.findall(r"`(/midfill/[^`]+)`", line)
    } == own
    assert "docs/http.md" in table and "docs/http.md" in (ROOT / "README.md").read_text(encoding="utf-8")
