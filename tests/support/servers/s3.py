# SPDX-License-Identifier: Apache-2.0
"""moto's server of S3, which checks keys and signatures; in an environment of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from support.frameworks import python_with
from support.paths import ROOT
from support.servers.debian import Server, free_port

__all__ = ["Keys", "s3"]

BUCKET = "robots"
_PACKAGES = ["moto[s3]>=5", "flask", "flask-cors"]
#: It checks the keys of all requests but the first three, which make a user.
_PROGRAM = """
import json, os, sys, threading
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"
import boto3
from moto.server import ThreadedMotoServer
port, bucket, keys = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False).start()
where = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
users = boto3.client("iam", aws_access_key_id="x", aws_secret_access_key="x", **where)
users.create_user(UserName="ops")
rights = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
policy = json.dumps({"Version": "2012-10-17", "Statement": [rights]})
users.put_user_policy(UserName="ops", PolicyName="all", PolicyDocument=policy)
made = users.create_access_key(UserName="ops")["AccessKey"]
made = made["AccessKeyId"], made["SecretAccessKey"]
names = "aws_access_key_id", "aws_secret_access_key"
boto3.client("s3", **dict(zip(names, made)), **where).create_bucket(Bucket=bucket)
with open(keys + ".new", "w") as file:
    json.dump(made, file)
os.replace(keys + ".new", keys)
threading.Event().wait()
"""


class Keys(NamedTuple):
    """Keys of a user who may do everything in the bucket."""

    id: str
    secret: str


def s3(directory: Path) -> tuple[Server, Path]:
    """Return a server that is not started yet, and the file that has the user's keys then."""
    python = python_with(ROOT / "target" / "servers" / "moto", _PACKAGES)
    directory.mkdir(parents=True, exist_ok=True)
    keys, port = directory / "keys.json", free_port()
    command: list[str | Path] = [python, "-c", _PROGRAM, str(port), BUCKET, keys]
    return Server(command, port, directory / "said.log", ready=keys.exists), keys


def keys_in(path: Path) -> Keys:
    return Keys(*json.loads(path.read_text("utf-8")))
