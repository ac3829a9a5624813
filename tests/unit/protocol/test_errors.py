import pickle

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from odradek.protocol.errors import Errors, KafkaError


def test_table_has_every_code_that_kio_knows_under_kafkas_name() -> None:
    ours = {error.value: error.name for error in Errors}
    theirs = {int(code.value): code.name.upper() for code in KioErrorCode}
    # kio drops Java's suffix where Kafka kept it in the constant's name.
    theirs[Errors.INVALID_TOPIC_EXCEPTION.value] = "INVALID_TOPIC_EXCEPTION"
    theirs[Errors.NETWORK_EXCEPTION.value] = "NETWORK_EXCEPTION"
    assert ours == theirs


def test_retriable_flags_agree_with_kio() -> None:
    ours = {error.value: error.retriable for error in Errors}
    assert ours == {code.value: code.retriable for code in KioErrorCode}


def test_codes_run_without_a_gap() -> None:
    assert [error.value for error in Errors] == list(range(-1, len(Errors) - 1))


def test_every_row_has_a_sentence_of_its_own() -> None:
    messages = [error.message for error in Errors]
    assert len(set(messages)) == len(messages)
    assert all(message.endswith(".") for message in messages)


def test_a_known_code_reads_as_its_row() -> None:
    assert Errors.of(-1) is Errors.UNKNOWN_SERVER_ERROR
    assert Errors.of(3) is Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("code", [-2, 30_000])
def test_a_code_of_the_future_reads_as_unknown(code: int) -> None:
    assert Errors.of(code) is Errors.UNKNOWN_SERVER_ERROR


def test_an_error_without_a_sentence_says_the_row() -> None:
    error = KafkaError(Errors.UNKNOWN_MEMBER_ID)
    assert error.message is None
    assert str(error) == "UNKNOWN_MEMBER_ID: The group does not know this member."


def test_an_error_with_a_sentence_says_it_instead_of_the_row() -> None:
    error = KafkaError(Errors.INVALID_CONFIG, "segment.bytes must be at least 14.")
    assert str(error) == "INVALID_CONFIG: segment.bytes must be at least 14."


def test_an_error_survives_the_way_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(KafkaError(Errors.KAFKA_STORAGE_ERROR, "disk full")))
    assert (copy.error, copy.message) == (Errors.KAFKA_STORAGE_ERROR, "disk full")
