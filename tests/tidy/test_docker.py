"""The files under docker/ fit the project they pack; docker/verify shows that the images work."""

import os
import re
import tomllib

from odradek.broker.config import setting_of
from odradek.broker.config_sources import setting_name
from odradek.broker.container import TOPICS_VARIABLE
from odradek.broker.kafka_tools import TOOLS

from tests.tidy.sources import ROOT

DOCKER = ROOT / "docker"
ROOT_FILES = DOCKER / "rootfs"


def test_every_package_is_let_into_the_build() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    setuptools = project["tool"]["setuptools"]
    folders = {folder.partition("/")[0] for folder in setuptools["package-dir"].values()}
    modules = {f"{module}.py" for module in setuptools["py-modules"]}
    listed = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in folders | modules} <= set(listed)


def test_scripts_of_the_image_can_be_run() -> None:
    scripts = [path for path in ROOT_FILES.rglob("*") if path.is_file()]
    assert scripts
    for path in scripts:
        assert path.read_text().startswith("#!") == os.access(path, os.X_OK), path.name


def test_every_tool_that_is_translated_is_in_the_image() -> None:
    commands = {path.name for path in (ROOT_FILES / "usr" / "local" / "bin").iterdir()}
    assert commands >= TOOLS.keys()


def test_our_compose_files_name_settings_that_the_broker_uses() -> None:
    for name in ("compose.yml", "compose.single.yml"):
        variables = set(re.findall(r"^ +KAFKA_(\w+):", (DOCKER / name).read_text(), re.M))
        assert variables
        settings = variables - {TOPICS_VARIABLE.removeprefix("KAFKA_")}
        assert not {text for text in settings if setting_of(setting_name(text)) is None}
