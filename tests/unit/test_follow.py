"""Following a run to its end: over broken connections, through restarts, until it is to stop.

Time passes only while somebody waits.
"""

import dataclasses
import json
import math
from types import SimpleNamespace

import pytest
from samples import (
    ALIVE,
    BAD_END,
    CANCELLED,
    CANCELLED_END,
    CHANGE,
    DONE,
    END,
    FAILED,
    REBOOT,
    STALE,
    START,
    WANT,
    WHOLE_RUN,
    cut,
    events,
    frames,
    output,
    seen,
)
from scripted import HOST

from provision import follow, wire
from provision.errors import AccessError, HostKeyError, TransportError
from provision.stop import Stop
from provision.target import Target
from provision.transport import Cost, Result

BOOT = dataclasses.replace(seen().boot, id="before", kernel="6.1", next_kernel="6.2")
BEFORE, AFTER = "before\n6.1\n", "after\n6.2\n"
AWAY = TransportError("h: can't be reached")
REFUSES = AccessError("h: root@h refuses us")
STRANGER = HostKeyError("h: the host key of h has CHANGED", hint="somebody is in between")
EVER = math.inf

pytestmark = pytest.mark.usefixtures("clock")


class Host:
    """Says which boot it is in by the clock, and of its runs what it is given to say."""

    host = "h"

    def __init__(self, clock, *phases, streams=(), jobs="", cancels=()):
        self.clock, self.phases, self.jobs = clock, phases, jobs
        self.streams, self.cancels = list(streams), list(cancels)
        self.cost = Cost()
        self.asked = []
        self.requests = []
        self.line = ""
        """The last that was said of a run."""

    def run(self, argv, stdin, *, deadline, root=False):
        self.asked.append((self.clock.now, argv[0]))
        if argv == wire.ARGV:
            self.requests.append(json.loads(frames(stdin)[1]) | {"behind": self.line})
            return self._said(self.cancels.pop(0) if self.cancels else '{"cancelled": true}')
        if argv == follow.JOBS:
            return self._said(self.jobs)
        if argv == follow.ASK:
            return self._said(next(said for end, said in self.phases if self.clock.now < end))
        return self._said("running\n")

    def follow(self, argv, stdin, *, silence):
        self.requests.append(json.loads(frames(stdin)[1]))
        for line in self.streams.pop(0):
            if isinstance(line, Exception):
                raise line
            self.line = json.loads(line)["event"]
            yield line

    def close(self):
        pass

    def _said(self, text):
        if isinstance(text, Exception):
            raise text
        return Result(exit=0, out=text, err="")


@pytest.fixture
def followed(clock):
    """Follows what a host has to say: `to` an error, or to the run's end; and what was told."""

    def call(*phases, to=None, boot=BOOT, reboots=False, then=None, stopped=False, **says):
        host = Host(clock, *phases, **says)
        told = []
        stop = Stop()
        if stopped:
            stop.set()

        def tell(event):
            told.append(event)
            if event["event"] == then:
                stop.set()

        target = Target(host=HOST, want=WANT, transport=host)
        watch = follow.Watch(target=target, tell=tell, stop=stop, boot=boot, reboots=reboots)
        if to is None:
            follow.finish(watch, wire.apply(host, {}))
            error = None
        else:
            with pytest.raises(to) as caught:
                follow.finish(watch, wire.apply(host, {}))
            assert type(caught.value) is to
            error = caught.value
        assert host.streams == []
        words = [event["event"] for event in told]
        return SimpleNamespace(host=host, told=told, words=words, error=error)

    return call


@pytest.fixture
def restarted(followed):
    """Follows a run that ends with a restart."""

    def call(*phases, **more):
        return followed(*phases, streams=[events(REBOOT)], **more)

    return call


# --- how a run ends ----------------------------------------------------------------------------


def test_a_run_is_told_without_its_heartbeats(followed):
    done = followed(streams=[events(START, ALIVE, CHANGE, ALIVE, DONE, END)])
    assert done.words == ["start", "change", "done", "end"]
    assert done.host.asked == []


