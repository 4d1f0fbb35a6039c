"""The answer to the Yahoo benchmark, from the logged events.

The campaign of an ad is computed from the ad's own identifier: its first eight digits are its
number `a`, and the campaign has the number `(a + seed) % campaigns`. Ads from
`campaigns * ads_per_campaign` up belong to none.
"""

from __future__ import annotations

from typing import Any

from headrace.lab.oracle.duck import ask
from headrace.lab.workload import Row

_CAMPAIGNS = """
    WITH viewed AS (
        SELECT CAST('0x' || substr(ad_id, 1, 8) AS BIGINT) AS ad,
               event_time - event_time % $size AS window_start
        FROM read_parquet($log)
        WHERE event_type = 'view'
    )
    SELECT CASE
               WHEN ad >= $campaigns * $ads THEN 'UNKNOWN AD'
               ELSE printf('%08x-%04x-4c00-8000-000000000000',
                           (ad + $seed) % $campaigns, $seed % 65536)
           END AS campaign_id,
           window_start,
           count(*)
    FROM viewed
    GROUP BY ALL
"""


def campaigns(log: str, settings: Any) -> list[Row]:
    """Give (campaign_id, window_start in ms, count) of every campaign and window with views."""
    parameters = {
        "log": log,
        "size": settings.window_size_sec * 1_000,
        "campaigns": settings.campaigns,
        "ads": settings.ads_per_campaign,
        "seed": settings.seed,
    }
    return ask(_CAMPAIGNS, values=parameters)
