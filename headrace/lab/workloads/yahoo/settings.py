"""The settings of the Yahoo benchmark, and how its identifiers follow from them.

Every identifier is the text of a UUID that begins with its number in eight hexadecimal digits, then
the seed's last four, then a letter for its kind:

    ad        0000002a-0001-4a00-8000-000000000000    number 42, seed 1
    campaign  00000004-0001-4c00-8000-000000000000

Ads are numbered from 0 to `campaigns * ads_per_campaign - 1`; ads that no campaign knows have the
next numbers. The campaign of ad `a` has the number `(a + seed) % campaigns`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.lab.parameters import Choice, Whole, check, setting

AD = "a"
CAMPAIGN = "c"


@dataclass(frozen=True, slots=True)
class Address:
    """Texts of the form host:port."""

    def read(self, text: str) -> str:
        """Take the text if it is an address."""
        if not self.holds(text.strip()):
            raise ValueError(text)
        return text.strip()

    def holds(self, value: object) -> bool:
        """Whether the value is an address."""
        found = re.fullmatch(r"[^\s:]+:(\d{1,5})", value) if isinstance(value, str) else None
        return found is not None and 0 < int(found[1]) < 65536

    def tell(self) -> str:
        """Say which texts are inside."""
        return "a host and a port, as in 127.0.0.1:6379"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run of the Yahoo benchmark can be told."""

    events: int = setting(100_000, Whole(1), "How many events there are.")
    rate: int = setting(10_000, Whole(1, 10**9), "Events per second of event time.")
    seed: int = setting(1, Whole(0), "Other seeds give other events and campaigns.")
    out_of_order: int = setting(
        1, Whole(1, 10**6), "Events of a group of this size arrive in a shuffled order; 1: none do."
    )
    base_ms: int = setting(
        1_436_918_400_000, Whole(0), "Time of the first event, milliseconds since 1970."
    )
    campaigns: int = setting(100, Whole(1, 10_000), "How many campaigns there are.")
    ads_per_campaign: int = setting(10, Whole(1, 100), "How many ads each campaign has.")
    unknown_ads: int = setting(
        5, Whole(0, 1_000), "Events out of 1,000 whose ad belongs to no campaign."
    )
    window_size_sec: int = setting(10, Whole(1, 86_400), "Length of the windows in seconds.")
    table: str = setting(
        "memory", Choice(("memory", "redis")), "Where ads are looked up: in the worker or in Redis."
    )
    counts: str = setting(
        "rows", Choice(("rows", "redis")), "Redis: counts are also stored there, in Yahoo's layout."
    )
    redis: str = setting("127.0.0.1:6379", Address(), "Where the Redis server listens.")

    def __post_init__(self) -> None:
        check(self)

    @property
    def known_ads(self) -> int:
        """How many ads belong to a campaign."""
        return self.campaigns * self.ads_per_campaign


def identifier(kind: str, number: int, seed: int) -> str:
    """Write the identifier with this number.

    >>> identifier(AD, 42, 1)
    '0000002a-0001-4a00-8000-000000000000'
    """
    return f"{number:08x}-{seed & 0xFFFF:04x}-4{kind}00-8000-000000000000"
