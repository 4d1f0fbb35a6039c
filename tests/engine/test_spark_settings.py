"""Settings of a session: options come first, then what was submitted, then the file, then ours."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.spark import session as session_module
from headrace.engine.spark.session import OWN_SETTINGS, find_target, settings_for, start
from headrace.engine.spark.settings import Wish, given_before, read_conf
from headrace.errors import OptionError, SessionError
from headrace.runner import HeadraceOptions, wish_of  # type: ignore[attr-defined]


@pytest.mark.parametrize("master", [
    "local", "local[2]", "local[*]", "local[4,2]", "local-cluster[2,1,1024]", "spark://mill:7077",
    "spark://a:7077,b:7077", "yarn", "k8s://https://10.0.0.1:6443",
])  # fmt: skip
def test_masters_of_spark_are_taken(master: str) -> None:
    assert Wish(master=master).settings() == {"spark.master": master}


@pytest.mark.parametrize("master", ["foo", "", "local[]", "local[x]", "spark://mill", "mill:7077"])
def test_what_is_no_master_is_refused_with_the_ones_there_are(master: str) -> None:
    with pytest.raises(OptionError, match=r"--spark_master=.*local\[N\].*spark://HOST:PORT"):
        Wish(master=master)


@pytest.mark.parametrize("text", ["spark.ui.enabled", "=true", "ui=true", "spark.=1"])
def test_a_setting_that_is_none_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(OptionError, match="--spark_conf=spark.ui.enabled=true"):
        read_conf([text])


def test_options_become_settings() -> None:
    options = HeadraceOptions([
        "--spark_master=local[3]", "--spark_conf=spark.ui.enabled=true",
        "--spark_conf=spark.jars=a.jar", "--spark_app_name=mill", "--spark_jars=b.jar,c.jar",
        "--spark_packages=org.example:x:1",
    ])  # fmt: skip
    assert wish_of(options).settings() == {
        "spark.master": "local[3]", "spark.ui.enabled": "true", "spark.app.name": "mill",
        "spark.jars": "a.jar,b.jar,c.jar", "spark.jars.packages": "org.example:x:1",
    }


def test_the_file_of_defaults_and_what_is_submitted_are_both_read(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# ours\nspark.driver.memory   5g\nspark.ui.enabled=true\n\nnot.spark 1\nspark.empty\n",
        encoding="utf-8",
    )
    words = "--driver-memory 6g --conf 'spark.x=a b' -c spark.y=1 pyspark-shell"
    asked = {"PYSPARK_SUBMIT_ARGS": words}
    assert given_before({}, str(tmp_path)) == {
        "spark.driver.memory": "5g", "spark.ui.enabled": "true", "spark.empty": "",
    }
    assert given_before(asked, str(tmp_path)) == {
        "spark.driver.memory": "6g", "spark.ui.enabled": "true", "spark.empty": "",
        "spark.x": "a b", "spark.y": "1",
    }
    elsewhere = {"SPARK_CONF_DIR": str(tmp_path / "none")}
    assert given_before(elsewhere, str(tmp_path)) == {}


def test_our_settings_give_way_to_those_that_are_given() -> None:
    given = {"spark.ui.enabled": "true", "spark.driver.memory": "5g"}
    told = settings_for("local[2]", given)
    assert given.keys().isdisjoint(told)
    assert told["spark.shuffle.compress"] == OWN_SETTINGS["spark.shuffle.compress"]


class Builder:
    """Notes what it is told, in place of Spark's."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def master(self, name: str) -> Builder:
        return self.config("spark.master", name)

    def appName(self, name: str) -> Builder:
        return self.config("spark.app.name", name)

    def config(self, name: str, value: str) -> Builder:
        self.told[name] = value
        return self

    def getOrCreate(self) -> dict[str, str]:
        return self.told


def test_a_session_starts_with_the_wish_before_the_file_before_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.driver.memory 5g\nspark.ui.enabled true\nspark.master local[7]\nspark.app.name file",
        encoding="utf-8",
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(session_module, "SparkSession", type("S", (), {"builder": Builder()}))
    monkeypatch.setattr(session_module, "start_jvm", lambda conf: None)
    told = start(Wish(conf={"spark.driver.memory": "6g"}, app_name="mine"), progress="off")
    assert told["spark.driver.memory"] == "6g"
    assert told["spark.app.name"] == "mine"
    assert told["spark.master"] == "local[7]"
    assert "spark.ui.enabled" not in told  # Spark reads the file itself
    assert told["spark.shuffle.compress"] == OWN_SETTINGS["spark.shuffle.compress"]


@pytest.mark.spark
def test_what_a_running_session_does_not_have_is_named(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    wish = Wish(conf={"spark.driver.memory": "77g", "spark.ui.enabled": "false"})
    with caplog.at_level(logging.WARNING):
        find_target(spark, wish)
    (record,) = caplog.records
    assert "ignored: spark.driver.memory=77g." in record.getMessage()


@pytest.mark.spark
def test_the_session_of_the_process_is_given_unless_it_is_not_as_asked(spark: Any) -> None:
    import headrace

    assert headrace.session() is not None
    assert headrace.session().sparkContext is spark.sparkContext
    with pytest.raises(SessionError, match=r"not as asked for: spark.master=local\[77\]"):
        headrace.session("local[77]")


def test_the_settings_of_ours_are_those_that_the_docs_list() -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "existing-session.md"
    rows = re.findall(r"^\| `(spark\.\S+)` \| `(\S+)` \|$", page.read_text(), re.MULTILINE)
    assert dict(rows) == OWN_SETTINGS
