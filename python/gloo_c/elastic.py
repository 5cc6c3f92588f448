"""Training that continues when ranks fail, and admits new ones.

    weights = numpy.zeros(1000)
    job = gloo_c.elastic.Job(save=weights.tobytes, load=lambda data: load_into(weights, data))
    for step in job.steps(10000):
        with step:
            gradients = compute(weights, step.number, job.rank, job.size)
            job.context.allreduce(gradients)
            weights -= gradients

A step whose call fails because a rank has failed is repeated by the surviving ranks. Between steps,
ranks that wait in a Job of their own are admitted. After each change all ranks get the state of the
rank that has completed the most steps; a newcomer gives its state only if no other rank is left.
gloo_c.torch.elastic does the same for PyTorch."""

from __future__ import annotations

import os
import time
import warnings
from array import array
from types import TracebackType
from typing import Any, Callable, Iterator, NamedTuple

from ._binding import lib
from ._context import Context, init
from ._errors import REFUSED, GlooError
from ._stores import Store, UrlStore

JOIN = "GLOO_JOIN"
STORE = "GLOO_STORE"
_LOOK_SECONDS = 1.0  # between two looks for newcomers
_LOOK_STEPS = 256  # at most, so that steps that become slower do not delay the next look for long
_WITHOUT_STATE = -(1 << 62)  # added to the steps of a rank that has not had the state of the others


class Change(NamedTuple):
    """A change of the set of ranks, which is also the start of this rank."""

    reason: str  # "start": of this rank; "shrink": ranks have failed; "grow": newcomers were admitted
    rank: int  # of this process, from now on
    size: int  # number of ranks
    step: int  # number of steps that the state of all ranks has completed
    root: int  # the rank that all have the state of
    cause: GlooError | None  # the failure that led to "shrink"


class Step:
    """An attempt at one step. The body of its `with` block may end early by a failed rank; it is
    then repeated by the next attempt, from the state that all ranks have got."""

    def __init__(self, job: Job) -> None:
        self._job, self._entered = job, False
        self.number: int = job.step  # of this step, from 0
        self.changed: bool = job.changed  # no step has been completed since a change

    def __enter__(self) -> Step:
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> bool:
        if value is None:
            self._job.step += 1
            self._job.changed = False
            return False
        return self._job._note(value)


