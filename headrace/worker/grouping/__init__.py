"""GroupByKey on one shard: tables, panes, slices, triggers, lateness, spilling."""
