# SPDX-License-Identifier: Apache-2.0
"""LangGraph's checkpointer over a store of grains.

    LangGraph          grain, a State whose session is the thread
    checkpoint         namespace "langgraph:checkpoints", subject [thread, namespace] as JSON,
                       object its id, run_id that of the run; names the values of its channels
    value of a channel namespace "langgraph:values", subject the SHA-256 of its bytes: equal
                       values of a thread are one grain, in checkpoints and pending writes
    pending write      namespace "langgraph:writes", subject [thread, namespace, checkpoint]

All of a thread has its session, so deleting a thread frees everything. Long values are split into
parts. The serializer of LangGraph makes the bytes; it decides which types may be read again.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

import omsgrain as og
from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.integrations.entries import delete
from omsgrain.integrations.langgraph.labels import read, spell
from omsgrain.memory.threads import in_thread
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from omsgrain.query.filters import Filters

CHECKPOINTS: Final = "langgraph:checkpoints"
VALUES: Final = "langgraph:values"
WRITES: Final = "langgraph:writes"
_BYTES: Final = "x_value"
_PART: Final = 512 << 10  # bytes of a value in one grain
_LATEST: Final = 16  # checkpoints of one moment among which the latest is
_EMPTY: Final = "empty"  # the kind of a channel without a value
_GREGORIAN: Final = 0x01B21DD213814000  # 100 ns from 1582 to 1970, in a UUID

_in_thread: Any = in_thread  # mypy would take the ``self`` of the base class

Value = list[Any]
"""The kind of a value, and the SHA-256 of each of its parts."""


class LangGraphSaver(BaseCheckpointSaver[str]):
    """A checkpointer, also for graphs with an event loop.

    Args:
        store: the store, which stays open.
        user: the ``user_id`` of all grains. An encrypted store needs it, to encrypt them.
        serde: the serializer, as for other checkpointers.

    Raises:
        IntegrityError: a stored value is missing or damaged.
        SchemaError: the strategy of ``prune`` is unknown.
    """

    def __init__(
        self,
        store: og.GrainStore,
        *,
        user: str | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.store = store
        self.user = user

    # --- reading --------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or the latest of its thread."""
        thread, namespace = _thread(config), _namespace(config)
        asked = self._asked(CHECKPOINTS, thread, [thread, namespace])
        name = get_checkpoint_id(config)
        if name:
            asked["object"] = spell(name)
        page = self.store.query(limit=_LATEST, **asked)
        found = [hit.grain for hit in page]
        return self._tuple(max(found, key=_id)) if found else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over checkpoints, the latest first."""
        found = self._checkpoints(config)
        name = None if config is None else get_checkpoint_id(config)
        end = None if before is None else get_checkpoint_id(before)
        chosen = (
            grain
            for grain in found
            if (not name or _id(grain) == name)
            and (not end or _id(grain) < end)
            and self._has(grain, filter or {})
        )
        for grain in islice(chosen, limit):
            yield self._tuple(grain)

    def _checkpoints(self, config: RunnableConfig | None) -> Iterator[og.Grain]:
        asked: Filters = {"namespace": CHECKPOINTS, "user_id": self.user}
        if config is not None:
            thread = _thread(config)
            asked["session_id"] = spell(thread)
            namespace = config["configurable"].get("checkpoint_ns")
            if namespace is not None:
                asked["subject"] = _names(thread, namespace)
        found = self.store.iter_query(**asked)
        for _, same in groupby(found, key=lambda grain: grain["created_at"]):
            yield from sorted(same, key=_id, reverse=True)

    def _has(self, grain: og.Grain, asked: Mapping[str, Any]) -> bool:
        if not asked:
            return True
        metadata = self._load(grain["context"]["metadata"], grain)
        return all(metadata.get(name) == value for name, value in asked.items())

    def _tuple(self, grain: og.Grain) -> CheckpointTuple:
        context = grain["context"]
        thread, namespace = json.loads(grain["subject"])
        thread, namespace, name = read(thread), read(namespace), _id(grain)
        checkpoint = self._load(context["checkpoint"], grain)
        kept: Mapping[str, Value] = context["values"]
        values = {
            read(channel): self._load(value, grain)
            for channel, value in kept.items()
            if value[0] != _EMPTY and read(channel) in checkpoint["channel_versions"]
        }
        parent = context.get("parent")
        writes = sorted(self._writes(thread, namespace, name), key=_write_key)
        return CheckpointTuple(
            config=_config(thread, namespace, name),
            checkpoint=cast("Checkpoint", {**checkpoint, "channel_values": values}),
            metadata=self._load(context["metadata"], grain),
            parent_config=None if parent is None else _config(thread, namespace, read(parent)),
            pending_writes=[
                (
                    read(write["context"]["task"]),
                    read(write["context"]["channel"]),
                    self._load(write["context"]["value"], write),
                )
                for write in writes
            ],
        )

    def _asked(self, namespace: str, thread: str, names: Sequence[str]) -> Filters:
        return {
            "namespace": namespace,
            "session_id": spell(thread),
            "subject": _names(*names),
            "user_id": self.user,
        }

    def _writes(self, thread: str, namespace: str, name: str) -> Iterator[og.Grain]:
        return self.store.iter_query(**self._asked(WRITES, thread, [thread, namespace, name]))

    def _load(self, value: Value, owner: og.Grain) -> Any:
        kind, *parts = value
        data = b"".join([self._part(part, owner) for part in parts])
        return self.serde.loads_typed((kind, data))

    def _part(self, name: str, owner: og.Grain) -> bytes:
        session = owner["session_id"]
        page = self.store.query(
            limit=1, namespace=VALUES, session_id=session, subject=name, user_id=self.user
        )
        data = page.results[0].grain.get(_BYTES) if page.results else None
        if not isinstance(data, bytes) or sha256(data).hexdigest() != name:
            raise IntegrityError("a value of a checkpoint is missing or damaged", expected=name)
        return data

    # --- writing --------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the new values of its channels, in one transaction."""
        thread, namespace = _thread(config), _namespace(config)
        rest = dict(checkpoint)
        given = cast("dict[str, Any]", rest.pop("channel_values"))
        about = get_checkpoint_metadata(config, metadata)
        parent = config["configurable"].get("checkpoint_id")
        batch = _Batch(self, thread)
        values = self._inherited(thread, namespace, parent, checkpoint, new_versions)
        for channel in new_versions:
            typed = self.serde.dumps_typed(given[channel]) if channel in given else (_EMPTY, b"")
            values[spell(channel)] = batch.keep(typed)
        versions = {spell(name): str(v) for name, v in checkpoint["channel_versions"].items()}
        fields: dict[str, Any] = {
            "subject": _names(thread, namespace),
            "object": spell(checkpoint["id"]),
            "context": {
                "checkpoint": batch.keep(self.serde.dumps_typed(rest)),
                "metadata": batch.keep(self.serde.dumps_typed(about)),
                "values": values,
                "versions": versions,
            },
        }
        if parent is not None:
            fields["context"]["parent"] = spell(parent)
        if isinstance(run := about.get("run_id"), str) and run:
            fields["run_id"] = spell(run)
        at = _made(checkpoint["id"]) or context_of(self.store).settings.clock()
        batch.add(CHECKPOINTS, fields, at)
        olds = self.store.query(
            **self._asked(CHECKPOINTS, thread, [thread, namespace]) | {"object": fields["object"]}
        )
        batch.store()
        fresh = batch.addresses[-1]
        if stale := [hit.address for hit in olds if hit.address != fresh]:
            self.store.delete_many(stale)
        return _config(thread, namespace, checkpoint["id"])

    def _inherited(
        self,
        thread: str,
        namespace: str,
        parent: str | None,
        checkpoint: Checkpoint,
        new_versions: ChannelVersions,
    ) -> dict[str, Value]:
        """Return the values of channels that did not change since the parent."""
        old = checkpoint["channel_versions"].keys() - new_versions.keys()
        if parent is None or not old:
            return {}
        page = self.store.query(
            limit=1,
            **self._asked(CHECKPOINTS, thread, [thread, namespace]) | {"object": spell(parent)},
        )
        if not page.results:
            return {}
        context = page.results[0].grain["context"]
        versions, values = context["versions"], context["values"]
        names = {spell(name): str(checkpoint["channel_versions"][name]) for name in old}
        return {
            name: values[name]
            for name, version in names.items()
            if name in values and versions.get(name) == version
        }

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task beside a checkpoint, each once."""
        thread, namespace = _thread(config), _namespace(config)
        name = config["configurable"]["checkpoint_id"]
        there = {
            (one["context"]["task"], one["context"]["index"]): one.address
            for one in self._writes(thread, namespace, name)
        }
        batch = _Batch(self, thread)
        stale = []
        # Of two errors or interrupts of a task the last counts.
        given = {WRITES_IDX_MAP.get(write[0], n): write for n, write in enumerate(writes)}
        for index, (channel, value) in given.items():
            known = there.get((spell(task_id), index))
            if known is not None and index >= 0:
                continue
            if known is not None:
                stale.append(known)
            context = {
                "task": spell(task_id),
                "path": spell(task_path),
                "channel": spell(channel),
                "index": index,
                "value": batch.keep(self.serde.dumps_typed(value)),
            }
            fields = {"subject": _names(thread, namespace, name), "context": context}
            batch.add(WRITES, fields, context_of(self.store).settings.clock())
        batch.store()
        if stale := [address for address in stale if address not in batch.addresses]:
            self.store.delete_many(stale)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version that is later than the current one, and unlike that of a fork."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.getrandbits(53):016}"

    # --- threads --------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        gone = [
            grain.address
            for namespace in (CHECKPOINTS, WRITES, VALUES)
            for grain in self._of_thread(namespace, thread_id)
        ]
        delete(self.store, gone, forget=False)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs, their writes, and values that nothing needs."""
        gone = [
            grain
            for run in run_ids
            for grain in self.store.iter_query(
                namespace=CHECKPOINTS, run_id=spell(run), user_id=self.user
            )
        ]
        self._remove(gone)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints, writes and values of a thread to another."""
        copies = []
        for namespace in (VALUES, WRITES, CHECKPOINTS):
            for grain in self._of_thread(namespace, source_thread_id):
                fields = grain.to_dict() | {"session_id": spell(target_thread_id)}
                if namespace != VALUES:
                    _, *names = map(read, json.loads(fields["subject"]))
                    fields["subject"] = _names(target_thread_id, *names)
                copies.append(fields)
        self.store.put_many(copies)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the latest checkpoint of each namespace, or delete the threads.

        Of a channel that is stored as differences, the checkpoints back to its last whole value
        stay too.
        """
        if strategy not in ("keep_latest", "delete"):
            raise SchemaError("unknown strategy", expected="keep_latest or delete")
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            config = cast("RunnableConfig", {"configurable": {"thread_id": thread}})
            by_name: dict[str, dict[str, og.Grain]] = {}
            for grain in self._checkpoints(config):
                by_name.setdefault(grain["subject"], {}).setdefault(_id(grain), grain)
            self._remove(
                [
                    grain
                    for grains in by_name.values()
                    for grain in grains.values()
                    if _id(grain) not in self._needed(grains)
                ]
            )

    def _needed(self, grains: Mapping[str, og.Grain]) -> set[str]:
        """Return the latest checkpoint, and those that its differences begin with."""
        name = max(grains)
        metadata = self._load(grains[name]["context"]["metadata"], grains[name])
        missing = set(metadata.get("counters_since_delta_snapshot") or ())
        kept: set[str] = set()
        while name in grains:
            kept.add(name)
            context = grains[name]["context"]
            values, parent = context["values"], context.get("parent")
            missing -= {read(one) for one, value in values.items() if value[0] != _EMPTY}
            if not missing or parent is None:
                break
            name = read(parent)
        return kept

    def _of_thread(self, namespace: str, thread: str) -> Iterator[og.Grain]:
        return self.store.iter_query(
            namespace=namespace, session_id=spell(thread), user_id=self.user
        )

    def _remove(self, checkpoints: Sequence[og.Grain]) -> None:
        """Delete checkpoints with their writes, then the values that nothing names any more."""
        gone = []
        for grain in checkpoints:
            names = [*map(read, json.loads(grain["subject"])), _id(grain)]
            gone += [one.address for one in self._writes(*names)]
            gone.append(grain.address)
        delete(self.store, gone, forget=False)
        for thread in {read(grain["session_id"]) for grain in checkpoints}:
            named = {
                part
                for namespace in (CHECKPOINTS, WRITES)
                for grain in self._of_thread(namespace, thread)
                for value in _values(grain)
                for part in value[1:]
            }
            values = [*self._of_thread(VALUES, thread)]
            unused = (one.address for one in values if one["subject"] not in named)
            delete(self.store, unused, forget=False)

    # --- with an event loop ---------------------------------------------------------------------

    aget_tuple = _in_thread(get_tuple)
    aput = _in_thread(put)
    aput_writes = _in_thread(put_writes)
    adelete_thread = _in_thread(delete_thread)
    adelete_for_runs = _in_thread(delete_for_runs)
    acopy_thread = _in_thread(copy_thread)
    aprune = _in_thread(prune)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Iterate over checkpoints as ``list`` does."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one