@pytest.mark.parametrize(
    ("last", "what"),
    [
        ({"event": "lost"}, "h: the run on the host died without an end"),
        (
            {**BAD_END, "reason": "another run holds this host"},
            "h: another run holds this host",
        ),
        (BAD_END, "h: the run failed"),
    ],
)
def test_a_run_that_does_not_end_well(followed, last, what):
    error = followed(streams=[events(START, last)], to=follow.NotConverged).error
    assert error.what == what
    assert "/var/log/firstlight/r1.log" in error.hint


def test_a_change_that_fails_is_told_with_its_log(followed):
    said = events(START, CHANGE, FAILED, BAD_END)
    error = followed(streams=[said], to=follow.NotConverged).error
    assert (error.what, error.log) == ("h: a: sh exits 1", ("$ sh", "oops"))
    assert "mend the cause" in error.hint


def test_a_run_that_came_too_late_did_nothing(followed):
    error = followed(streams=[events(STALE)], to=follow.Stale).error
    assert error.what == "h: another run was started in between; nothing was done"
    assert error.hint == "run the same command again"


def test_a_run_that_somebody_stopped_says_who_and_before_what(followed):
    said = events(START, CHANGE, DONE, CANCELLED, CANCELLED_END)
    error = followed(streams=[said], to=follow.Cancelled).error
    assert error.what == "h: cancelled by them@there before b; what was done stays"
    assert (error.hint, error.exit_code) == ("the same command goes on from there", 130)


# --- connections that break --------------------------------------------------------------------

BACK = (EVER, BEFORE)


@pytest.mark.parametrize("passed", range(len(WHOLE_RUN)))
def test_a_run_is_followed_on_over_a_broken_connection_and_each_event_told_once(followed, passed):
    done = followed(
        (5, AWAY), BACK, streams=[cut(*WHOLE_RUN[:passed]), events(*WHOLE_RUN[passed:])]
    )
    assert [event for event in done.told if event["event"] != "reconnecting"] == [
        {"run": "r1", **event} for event in WHOLE_RUN
    ]
    assert done.words.count("reconnecting") == 1
    assert done.host.requests[1] == {"do": "follow", "run": "r1", "events": passed, "lines": 0}


def test_what_is_known_is_counted_over_all_connections(followed):
    done = followed(
        BACK,
        streams=[
            cut(START, output("1"), CHANGE, output("2")),
            cut(output("3"), ALIVE, lines=2),
            events(DONE, END, lines=3),
        ],
    )
    known = [(request["events"], request["lines"]) for request in done.host.requests[1:]]
    assert known == [(2, 2), (2, 3)]
    assert [event["line"] for event in done.told if event["event"] == "output"] == ["1", "2", "3"]
    assert done.words.count("reconnecting") == 2


def test_lines_from_before_a_run_was_joined_are_known_as_well(followed):
    done = followed(BACK, streams=[cut(START, output("8"), lines=7), events(END, lines=8)])
    assert done.host.requests[1]["lines"] == 8


LOST = {"event": "lost"}


def test_a_run_that_a_restart_came_before_did_nothing(followed):
    slow = follow.AWAY_DEADLINE / 2  # as large servers restart
    done = followed((slow, AWAY), (EVER, AFTER), streams=[cut(), events(LOST)], to=follow.Stale)
    assert done.error.what == "h: the host restarted before the run began; nothing was done"
    assert {*done.words} == {"reconnecting", "waiting"}
    assert done.host.asked[-1][1] == "/usr/bin/systemctl"  # its services are awaited, too


@pytest.mark.parametrize(
    ("told", "boot"),
    [((START, CHANGE), AFTER), ((), BEFORE)],
    ids=["begun before the restart", "in the same boot"],
)
def test_a_run_that_began_or_that_no_restart_ended_has_died(followed, told, boot):
    done = followed((EVER, boot), streams=[cut(*told), events(LOST)], to=follow.NotConverged)
    assert done.error.what == "h: the run on the host died without an end"


