"""`docker/verify`: build the images and show that they do what docs/docker.md says.

    docker/verify                 everything
    docker/verify --only cluster  one story; the images are built in any case

Needs root, for a Docker daemon of its own in namespaces of its own (`lab`), and Debian's packages
and Python's index for what the images are made of (`bases`); no image registry. Nothing of it
stays but the cache.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from scripts.docker import bases, checks, lab
from scripts.docker.checks import Images
from scripts.docker.tools import Compose, Failed, in_docker, run, show_containers, tell

# testcontainers-python reads the tag as a version of cp-kafka, and offers KRaft from 7.0.0 on.
IMAGES: Final = Images(
    base="python:3.11-slim-bookworm",
    broker="odradek:7.9.0",
    zookeeper="zookeeper:3.9",
    spark="odradek-spark:latest",
)
JAVA: Final = "java:17"
BROKER_ON_JAVA: Final = "odradek:on-java"
OFFLINE: Final = "--no-index --find-links wheels"

ENDED_EARLY: Final = 130

Story = Callable[[], None]


def stories(python: Path) -> dict[str, Story]:
    return {
        "size": partial(checks.image_is_small, IMAGES),
        "quick-start": partial(checks.quick_start, IMAGES),
        "single": partial(checks.single, IMAGES),
        "apache-kafka": partial(checks.peoples_file, checks.FOR_APACHE_KAFKA, IMAGES),
        "testcontainers": partial(checks.testcontainers, IMAGES, python),
        "cp-kafka": partial(checks.peoples_file, checks.FOR_CP_KAFKA, IMAGES),
        "cluster": partial(checks.cluster, IMAGES),
    }


def import_base(archive: Path, name: str) -> None:
    run(
        [lab.docker(), "import", "--change", 'CMD ["bash"]', str(archive), name],
        shown=f"docker import {archive.name} {name}",
    )


def build_images(folder: Path, wanted: set[str]) -> None:
    """Only what the wanted stories run: Spark is larger than all the rest."""
    import_base(bases.python_base(), IMAGES.base)
    context = bases.build_context(folder / "context", bases.broker_wheels())
    began = time.monotonic()
    in_docker(
        *("build", "-q", "-f", f"{context}/docker/Dockerfile", "-t", IMAGES.broker),
        *("--build-arg", f"BASE={IMAGES.base}", "--build-arg", f"PIP_ARGS={OFFLINE}"),
        str(context),
    )
    tell(f"  built in {time.monotonic() - began:.0f} s")
    if wanted & {"cluster", "cp-kafka"}:
        import_base(bases.java_base(), JAVA)
        there = context / "docker/examples/zookeeper"
        in_docker("build", "-q", "-t", IMAGES.zookeeper, "--build-arg", f"BASE={JAVA}", str(there))
    if "cluster" in wanted:
        build_spark(folder, context)


def build_spark(folder: Path, context: Path) -> None:
    """By the compose files; the broker's image below Spark's has Java already."""
    names = replace(IMAGES, base=JAVA, broker=BROKER_ON_JAVA).variables()
    variables = {**names, "PIP_ARGS": OFFLINE}
    began = time.monotonic()
    Compose(f"{context}/docker/compose.single.yml", variables)("build", "broker")
    context = bases.build_context(folder / "spark-context", bases.spark_wheels())
    Compose(f"{context}/docker/compose.yml", variables)("--profile", "spark", "build", "pipeline")
    tell(f"  built in {time.monotonic() - began:.0f} s")


def prepare() -> None:
    """All that needs the network, before it is left behind."""
    bases.find_tools()
    bases.broker_wheels()
    bases.spark_wheels()
    bases.java_base()
    bases.testcontainers_python()


def inside(folder: Path, wanted: list[str]) -> int:
    began = time.monotonic()
    told = stories(bases.testcontainers_python())
    with lab.daemon(folder):
        try:
            build_images(folder, set(wanted))
            for name in wanted:
                tell(f"\n== {name}")
                story_began = time.monotonic()
                told[name]()
                tell(f"  {name} took {time.monotonic() - story_began:.0f} s")
        except Failed as failure:
            show_containers()
            tell(f"\nFAILED: {failure}")
            return 1
    tell(f"\nAll is well, after {time.monotonic() - began:.0f} s.")
    return 0


def main() -> int:
    names = list(stories(Path(sys.executable)))
    parser = argparse.ArgumentParser(prog="docker/verify")
    parser.add_argument("--only", choices=names, action="append", help="a story; repeatable")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    wanted = asked.only or names
    if asked.inside is not None:
        return inside(asked.inside, wanted)
    if os.geteuid() != 0:
        print("verify: a Docker daemon needs root.", file=sys.stderr)
        return 1
    # An end by SIGTERM tidies up as one by Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    prepare()
    folder = Path(tempfile.mkdtemp(prefix="odradek-docker-"))
    words = [word for name in wanted for word in ("--only", name)]
    try:
        return lab.enter(folder, ["--inside", str(folder), *words])
    except KeyboardInterrupt:
        print("verify: ended early; all is tidied up.", file=sys.stderr)
        return ENDED_EARLY


if __name__ == "__main__":
    sys.exit(main())
