"""Says what Beam's portable runners are told, and what they are not asked, with the reason.

Data only: no Beam, nothing is started.
"""

from __future__ import annotations

from headrace.errors import OptionError
from headrace.lab.job_servers.parts import JOB_SERVERS
from headrace.lab.systems.system import Request, checkpoint_of

CHECKPOINT_MS = 1_000
#: How long Python processes outlive the stage that they were started for: the next one takes them.
_KEPT_MS = 10_000
#: Nothing is waited for once a source has said that it is at its end.
_IDLE_MS = 1_000


def options_of(name: str, request: Request, cores: int) -> tuple[str, ...]:
    """Give the options that a runner gets for a request.

    Raises:
        OptionError: it is not asked that; says why.
    """
    workers = (f"--sdk_worker_parallelism={cores}", f"--environment_cache_millis={_KEPT_MS}")
    if name == "beam-spark":
        if request.streaming:
            raise OptionError(JOB_SERVERS[name].no_streaming)
        return workers
    told = (*workers, f"--parallelism={cores}")
    if not request.streaming:
        return told
    return (
        *told,
        f"--max_bundle_size={request.tuning.bundle_events}",
        f"--max_bundle_time_mills={request.tuning.bundle_ms}",
        f"--checkpointing_interval={CHECKPOINT_MS}",
        "--state_backend=filesystem",
        f"--state_backend_storage_path={checkpoint_of(request).absolute().as_uri()}",
        f"--shutdown_sources_after_idle_ms={_IDLE_MS}",
    )