def test_a_failure_behind_a_broken_connection_is_told_with_its_reason(followed):
    streams = [cut(START, CHANGE, FAILED), events(BAD_END)]
    error = followed(BACK, streams=streams, to=follow.NotConverged).error
    assert (error.what, error.log) == ("h: a: sh exits 1", ("$ sh", "oops"))


def test_a_connection_that_breaks_before_a_run_has_a_name_is_an_error(followed):
    gone = TransportError("h: gone")
    assert followed(BACK, streams=[[gone]], to=TransportError).error is gone


def test_a_host_that_stays_away_while_its_run_goes_on(followed, clock):
    assert followed((EVER, AWAY), streams=[cut(START)], to=TransportError).error is AWAY
    assert 0 < clock.now - follow.RECONNECT_DEADLINE < follow.LONGEST_WAIT + 1


def test_a_run_that_may_restart_its_host_is_waited_for_as_long_as_a_restart(followed, clock):
    done = followed((600, AWAY), BACK, streams=[cut(START), events(END)], reboots=True)
    assert done.words[-1] == "end"
    assert clock.now > 600


# --- restarts ----------------------------------------------------------------------------------


def test_a_restart_is_over_when_the_host_is_in_another_boot_and_has_started(restarted):
    done = restarted((5, BEFORE), (20, AWAY), (EVER, AFTER))
    assert done.words == ["end", "rebooting", "back"]
    assert 20 <= done.told[-1]["seconds"] < 30
    assert done.host.asked[-1][1] == "/usr/bin/systemctl"


@pytest.mark.parametrize(
    ("kernel", "following", "expected"),
    [
        ("6.2", "6.2", []),
        ("6.1", "6.2", [{"event": "other-kernel", "kernel": "6.1", "expected": "6.2"}]),
        ("6.1", None, []),
        ("6.3", None, [{"event": "other-kernel", "kernel": "6.3", "expected": "6.1"}]),
    ],
)
def test_a_host_that_comes_back_with_another_kernel(restarted, kernel, following, expected):
    boot = dataclasses.replace(BOOT, next_kernel=following)
    done = restarted((5, AWAY), (EVER, f"after\n{kernel}\n"), boot=boot)
    assert done.told[3:] == expected


def test_a_host_that_comes_back_with_another_key_is_not_waited_for(restarted):
    done = restarted((5, AWAY), (EVER, STRANGER), to=HostKeyError)
    assert done.error.what == "after its restart, h: the host key of h has CHANGED"
    assert done.error.hint == "somebody is in between"
    assert len([now for now, _ in done.host.asked if now >= 5]) == 1


def test_a_host_that_does_not_come_back(restarted, clock):
    error = restarted((5, BEFORE), (EVER, AWAY), to=follow.NotConverged).error
    assert error.what == ("h: has not come back 20 minutes after its restart: h: can't be reached")
    assert "console" in error.hint
    assert clock.now > follow.AWAY_DEADLINE


JOBS = "  12 reboot.target start waiting\n 9 ollama.service stop running\n\n"


@pytest.mark.parametrize(
    ("jobs", "waits"),
    [
        (
            JOBS,
            "; systemd still works on: ollama.service stop running, reboot.target start waiting",
        ),
        ("", ""),
        (AWAY, ""),
    ],
)
def test_a_host_that_says_yes_to_a_restart_but_stays_in_its_boot(restarted, clock, jobs, waits):
    error = restarted((EVER, BEFORE), jobs=jobs, to=follow.NotConverged).error
    assert error.what == f"h: said yes to the restart, but is still in the same boot{waits}"
    assert "systemd-inhibit --list" in error.hint
    assert 0 < clock.now - follow.SAME_BOOT_DEADLINE < 1


