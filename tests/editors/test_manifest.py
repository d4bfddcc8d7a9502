"""The manifest of the extension for VS Code, against the server's settings and the extension's own source; the list of
behaviours, and the pages for people. Needs no editor.
"""

from __future__ import annotations

import json
import re
from typing import Any

from editors.vscode import settings
from lsp_server.config import Config, Sources, load, rooms
from tests.editors.editor import ROOT

FOLDER = ROOT / "editors/vscode"
MANIFEST: dict[str, Any] = json.loads((FOLDER / "package.json").read_text())
CONTRIBUTES = MANIFEST["contributes"]


def _schemas() -> dict[str, dict[str, Any]]:
    return {name: schema for page in CONTRIBUTES["configuration"] for name, schema in page["properties"].items()}


def test_settings_are_those_of_the_server() -> None:
    assert (FOLDER / "package.json").read_text() == settings.render(), "run `python -m editors.vscode.settings`"


def test_the_server_takes_every_setting_as_the_editor_spells_it_and_its_default_is_the_servers() -> None:
    sent = {name.partition(".")[2]: schema["default"] for name, schema in _schemas().items() if name.count(".") == 1}
    assert len(sent) == len(list(rooms(Config())))
    config, problems = load(Sources(client=sent))
    assert problems == ()
    for room, part, one in rooms(Config()):
        assert getattr(getattr(config, room), one.name) == getattr(part, one.name), one.name


def test_what_starts_programs_or_names_places_counts_only_in_trusted_workspaces() -> None:
    restricted = MANIFEST["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    assert set(restricted) <= set(_schemas())
    telling = re.compile(r"address|director|\bfile with|path of|program|\bPython\b|lets a file|log may hold", re.I)
    for name, schema in _schemas().items():
        if schema["type"] in ("string", "array") and telling.search(schema["markdownDescription"]):
            assert name in restricted, name


def test_every_command_that_is_offered_is_there_and_every_one_that_is_there_is_offered() -> None:
    offered = {command["command"] for command in CONTRIBUTES["commands"]}
    source = (FOLDER / "src/commands.ts").read_text()
    assert offered == set(re.findall(r"^    '(midfill\.\w+)':", source, re.M))
    named = set(re.findall(r"command:([\w.]+)", json.dumps(CONTRIBUTES["walkthroughs"])))
    named |= set(re.findall(r"executeCommand\('(midfill\.\w+)'", "".join(file.read_text() for file in FOLDER.glob("src/*.ts"))))
    assert {name for name in named if name.startswith("midfill.")} <= offered


def test_no_key_is_taken_from_the_suggestion_widget_or_from_other_places_than_the_editor() -> None:
    assert CONTRIBUTES["keybindings"]
    for binding in CONTRIBUTES["keybindings"]:
        conditions = binding["when"].split(" && ")
        assert {"!suggestWidgetVisible", "editorTextFocus", "!editorReadonly", "midfill.isRunning"} <= set(conditions)


def test_it_runs_where_the_files_are_and_is_of_the_servers_version() -> None:
    assert MANIFEST["extensionKind"] == ["workspace"]
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version is not None and MANIFEST["version"] == version[1]
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    assert lock["version"] == MANIFEST["version"]


def test_the_walkthroughs_pictures_and_pages_are_there() -> None:
    media = [step["media"] for walk in CONTRIBUTES["walkthroughs"] for step in walk["steps"]]
    for one in [*media, {"image": MANIFEST["icon"]}]:
        assert (FOLDER / (one.get("image") or one["markdown"])).is_file(), one


# what is done in every editor, in both kinds of tests: with the scripted model and with the real one
DONE_IN_EVERY_EDITOR = {
    "typed_shown_accepted_saved", "word_by_word", "line_by_line", "typed_through", "something_else_is_typed", "dismissed",
    "undone", "edited_elsewhere", "files_are_switched", "closed",
}  # fmt: skip


def test_the_list_of_behaviours_is_one_list_with_the_scripted_model_and_with_the_real_one() -> None:
    folder = ROOT / "tests/editors"
    scripted, real = (
        set(re.findall(r"^def test_(\w+)", (folder / f"test_{name}.py").read_text(), re.M)) for name in ("behaviours", "real")
    )
    assert real == DONE_IN_EVERY_EDITOR
    assert real <= scripted


def test_the_sentences_that_the_pages_explain_are_those_of_the_product() -> None:
    sources = [file for folder in ("editors", "lsp_server", "inference") for file in (ROOT / folder).rglob("*")]
    kinds = {".ts", ".lua", ".el", ".py"}
    told = "\n".join(file.read_text() for file in sources if file.suffix in kinds and "node_modules" not in file.parts)
    told += (ROOT / "Makefile").read_text()
    pages = [ROOT / "README.md", *(ROOT / "editors").glob("*/README.md")]
    quoted = [(page, quote) for page in pages for quote in re.findall(r'^\| "([^"]+)"', page.read_text(), re.M)]
    assert len({page for page, _ in quoted}) == len(pages)
    for page, quote in quoted:
        for part in re.split(r"…|\d+ seconds?", quote):
            assert part.strip() in told, (page.parent.name, quote)


def test_every_editor_is_installed_in_three_lines_and_shown() -> None:
    page = (ROOT / "README.md").read_text()
    for name in ("VS Code", "Neovim", "Emacs"):
        (picture,) = re.findall(rf"!\[[^]]*in {name}\]\(([^)]*)\)", page)
        assert (ROOT / picture).stat().st_size > 0
    for name in ("vscode", "neovim", "emacs"):
        install = (ROOT / f"editors/{name}/README.md").read_text().partition("## Install\n")[2].partition("\n## ")[0]
        code = re.findall(r"^```\w+\n(?s:(.*?))^```|((?:^    .*\n)+)", install, re.M)[0]
        assert 1 <= len("".join(code).strip().splitlines()) <= 3, name
