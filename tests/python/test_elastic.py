"""gloo_c.elastic: ranks, as threads, that leave and join while a loop over steps runs."""

import re
from pathlib import Path

import numpy
import pytest
from conftest import TIMEOUT
from rank_threads import raise_first, run_threads

import gloo_c
from gloo_c import elastic

STEPS = 40
PAGE = Path(__file__).resolve().parents[2] / "docs/guide/elastic.md"


class Rank:
    """A rank of a job: its state is the number of steps, and a mark of the rank that began it."""

    def __init__(self, store, context, mark, **options):
        self.state, self.changes = numpy.array([0.0, mark]), []
        self.job = elastic.Job(save=self.save, load=self.load, context=context, store=store,
                               on_change=self.changes.append, **options)

    def save(self):
        return self.state.tobytes()

    def load(self, data):
        self.state = numpy.frombuffer(data).copy()

    def count(self):
        total = numpy.array([1.0])
        self.job.context.allreduce(total)
        self.state[0] += total[0] / self.job.size

    def run(self, before=None):
        for step in self.job.steps(STEPS):
            with step:
                if before is not None:
                    before(step)
                self.count()
        return self


def device():
    return gloo_c.Device("inproc")


def present(rank, size, store):
    return gloo_c.Context(rank, size, store, device=device(), timeout=TIMEOUT)


def run_all(size, rank_main):
    """Returns the results of rank_main(rank, store) in `size` threads."""
    store, results, raised = gloo_c.MemoryStore(), [None] * size, []

    def body(rank):
        try:
            results[rank] = rank_main(rank, store)
        except BaseException as error:
            raised.append(error)

    run_threads(size, body)
    raise_first(raised, gloo_c.GlooError)
    return results


class Leaves(Exception):
    """Ends a rank in the middle of a job."""


def leave(rank):
    rank.job.close()
    raise Leaves


def test_all_start_with_the_state_of_rank_0():
    def rank_main(number, store):
        rank = Rank(store, present(number, 3, store), mark=7 + number).run()
        assert rank.state.tolist() == [STEPS, 7]
        assert [(c.reason, c.rank, c.size, c.step, c.root) for c in rank.changes] == [("start", number, 3, 0, 0)]
        rank.job.close()

    run_all(3, rank_main)


@pytest.mark.parametrize("victim", [0, 2])
def test_others_repeat_the_step_of_a_rank_that_leaves(victim):
    def rank_main(number, store):
        rank = Rank(store, present(number, 3, store), mark=7)

        def before(step):
            if number == victim and step.number == 9:
                leave(rank)

        try:
            rank.run(before)
        except Leaves:
            return
        assert rank.state.tolist() == [STEPS, 7]
        last = rank.changes[-1]
        assert (last.reason, last.size, last.step, len(rank.changes)) == ("shrink", 2, 9, 2)
        assert isinstance(last.cause, gloo_c.GlooError)
        rank.job.close()

    run_all(3, rank_main)


def test_steps_say_when_the_ranks_have_changed():
    def rank_main(number, store):
        rank, changed = Rank(store, present(number, 3, store), mark=7), []

        def before(step):
            changed.append((step.number, step.changed))
            if number == 1 and step.number == 2:
                leave(rank)

        try:
            rank.run(before)
        except Leaves:
            return
        assert changed[:5] == [(0, True), (1, False), (2, False), (2, True), (3, False)]
        rank.job.close()

    run_all(3, rank_main)


def test_all_get_the_state_of_the_rank_that_is_ahead():
    """Rank 2 leaves after a step that only rank 1 has completed."""
    def rank_main(number, store):
        rank = Rank(store, present(number, 3, store), mark=7)

        def before(step):
            if step.number == 5 and step.changed is False:
                if number == 2:
                    leave(rank)
                if number == 1:
                    rank.state[0], rank.job.step = 20, 20
                rank.job.context.recv(numpy.zeros(1), 2)

        try:
            rank.run(before)
        except Leaves:
            return
        last = rank.changes[-1]
        assert (last.step, last.root) == (20, 1)
        assert rank.state.tolist() == [STEPS, 7]
        rank.job.close()

    run_all(3, rank_main)


