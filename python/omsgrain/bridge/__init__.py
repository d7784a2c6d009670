# SPDX-License-Identifier: Apache-2.0
"""Connect brokers and a store: store messages, then acknowledge each; publish changes.

bridge   the flow, the feed of changes, the process
broker   URLs of brokers, the interface of a connection, dead letters
mqtt     MQTT 5, by paho-mqtt
nats     NATS JetStream, by nats-py
"""

from __future__ import annotations
