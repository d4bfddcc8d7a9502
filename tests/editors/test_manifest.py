"""The manifest of the extension for VS Code, against the server's settings and the extension's own source. Needs no editor."""

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
