"""What the events of the Yahoo benchmark say, and what a pipeline takes from their text.

An event arrives as the text of one flat JSON object; reading it is part of the benchmark.
"""

from __future__ import annotations

import json

FIELDS = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address")
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
#: The campaign under which views of ads are counted that the table does not know.
UNKNOWN_AD = "UNKNOWN AD"

# `json.loads` looks for white space around the value and for the kind of its argument first,
# which costs half as much as the reading itself.
_read = json.JSONDecoder().raw_decode


def read_event(line: str) -> dict[str, object]:
    """Read the text of one event; it has no white space before the object.

    >>> read_event('{"ad_id": "a1", "event_type": "view"}')["event_type"]
    'view'

    Raises:
        ValueError: the text is no JSON object, or goes on after it.
    """
    event, end = _read(line)
    if type(event) is not dict or (end != len(line) and line[end:].strip()):
        msg = f"not one JSON object: {line[:100]!r}"
        raise ValueError(msg)
    return event


def viewed_ads(line: str) -> tuple[object, ...]:
    """Read an event and give the ad that was viewed; nothing for another kind of event.

    Parse, filter and projection of the benchmark in one step: what leaves is a short text instead
    of a dictionary. The event's time needs no place in it, every element carries its own.

    >>> viewed_ads('{"ad_id": "a1", "event_type": "view"}')
    ('a1',)
    >>> viewed_ads('{"ad_id": "a1", "event_type": "click"}')
    ()
    """
    event = read_event(line)
    return (event["ad_id"],) if event["event_type"] == "view" else ()
