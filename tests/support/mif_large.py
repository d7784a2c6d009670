# SPDX-License-Identifier: Apache-2.0
"""Documents of any size: conversations, todos that wait for one another, graphs with cycles.

The same seed gives the same document; all of it is invented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

USER = "ada"
WORDS = (
    "garden rose water evening tea kettle lamp letter boat river bridge market bread honey wool"
    " rain window ladder paint clock map train north winter seed glass stone violin paper"
).split()
KINDS = ("conversation", "observation", "decision", "learning", "context", "error")
MEMORY = 800
"""Bytes of a memory, and what of a todo and the graph comes with it."""


def uuid(kind: int, number: int) -> str:
    return str(UUID(int=(0x5EED << 112) | (4 << 76) | (8 << 60) | (kind << 48) | number))


def time(number: int) -> str:
    day, second = divmod(number * 37, 86_400)
    hour, rest = divmod(second, 3_600)
    month, day = day // 28 % 12 + 1, day % 28 + 1
    return f"2026-{month:02}-{day:02}T{hour:02}:{rest // 60:02}:{rest % 60:02}Z"


class Large:
    """The records of a document, as often as they are asked for.

    Args:
        memories: how many; there is a todo and an entity for every tenth.
        seed: another one gives another document.
    """

    def __init__(self, memories: int, seed: int = 1) -> None:
        self._memories, self._seed = memories, seed
        self.few = max(3, memories // 10)

    def memories(self, format: str) -> Iterator[dict[str, Any]]:
        """Conversations, each memory related to the one behind it, and the last to the first."""
        random = Random(self._seed)
        prefix = "" if format == "mif2" else "mem_"
        for n in range(self._memories):
            text = f"{n}: " + " ".join(random.choices(WORDS, k=random.randrange(40, 100)))
            behind = prefix + uuid(1, (n + 1) % self._memories)
            record: dict[str, Any] = {"id": prefix + uuid(1, n), "content": text}
            record["created_at"] = time(n)
            if format == "mif2":
                record["memory_type"] = KINDS[n % len(KINDS)]
                record["metadata"] = {"role": ("user", "assistant")[n % 2], "turn": n % 40}
                record["source"] = {"source_type": "user", "session_id": f"session-{n // 40}"}
                record["related_memory_ids"] = [behind]
            else:
                record["type"] = KINDS[n % len(KINDS)].capitalize()
                record["importance"] = (n % 100) / 100
                record["source"] = {"type": "user", "session_id": f"session-{n // 40}"}
                record["relations"] = {"related_memories": [behind]}
            record["tags"] = random.sample(WORDS, 3)
            yield record

    def todos(self, format: str) -> Iterator[dict[str, Any]]:
        """Todos that wait for one another, in a circle."""
        prefix = "" if format == "mif2" else "todo_"
        for n in range(self.few):
            record: dict[str, Any] = {"id": prefix + uuid(2, n), "content": f"do {n}"}
            record |= {"status": "todo", "priority": "high", "created_at": time(n)}
            record["updated_at"] = time(n)
            behind = prefix + uuid(2, (n + 1) % self.few)
            record |= {"blocked_by": [behind]} if format == "mif2" else {"blocked_on": behind}
            yield record

    def graph(self, format: str) -> dict[str, Iterator[dict[str, Any]]]:
        """Related records: a circle through all of them, and a shorter one."""
        ends = [(n, (n * step + 1) % self.few) for n in range(self.few) for step in (1, 7)]
        if format == "mif2":
            entities = (
                {"id": f"e{n}", "name": f"{WORDS[n % 29]} {n}", "types": ["thing"]}
                for n in range(self.few)
            )
            relations = (
                {
                    "id": f"r{at}",
                    "source_entity_id": f"e{one}",
                    "target_entity_id": f"e{other}",
                    "relation_type": "near",
                }
                for at, (one, other) in enumerate(ends)
            )
            return {"entities": entities, "relationships": relations}
        nodes = (
            {"id": f"entity_{n}", "type": "entity", "entity_type": "Thing"}
            for n in range(self.few)
        )
        edges = (
            {"source": f"entity_{one}", "target": f"entity_{other}", "type": f"near{at % 2}"}
            for at, (one, other) in enumerate(ends)
        )
        return {"nodes": nodes, "edges": edges}

    def records(self, format: str) -> Iterator[dict[str, Any]]:
        """All of them."""
        yield from self.memories(format)
        yield from self.todos(format)
        for array in self.graph(format).values():
            yield from array

    def write(self, path: Path, format: str, layout: str = "json") -> int:
        """Write the document, record by record, and give its size."""
        meta = {"id": "exp_1a2b", "created_at": time(0), "user_id": USER}
        head: dict[str, Any] = {"mif_version": "2.0", "export_meta": meta}
        if format == "mif1":
            head = {"mif_version": "1.0", "export": meta}
        name = "knowledge_graph" if format == "mif2" else "graph"
        arrays = {"memories": self.memories(format), "todos": self.todos(format)}
        with path.open("w", encoding="utf-8") as file:
            if layout == "jsonl":
                types = {"memories": "memory", "todos": "todo"}
                types |= {"nodes": "graph_node", "edges": "graph_edge"}
                print(json.dumps({"type": "header", **head}), file=file)
                for of, array in (arrays | self.graph(format)).items():
                    for record in array:
                        print(json.dumps({"type": types[of], "data": record}), file=file)
                print(json.dumps({"type": "footer"}), file=file)
                return file.tell()
            file.write(json.dumps(head)[:-1])
            for of, array in arrays.items():
                _write(file, of, array)
            file.write(f', "{name}": {{"format": "adjacency_list"')
            for of, array in self.graph(format).items():
                _write(file, of, array)
            file.write("}}")
            return file.tell()


def _write(file: Any, name: str, records: Iterator[dict[str, Any]]) -> None:
    file.write(f', "{name}": [')
    for i, record in enumerate(records):
        file.write(("," if i else "") + json.dumps(record))
    file.write("]")
