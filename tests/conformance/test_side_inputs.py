"""Beam's own tests of side inputs and of DoFn parameters, inherited from the wheel."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam import pipeline_test
from apache_beam.transforms import sideinputs_test

from tests.places import Place, chosen, headrace_is_the_runner


class TestSideInputs(sideinputs_test.SideInputsTest):  # type: ignore[misc]
    """Views of every kind; one of the tests streams."""

    place = Place.PROCESS

    def setUp(self) -> None:
        headrace_is_the_runner(self, self.place)

    @pytest.mark.never(
        "it holds what Beam's old direct runner does, and is switched off for streaming runners: "
        "elements wait for the end of a side window that has fired, and its panes add up. Beam's "
        "guide says that the latest firing counts, and so do we: see the test of the same script "
        "in tests/streaming/test_side_inputs.py"
    )
    def test_multi_triggered_gbk_side_input(self) -> None:
        """Inherited as a gap that has a name."""


class TestDoFns(pipeline_test.DoFnTest):  # type: ignore[misc]
    """What a DoFn may ask for."""

    def setUp(self) -> None:
        headrace_is_the_runner(self, Place.PROCESS)


@pytest.mark.spark
class TestOnSpark(chosen(TestSideInputs, "test_as_dict_twice", "test_iterable_side_input")):  # type: ignore[misc]
    """Some of them on Spark too."""

    place = Place.SPARK


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
