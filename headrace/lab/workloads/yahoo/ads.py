"""The table from ads to campaigns: the data that the pipeline joins with."""

from __future__ import annotations

from headrace.lab.workloads.yahoo.settings import AD, CAMPAIGN, Settings, identifier


def ads(settings: Settings) -> dict[str, str]:
    """Give the campaign of every ad that has one.

    >>> table = ads(Settings(campaigns=2, ads_per_campaign=3, seed=1))
    >>> [campaign[:8] for campaign in table.values()]
    ['00000001', '00000000', '00000001', '00000000', '00000001', '00000000']
    """
    seed = settings.seed
    campaigns = [identifier(CAMPAIGN, number, seed) for number in range(settings.campaigns)]
    return {
        identifier(AD, number, seed): campaigns[(number + seed) % settings.campaigns]
        for number in range(settings.known_ads)
    }
