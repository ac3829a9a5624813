"""Odradek as its users get it: a wheel in an environment of its own, beside folders of theirs.

The programs of our pages run there as they are written. The only change is the address of the
broker, since tests do not share one port of the machine.
"""

import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import ROOT, programs_in
from tests.support.processes import Process

# What users of the pages have beside Odradek.
THEIR_PACKAGES = ("pytest", "pytest-xdist", "confluent-kafka")
ADDRESS = "localhost:9092"
SECONDS = 240

# The environment is made once, of packages from the registry, however far that is.
pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("fresh environment")]


class Project:
    """A folder that is not ours, and the environment its programs run in."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder = folder
        self._bin = environment / "bin"

    def program(self, name: str) -> Path:
        return self._bin / name

    def run(self, name: str, *words: str) -> str:
        """Run a program of the environment here; its output, once it has ended well."""
        # Nothing of the environment these tests run in may help.
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        done = subprocess.run(
            [self.program(name), *words],
            cwd=self.folder,
            env=kept,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def pip(environment: Path, *words: str) -> None:
    command = [environment / "bin" / "pip", "--disable-pip-version-check", "--quiet", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def copy_sources(target: Path) -> None:
    """What is under version control: a build in the tree itself would leave things there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    copy_sources(folder / "sources")
    pip(environment, "wheel", "--no-deps", "--wheel-dir", f"{folder}", f"{folder / 'sources'}")
    (wheel,) = folder.glob("odradek-*.whl")
    pip(environment, "install", str(wheel), *THEIR_PACKAGES)
    return environment


@pytest.fixture
def project(environment: Path, tmp_path: Path) -> Project:
    """With folders that are called like ours, which no program of ours may meet."""
    for name in ("broker", "client", "protocol", "storage", "testing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('this is not yours')\n")
    return Project(tmp_path, environment)


@pytest.fixture
def address(project: Project) -> Iterator[str]:
    command = [project.program("odradek"), "serve", "--port", "0", "--ephemeral"]
    with Process(command, name="odradek", cwd=project.folder) as broker:
        ready = broker.wait_for_line("^Odradek ready on ")
        yield f"localhost:{ready.rpartition(':')[2]}"


def test_the_client_of_the_readme_runs_as_written(project: Project, address: str) -> None:
    program = programs_in("README.md")["greet.py"]
    assert ADDRESS in program
    (project.folder / "greet.py").write_text(program.replace(ADDRESS, address))
    assert project.run("python", "greet.py").strip() == "b'hello'"


@pytest.mark.parametrize(
    ("page", "name"),
    [("README.md", "test_greetings.py"), ("docs/testing.md", "test_orders.py")],
)
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_tests_of_the_pages_run_as_written(
    project: Project, page: str, name: str, options: tuple[str, ...]
) -> None:
    program = programs_in(page)[name]
    (project.folder / name).write_text(program)
    told = project.run("pytest", "-q", *options, name)
    assert f"{program.count('def test_')} passed" in told


def test_the_program_of_the_testing_page_runs_as_written(project: Project) -> None:
    (project.folder / "try_broker.py").write_text(programs_in("docs/testing.md")["try_broker.py"])
    project.run("python", "try_broker.py")


def test_every_part_of_the_wheel_can_be_imported_beside_folders_of_its_name(
    project: Project,
) -> None:
    code = "import odradek.broker.main, odradek.client.sync, odradek.testing, odradek.storage.log"
    project.run("python", "-c", code)
