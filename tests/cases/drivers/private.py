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
from tests.cases.workspaces import cache_of, kept_in, paths_of, until, workspace


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

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder}),
        mock.patch.object(model.vocab, "encode", noted),
    ):
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
                assert not any(secret.encode() in data for data in kept_in(Path(folder)).values()), "it is on disk"
    await _indexed(case)
    return f"{len(encoded)} texts tokenized, none of them private"


async def _indexed(case: Case) -> None:
    """The same files in a workspace that is indexed: the private one is in no row and in no file of the cache."""
    secrets = case.expected["prompt_must_not_contain"]
    uri, _, text = case.input["setup"]["open"][0].partition(": ")
    document = case.input["document"]
    main = document["uri"].rpartition("/")[2]
    files = {uri.rpartition("/")[2]: text, main: f"def shown(): ...\n{document['text']}"}
    async with workspace(files, Model.saying("x")) as (scene, root):
        await until(lambda: paths_of(scene, "shown"))
        (root / ".env").write_text(f"{text}SECOND={secrets[0]}\n")
        (root / "main2.py").write_text("def later(): ...\n")
        await until(lambda: paths_of(scene, "later"))
        for path, data in kept_in(cache_of(root)).items():
            assert not any(secret.encode() in data for secret in secrets), f"it is in {path}"
        assert not any(secret in scene.logs.text for secret in secrets), "it is in the log"