def test_a_host_may_refuse_logins_for_a_while(restarted):
    """While it shuts down and while it boots: neither counts for the other."""
    done = restarted((30, REFUSES), (600, AWAY), (700, REFUSES), (EVER, AFTER))
    assert done.words[-1] == "back"


def test_a_host_that_still_refuses_logins_when_it_has_booted(restarted, clock):
    error = restarted((20, AWAY), (EVER, REFUSES), to=follow.NotConverged).error
    assert error.what == ("h: has not come back 2 minutes after its restart: h: root@h refuses us")
    assert 20 + follow.BOOTING_DEADLINE < clock.now < 180


@pytest.mark.parametrize("text", ["", "before\n"])
def test_an_answer_that_the_shutdown_cuts_short_is_none(restarted, text):
    assert restarted((5, text), (EVER, AFTER)).words[-1] == "back"
    error = restarted((EVER, text), to=follow.NotConverged).error
    assert error.what.endswith("h: does not say which boot it is in")


def test_a_host_that_is_awaited_is_spoken_of_every_half_minute(restarted):
    done = restarted((130, AWAY), (EVER, AFTER))
    said = [event["reason"] for event in done.told if event["event"] == "waiting"]
    times = [int(text.split()[2]) for text in said]
    assert said[0] == f"waiting for {times[0]} s: h: can't be reached"
    gaps = [after - before for before, after in zip([0, *times], times, strict=False)]
    assert len(gaps) == 3
    assert all(30 <= gap <= 30 + follow.LONGEST_WAIT for gap in gaps)


# --- an end that is asked for ------------------------------------------------------------------


def test_a_run_is_asked_to_stop_once_and_followed_to_where_it_does(followed):
    said = events(START, ALIVE, ALIVE, CHANGE, DONE, CANCELLED, CANCELLED_END)
    done = followed(streams=[said], then="start", to=follow.Cancelled)
    assert done.words == [
        *("start", "cancelling", "change", "done", "cancelled", "end"),
    ]
    (asked,) = done.host.requests[1:]
    assert asked == {"do": "cancel", "run": "r1", "by": follow.me(), "behind": "alive"}


def test_a_run_is_not_asked_to_stop_before_it_has_begun(followed):
    streams = [events(START, CHANGE, CANCELLED, CANCELLED_END)]
    done = followed(streams=streams, stopped=True, to=follow.Cancelled)
    assert [request.get("behind") for request in done.host.requests] == [None, "start"]


def test_a_run_that_was_done_before_it_could_stop_is_done(followed):
    done = followed(
        streams=[events(START, ALIVE, END)], then="start", cancels=['{"cancelled": false}']
    )
    assert done.words[-1] == "end"


def test_a_request_to_stop_that_did_not_arrive_is_made_again(followed):
    done = followed(
        (20, AWAY),
        BACK,
        streams=[events(START, ALIVE), events(CANCELLED, CANCELLED_END)],
        cancels=[TransportError("h: the connection broke")],
        then="start",
        to=follow.Cancelled,
    )
    assert [request["do"] for request in done.host.requests] == [
        *("apply", "cancel", "follow", "cancel"),
    ]
    assert done.words == ["start", "reconnecting", "cancelling", "cancelled", "end"]


def test_a_connection_that_breaks_behind_a_request_to_stop_is_made_anew(followed):
    streams = [cut(START, ALIVE), events(CANCELLED, CANCELLED_END)]
    done = followed((20, AWAY), BACK, streams=streams, then="start", to=follow.Cancelled)
    assert done.error.what.startswith("h: cancelled by them@there")
    assert [request["do"] for request in done.host.requests] == ["apply", "cancel", "follow"]


def test_whoever_asked_for_an_end_does_not_wait_for_a_host_that_is_away(restarted, clock):
    error = restarted((EVER, AWAY), then="waiting", to=follow.Cancelled).error
    assert error.what == "h: cancelled while it was awaited"
    assert (error.hint, error.exit_code) == ("the same command goes on", 130)
    assert clock.now < 2 * follow.PATIENCE
