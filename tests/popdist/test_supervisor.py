"""Tests when the launcher signals instances and what it waits for, on a simulated clock."""

import signal
from signal import SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM

import pytest
from launching import hears_hangups
from simulated import Simulation

pytestmark = pytest.mark.usefixtures(hears_hangups.__name__)

ALL = (SIGINT, SIGTERM, SIGHUP)


@pytest.fixture
def simulation():
    """Makes simulations and closes them."""
    made = []

    def make(*arguments, **keywords):
        made.append(Simulation(*arguments, **keywords))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_all_end_by_themselves(simulation, has_pidfd):
    run = simulation(3, has_pidfd=has_pidfd)
    for index in range(3):
        run.at(float(index), index, "write", b"done")
        run.at(float(index), index, "end", 0)
    outcome = run.run()
    assert (outcome.status, outcome.failed, outcome.signal) == (0, None, 0)
    assert [each.heard for each in run.instances] == [[], [], []]
    assert run.read().splitlines() == [b"[1,%d]<stdout>:done" % i for i in range(3)]


@pytest.mark.parametrize("has_pidfd", [True, False])
@pytest.mark.parametrize(("code", "status"), [(1, 1), (255, 255), (-SIGKILL, 137)])
def test_the_status_is_that_of_the_first_that_failed(simulation, code, status, has_pidfd):
    run = simulation(3, has_pidfd=has_pidfd)
    run.at(1.0, 1, "end", code)
    run.at(1.5, 0, "end", 9)
    run.at(1.6, 2, "end", 0)
    outcome = run.run()
    assert (outcome.status, outcome.failed) == (status, run.instances[1])
    assert [each.heard for each in run.instances] == [[], [], []], "they ended by themselves"
    assert run.clock.time == pytest.approx(1.6, abs=0.06)


def test_others_have_two_seconds_to_raise_errors_and_then_as_long_again_to_end(simulation):
    run = simulation(4, obeys={2: (), 3: ()})
    run.at(1.0, 0, "end", 7)
    run.at(4.0, 3, "end", 5)
    outcome = run.run()
    assert (outcome.status, outcome.failed) == (7, run.instances[0])
    assert run.instances[1].heard == [(3.0, SIGTERM)]
    assert run.instances[2].heard == [(3.0, SIGTERM), (5.5, SIGKILL)]
    assert run.instances[3].heard == [(3.0, SIGTERM)]
    assert [each.status for each in run.instances] == [7, 143, 137, 5]


def test_of_ends_that_are_found_at_once_the_kill_is_the_cause(simulation):
    run = simulation(3)
    run.at(1.0, 0, "end", 1)
    run.at(1.0, 1, "end", -SIGKILL)
    run.at(1.0, 2, "end", 0)
    outcome = run.run()
    assert (outcome.status, outcome.failed) == (137, run.instances[1])
    assert outcome.failed.how() == "it ended by signal 9"


def test_those_that_had_ended_before_are_named(simulation):
    run = simulation(4)
    run.at(1.0, 0, "end", 0)
    run.at(2.0, 1, "end", 0)
    run.at(3.0, 3, "end", 1)
    run.at(3.5, 2, "end", 0)
    outcome = run.run()
    assert outcome.before == run.instances[:2]


@pytest.mark.parametrize("number", ALL)
def test_a_signal_goes_to_all_at_once_and_kills_follow(simulation, number):
    run = simulation(3, obeys={1: ()})
    run.at(0.5, 2, "end", 0)
    run.clock.at(1.0, lambda: signal.raise_signal(number))
    outcome = run.run()
    assert (outcome.status, outcome.signal, outcome.failed) == (128 + number, number, None)
    assert run.instances[0].heard == [(1.0, number)]
    assert run.instances[1].heard == [(1.0, number), (1.6, SIGKILL)]
    assert run.instances[2].heard == []


def test_the_first_signal_counts(simulation):
    run = simulation(1, obeys={0: ()})
    run.clock.at(1.0, lambda: signal.raise_signal(SIGINT))
    run.clock.at(1.2, lambda: signal.raise_signal(SIGTERM))
    assert run.run().status == 128 + SIGINT
    assert run.instances[0].heard == [(1.0, SIGINT), (1.6, SIGKILL)]


def test_a_signal_while_the_others_of_a_failure_end(simulation):
    run = simulation(2)
    run.at(1.0, 0, "end", 3)
    run.clock.at(1.5, lambda: signal.raise_signal(SIGINT))
    outcome = run.run()
    assert (outcome.status, outcome.signal) == (130, SIGINT)
    assert run.instances[1].heard == [(1.5, SIGINT)]


