"""fim-prompt, special-text-in-source. What is about the vocabulary itself is checked on a tiny real model, too."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from inference.config import EngineConfig
from inference.llama.opening import open_engine
from inference.llama.vocab import load_vocab
from tests.cases import checks, generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene
from tests.cases.scripted import Model, RecordingClient
from tests.support.client import span
from tests.support.layouts import markers_of
from tests.support.tiny_gguf import sentencepiece_vocabulary, write_tiny

TINY = {
    "n_threads": 1, "n_gpu_layers": 0, "prefill_ms_per_token": 1.0, "step_ms": 1.0, "n_ctx": 512, "max_tokens": 4,
    "typed_through": False, "adopt_ms": 0,
}  # fmt: skip


def tiny_scene(folder: Path, *, add_bos: bool = False) -> Scene:
    """A server over a tiny real model, in this process. Every request is a prompt of its own."""
    path = write_tiny(folder / "tiny.gguf", add_bos=add_bos)

    def open_client(config: EngineConfig, on_progress: Callable[[float], None]) -> RecordingClient:
        engine, vocab = open_engine(config, path, folder, on_progress)
        return RecordingClient(engine, vocab)

    return Scene(options={**TINY, "model": str(path)}, open_client=open_client)


@driver("fim-prompt-01")
async def beginning_of_sequence(case: Case) -> str:
    """That BOS comes at most once and first, and each marker once, is asserted for every prompt that a test looks at."""
    document, cursor = case.text, case.input["document"]["cursor"]
    before, after = document[: cursor["character"]], document[cursor["character"] :]
    with tempfile.TemporaryDirectory() as folder:
        for scene in (Scene(Model.of_case(case.input["model"])), tiny_scene(Path(folder), add_bos=True)):
            async with scene:
                scene.open(document)
                await scene.ask(**cursor)
                prompt, engine = scene.prompt, scene.engine
                assert engine is not None
                assert engine.vocab.bos is not None and prompt.tokens[0] == engine.vocab.bos[0], "BOS is missing"
                assert (prompt.before, prompt.after) == (before, after), f"{prompt}"
        blanks = load_vocab(write_tiny(Path(folder) / "blanks.gguf", vocabulary=sentencepiece_vocabulary()))
        for text in (before, after, after.strip()):
            spelled = b"".join(blanks.pieces[token] for token in blanks.encode(text.encode()))
            assert spelled == text.encode(), f"a blank in front: {spelled!r}"
    return f"{before!r} and {after!r}"


@driver("fim-prompt-02")
async def half_a_word(case: Case) -> str:
    document, cursor = case.text, case.input["document"]["cursor"]
    async with Scene(Model.saying("count()")) as scene:
        scene.open(document)
        text = await scene.accept(**cursor)
        prompt = scene.prompt
        assert prompt.before == "value = get_" and prompt.after == "\n", f"{prompt}"
        assert prompt.heal.endswith("get_"), f"'get_' is sent as tokens: {prompt}"
        assert prompt.prefix == "", f"the line's text stands before SUF: {prompt}"
        assert text == "value = get_count()\n", f"{text!r}"
    return f"healed {prompt.heal!r}"


@driver("fim-prompt-04")
async def no_suffix(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        prompt = scene.prompt
        assert prompt.after == "" and prompt.before == case.text, f"{prompt}"
        assert not scene.logs.above(20)
    return "PRE … SUF MID"


@driver("special-text-in-source-02")
async def markers_in_the_text(case: Case) -> str:
    """On the scripted model and on a tiny real one; after edits, too, where the token table is not fresh."""
    cursor = case.input["document"]["cursor"]
    with tempfile.TemporaryDirectory() as folder:
        for scene in (Scene(), tiny_scene(Path(folder))):
            async with scene:
                scene.open(case.text)
                await scene.ask(**cursor)
                for new in ("u = 1\n", "<|fim_prefix|>", "<|fim_middle|>\n", "\n\n"):
                    scene.change({"range": span(0, 0, 0, 0), "text": new})
                    cursor = {**cursor, "line": cursor["line"] + new.count("\n")}
                    await scene.ask(**cursor)
                    engine, prompt = scene.engine, scene.prompt
                    assert engine is not None
                    assert prompt.before + prompt.after == scene.texts["file:///w/app/main.py"], f"{prompt}"
                    encode = engine.vocab.encode
                    prefix, after = encode(prompt.prefix.encode()), encode(prompt.after.encode())
                    fresh = (*prefix, *after, *encode(prompt.typed.encode()))
                    body = prompt.tokens[prompt.tokens.index(markers_of(engine.vocab.fim).prefix) :]
                    assert tuple(t for t in body if t not in engine.vocab.stop_tokens) == fresh, "not the fresh ids"
            cursor = case.input["document"]["cursor"]
    return "markers in the text are text"
