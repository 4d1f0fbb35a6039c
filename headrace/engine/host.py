"""What a run needs of the place where its tasks run; behind it stands Spark, or one process.

Three contracts: a `Host` runs tasks, a `TaskRows` is what they have put out, `Feeds` bring the
batches of streaming DataFrames. The epoch loop, the commit and the sinks know these alone. Spark's
are in `spark_host` and `queries`, those without Spark in `headrace.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from headrace.engine.layouts import Layout
from headrace.engine.status import StreamOptions
from headrace.engine.tasks import EpochTasks
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.state.files import Files
from headrace.worker.entry import Epoch

#: Called with a batch of a streaming DataFrame: the read's name, what gives the rows, the batch's
#: number. Of a batch that counts already nobody asks for the rows, which may be gone. What it
#: raises leaves the batch unlogged, so that the next start brings it again.
Arrived = Callable[[str, Callable[[], Any], int], None]


class TaskRows(Protocol):
    """What the tasks of a run or an epoch put out; a lazy host computes it at the first question.

    Calls come in this order: `keep` if sinks want rows, `reports` once, `output` for each sink,
    `forget` after `keep`.
    """

    def keep(self) -> None:
        """Keep the rows until `forget`: they are going to be asked for more than once."""

    def reports(self) -> list[tuple[int, bytes]]:
        """Give the report rows: a number that says of what, and the report.

        Raises what a task raised, as the host's own exception; `failures.translate` reads it.
        """

    def output(self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0) -> Any:
        """Give what was sent to an output channel, as a DataFrame of the user's session.

        With `order_bytes`, those of each order number, its rows are in order.
        """

    def forget(self) -> None:
        """Let go of what was kept."""


class Feeds(Protocol):
    """The streaming DataFrames of one run: who brings their batches, and until when."""

    closing: bool  # set under the run's lock: batches that come now are left for the next start

    @property
    def started(self) -> Mapping[str, Any]:
        """What was started, by the names of the reads."""

    def listen(self, name: str, frame: Any, files: Files, log: str, arrived: Arrived) -> None:
        """Start to bring the batches of a DataFrame.

        Before a batch comes, its offsets lie in the log; after it, its commit does. One whose
        commit is missing comes again at the next start, with the same rows.

        Args:
            name: the read's.
            frame: the DataFrame.
            files: the checkpoint.
            log: the folder in it for the log of this DataFrame.
            arrived: takes the batches, one at a time, perhaps in another thread.
        """

    def is_started(self, name: str) -> bool:
        """Whether a DataFrame is listened to, or was."""

    def is_listening(self, name: str) -> bool:
        """Whether a DataFrame may still bring rows."""

    def bring(self) -> bool:
        """Bring one batch in this thread, if that is how they come; say whether there was one."""

    def promised(self, name: str) -> int | None:
        """Give how many rows the batch that is being brought has at most; None: nobody knows."""

    def is_last(self, name: str) -> bool:
        """Whether nothing follows the batch that is being brought; False: nobody knows."""

    def is_hungry(self) -> bool:
        """Whether a DataFrame that is brought in this thread was left alone for long."""

    def rest(self) -> float | None:
        """Give for how many seconds `bring` will find nothing; None: it never will by itself."""

    def failure(self) -> BaseException | None:
        """Give what ended a feed that should have gone on. Ask after `is_listening`."""

    def end(self) -> None:
        """End all of them; `closing` is set."""

    def abandon(self) -> None:
        """End them whatever happens: whoever brings them may be gone."""


class Host(Protocol):
    """Where tasks run."""

    @property
    def session(self) -> Any:
        """The user's session: DataFrames for sinks are made in it, and paths mean what it says."""

    @property
    def parallelism(self) -> int:
        """How many tasks run side by side."""

    @property
    def is_local(self) -> bool:
        """Whether all tasks run on the driver's machine."""

    @property
    def is_one_machine(self) -> bool:
        """Whether all tasks run on one machine, the driver's or another."""

    @property
    def shares_disk(self) -> bool:
        """Whether tasks see the driver's disk, and a path without a scheme means that disk."""

    def run_batch(
        self,
        plan: Plan,
        settings: Settings,
        sources: Mapping[str, Any],
        schemas: Mapping[int, bytes],
        title: str,
    ) -> TaskRows:
        """Run a plan to its end.

        Args:
            plan: what to run.
            settings: limits for the tasks.
            sources: the DataFrames that the plan reads, by the names of their transforms.
            schemas: for each output channel, its Arrow schema.
            title: what the work is called where people look.
        """

    def prepare_epochs(self, shards: int) -> None:
        """Make ready for many epochs."""

    def run_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        title: str, layout: Layout = Layout.STAGES,
    ) -> TaskRows:
        """Run one epoch.

        Args:
            tasks: of the plan.
            epoch: what they must know.
            shards: how many there are.
            frame: the rows of this epoch, if a DataFrame feeds it.
            whole: begin with superstep 0; else nothing is to be done there.
            title: what the work is called where people look.
            layout: how its tasks are laid out.
        """

    def feeds(self, options: StreamOptions, wake: Callable[[], None]) -> Feeds:
        """Give what will bring the batches of streaming DataFrames.

        Args:
            options: of the run.
            wake: lets the loop look around, where it is the loop that brings them.
        """

    def input_of(self, frame: Any) -> str:
        """Say in a few words what a streaming DataFrame reads, to tell two inputs apart."""

    def check_checkpoint(self, location: str, *, feeds: bool) -> None:
        """Refuse a checkpoint that tasks could not reach.

        Args:
            location: its path or URI; a path is a full one.
            feeds: the logs of streaming DataFrames are to be kept in it too.
        """

    def end_stages(self, run: str, confirmed: tuple[str, ...]) -> None:
        """Run the callbacks that still wait where tasks ran, and tear the stages down."""

    def watching(self, plan: Plan, style: str) -> AbstractContextManager[None]:
        """Show how far a batch is while a block runs, in a style of `terminal.display`."""

    def show_log(self) -> None:
        """Let what the host itself logs of a failure be seen."""

    def cancel(self) -> None:
        """End the tasks that are running, once."""

    def close(self) -> None:
        """Let go of what is held for the run, which has ended. Never raises; may come twice."""
