"""Where on a slate what stands, and the checksums of what is longer than a byte."""

from __future__ import annotations

import struct
import zlib
from mmap import mmap

Memory = mmap | bytearray
"""What a slate is written to."""

MOST = 64
"""How many jobs one lane holds at most."""

LEFT = -1.0
"""The time limit of a job that has left it behind."""

MAGIC = b"slate-1\0"
HEADER = 64
STATUS, REASON, ORDERS, ERRANDS = 8, 9, 10, 12
COUNT = struct.Struct("<I")

LANE = 2 * 32_768 + 4_096
CURRENT, IN_USE, HAS_LEFT, RENEWED, RENEWED_HERE, ASKING, RUNNING, RECORDS = 0, 1, 2, 8, 32, 64, 192, 4_096

RENEWAL = struct.Struct("<Id")
INSTANTS = struct.Struct("<dd")
TOKEN = struct.Struct("<dB")
RUN = struct.Struct("<BHddH")
RECORD = struct.Struct("<IIHI")
CHECKSUM = struct.Struct("<I")
"""Stands before what it is of."""

RECORD_SIZE = 32_768
STATES, TEXT = 16, 16 + MOST
LONGEST_OPTIONS = RECORDS - RUNNING - CHECKSUM.size - RUN.size
LONGEST_TOKEN = RUNNING - ASKING - CHECKSUM.size - TOKEN.size


def sum_of(body: bytes | bytearray) -> int:
    """The checksum of a body. Never 0, which says that nothing is there."""
    return zlib.crc32(body) | 1


def checked(body: bytes) -> bytes:
    """The body behind its checksum."""
    return CHECKSUM.pack(sum_of(body)) + body
