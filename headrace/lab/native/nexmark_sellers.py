"""What must be remembered of each seller: the two NEXMark questions that no aggregation can ask.

A seller's answer is never final, so no watermark can close it, and append mode has no aggregation
without that; update mode has none on top of a join. What Spark offers instead is state kept by user
code, `transformWithState`. It needs the state store that `SESSION_SETTINGS` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor

from headrace.lab.native.nexmark_stream import winners

#: Of the session, before a question of this module is asked.
SESSION_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
LATEST = 10
GROUP = 10


class LatestSales(StatefulProcessor):  # type: ignore[misc]
    """Keeps a seller's ten latest sales by time and price, gives their mean at every change."""

    def init(self, handle: Any) -> None:
        """Open the cell: how many sales there were, and the latest."""
        self._cell = handle.getValueState(
            "latest", "wins bigint, sales array<struct<time: bigint, price: bigint>>"
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002 (Spark's form)
        """Take the new sales of a seller."""
        wins, sales = self._cell.get() if self._cell.exists() else (0, ())
        fresh = [(row.bid_time, row.price) for row in rows]
        wins += len(fresh)
        latest = sorted([*(tuple(sale) for sale in sales), *fresh])[-LATEST:]
        self._cell.update((wins, latest))
        total, count = sum(price for _, price in latest), len(latest)
        yield Row(seller=key[0], price=(2 * total + count) // (2 * count), wins=wins)

    def close(self) -> None:
        """Nothing is held outside the cell."""


class GroupedSales(StatefulProcessor):  # type: ignore[misc]
    """Fills groups of ten sales of a seller, in the order of closing; gives the mean of each.

    Sales come here when the watermark has passed their closing, so all that close at one moment
    come in one batch and none comes after a later one: sorting a batch is enough.
    """

    def init(self, handle: Any) -> None:
        """Open the cell: the prices of the group that fills."""
        self._cell = handle.getValueState("prices", "prices array<bigint>")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002 (Spark's form)
        """Take the new sales of a seller."""
        prices = list(self._cell.get()[0]) if self._cell.exists() else []
        for _, _, price in sorted((row.expires, row.auction, row.price) for row in rows):
            prices.append(price)
            if len(prices) == GROUP:
                yield Row(seller=key[0], price=sum(prices) / GROUP)
                prices.clear()
        self._cell.update((prices,))

    def close(self) -> None:
        """Nothing is held outside the cell."""


def q6(events: DataFrame, settings: Any) -> DataFrame:
    """The mean of each seller's ten latest winning bids and how many there were, at each change."""
    sales = winners(events, settings).select("seller", "price", "bid_time")
    return sales.groupBy("seller").transformWithState(
        LatestSales(), "seller bigint, price bigint, wins bigint", "Append", "None"
    )


def q6_thesis(events: DataFrame, settings: Any) -> DataFrame:
    """The mean price of every full group of ten winning bids of a seller, as auctions close."""
    sales = winners(events, settings).select("seller", "price", "expires", "auction")
    return sales.groupBy("seller").transformWithState(
        GroupedSales(), "seller bigint, price double", "Append", "None"
    )
