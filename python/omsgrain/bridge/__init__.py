# SPDX-License-Identifier: Apache-2.0
"""Between brokers and a store: messages in, each acknowledged once it is stored; changes out.

bridge   the flow, the feed of changes, the process
broker   URLs of brokers, what the bridge needs of one, dead letters
mqtt     MQTT 5, by paho-mqtt
nats     NATS JetStream, by nats-py
"""

from __future__ import annotations