def test_a_state_that_did_not_arrive_whole_is_not_loaded():
    """The rank that is ahead leaves while it gives its state: the others keep theirs."""
    def rank_main(number, store):
        rank = Rank(store, present(number, 3, store), mark=7)

        def before(step):
            if step.number == 5 and step.changed is False:
                if number == 2:
                    leave(rank)
                if number == 1:
                    rank.state[0], rank.job.step = 20, 20
                    rank.job._save = lambda: leave(rank)
                rank.job.context.recv(numpy.zeros(1), 2)

        try:
            rank.run(before)
        except Leaves:
            return
        assert rank.changes[-1][:5] == ("shrink", 0, 1, 5, 0)
        assert rank.state.tolist() == [STEPS, 7]
        rank.job.close()

    run_all(3, rank_main)


def test_a_newcomer_gives_its_state_to_no_rank():
    """It claims a state that is far ahead."""
    def rank_main(number, store):
        if number == 2:
            joined = gloo_c.Context.join(store, device=device(), wait=TIMEOUT)
            rank = Rank(store, joined, mark=99, step=STEPS + 100).run()
            assert rank.changes[0].reason == "start" and rank.changes[0].size == 3
        else:
            rank = Rank(store, present(number, 2, store), mark=7)

            def before(step):
                if step.number == 3:  # wait until it waits
                    while store.add("gloo/grow/came", 0) == 0:
                        pass

            rank.run(before)
            assert [change.reason for change in rank.changes] == ["start", "grow"]
        assert rank.state.tolist() == [STEPS, 7]
        assert rank.job.size == 3
        rank.job.close()

    run_all(3, rank_main)


def test_a_newcomer_that_is_alone_starts_afresh():
    def rank_main(number, store):
        if number == 1:
            joined = gloo_c.Context.join(store, device=device(), wait=TIMEOUT)
            store.set("joined", b"1")
            rank = Rank(store, joined, mark=99).run()
            assert rank.state.tolist() == [STEPS, 99]
            assert rank.changes[-1].reason == "shrink" and rank.job.size == 1
            rank.job.close()
        else:
            alone = present(0, 1, store)
            more = alone.grow(store, newcomers=1, wait=TIMEOUT)
            store.get("joined", TIMEOUT)
            more.close()
            alone.close()

    run_all(2, rank_main)


def test_a_failure_without_a_lost_rank_is_raised_the_second_time():
    def rank_main(number, store):
        rank, tries = Rank(store, present(number, 2, store), mark=7), []

        def before(step):
            if step.number == 4:
                tries.append(1)
                if number == 0:
                    rank.job.context.barrier()

        with pytest.raises(RuntimeError, match="step 4 has failed twice, though no rank was lost"):
            rank.run(before)
        assert len(tries) == 2
        rank.job.close()

    run_all(2, rank_main)


# ---- one rank ------------------------------------------------------------------------------------

def test_exceptions_of_the_program_are_not_caught(alone):
    rank = Rank(None, alone, mark=7)
    with pytest.raises(ZeroDivisionError):
        rank.run(lambda step: 1 // 0)
    with pytest.raises(gloo_c.ArgumentError):
        rank.run(lambda step: rank.job.context.send(numpy.zeros(1), 5))
    rank.run()
    assert rank.state[0] == STEPS


def test_a_loop_without_with_is_an_error(alone):
    with pytest.raises(RuntimeError, match="with step:"):
        for _step in Rank(None, alone, mark=7).job.steps(3):
            pass


def test_a_checkpoint_sets_the_first_step(alone):
    rank = Rank(None, alone, mark=7, step=STEPS - 2).run()
    assert rank.state[0] == 2 and rank.changes[0].step == STEPS - 2
    with pytest.raises(ValueError, match="step is -1"):
        Rank(None, alone, mark=7, step=-1)


def test_joining_needs_a_store(alone, monkeypatch):
    monkeypatch.setenv("GLOO_JOIN", "1")
    with pytest.raises(gloo_c.GlooError, match="set GLOO_STORE"):
        Rank(None, None, mark=7)
    monkeypatch.setenv("GLOO_JOIN", "yes")
    with pytest.raises(gloo_c.GlooError, match="GLOO_JOIN is 'yes'; valid values are 0 and 1"):
        Rank(None, alone, mark=7)


def test_the_page_runs(job):
    text = PAGE.read_text(encoding="utf-8")
    block = next(code for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "import numpy" in code)
    status, said = job(block + "print(f'weight {weights[0]:g}')\n", 3)
    assert status == 0 and said.count("weight 100") == 3, said
    assert said.count("Change(reason='start'") == 3, said
