"""Commands that run the product: everything at once (``up``, ``down``) or one process of it."""

from __future__ import annotations

from typing import Annotated

import typer

Workers = Annotated[int | None, typer.Option("--workers", min=0, help="Worker processes; default TRINITY_WORKERS.")]


def up(
    workers: Workers = None,
    flower: Annotated[bool, typer.Option("--flower/--no-flower", help="Start Flower.")] = True,
    pool: Annotated[bool | None, typer.Option("--pool/--no-pool", help="Start the local pools' server.")] = None,
) -> None:
    """Start everything, in the foreground.

    That is database, broker, scheduler, workers, local pools and Flower. Services whose URL is set are used, the others
    are started privately with their data under TRINITY_VAR_DIR. Ctrl-C, or `manage.py down` from elsewhere, stops all.
    """
    from services.cli import children, connections

    settings = connections.load_settings()
    plan = children.Plan(
        workers=settings.workers if workers is None else workers,
        flower=flower,
        pool=settings.local_pool if pool is None else pool,
    )
    children.run(settings, plan)


def down() -> None:
    """Stop what `up` started. Returns when all of it has stopped."""
    from services.cli import connections, render
    from services.core.errors import TrinityError
    from services.local import supervisor

    settings = connections.load_settings()
    running = supervisor.status(settings.var_dir)
    if running is None:
        render.say(f"nothing runs on {settings.var_dir}")
        return
    render.say(f"stopping process {running.pid} and its {len(running.processes)} children")
    supervisor.ask_to_stop(settings.var_dir)
    if supervisor.status(settings.var_dir) is not None:
        raise TrinityError(f"process {running.pid} is still stopping; look at its terminal, then try again")
    render.say("stopped")


def worker() -> None:
    """Become a worker: run episodes until stopped. Several may run, on several machines."""
    become("worker")


def scheduler() -> None:
    """Become the scheduler. A second one waits and takes over when the first is gone."""
    become("scheduler")


def flower() -> None:
    """Become Flower, the page of workers and tasks. It asks for a password and changes nothing."""
    from services.cli import connections, passwords, render
    from services.queue.flower import FlowerOptions, serve

    settings = connections.load_settings()
    password = passwords.flower_password(settings)
    (settings.var_dir / "run").mkdir(parents=True, exist_ok=True)
    with connections.open_queues(settings):
        render.say(f"Flower at http://{settings.flower_host}:{settings.flower_port}, user {settings.flower_user}")
    serve(
        FlowerOptions(
            broker_url=connections.broker_url(settings),
            host=settings.flower_host,
            port=settings.flower_port,
            user=settings.flower_user,
            password=password,
            state_file=settings.var_dir / "run" / "flower.state",
        )
    )


def become(module: str) -> None:
    """Replace this process by ``python -m MODULE`` that knows the addresses of database and broker."""
    import os
    import sys

    from services.cli import children, connections

    environment = children.environment(connections.load_settings())
    os.execve(sys.executable, [sys.executable, "-m", module], {**os.environ, **environment})  # noqa: S606


def register(app: typer.Typer) -> None:
    """Add these commands to the root, where they stand beside the nouns."""
    for command in (up, down, worker, scheduler, flower):
        app.command(command.__name__)(command)
