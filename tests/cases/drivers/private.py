"""private-files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest import mock

from tests.cases import checks, generic, options
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene
from tests.cases.scripted import Model


@driver("private-files-01")
async def by_path_only(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        reason = await scene.reason()
        assert "exclude" in reason, reason
    document = case.input["document"]
    async with Scene(Model.saying("$KEY")) as scene:
        script = document["uri"].replace(".env", "run.sh")
        scene.open(case.text, script, document["languageId"])
        assert await scene.ask(**document["cursor"], uri=script), "a script of the same language is silent, too"
    return reason


@driver("private-files-02")
async def kept_out_of_everything(case: Case) -> str:
    """The secret is looked for in all that was given to the tokenizer, in every log line, in what the store keeps and on disk;
    once as opened, once after edits of the private file."""
    secrets = case.expected["prompt_must_not_contain"]
    model = Model.of_case(options.named({"model": case.input["model"]}))
    encoded: list[bytes] = []
    encode = model.vocab.encode

    def noted(text: bytes) -> tuple[int, ...]:
        encoded.append(text)
        return encode(text)

    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(
        os.environ, {"XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder}
    ), mock.patch.object(model.vocab, "encode", noted):
        async with Scene(model, options.settings(case.input)) as scene:
            played = await generic.play(scene, case)
            checks.check(played, case.expected)
            assert played.last.after_accept.endswith("os.environ['TOKEN']\n"), f"{played.last.after_accept!r}"
            private = case.input["setup"]["open"][0].partition(": ")[0]
            assert scene.server_text(private) == "", "the store keeps it"
            scene.client.change(private, {"text": f"TOKEN={secrets[0]}-2\n"})
            await scene.ask(0, 6, uri=private)
            cursor = case.input["document"]["cursor"]
            await scene.ask(cursor["line"], cursor["character"], invoked=True)
            checks.check(played, {"prompt_must_not_contain": secrets})
            for secret in secrets:
                assert not any(secret.encode() in text for text in encoded), "it is in a token table"
                assert secret not in scene.logs.text, "it is in the log"
                assert secret not in scene.server_text(private), "the store keeps it"
                files = [path for path in Path(folder).rglob("*") if path.is_file()]
                assert not any(secret.encode() in path.read_bytes() for path in files), "it is on disk"
    return f"{len(encoded)} texts tokenized, none of them private"
