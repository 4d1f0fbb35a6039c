"""Stages of the age of a result, from what a system told of its epochs: by hand, and any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.record.stages import STAGES, EpochStages, Part, stages_of

ZERO = 1_000.0


def epoch(began: float, shuffle: float, compute: float, sinks: float) -> EpochStages:
    job = Part((("compute", compute), ("shuffle", shuffle)))
    return EpochStages(began=ZERO + began, parts=(job, Part((("commit", sinks),))))


#: From 1.0 to 2.0, from 2.0 to 3.0, and after a pause from 4.0 to 5.0.
EPOCHS = (
    epoch(1.0, 0.2, 0.6, 0.2), epoch(2.0, 0.2, 0.6, 0.2), epoch(4.0, 0.2, 0.6, 0.2),
)


def stages(
    due: float, taken: float, left: float, epochs: tuple[EpochStages, ...] = EPOCHS
) -> object:
    found = stages_of(np.array([due]), np.array([taken]), np.array([left]), epochs, ZERO)
    return {name: round(float(values[0]), 9) for name, values in found.items() if values[0]}


def test_an_event_waits_for_the_next_epoch_and_leaves_with_it() -> None:
    # Epoch 2.0 takes it at once; its job is a quarter Spark's, and its rows leave within its sinks.
    assert stages(1.7, 2.0, 2.9) == {
        "epoch": 0.3, "shuffle": 0.2, "compute": 0.6, "commit": 0.1,
    }


def test_what_passes_until_an_epoch_takes_an_event_is_the_engines() -> None:
    assert stages(1.7, 2.4, 2.8) == {"epoch": 0.3, "shuffle": 0.5, "compute": 0.3}


def test_an_epoch_that_passed_an_event_over_let_it_wait_in_the_queue() -> None:
    found = stages(0.5, 2.0, 2.8)
    assert found == {"epoch": 0.5, "queue": 1.0, "shuffle": 0.2, "compute": 0.6}


def test_an_event_that_falls_due_in_an_epoch_may_be_taken_by_it() -> None:
    assert stages(1.4, 1.4, 1.8) == {"shuffle": 0.1, "compute": 0.3}


def test_between_the_epoch_that_takes_and_the_one_that_gives_the_watermark_is_waited_for() -> None:
    # Taken at 2.0, whose epoch ends at 3.0; given by the one of 4.0.
    assert stages(1.9, 2.0, 4.9) == {
        "epoch": 0.1, "shuffle": 0.4, "compute": 1.2, "commit": 0.3, "watermark": 1.0,
    }


def test_without_epochs_only_the_queue_is_known() -> None:
    assert stages(1.0, 1.5, 3.0, ()) == {"queue": 0.5}


seconds = st.floats(0, 10).map(lambda value: round(value, 3))


@given(
    st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=20),
    st.lists(st.tuples(seconds, seconds, seconds, seconds), max_size=8),
)
def test_stages_are_never_negative_and_add_up_to_the_age(
    results: list[tuple[float, float, float]], told: list[tuple[float, float, float, float]]
) -> None:
    due, taken, left = (np.array(column) for column in zip(*results, strict=True))
    epochs = tuple(epoch(*each) for each in sorted(told))  # one may overlap the next
    found = stages_of(due, taken, left, epochs, ZERO)
    assert all((values >= -1e-9).all() for values in found.values())
    if epochs:
        assert set(found) == set(STAGES)
        total = sum(found.values(), np.zeros(len(due)))
        assert total.tolist() == pytest.approx((np.maximum(left, due) - due).tolist(), abs=1e-6)