class _Batch:
    """Grains of one thread that are stored together; values that it has already are left out."""

    def __init__(self, saver: LangGraphSaver, thread: str) -> None:
        self.addresses: list[str] = []
        self._store, self._user, self._thread = saver.store, saver.user, spell(thread)
        self._grains: list[dict[str, Any]] = []
        self._kept: set[str] = set()

    def add(self, namespace: str, fields: Mapping[str, Any], at: int) -> None:
        whose = {} if self._user is None else {"user_id": self._user}
        shared = {"type": "state", "namespace": namespace, "session_id": self._thread, **whose}
        context: dict[str, Any] = {"context": {}}
        self._grains.append(context | shared | {"created_at": at} | dict(fields))

    def keep(self, typed: tuple[str, bytes]) -> Value:
        """Return the name of a value, which is stored if the thread does not have it."""
        kind, data = typed
        parts = [data[at : at + _PART] for at in range(0, len(data), _PART)]
        return [kind, *map(self._keep_part, parts)]

    def _keep_part(self, data: bytes) -> str:
        name = sha256(data).hexdigest()
        if name not in self._kept:
            self._kept.add(name)
            there = self._store.query(
                limit=1,
                namespace=VALUES,
                session_id=self._thread,
                subject=name,
                user_id=self._user,
            )
            if not there.results:
                now = context_of(self._store).settings.clock()
                self.add(VALUES, {"subject": name, _BYTES: bytes(data)}, now)
        return name

    def store(self) -> None:
        found = self._store.put_many(self._grains).addresses
        self.addresses = [address for address in found if address is not None]


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _namespace(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns", ""))


def _config(thread: str, namespace: str, name: str) -> RunnableConfig:
    values = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": name}
    return cast("RunnableConfig", {"configurable": values})


def _names(*names: str) -> str:
    return json.dumps([spell(name) for name in names], ensure_ascii=False, separators=(",", ":"))


def _id(grain: og.Grain) -> str:
    return read(grain["object"])


def _write_key(grain: og.Grain) -> tuple[str, str, int]:
    context = grain["context"]
    return writes_sort_key(read(context["path"]), read(context["task"]), context["index"])


def _values(grain: og.Grain) -> Iterator[Value]:
    """Return all values that a checkpoint or a write names."""
    context = grain["context"]
    yield from (context[name] for name in ("checkpoint", "metadata", "value") if name in context)
    yield from context.get("values", {}).values()


def _made(name: str) -> int | None:
    """Return the time in a checkpoint's id, ms since 1970; None if it has none."""
    try:
        found = UUID(name)
    except ValueError:
        return None
    if found.version != 6:
        return None
    time = (found.int >> 80 << 12) | ((found.int >> 64) & 0xFFF)
    return max(0, (time - _GREGORIAN) // 10_000)
