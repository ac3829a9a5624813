"""Producer ids, given out in blocks of a thousand so that the store is asked rarely.

The last block given out is one node, moved on by compare-and-set: no id is ever given twice, by any
broker. Ids of a block that its broker did not use are never used.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.controller import paths
from odradek.controller.fields import INT64_MAX
from odradek.controller.store import BadVersion, MetadataStore, NoNode, ensure_path
from odradek.controller.znodes import ProducerIdBlock
from odradek.protocol.errors import Errors, KafkaError

BLOCK_SIZE: Final = 1000


def block_after(last: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock:
    first = 0 if last is None else last.last + 1
    if first > INT64_MAX - BLOCK_SIZE:
        raise KafkaError(Errors.UNKNOWN_SERVER_ERROR, "All producer ids have been given out.")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)


async def next_block(store: MetadataStore, broker_id: int) -> ProducerIdBlock:
    """Take the next block for a broker. BadNode when the store's last block is damaged."""
    while True:
        try:
            data, stat = await store.get(paths.PRODUCER_ID_BLOCK)
        except NoNode:
            await ensure_path(store, paths.PRODUCER_ID_BLOCK)
            continue
        # The node is made empty when the cluster is.
        last = ProducerIdBlock.decode(data) if data else None
        block = block_after(last, broker_id)
        try:
            await store.set(paths.PRODUCER_ID_BLOCK, block.encode(), stat.version)
        except BadVersion:
            continue
        return block


class ProducerIds:
    """Gives single ids out of blocks. `take_block` asks the store or the controller for one."""

    def __init__(self, take_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._take_block = take_block
        self._next = 0
        self._last = -1
        # Orders the refills: all that wait share the block that the first of them fetches.
        self._refill = asyncio.Lock()

    async def take(self) -> int:
        while self._next > self._last:
            async with self._refill:
                if self._next > self._last:
                    block = await self._take_block()
                    self._next, self._last = block.first, block.last
        taken = self._next
        self._next += 1
        return taken
