"""Valkey and PostgreSQL, started by the first process of a project and stopped after the last.

`embedded.join` is the way in. Everything lives below one folder, *home*:

    start.lock      held by whoever decides about starting or stopping, for as long as that takes
    users.lock      held, shared, by every process that uses a server
    watchdog.lock   held by the watchdog for life
    <name>.lock     held by a server and its children for life; its text is the server's pid
    <name>/         data and log of a server, and its socket where the path is short enough

All of them are `flock` locks: the kernel drops them however a process ends, so none is ever stale.
This package and `locks`, `process`, `sockets` and `watchdog` import nothing heavy: the watchdog is
there all day.
"""
