"""Makes a process ready for a run's functions, as Beam's own worker does before it builds anything.

Beam's pickler, the pipeline's options where Beam's file systems and `RuntimeValueProvider` look for
them, plugins, the main session, the classes of rows. Takes the settings of a run. A process may
serve several runs, one after the other.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from collections.abc import Iterable

from apache_beam.internal import pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from headrace.plan.settings import Settings
from headrace.worker.batched.slowing import Slowing
from headrace.worker.task.main_session import load_main_session

_LOG = logging.getLogger(__name__)
#: The run that this process is ready for.
_ready = [""]


def settle(settings: Settings) -> None:
    """Let relative paths and imports mean here what they mean to the driver."""
    if settings.folder and os.path.isdir(settings.folder):
        os.chdir(settings.folder)
    sys.path += [folder for folder in settings.python_path if folder not in sys.path]


def prepare(settings: Settings) -> None:
    """Make this process ready, unless it is; what needs the user's code comes last."""
    if settings.run and _ready[-1] == settings.run:
        return
    given = json.loads(settings.options)
    RuntimeValueProvider.set_runtime_options(given)
    FileSystems.set_options(PipelineOptions.from_dictionary(given))
    pickler.set_library(settings.pickle_library)
    Slowing.tell(given.get("experiments") or ())
    _import_plugins(given.get("beam_plugins", ()))
    load_main_session(settings.main_session, settings.pickle_library)
    _load_row_types(settings.row_types)
    _ready[:] = [settings.run]


def _import_plugins(paths: Iterable[str]) -> None:
    """Import modules, or those of classes; as in Beam, one that is not here is no failure."""
    for path in paths:
        failures = []
        for module in dict.fromkeys((path.rpartition(".")[0] or path, path)):
            try:
                importlib.import_module(module)
                break
            except Exception as failure:  # noqa: BLE001 (a module may raise anything)
                failures.append(failure)
        else:
            _LOG.warning("the plugin %s cannot be imported in a worker: %s", path, failures[0])


def _load_row_types(pickled: Iterable[tuple[str, bytes]]) -> None:
    """Let Beam know classes of rows; without one it makes rows of its own with the same fields."""
    for schema_id, code in pickled:
        if SCHEMA_REGISTRY.get_typing_by_id(schema_id) is not None:
            continue
        try:
            SCHEMA_REGISTRY.load_registered_typings({schema_id: pickler.loads(code)})
        except Exception as failure:  # noqa: BLE001 (a user's module may raise anything)
            _LOG.warning("a class of rows cannot be loaded in a worker: %s", failure)
