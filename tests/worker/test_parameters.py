"""What a DoFn is handed: type and value of each parameter, as Beam's local runner hands it out."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest

from tests.worker.harness import collect, gathered, gathered_by_beam
from tests.worker.parameters import PARTS, stamped


@pytest.mark.parametrize("name", PARTS)
def test_every_parameter_has_the_type_and_value_that_beam_gives_it(name: str) -> None:
    def build(p: beam.Pipeline) -> Any:
        return PARTS[name](stamped(p | beam.Create([1, 7]))) | collect()

    expected = gathered_by_beam(build)
    assert expected
    assert gathered(build) == expected
