"""The ``serve`` and ``status`` commands: the service that nobody looks at, and how it is."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from tracker import console
from tracker.cli_run import NOTHING, Lines, Stop, interrupts
from tracker.errors import Exit
from tracker.home import Home
from tracker.queue_work import command_of, read_queue
from tracker.serving import health, only_service, read_told

GB = 1 << 30


def serve_command(home: Home, *, once: bool) -> Exit:
    """Serve until asked to stop; what was begun is ended in order, and goes on at the next start."""
    from tracker.service import Service

    home.stop = stop = Stop()
    with only_service(home), interrupts(stop):
        settings = home.loaded.settings.service
        for name in settings.tracks:
            home.track(name)
        tracks, hours = ", ".join(settings.tracks), settings.poll_hours
        console.note(f"serving {home.folder}: looking for builds of {tracks} every {hours:g} h")
        Service(home, Lines(NOTHING), _say).run(once=once)
    console.note("the service has ended" + ("" if once else "; 'dmltrack serve' goes on where it stopped"))
    return Exit.OK


def _say(text: str) -> None:
    console.note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}")


def status_command(home: Home, *, json: bool) -> Exit:
    """Say how the service is. Exit 0: alive and well, 3: not."""
    settings = home.loaded.settings
    silence = timedelta(hours=settings.service.silence_hours)
    state, queue = health(read_told(home.folder), datetime.now(UTC), silence), read_queue(home)
    free = shutil.disk_usage(home.folder).free / GB
    if json:
        told = asdict(state.told) if state.told else None
        waiting = [{"job": one.asked.job, "cause": one.asked.cause, "command": command_of(one.asked)}
                   for one in queue.waiting]  # fmt: skip
        console.say(
            console.as_json(
                {
                    "alive": state.alive,
                    "well": state.well,
                    "why": state.why,
                    "service": told,
                    "waiting": waiting,
                    "paused": queue.paused,
                    "free_gb": round(free, 1),
                }
            )
        )
    else:
        console.say(f"service: {'well' if state.well else state.why}")
        if (said := state.told) is not None:
            console.say(f"doing: {said.doing or 'nothing'}")
            for label, moment in (
                ("last answer of the index", said.last_poll),
                ("last job done", said.last_done),
            ):
                when = f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "none since it started"
                console.say(f"{label}: {when}")
            if said.trouble:
                console.say(f"trouble: {said.trouble}")
        console.say(
            f"queue: {len(queue.waiting)} waiting" + (f", paused: {queue.paused}" if queue.paused else "")
        )
        console.say(f"disk: {free:.1f} GB free")
    return Exit.OK if state.well else Exit.OUTSIDE
