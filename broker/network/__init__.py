"""Sockets: acceptors, the processors that own connections, and what travels over them.

`framing` and `conversation` hold the protocol's logic and do no I/O; `connection` drives them
over a `transport`. Dispatch is reached through the small protocols in `conversation`, so nothing
here knows what a request means.
"""
