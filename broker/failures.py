"""Failures that end a start, told to the operator in one sentence and without a traceback."""


class CannotStart(Exception):
    """The message is a whole sentence: what is wrong and, where it helps, what to do."""
