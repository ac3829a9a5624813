"""A missing part is a skip with its reason on a laptop, and a failure where CI=true."""

from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

import scripts.parts
from scripts.parts import (
    Build,
    Tool,
    cache_dir,
    digest_of,
    is_built,
    jar_folders,
    stamp_of,
    version_in,
    whats_wrong_with,
)
from scripts.setup import packages_for, pom, wanted_jars
from tests.support import parts


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "whats_missing", lambda name: f"{name} is missing")


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_part_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ON_CI", False)
    with pytest.raises(Skipped, match="kcat is missing"):
        parts.require("kcat")


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_part_fails_on_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ON_CI", True)
    with pytest.raises(Failed, match="kcat is missing"):
        parts.require("kcat")


def test_an_unknown_part_is_a_mistake_in_the_test() -> None:
    with pytest.raises(ValueError, match="no such part: kafak"):
        parts.require("kafak")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ('openjdk version "17.0.15" 2025-04-15', (17, 0, 15)),
        ("v20.20.2", (20, 20, 2)),
        ("no number", ()),
    ],
)
def test_versions_are_read_from_what_tools_say(text: str, version: tuple[int, ...]) -> None:
    assert version_in(text) == version


def test_a_tool_is_missing_too_old_or_right() -> None:
    def tool(command: str, minimum: int) -> Tool:
        return Tool("python", (command,), "--version", (minimum,), ("python3",), "itself")

    assert whats_wrong_with(tool("python3", 3)) is None
    assert "too old" in (whats_wrong_with(tool("python3", 99)) or "")
    assert "no command no-such-python" in (whats_wrong_with(tool("no-such-python", 3)) or "")


def test_a_tool_without_its_headers_is_incomplete() -> None:
    def tool(header: str) -> Tool:
        return Tool("c++", ("g++",), None, (), ("g++",), "tests", headers=(header,))

    parts.require("c++")
    assert whats_wrong_with(tool("vector")) is None
    assert "there is no no/such.h" in (whats_wrong_with(tool("no/such.h")) or "")


def test_packages_whose_command_is_there_are_not_installed_again() -> None:
    half_there = Tool("node", ("no-such-node", "sh"), None, (), ("no-such-node", "sh"), "tests")
    assert packages_for([half_there]) == ["no-such-node"]


def test_the_cache_folder_can_be_moved(tmp_path: Path) -> None:
    assert cache_dir({"ODRADEK_CACHE": str(tmp_path)}) == tmp_path
    assert cache_dir({}).name == ".cache"


def test_the_pom_asks_for_one_version_of_kafka() -> None:
    wanted = wanted_jars()["kafka-3.9.1"]
    assert pom("kafka-3.9.1", wanted).count("<version>3.9.1</version>") == 3


def test_every_folder_of_jars_says_what_it_wants() -> None:
    # What Spark's connector wants is said by its own module, from pyspark's version.
    assert {*wanted_jars(), "spark-connector"} == set(jar_folders())


def test_a_build_is_made_again_when_its_sources_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scripts.parts, "ROOT", tmp_path)
    build = Build("program", "sources", ())
    source = tmp_path / "sources" / "main.c"
    source.parent.mkdir()
    source.write_text("first")
    stamp_of(build).parent.mkdir(parents=True)
    stamp_of(build).write_text(digest_of(build))
    assert is_built(build)
    source.write_text("second")
    assert not is_built(build)