class Job:
    """The ranks of a job, as they come and go, and the state that all of them share.

    save, load: return the state of this rank as bytes, and take that of another rank. `load` is
        called with complete data only, so a failure never leaves half a state.
    context: the ranks at the start, of which this object becomes the owner; None: gloo_c.init(), or
        Context.join for a process that joins a running job.
    store: a store, or its URL, through which newcomers join. It must survive ranks that fail (file,
        Redis, `gloo store`) and belong to this job alone; None: GLOO_STORE, or no newcomers.
    join: True for a process that joins a running job; None: GLOO_JOIN is 1.
    step: number of steps that this rank's state has completed: that of a checkpoint.
    on_change: called with a Change after every change, and at the start.
    ranks_min: minimum number of surviving ranks, see Context.shrink. ranks_max: see Context.grow.
    wait: seconds to wait in a job that joins; None: GLOO_START_TIMEOUT, or 30.
    timeout: seconds to wait for live ranks that do not repeat the step; None: that of the context.

    Cost. A change takes one shrink or grow, two allreduces of a number, and a broadcast of the state.
    Without a change, nothing is sent but a broadcast of one number, and what Context.grow costs
    without newcomers, about once per second, and after the last step. Without a store only after the
    last step. `job.context` is a new one after each change. One thread may use a Job."""

    def __init__(self, *, save: Callable[[], Any], load: Callable[[bytearray], Any],
                 context: Context | None = None, store: Store | str | None = None,
                 join: bool | None = None, step: int = 0,
                 on_change: Callable[[Change], Any] | None = None, ranks_min: int = 0,
                 ranks_max: int = 0, wait: float | None = None,
                 timeout: float | None = None) -> None:
        if step < 0:
            raise ValueError(f"step is {step}; it is a number of completed steps, from 0")
        self._save, self._load, self._on_change = save, load, on_change
        self._ranks_min, self._ranks_max, self._timeout = ranks_min, ranks_max, timeout
        self._store = opened(store)
        self.step: int = step  # number of completed steps
        self.changed = True
        self._has_state = False  # that of the other ranks
        self._together = False  # all ranks have the same state
        self._reason = "start"
        self._cause: GlooError | None = None
        self._failed = self._no_loss = False
        self._stuck: int | None = None  # the step before which a recovery has lost no rank
        self._look_at, self._looked, self._looked_at = step, step, time.monotonic()
        self._begin(context, joins(join, self._store), wait)

    # ---- what PyTorch does in another way ----------------------------------------------------------

    def _begin(self, context: Context | None, joining: bool, wait: float | None) -> None:
        if context is None and joining:
            assert self._store is not None
            context = Context.join(self._store, wait=wait)
        self._context = init() if context is None else context

    @property
    def context(self) -> Context:
        """The context of the present ranks."""
        return self._context

    def _shrink(self) -> None:
        left = self._context.shrink(timeout=self._timeout, ranks_min=self._ranks_min)
        self._context.close()
        self._context = left

    def _grow(self, store: Store) -> bool:
        more = self._context.grow(store, ranks_max=self._ranks_max)
        if more is None:
            return False
        self._context.close()
        self._context = more
        return True

    def _error(self) -> GlooError | None:
        """Returns the error that has broken the context, or None."""
        found = self._context.error()
        return None if found is None or found.status in REFUSED else found

    def close(self) -> None:
        """Leaves the job."""
        self._context.close()

    # ---- the loop ----------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.context.rank

    @property
    def size(self) -> int:
        return self.context.size

    def steps(self, count: int) -> Iterator[Step]:
        """Yields attempts until `count` steps are complete, counted from the beginning of the
        training. The body of the loop is `with step:`. All ranks pass the same count."""
        while True:
            self._settle(count)
            if self.step >= count:
                return
            attempt = Step(self)
            yield attempt
            if not attempt._entered:
                raise RuntimeError("the body of a loop over steps() must be in `with step:`, which "
                                   "counts the step, and repeats it after a failure")

    def _note(self, raised: BaseException) -> bool:
        """Returns true if the step is to be repeated: this exception is that of a failed rank. It is
        not kept, since its frames would keep objects of the old context."""
        broken = self._error() if isinstance(raised, (GlooError, RuntimeError)) else None
        if broken is None or _is_alone(broken):
            return False
        self._failed, self._cause = True, broken
        return True

    def _settle(self, count: int) -> None:
        """Brings all ranks to the same step, in a context that works."""
        while True:
            try:
                if self._failed:
                    self._recover()
                if self._together:
                    self._look(count)
                if not self._together:
                    self._share()
                return
            except (GlooError, RuntimeError) as failure:
                if not self._note(failure):
                    raise

    def _recover(self) -> None:
        before, cause = self.size, self._cause
        self._failed = False
        self._shrink()
        self._no_loss = self.size == before
        if self._no_loss and self._stuck == self.step and cause is not None:
            raise RuntimeError(f"step {self.step} has failed twice, though no rank was lost: {cause}") from cause
        self._reason, self._together = "shrink", False

    def _look(self, count: int) -> None:
        """Admits newcomers, if it is time to look for them. After the last step this is where the
        ranks find out that all have completed it."""
        if self.step < count and (self._store is None or self.step < self._look_at):
            return
        told = array("q", [self._next_look()])
        self.context.broadcast(told)  # rank 0 has the clock
        self._look_at = min(max(told[0], self.step + 1), self.step + _LOOK_STEPS)
        self._looked, self._looked_at = self.step, time.monotonic()
        if self._store is None:
            return
        try:
            grown = self._grow(self._store)
        except GlooError as failure:
            if self._error() is not None or _is_alone(failure):
                raise
            warnings.warn(f"gloo_c.elastic: no newcomers were admitted: {failure}", RuntimeWarning, stacklevel=2)
            return
        if grown:
            self._reason, self._together, self._cause = "grow", False, None

    def _next_look(self) -> int:
        """Returns the step before which to look again: about a second ahead at the pace of the
        last steps, and at most twice as far as the last time."""
        steps = self.step - self._looked
        passed = time.monotonic() - self._looked_at
        fit = int(_LOOK_SECONDS * steps / passed) if passed > 0 else 1
        return self.step + max(1, min(fit, 2 * steps, _LOOK_STEPS))

    def _share(self) -> None:
        """Gives all ranks the state of the lowest rank among the ranks that are ahead."""
        context = self.context
        own = self.step if self._has_state else self.step + _WITHOUT_STATE
        best, first = array("q", [own]), array("q", [0])
        context.allreduce(best, op="max")
        first[0] = context.rank if best[0] == own else context.size
        context.allreduce(first, op="min")
        root = first[0]
        state = self._save() if context.rank == root else b""
        size = array("q", [memoryview(state).nbytes])
        context.broadcast(size, root=root)
        data = bytearray(state) if context.rank == root else bytearray(size[0])
        if data:
            context.broadcast(data, root=root)
        if context.rank != root:
            self._load(data)
        self.step = best[0] if best[0] >= 0 else best[0] - _WITHOUT_STATE
        self._has_state = self._together = self.changed = True
        self._stuck, self._no_loss = self.step if self._no_loss else None, False
        self._look_at, self._looked, self._looked_at = self.step + 1, self.step, time.monotonic()
        if self._on_change is not None:
            self._on_change(Change(self._reason, context.rank, context.size, self.step, root, self._cause))


def _is_alone(failure: GlooError) -> bool:
    """Returns true if the other ranks continue without this one, or may do so."""
    return bool(failure.cause == lib.GLOO_ERR_STALE)


# ---- the environment -------------------------------------------------------------------------------

def opened(store: Store | str | None) -> Store | None:
    """Returns the store for newcomers, which may be given by its URL, or by GLOO_STORE."""
    if store is None:
        store = os.environ.get(STORE) or None
    return UrlStore(store) if isinstance(store, str) else store


def joins(join: bool | None, store: Store | None) -> bool:
    """Returns true if this process joins a running job."""
    value = os.environ.get(JOIN, "")
    if join is None and value not in ("", "0", "1"):
        raise GlooError(f"{JOIN} is '{value}'; valid values are 0 and 1", lib.GLOO_ERR_INVALID)
    joining: bool = value == "1" if join is None else join
    if joining and store is None:
        raise GlooError(f"a process that joins a running job needs its store: pass `store`, or set {STORE}",
                        lib.GLOO_ERR_INVALID)
    return joining
