"""A test that is cut off in the middle of a call to the JVM must not spoil those that follow."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from tests.spark_session import forget_connection


@pytest.mark.spark
def test_after_an_answer_that_nobody_read_a_new_connection_gives_right_ones(spark: Any) -> None:
    assert spark.range(3).count() == 3
    client = SparkContext._gateway._gateway_client
    connection = client.get_thread_connection()
    # As a time limit does it: the command is sent, and its answer stays in the stream.
    connection.socket.sendall(b"c\nz:java.lang.System\nnanoTime\ne\n")
    with pytest.raises(Py4JError):
        _ = spark._jvm.java.lang.Math.max(3, 5)
    forget_connection()
    assert client.get_thread_connection() is not connection
    assert spark._jvm.java.lang.Math.max(3, 5) == 5
    assert spark.range(3).count() == 3
