"""Decides whether a failed epoch is run again, after which pause, and what is said at the end.

Pure: takes the failures of one epoch, one by one; gives pauses and texts. A try leaves nothing
behind, so the next one starts from the state before the epoch, however often.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import HeadraceError, WorkerLostError

#: How often an epoch is tried when a worker was lost in the middle of it.
LOST_TRIES = 3
#: The pause after the first failure of user code; each further one is twice as long.
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True)
class Tries:
    """The tries at one epoch."""

    max_retries: int  # after exceptions of user code, of sinks and of Spark itself
    lost: int = 0  # tries in which a worker died
    failed: int = 0  # tries that ended in an exception

    def pause_after(self, error: Exception) -> float | None:
        """Take one failure; give the seconds until the next try, None if there is to be none.

        What headrace itself refuses (a bad column, a damaged file) would be refused again.
        """
        if isinstance(error, WorkerLostError):
            self.lost += 1
            return 0.0 if self.lost < LOST_TRIES else None
        self.failed += 1
        if isinstance(error, HeadraceError) or self.failed > self.max_retries:
            return None
        return float(
            min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self.failed - 1, 10))
        )

    def given_up(self, epoch: int, error: Exception, where: str) -> Exception:
        """Give what is raised when there are no more tries.

        Args:
            epoch: its number.
            error: the last failure.
            where: what the last try was about when its worker died; empty if nobody knows.
        """
        if isinstance(error, WorkerLostError):
            found = f" The last try died in {where}." if where else ""
            lost = WorkerLostError(
                f"epoch {epoch} was tried {self.lost} times and a worker died each time.{found} "
                "If an element kills the worker, a restart meets it again: let that step run by "
                "with_exception_handling(use_subprocess=True), or change its code to leave the "
                f"element out, and start on the same checkpoint. {error}"
            )
            lost.__cause__ = error.__cause__
            return lost
        if self.failed > 1:
            error.add_note(
                f"[epoch {epoch} was tried {self.failed} times, --max_retries={self.max_retries}]"
            )
        return error
