"""What is in the folders is what gets installed, and everything listed is there."""

import tomllib
from itertools import chain
from pathlib import PurePosixPath

from tests.tidy.sources import PACKAGES, ROOT, python_texts

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


def import_name(folder: PurePosixPath) -> str:
    return ".".join(("odradek", *folder.parts))


def test_every_folder_with_code_is_listed_as_a_package() -> None:
    folders = {PurePosixPath(name).parent for name in python_texts(*PACKAGES)}
    assert {import_name(folder) for folder in folders} == set(SETUPTOOLS["packages"])


def test_every_package_is_mapped_to_its_folder() -> None:
    expected = {
        name: name.removeprefix("odradek.").replace(".", "/") for name in SETUPTOOLS["packages"]
    }
    assert SETUPTOOLS["package-dir"] == expected


def names_of(requirements: list[str]) -> set[str]:
    return {requirement.split(">")[0] for requirement in requirements}


def test_locked_versions_cover_every_declared_dependency() -> None:
    declared = names_of(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])
    lock = (ROOT / "requirements" / "dev.lock").read_text().lower()
    assert not {name for name in declared if f"\n{name}==" not in lock}


def test_every_dependency_has_its_reason_in_the_docs() -> None:
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    extras = chain(*PROJECT["optional-dependencies"].values())
    declared = names_of([*PROJECT["dependencies"], *extras])
    assert not {name for name in declared if f"| {name} |" not in reasons}
