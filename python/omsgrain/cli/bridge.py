# SPDX-License-Identifier: Apache-2.0
"""``omsgrain bridge``: connect a broker to a store."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    EXISTING,
    NewPath,
    Seconds,
    command,
    flag,
    log_format_option,
    need,
    options,
    refuse_given,
    size_option,
    store_argument,
)
from omsgrain.cli.open import (
    actor_option,
    first_line,
    open_store,
    plain_option,
    policy_option,
    trust_options,
)
from omsgrain.cli.retain import LimitArguments, history_options
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.bridge.broker import Broker, BrokerConnection
    from omsgrain.server.log import Log

EXAMPLES = r"""
From robots over MQTT, shared with other bridges of the group hub:
    omsgrain bridge hub.omsg --mqtt mqtt://127.0.0.1:1883 --topic robots/+/memory --group hub \
        --dead-letter refused/memory
From a NATS JetStream stream, and the changes of the store into another:
    omsgrain bridge hub.omsg --nats nats://127.0.0.1:4222 --stream MEMORY --durable hub \
        --dead-letter-dir refused --publish changes.hub
The last week, and the maps for ever, in a file of at most 512 MB:
    omsgrain bridge hub.omsg --mqtt mqtt://127.0.0.1:1883 --topic robots/+/memory \
        --dead-letter-dir refused --keep 7d --max-bytes 512MB --keep-where namespace=maps
"""
PASSWORD = "OMSGRAIN_BROKER_PASSWORD"

_MQTT = ("topic", "group", "client_id", "session")
_NATS = ("stream", "durable", "subject", "ack_wait", "creds")
_READING = ("group", "subject", "dead_letter", "dead_letter_dir")


_options = options(*reversed((
    click.option("--mqtt", metavar="URL",
                 help="An MQTT 5 broker: mqtt://HOST:PORT, or mqtts."),
    click.option("--topic", multiple=True, metavar="FILTER",
                 help="A topic to subscribe to, with + and #. Repeatable."),
    click.option("--group", metavar="NAME",
                 help="Share the topics with all bridges of this group ($share/NAME/...)."),
    click.option("--client-id", metavar="NAME",
                 help="The name of the session; by default made of this machine, STORE and "
                     "the group. Each bridge needs its own."),
    click.option("--session", type=click.IntRange(0, 0xFFFFFFFF), default=7 * 86_400,
                 metavar="SECONDS",
                 help="How long the broker keeps messages while the bridge is not connected."),
    click.option("--nats", metavar="URL", help="A NATS server: nats://HOST:PORT, or tls."),
    click.option("--stream", metavar="NAME", help="The stream to read; it must exist."),
    click.option("--durable", metavar="NAME", default="omsgrain",
                 help="The consumer, created if it does not exist. Bridges with the same "
                 "consumer share its messages."),
    click.option("--subject", metavar="FILTER",
                 help="Only messages of these subjects, if the consumer is created."),
    click.option("--ack-wait", type=Seconds(0.1, 86_400), default=30.0,
                 metavar="SECONDS",
                 help="When NATS delivers an unacknowledged message again, if the consumer "
                 "is created."),
    click.option("--dead-letter", metavar="NAME",
                 help="A topic or subject of the same broker for refused messages."),
    click.option("--dead-letter-dir", type=NewPath(dir_okay=True, file_okay=False),
                 help="A directory for refused messages, as files."),
    click.option("--publish", metavar="NAME",
                 help="Publish the changes of STORE to this topic or subject."),
    click.option("--user", metavar="NAME", help="The user name. The URL must not contain it."),
    click.option("--password-file", type=EXISTING,
                 help="The password, or a NATS token: the first line of this file; by "
                     f"default {PASSWORD}."),
    flag("--plain-password", help="Send the password over the network without TLS."),
    click.option("--creds", type=EXISTING, help="A credentials file of NATS."),
    click.option("--ca", type=EXISTING, help="Certificate authorities for TLS, PEM."),
    click.option("--cert", type=EXISTING, help="The bridge's certificate, PEM."),
    click.option("--key", type=EXISTING, help="The certificate's private key, PEM."),
    click.option("--batch", type=click.IntRange(1, 65_535), default=1_000,
                 metavar="N", help="The most messages in one commit."),
    size_option("--batch-bytes", "8MB", "About how many bytes in one commit."),
    click.option("--batch-age", type=Seconds(0, 60), default=0.25,
                 metavar="SECONDS", help="How long a message may wait for others."),
    click.option("--in-flight", type=click.IntRange(1, 65_535), default=2_000,
                 metavar="N",
                 help="The most unacknowledged messages that the broker delivers."),
    size_option("--message-limit", "16MB", "The largest message; larger ones are refused."),
    flag("--require-signatures", help="Accept only grains with a valid signature."),
    policy_option,
    history_options,
    click.option("--stats", type=Seconds(0.1, 86_400), default=60.0,
                 metavar="SECONDS", help="Time between two reports."),
    click.option("--metrics-port", type=click.IntRange(0, 65_535), metavar="N",
                 help="Serve figures for Prometheus at http://127.0.0.1:N/metrics; 0 "
                 "chooses a free port."),
    log_format_option,
)))  # fmt: skip


@command(
    "Store grains from a broker.",
    EXAMPLES,
    exits={60: "The broker refuses the connection, or a stream does not exist."},
)
@store_argument(exists=False, file_okay=False)
@_options
@actor_option
@plain_option
@trust_options
@output.json_option
def bridge(
    store: Where,
    mqtt: str | None,
    nats: str | None,
    dead_letter: str | None,
    dead_letter_dir: Path | None,
    publish: str | None,
    batch: int,
    batch_bytes: int,
    batch_age: float,
    in_flight: int,
    message_limit: int,
    require_signatures: bool,
    policy: str | None,
    limits: LimitArguments,
    stats: float,
    metrics_port: int | None,
    log_format: Any,
    actor: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Store the grains from a broker in STORE, until SIGTERM.

    A message is a blob, an envelope, or JSON: one grain, a list, or lines. The bridge acknowledges
    it once it is on the disk. It sends a refused message to --dead-letter with the code and the
    reason, and acknowledges it then. With --publish alone, it reads nothing.

    Reports are lines on stdout, with --json as JSON. Reports and the log contain no content of
    grains.
    """
    if (mqtt is None) == (nats is None):
        raise click.UsageError("give --mqtt or --nats, not both")
    reads = bool(given["topic"]) if nats is None else given["stream"] is not None
    if not reads and publish is None:
        raise click.UsageError("nothing to do: give --topic or --stream to read, or --publish")
    if dead_letter is not None and dead_letter_dir is not None:
        raise click.UsageError("--dead-letter and --dead-letter-dir exclude each other")
    if reads and dead_letter is None and dead_letter_dir is None:
        raise click.UsageError("refused messages need --dead-letter or --dead-letter-dir")
    refuse_given("--mqtt" if nats is None else "--nats", *(_NATS if nats is None else _MQTT))
    if not reads:
        refuse_given("no --topic or --stream to read from", *_READING)
    for name in (dead_letter, publish):
        _check_name(name, nats is not None)
    for option in ("stream", "durable"):
        _check_word(option, given[option])
    from omsgrain.bridge.bridge import BridgeLimits, BridgePlan, follower, run
    from omsgrain.bridge.broker import covers
    from omsgrain.server.log import Log

    names = [name for name in (dead_letter, publish) if name is not None]
    # With NATS only the server can say which subjects the stream has.
    pairs = ((topic, name) for topic in given["topic"] for name in names)
    if any(covers(topic, name, between="/", one="+", rest="#") for topic, name in pairs):
        raise click.UsageError("the bridge would read what it publishes")

    log = Log(log_format)
    broker = _broker(mqtt or nats or "", nats is not None, given)
    connect = _connector(broker, store, in_flight, names, log, given)
    batches = BridgeLimits(count=batch, bytes=batch_bytes, age=batch_age, message=message_limit)
    letters = dead_letter_dir or dead_letter or ""
    name = publish and follower(broker.name, publish)
    plan = BridgePlan(letters, publish, name or "", reads, batches, stats, metrics_port)
    opened = open_store(
        store,
        actor=actor or "bridge",
        policy=policy,
        require_signatures=require_signatures,
        **limits,
    )
    run(opened, connect, plan, log, partial(_report, as_json))


