"""Processes under test are heard, waited for, stopped and killed."""

import signal
import sys

import pytest

from tests.support.network import PORTS, answers_api_versions, free_port, share_of_ports
from tests.support.processes import Process, ProcessEnded


def python(source: str) -> Process:
    return Process([sys.executable, "-u", "-c", source], name="python")


WAITS = "import sys; print('ready'); sys.stdin = None; import signal; signal.pause()"


def test_a_line_is_awaited() -> None:
    with python(f"print('one'); {WAITS}") as process:
        assert process.wait_for_line("^rea") == "ready"
        assert process.output == ["one", "ready"]


def test_an_end_without_the_line_is_not_waited_out() -> None:
    with python("print('only this')") as process, pytest.raises(ProcessEnded):
        process.wait_for_line("ready")


def test_a_line_that_does_not_come_times_out() -> None:
    with python(WAITS) as process, pytest.raises(TimeoutError):
        process.wait_for_line("never", timeout=0.05)


def test_stop_terminates_and_kill_kills() -> None:
    with python(WAITS) as stopped, python(WAITS) as killed:
        stopped.wait_for_line("ready")
        assert stopped.stop() == -signal.SIGTERM
        assert killed.kill() == -signal.SIGKILL


def test_stop_insists_when_asking_does_not_help() -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + WAITS
    with python(deaf) as process:
        process.wait_for_line("ready")
        assert process.stop(timeout=0.2) == -signal.SIGKILL


def test_the_tail_of_an_ended_process_is_in_the_error() -> None:
    with python("raise SystemExit('no disk')") as process:
        process.wait()
        with pytest.raises(ProcessEnded, match="no disk"):
            process.check_running()


def test_nobody_answers_on_a_free_port() -> None:
    assert not answers_api_versions(free_port())


def test_workers_beside_each_other_share_no_port() -> None:
    def share(worker: str) -> set[int]:
        named = {"PYTEST_XDIST_WORKER": worker, "PYTEST_XDIST_WORKER_COUNT": "2"}
        return set(share_of_ports(named))

    assert not share("gw0") & share("gw1")
    # The one that takes the place of a worker that died is the third.
    assert share("gw2") == share("gw0")
    assert share_of_ports({}) == PORTS


def test_no_port_is_given_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
