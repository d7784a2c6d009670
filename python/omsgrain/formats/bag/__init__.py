# SPDX-License-Identifier: Apache-2.0
"""Recordings of robots: MCAP files, rosbag2 directories, and the messages in them."""
