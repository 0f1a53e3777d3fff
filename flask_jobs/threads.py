"""Threads of the library's own beside the main one."""

from __future__ import annotations

import signal
import threading


def start_deaf(thread: threading.Thread) -> None:
    """Start the thread deaf to signals.

    The kernel hands the second of two signals to any thread that takes it, and what another thread takes does not wake
    the main thread from a system call: it would only be heard when the job's own sleep is over.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