def _report(as_json: bool, counts: dict[str, Any]) -> None:
    text = (
        "{messages} messages, {stored} stored, {duplicates} duplicates, {refused} refused, "
        "{acknowledged} acknowledged, {published} published"
    )
    output.done(as_json, text.format(**counts), **counts)


def _check_name(name: str | None, is_nats: bool) -> None:
    """Refuse a topic or subject with wildcards."""
    wild = ("*", ">") if is_nats else ("+", "#")
    if name is not None and (not name or any(sign in name for sign in wild)):
        raise click.UsageError(
            "--publish and --dead-letter need one topic or subject, without wildcards"
        )


def _check_word(option: str, name: str | None) -> None:
    """Refuse an invalid name of a NATS stream or consumer."""
    if name is not None and (not name or not name.isprintable() or set(name) & set(" .*>/\\")):
        raise click.UsageError(
            f"--{option}: expected a name without spaces, dots, slashes and wildcards"
        )


def _broker(url: str, is_nats: bool, given: dict[str, Any]) -> Broker:
    from omsgrain.bridge.broker import Credentials, broker

    password = os.environ.get(PASSWORD)
    if (file := given["password_file"]) is not None:
        password = first_line(file, "--password-file")
    if password is not None and given["user"] is None and not is_nats:
        raise click.UsageError("a password needs --user")
    own = Credentials(
        given["user"], password, given["creds"], given["ca"], given["cert"], given["key"]
    )
    schemes = ("nats", "tls") if is_nats else ("mqtt", "mqtts")
    return broker(url, schemes, own, in_clear=given["plain_password"])


def _connector(
    broker: Broker,
    store: Where,
    in_flight: int,
    publishes: list[str],
    log: Log,
    given: dict[str, Any],
) -> Callable[[], BrokerConnection]:
    """Return the function that connects to the broker."""
    is_nats = broker.scheme in ("nats", "tls")
    if is_nats:
        need("nats", "nats")
        from omsgrain.bridge.nats import Nats

        return lambda: Nats(
            broker,
            log,
            stream=given["stream"],
            durable=given["durable"],
            subject=given["subject"],
            in_flight=in_flight,
            ack_wait=given["ack_wait"],
            publishes=publishes,
        )
    need("mqtt", "paho")
    from omsgrain.bridge.mqtt import Mqtt, shared

    group = given["group"]
    client = given["client_id"] or _client_id(store, group)
    topics = [shared(topic, group) for topic in given["topic"]]
    return lambda: Mqtt(broker, client, topics, log, in_flight=in_flight, session=given["session"])


def _client_id(store: Where, group: str | None) -> str:
    """Return a stable session name; every broker accepts 23 letters and digits."""
    of = "\n".join(
        [platform.node(), str(store.absolute() if isinstance(store, Path) else store), group or ""]
    )
    return "omsgrain" + sha256(of.encode("utf-8", "surrogateescape")).hexdigest()[:15]
