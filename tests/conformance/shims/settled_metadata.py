"""A plugin for kafka-python's tests: its consumer does not forget which topics it wants.

A consumer of kafka-python 3.0 is told its topics while its first metadata request, which names
none, may be on the way. The answer to that request clears the note that newer metadata is wanted,
and without a group nothing asks again for five minutes: the consumer reads nothing. Busy machines
show it on any broker; on Apache Kafka 3.9 `test_kafka_consumer` fails in the same way, with the
same requests on the wire. So the note is kept here when the topics have changed since the request.
"""

from typing import Any

from kafka.cluster import ClusterMetadata

_request, _update = ClusterMetadata.metadata_request, ClusterMetadata.update_metadata


def _noting_request(self: Any) -> Any:
    self.topics_asked_for = set(self._topics)
    return _request(self)


def _careful_update(self: Any, metadata: Any) -> None:
    _update(self, metadata)
    if self._topics - getattr(self, "topics_asked_for", self._topics):
        self.request_update()


ClusterMetadata.metadata_request = _noting_request
ClusterMetadata.update_metadata = _careful_update
