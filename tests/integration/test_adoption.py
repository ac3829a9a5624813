"""A broker serves logs it knows nothing of: those of another broker, or its own without store."""

import sys
from pathlib import Path

from tests.behaviours.asking import Asker, batch
from tests.support.processes import Process

ODRADEK = Path(sys.executable).with_name("odradek")


def serve(data: Path) -> tuple[Process, Asker]:
    broker = Process([ODRADEK, "serve", "--port", "0", "--data-dir", data], name="odradek")
    ready = broker.wait_for_line("^Odradek ready on ")
    return broker, Asker(int(ready.rpartition(":")[2]))


def test_topics_are_found_again_when_the_metadata_is_lost(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker, asker = serve(data)
    asker.create("kept", partitions=2)
    for index in (0, 1, 1):
        assert asker.produce("kept", batch(b"%d" % index), index=index).error_code == 0
    cluster = asker.metadata(["kept"]).cluster_id
    asker.close()
    broker.stop()
    for path in data.glob("metadata.db*"):
        path.unlink()

    broker, asker = serve(data)
    answer = asker.metadata(["kept"], version=8)
    assert answer.cluster_id == cluster
    assert {p.leader_epoch for p in answer.topics[0].partitions} == {1}, "epochs never go back"
    assert asker.fetch("kept", 0).high_watermark == 1
    assert asker.produce("kept", batch(), index=1).base_offset == 2
    asker.close()
    broker.stop()
