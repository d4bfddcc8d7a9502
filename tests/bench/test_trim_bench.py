"""The bench of skeletons: which files and places, what each arm is given, what is reported; all of it on the strict fake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import trim, trim_sites
from bench.errors import BenchError
from bench.heart import Heart
from bench.holes_copy import Copy
from bench.holes_tree import SourceFile, Tree
from bench.trim_prompts import Prompts
from bench.trim_sites import references
from tests.bench.fake_heart import VOCAB, fake_heart

LONG = "".join(
    f"def measure_{word}(item, *, depth=0):\n    total_{word} = item.size + depth\n    total_{word} += 17\n"
    f"    while total_{word} > 100:\n        total_{word} //= 2\n    return total_{word}\n\n\n"
    for word in (f"{a}{b}" for a in ("wall", "roof", "floor", "door", "gate", "lane", "yard") for b in "abcdefgh")
)
_FEW = ("walla", "doora", "roofb", "gatec", "yardh")
SHORT = "\n\n\n".join(part for part in LONG.split("\n\n\n") if any(f"measure_{word}(" in part for word in _FEW)) + "\n"
USER = """from .house import measure_walla, measure_roofb, measure_yardh, measure_gatec


def sums(things, limit):
    first = measure_walla(things[0], depth=limit - 1)
    second = measure_roofb(things[1], depth=limit - 2)
    known = measure_gatec
    return first + second + measure_yardh(things[2], depth=limit)
"""


def tree(long: str = LONG, user: str = USER) -> Tree:
    made = {path: SourceFile(path, text.encode(), "python") for path, text in (("house.py", long), ("user.py", user))}
    return Tree("town", made)


def test_files_of_the_right_length_with_three_places_of_others() -> None:
    [found] = references([tree()], 9, 7)
    assert found.name == "town/house.py" and len(found.places) == 3
    assert {hole.name for hole in found.places} == {"measure_walla", "measure_roofb", "measure_yardh"}
    assert found.keep == {"measure_walla", "measure_roofb", "measure_yardh", "measure_gatec"}
    assert references([tree()], 9, 7) == (found,)
    short, twice = tree(LONG[:3000]), tree(LONG + USER.split("\n")[4] + "\n")
    for other in (short, twice, tree(user=USER.replace("measure_roofb(", "other("))):
        with pytest.raises(BenchError, match="name more folders"):
            references([other], 9, 7)


def test_what_each_arm_is_given() -> None:
    [found] = references([tree()], 1, 7)
    prompts = Prompts(VOCAB, "fake", 60_000)
    forms = trim.forms_of(found, prompts)
    assert forms["full"] == LONG.encode() and LONG.startswith(forms["tail"].decode()) and forms["tail"].endswith(b"\n")
    counts = {arm: prompts.count(text) for arm, text in forms.items()}
    assert counts["tail"] <= counts["skeleton"] < 0.6 * counts["full"]
    assert counts["tail"] > counts["skeleton"] - 60, "as many lines as there is room for"
    assert b"def measure_doora(item, *, depth=0): ..." in forms["skeleton"] and b"total_walla //= 2" in forms["skeleton"]
    heads = set()
    for hole in found.places:
        tokens, heal = prompts.prompt(found, forms["skeleton"], hole)
        text = prompts.text_of(tokens)
        at = text.index(b"measure_doora")
        heads.add(text[: text.index(b"measure_yardh")])
        assert at < text.index(b"from .house import") and (heal == b"(" or heal.startswith(b" "))
        assert USER.encode()[hole.start : hole.end] not in text
    assert len(heads) == 1, "the reference stands first, so that its tokens are shared"
    with pytest.raises(BenchError, match="does not fit"):
        Prompts(VOCAB, "fake", 900).prompt(found, LONG.encode(), found.places[0])


async def load_fake(config: object, max_tokens: int) -> Heart:
    """Right where the whole body of what is used can be seen."""

    def says(prompt: bytes, heal: bytes) -> str:
        return "things[0], depth=limit - 1)\n" if b"total_walla += 17" in prompt and b"total_yardh" in prompt else "no\n"

    return fake_heart(says, n_ctx=8_000)[0]


def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Heart, "load", load_fake)
    monkeypatch.setattr(trim, "N_CTX", 8_000)
    monkeypatch.setattr(trim_sites, "LINES", (30, 60))
    out = tmp_path / "out.jsonl"
    command = ["--root", str(Copy(tree(SHORT), tmp_path).root), "--n", "2", "--out", str(out), "--json"]
    assert trim.main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["n"], first["n_files"]) == (3, 1) and 0.2 < first["share"] < 1
    assert first["exact"] == {"skeleton": 1, "full": 1, "tail": 0}
    assert first["against"]["full"] == {"only_skeleton": 0, "only_full": 0, "points": 0.0, "p": 1.0}
    assert first["against"]["tail"] == {"only_skeleton": 1, "only_tail": 0, "points": 33.33, "p": 1.0}
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]))
    assert trim.main(command) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert trim.main(command[:-1]) == 0
    assert "3 places" in capsys.readouterr().out