def test_the_end_of_the_terminal_is_ignored_under_nohup(simulation):
    former = signal.signal(SIGHUP, signal.SIG_IGN)
    try:
        run = simulation(1)
        run.clock.at(1.0, lambda: signal.raise_signal(SIGHUP))
        run.at(5.0, 0, "end", 0)
        assert run.run().status == 0 and run.instances[0].heard == []
    finally:
        signal.signal(SIGHUP, former)


def test_signals_of_the_launcher_are_those_of_before_afterwards(simulation):
    former = [signal.getsignal(number) for number in ALL]
    run = simulation(1)
    run.at(1.0, 0, "end", 0)
    run.run()
    assert [signal.getsignal(number) for number in ALL] == former


def test_nobody_reads_any_more(simulation):
    run = simulation(2)
    run.clock.at(1.0, run.close_reader)
    run.at(2.0, 0, "write", b"a\n")
    outcome = run.run()
    assert (outcome.status, outcome.signal) == (128 + SIGPIPE, SIGPIPE)
    assert [each.heard for each in run.instances] == [[(2.0, SIGTERM)]] * 2


class Flood:
    """Instance 0 writes `size` bytes, whenever its pipe has room, and then ends."""

    def __init__(self, run, size):
        self.run, self.rest = run, (b"x" * 99 + b"\n") * (size // 100)
        self.size = len(self.rest)
        run.clock.at(1.0, self._write)

    def _write(self):
        instance = self.run.instances[0]
        if instance.has_ended():
            return
        self.rest = instance.write(self.rest)
        if self.rest:
            self.run.clock.at(self.run.clock.time + 0.001, self._write)
        else:
            instance.end(0)


def test_an_instance_is_not_read_while_nobody_reads_the_launcher(simulation):
    """The launcher keeps a little more than 1 MiB, and reads again when that is written."""
    run = simulation(1)
    flood = Flood(run, 3 << 20)
    found = []
    run.clock.at(9.0, lambda: found.append(flood.size - len(flood.rest)))

    def read():
        found.append(run.read())
        run.clock.at(run.clock.time + 0.001, read)

    run.clock.at(10.0, read)
    assert run.run().status == 0
    kept, *parts = found
    assert 1 << 20 <= kept < (1 << 20) + (1 << 18)
    written = b"".join(parts) + run.read()
    assert written == (b"[1,0]<stdout>:" + b"x" * 99 + b"\n") * (flood.size // 100)


def test_a_signal_while_nobody_reads(simulation):
    run = simulation(1, obeys={0: ()})
    Flood(run, 3 << 20)
    run.clock.at(9.0, lambda: signal.raise_signal(SIGINT))
    assert run.run().status == 130
    assert run.instances[0].heard == [(9.0, SIGINT), (9.6, SIGKILL)]
    assert run.clock.time < 11, "readers have a moment to take what is left"


def test_a_signal_while_all_have_ended_and_nobody_reads(simulation):
    run = simulation(1)
    Flood(run, 1 << 18)
    run.clock.at(9.0, lambda: signal.raise_signal(SIGTERM))
    assert run.run().status == 128 + SIGTERM
    assert 9 < run.clock.time < 10 and run.instances[0].heard == []


def test_pipes_that_others_hold_open_are_not_waited_for(simulation):
    run = simulation(1)
    run.at(1.0, 0, "write", b"a\nb")
    run.at(1.0, 0, "end", 0, held=True)
    run.at(1.2, 0, "write", b"c\n")
    run.at(9.0, 0, "close")
    assert run.run().status == 0
    assert run.clock.time < 3
    assert run.read() == b"[1,0]<stdout>:a\n[1,0]<stdout>:bc\n"
    run.instances[0].close()


def test_an_instance_that_closes_its_output_runs_on(simulation):
    run = simulation(2)
    run.at(1.0, 0, "close")
    run.at(2.0, 1, "end", 0)
    run.at(30.0, 0, "end", 3)
    outcome = run.run()
    assert (outcome.status, outcome.failed) == (3, run.instances[0])


def test_output_that_cannot_be_written_ends_all(simulation, tmp_path):
    folder = tmp_path / "1" / "rank.0"
    folder.mkdir(parents=True)
    (folder / "stdout").symlink_to("/dev/full")
    run = simulation(2, folder=tmp_path)
    run.at(1.0, 0, "write", b"a\n")
    outcome = run.run()
    assert outcome.status == 1 and "No space left" in outcome.error
    assert [each.heard for each in run.instances] == [[(1.0, SIGTERM)]] * 2


def test_the_simulation_notices_a_wait_without_an_end(simulation):
    with pytest.raises(AssertionError, match="waits for ever"):
        simulation(1).run()
