# SPDX-License-Identifier: Apache-2.0
"""Between brokers and a store: messages in, each acknowledged once it is stored; changes out.

transport.py   what a broker must offer: a source of messages, a sink for others
bridge.py      the flow: gather, commit, set refused ones aside, acknowledge
letters.py     where refused messages go
feed.py        what happens in the store, published
counts.py      how much of it
mqtt.py        MQTT 5, by paho-mqtt
nats.py        NATS JetStream, by nats-py
looping.py     an event loop in a thread, which nats-py works in
options.py     which broker, and who asks
process.py     the process that runs it
"""

from __future__ import annotations
