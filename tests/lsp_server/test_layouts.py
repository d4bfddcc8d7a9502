"""Which layout a model gets; and that every family's prompt is, token by token, what its publisher documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from context.fim import render
from context.plan import make_plan
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Limits
from inference.llama.vocab import LlamaVocab, load_vocab
from inference.types import EngineError
from lsp_server.plans.layouts import NO_NAME, choose_layout, file_name
from tests.support.family_vocab import ScriptVocab, family_vocab
from tests.support.fixture import cursor_in
from tests.support.tiny_gguf import write_tiny

LIMITS = Limits(n_prefix=400, n_suffix=100, n_total=800)
FILE = FileName("src/main.py", "shop")
CODE = "import os\n\ndef add(a, b):\n$0    return a + b\n"
P, S = "import os\n\ndef add(a, b):\n", "    return a + b\n"

# What the publisher's tokenizer is given, and reads with its control tokens. A control token's own blank is U+2581.
DOCUMENTED = {
    "qwen2.5-coder": "<|repo_name|>shop\n<|file_sep|>src/main.py\n<|fim_prefix|>{P}<|fim_suffix|>{S}<|fim_middle|>",
    "codegemma": "src/main.py\n<|fim_prefix|>{P}<|fim_suffix|>{S}<|fim_middle|>",
    "granite-4": "<|fim_prefix|>{P}<|fim_suffix|>{S}<|fim_middle|>",
    "mellum": "<filename>src/main.py\n<fim_suffix>{S}<fim_prefix>{P}<fim_middle>",
    "starcoder2": "<repo_name>shop<file_sep><fim_prefix>src/main.py\n{P}<fim_suffix>{S}<fim_middle>",
    "granite": "<fim_prefix>{P}<fim_suffix>{S}<fim_middle>",
    "starcoder": "<fim_prefix>{P}<fim_suffix>{S}<fim_middle>",
    "stable-code": "<fim_prefix>{P}<fim_suffix>{S}<fim_middle>",
    "santacoder": "<fim-prefix>{P}<fim-suffix>{S}<fim-middle>",
    "deepseek-coder": "<｜fim▁begin｜>#src/main.py\n{P}<｜fim▁hole｜>{S}<｜fim▁end｜>",
    "codellama": "▁<PRE> {P}▁<SUF>{S}▁<MID>",
    "codestral": "[SUFFIX]{S}[PREFIX] +++++ src/main.py\n{P}",
    "seed-coder": "<[fim-suffix]>{S}<[fim-prefix]>{P}<[fim-middle]>",
}
# The same without a path, where that makes a difference.
UNNAMED = {
    "qwen2.5-coder": "<|fim_prefix|>{P}<|fim_suffix|>{S}<|fim_middle|>",
    "starcoder2": "<fim_prefix>{P}<fim_suffix>{S}<fim_middle>",
    "deepseek-coder": "<｜fim▁begin｜>{P}<｜fim▁hole｜>{S}<｜fim▁end｜>",
    "codestral": "[SUFFIX]{S}[PREFIX] {P}",
}
BEHIND_MIDDLE = {
    "starcoder2": "<repo_name>shop<file_sep><fim_prefix><fim_suffix>{S}<fim_middle>src/main.py\n{P}",
    "starcoder": "<fim_prefix><fim_suffix>{S}<fim_middle>{P}",
    "santacoder": "<fim-prefix><fim-suffix>{S}<fim-middle>{P}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


def prompt_of(vocab: LlamaVocab, fixture: str, wanted: str, file: FileName) -> tuple[tuple[int, ...], bytes]:
    text, cursor = cursor_in(fixture)
    snapshot = DocumentSnapshot("file:///shop/src/main.py", 1, "python", Text.of(text))
    table = TokenTable(vocab, vocab.pre_type)
    plan = make_plan(snapshot, cursor, LIMITS, table, choose_layout(wanted, vocab, "the model"), file=file)
    prompt = render(plan, snapshot, cursor, table)
    return prompt.tokens, prompt.heal


def documented(vocab: ScriptVocab, text: str) -> tuple[int, ...]:
    head = () if vocab.bos is None else (vocab.bos[0],)
    return head + vocab.encode_special(text.replace("{P}", P).replace("{S}", S))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_prompt_is_the_documented_one(folder: Path, name: str) -> None:
    vocab = family_vocab(name, folder)
    assert prompt_of(vocab, CODE, "auto", FILE) == (documented(vocab, DOCUMENTED[name]), b"")
    unnamed = UNNAMED.get(name, DOCUMENTED[name].replace("<filename>src/main.py\n", "").replace("src/main.py\n", ""))
    assert prompt_of(vocab, CODE, "auto", NO_NAME) == (documented(vocab, unnamed), b"")
    if vocab.fim is not None and vocab.fim.psm:
        assert prompt_of(vocab, CODE, "psm", FILE) == (documented(vocab, DOCUMENTED[name]), b"")


@pytest.mark.parametrize("name", BEHIND_MIDDLE)
def test_the_other_order_of_families_trained_on_both(folder: Path, name: str) -> None:
    vocab = family_vocab(name, folder)
    assert prompt_of(vocab, CODE, "spm", FILE)[0] == documented(vocab, BEHIND_MIDDLE[name])


@pytest.mark.parametrize("name", DOCUMENTED)
def test_typed_text_goes_where_the_model_writes(folder: Path, name: str) -> None:
    """Prefix first: behind the middle marker. Suffix first: behind the prefix. The last word is healed in both."""
    vocab = family_vocab(name, folder)
    bare, _ = prompt_of(vocab, CODE, "auto", FILE)
    fixture = CODE.replace("$0    return a + b", "    retu$0rn a + b").replace("rn a + b", "")
    tokens, heal = prompt_of(vocab, fixture, "auto", FILE)
    assert heal == b" retu"
    sent = vocab.encode(b"   ")
    layout = choose_layout("auto", vocab, "m")
    if layout.name == "anchored":
        assert layout.tail == () and tokens[-len(sent) - 1 :] == (bare[-1], *sent)
    else:
        assert tokens[len(tokens) - len(layout.tail) - len(sent) :] == sent + layout.tail


def test_left_to_right_shows_only_what_is_before(folder: Path, tmp_path: Path) -> None:
    plain = load_vocab(write_tiny(tmp_path / "plain.gguf", fim=False))
    tokens, heal = prompt_of(plain, CODE.replace("$0", "    x = ma$0"), "ltr", FILE)
    assert b"".join(plain.pieces[t] for t in tokens) + heal == (P + "    x = ma").encode() and heal == b" ma"
    stars = family_vocab("starcoder2", folder)
    assert prompt_of(stars, CODE, "ltr", FILE)[0] == stars.encode(f"src/main.py\n{P}".encode())


@pytest.mark.parametrize(
    ("name", "wanted", "says"),
    [
        ("qwen2.5-coder", "spm", 'with the prefix first only, so the layout spm would give nonsense; set layout = "auto"'),
        ("mellum", "anchored", "suffix first only, so the layout anchored"),
        ("codestral", "psm", "suffix first only, so the layout psm"),
    ],
)
def test_a_layout_the_model_was_not_trained_for_is_refused(folder: Path, name: str, wanted: str, says: str) -> None:
    with pytest.raises(EngineError, match="the model") as refusal:
        choose_layout(wanted, family_vocab(name, folder), "the model")
    assert says in str(refusal.value)


def test_a_model_that_can_not_fill_in_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    plain = load_vocab(write_tiny(tmp_path / "plain.gguf", fim=False))
    for wanted in ("auto", "anchored", "psm", "spm"):
        with pytest.raises(EngineError, match=r"no fill-in-the-middle tokens.*models list.*ltr"):
            choose_layout(wanted, plain, "SmolLM2")


@pytest.mark.parametrize(
    ("doc_id", "roots", "path", "repository"),
    [
        ("file:///w/shop/src/a%20b.py", ("/w/shop",), "src/a b.py", "shop"),
        ("file:///w/shop/src/é.py", ("/w", "/w/shop"), "src/é.py", "shop"),
        ("file:///w/shopping/a.py", ("/w/shop",), "a.py", "shopping"),
        ("file:///home/me/secret-project/a.py", (), "a.py", "secret-project"),
        ("file:///w/shop/a%0Ab.py", ("/w/shop",), "a b.py", "shop"),
        ("file:///a.py", ("/",), "a.py", ""),
        ("untitled:Untitled-1", ("/w",), "", ""),
        ("vscode-notebook-cell:/w/shop/n.ipynb#c1", ("/w/shop",), "", ""),
        ("demo:typing.py", (), "", ""),
    ],
)
def test_what_a_model_is_told_of_a_files_place(doc_id: str, roots: tuple[str, ...], path: str, repository: str) -> None:
    assert file_name(doc_id, roots) == FileName(path, repository)
