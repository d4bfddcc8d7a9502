"""stop-token-leak-02, fim-prompt-05: what differs between model families. Real vocabularies where there are files of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from inference.config import EngineConfig
from inference.llama.opening import open_engine
from tests.cases.case import Case
from tests.cases.drivers.prompts import TINY
from tests.cases.drivers.registry import driver
from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model, RecordingClient
from tests.support.family_vocab import ScriptVocab, family_vocab, write_family


@driver("stop-token-leak-02")
async def markers_of_each_family(case: Case) -> str:
    """The scripted model says the family's own end marker as the control token that it is in that family's vocabulary."""
    cursor, wanted = case.input["document"]["cursor"], case.expected["document_after_accept"]
    by_family = case.input["model"]["by_family"]
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for family, output in by_family.items():
            vocab = family_vocab(family, Path(folder))
            for tokens in _spellings(vocab, output):
                marker = next(token for token in tokens if token in vocab.stop_tokens)
                for script in (tokens, tokens[: tokens.index(marker) + 1] * 2):  # it would go on, or say it again
                    async with Scene(Model(vocab, (script,))) as scene:
                        scene.open(case.text)
                        text = await scene.accept(**cursor)
                        assert text == wanted, f"{family}: {text!r}"
                        await scene.idle()
            said.append(family)
    return f"{', '.join(said)}: {wanted!r}"


def _spellings(vocab: ScriptVocab, output: str) -> list[tuple[int, ...]]:
    """The output as tokens; a blank before the marker is a token of its own, or part of the marker's name."""
    tokens = [vocab.encode_special(output.replace(" <EOT>", " ▁<EOT>"))]
    if " <EOT>" in output:
        tokens.append(vocab.encode_special(output.replace(" <EOT>", "▁<EOT>")))
    assert all(not vocab.stop_tokens.isdisjoint(each) for each in tokens), f"no control token in {output!r}"
    return tokens


@driver("fim-prompt-05")
async def full_width_markers(case: Case) -> str:
    document, template = case.input["document"], case.input["model"]["template"]
    before = case.text[: case.text.index("\n")] + "\n"
    with tempfile.TemporaryDirectory() as folder:
        vocab = family_vocab(case.input["model"]["family"], Path(folder))
        ids = [vocab.encode_special(marker) for marker in template]
        assert all(len(each) == 1 for each in ids), f"not one id each: {ids}"
        begin, hole, end = (each[0] for each in ids)
        async with Scene(Model(vocab, (vocab.encode(b"a + b"),))) as scene:
            scene.open(case.text)
            text = await scene.accept(**document["cursor"])
            assert text == case.text.replace("return ", "return a + b"), f"{text!r}"
            prompt = scene.prompt
            marks = [token for token in prompt.tokens if token in vocab.stop_tokens]
            assert vocab.bos is not None and marks == [vocab.bos[0], begin, hole, end], f"{marks}"
            assert prompt.prefix.endswith(before) and prompt.after == "\n", f"{prompt}"
            assert prompt.typed + prompt.heal == "    return ", f"{prompt}"
        for marker in template:
            await _refused(write_family("deepseek-coder", Path(folder), without=marker), marker, case.text)
            Path(folder, "deepseek-coder-cut.gguf").unlink()
    return f"begin {begin}, hole {hole}, end {end}; without one of them the model is refused, and told so"


async def _refused(path: Path, marker: str, document: str) -> None:
    """The self-test at start fails loudly: one message, with the reason; the server stays up and answers empty."""

    def open_client(config: EngineConfig, on_progress: Callable[[float], None]) -> RecordingClient:
        engine, vocab = open_engine(config, path, path.parent, on_progress)
        return RecordingClient(engine, vocab)

    async with Scene(options={**TINY, "model": str(path)}, open_client=open_client, wait=False) as scene:
        told = await scene.client.until(lambda m: m.get("method") == "window/showMessage")
        assert "of the markers it has only" in told["params"]["message"] and marker not in told["params"]["message"], told
        scene.open(document)
        assert await scene.ask(1, 11, uri=URI) == []
        assert "of the markers it has only" in await scene.reason()
