"""The driver that is killed: reads what there is, then drains. Started as a process of its own.

Started again on the same checkpoint it goes on, at whichever of the two it was.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import signal
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.engine.spark.session import start_session
from headrace.lab.experiments.faults.inside import Inside, apply
from headrace.lab.experiments.faults.pipeline import build
from headrace.lab.experiments.faults.variants import PLAIN, VARIANTS, Source


def main() -> None:
    """Run to the end of the input."""
    parser = argparse.ArgumentParser(prog="python -m headrace.lab.experiments.faults.run")
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--state_dir", required=True)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--variant", choices=sorted(VARIANTS), default=PLAIN.name)
    parser.add_argument("--inside", default="", help="faults within this process, as JSON")
    told = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    faulthandler.register(signal.SIGUSR1)  # for a driver that is stuck: what its threads do
    if told.inside:
        apply(Inside.from_json(told.inside))
    variant = VARIANTS[told.variant]
    spark = start_session(told.master)
    options = [
        f"--checkpoint={told.checkpoint}", f"--state_dir={told.state_dir}",
        f"--shards={told.shards}", "--available_now", "--progress=plain", "--streaming",
    ]
    # Splittable DoFns come to the end of their files by themselves; a drain would cut them off.
    for draining in (False, True) if variant.source is Source.FRAMES else (False,):
        pipeline = beam.Pipeline(
            runner=headrace.SparkRunner(spark), options=PipelineOptions(options)
        )
        build(pipeline, spark, told.input, told.output, variant)
        result = pipeline.run()
        state = result.drain() if draining else result.wait_until_finish()
        epoch = result.stream_status.epoch
        print(f"{'drained' if draining else 'read'}: {state} at epoch {epoch}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
